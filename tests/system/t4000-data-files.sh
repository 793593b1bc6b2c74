#!/usr/bin/env bash
# Bad data files, through the command: each is refused within a second by one sentence and code 2; odd ones are read.
top=$PWD
. tests/system/lib.bash

check() { # ARGS...: data check; output in out, faults in err, the code in rc
    on 0 data check "$@"
}

refused() { # TEXT PATTERN ARGS...
    local text=$1 pattern=$2
    shift 2
    check "$@"
    is "$rc" 2 "$text: refused"
    has err "^trireme: .*($pattern)" "$text: it says why"
    is "$(grep -vc '^hint: ' err)" 1 "$text: in one line"
}

hinted() { # TEXT PATTERN ARGS...
    local text=$1 pattern=$2
    shift 2
    check "$@"
    has err "^hint: .*$pattern" "$text: the hint names the option"
}

# ---- kinds that need no other writer ----

make_data
check digits.h5
is "$rc" 0 "a good file"
has out '1001 samples of shape \(1,28,28\), stored as uint8, 10 classes: good' "what is in it"

mkfifo pipe.h5
mkdir folder.h5
: >empty.h5
echo 'sample,label' >text.h5
printf '<!DOCTYPE html><html></html>' >page.h5
gzip -c digits.h5 >packed.h5
head -c 100000 digits.h5 >half.h5
head -c -1 digits.h5 >short.h5
head -c 4096 /dev/zero >zeros.h5
printf '\x89HDF\r\n\x1a\n' >signature.h5
{ head -c 8 digits.h5; printf '\x63'; tail -c +10 digits.h5; } >version.h5
ln -s loop.h5 loop.h5
ln -s digits.h5 link.h5
printf 'digits.h5\nnone.h5\n' >gone.txt
printf '\n# nothing\n' >nothing.txt
head -c 64 /dev/zero >nul.txt

printf 'some tokens' >some.txt
trireme data import text --out tokens.h5 some.txt >/dev/null
trireme data synth --kind vectors --samples 20 --out vectors.h5 >/dev/null
hinted "tokens" '`--window N`' tokens.h5
hinted "numbers" '`--float-target`' vectors.h5
hinted "no such input" '`--input data`' digits.h5 --input dta
hinted "not the inputs" '`--target label`' digits.h5 --target dat

refused "no file" 'none.h5: no such file' none.h5
refused "a pipe" 'is a pipe' pipe.h5
refused "a device" 'is a device' /dev/zero
refused "a folder" 'is a directory' folder.h5
refused "an empty file" 'empty file' empty.h5
refused "a text" "starts with 'sample,label'" text.h5
has err '^hint: .*trireme data import csv' "a hint names the import"
refused "a web page" 'web page' page.h5
refused "a packed file" 'gzip-compressed' packed.h5
refused "half a file" 'truncated' half.h5
refused "all but the last byte" 'truncated.*: 1 missing' short.h5
refused "zeros" 'zero bytes' zeros.h5
refused "the signature alone" 'signature.h5' signature.h5
refused "a version of tomorrow" 'superblock version 99' version.h5
refused "a link to itself" 'symbolic links' loop.h5
refused "a list with a hole" 'gone.txt line 2: none.h5: no such file' @gone.txt
refused "a list of nothing" 'no files listed' @nothing.txt
refused "a list of zeros" 'not a list of files' @nul.txt
refused "a pattern without files" 'no file matches' 'x*.h5'
refused "another name" "no data set 'dat'; did you mean 'data'" --input dat digits.h5
refused "fewer classes" 'outside 0\.\.8' --classes 9 digits.h5
refused "a window of images" 'a stream of tokens has one dimension|rows of tokens' --window 16 digits.h5
check link.h5
is "$rc" 0 "a link to a file is followed"
check '?igits.h5'
is "$rc" 0 "a pattern"

# ---- the shared set ----

# What needs the model's input shape is seen by `check` and `train` only.
shape_only=' s03_rank2.h5 s04_hwc.h5 '
make_bad=$top/../shared/facts/hdf5/make_bad_h5.py
if [ ! -r "$make_bad" ] || ! find_python h5py; then
    ok 0 "the shared set # SKIP make_bad_h5.py or python3-h5py is not there"
    done_testing
fi
$python "$make_bad" bad >/dev/null
ok $? "the shared set is made"
while IFS=$'\t' read -r name verdict _; do
    case $name in *.txt) path=@bad/$name ;; *) path=bad/$name ;; esac
    [[ $shape_only == *" $name "* ]] && verdict=accept
    start=$EPOCHREALTIME
    check --input data --target label --classes 10 "$path"
    took=$(((${EPOCHREALTIME/./} - ${start/./}) / 1000))
    warned=$(grep -c 'warning:' err)
    got=accept
    [ "$warned" -gt 0 ] && got=warn
    [ "$rc" -eq 2 ] && got=reject
    [ "$rc" -ne 0 ] && [ "$rc" -ne 2 ] && got="code $rc"
    is "$got" "$verdict" "$name: $verdict"
    [ "$verdict" = accept ] || is "$(grep -vc '^hint: ' err)" 1 "$name: in one line"
    # A machine that is busy with other tests may need its time.
    [ $took -lt 5000 ] || ok 1 "$name took $took ms"
done <bad/EXPECT.tsv

done_testing
