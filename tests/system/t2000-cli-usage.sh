#!/usr/bin/env bash
# The command is polite: codes, sentences, hints; stdout for results, stderr for faults.
. tests/system/lib.bash
make_data
write_job j

fails() { # RC PATTERN TEXT ARGS...
    local want=$1 pattern=$2 text=$3
    shift 3
    on 0 "$@"
    is "$rc" "$want" "$text"
    has err "$pattern" "$text: it says why"
    [ -s out ] && ok 1 "$text: nothing on stdout"
}
fails 2 'say what to do' "no verb"
fails 2 "did you mean 'trireme train'" "an unknown verb" trian
fails 2 "did you mean 'trireme data import'" "an unknown second word" data imprt
fails 2 'needs one more word' "half a verb" data
fails 2 'needs JOB' "no job" train
fails 2 "no use for 'k.yaml'" "a word too many" train j.yaml k.yaml
fails 2 'did you mean --resume' "an unknown option" train j.yaml --resum
fails 2 'needs a value: --set KEY=VALUE' "an option without its value" train j.yaml --set
fails 2 'needs a value: --out FILE' "an option in place of a value" data synth --out --kind digits --samples 1
fails 2 'takes no value' "a flag with a value" train j.yaml --quiet=yes
fails 2 'job file: cannot read none.yaml' "a job that is not there" train none.yaml
fails 2 'j.yaml.*train.epochs|train.epochs.*whole numbers' "a value out of range" train j.yaml --set train.epochs=-1
fails 2 'did you mean|hint:' "an unknown key" train j.yaml --set train.epoch=1
fails 2 'digits\|images' "a choice that is none" data synth --kind digit --samples 1 --out x.h5
fails 2 'needs --samples' "an option that is needed" data synth --kind digits --out x.h5
fails 2 'whole numbers from 1' "a number out of range" data synth --kind digits --samples 0 --out x.h5
fails 2 'needs --to safetensors\|hdf5' "a choice that is needed" export runs/j
fails 2 'needs a value: --to safetensors\|hdf5' "a choice without its value" export runs/j --to
fails 2 "to is given twice" "an option twice" export runs/j --to hdf5 --to hdf5
fails 2 "unknown option '-q'" "one dash" train j.yaml -q
fails 2 'set is given with digits.h5' "a key for a file" data check digits.h5 --set data.classes=3
fails 2 'classes is given with j.yaml' "an option of files for a job" data check j.yaml --classes 3

on 0 --version
has out '^trireme [0-9]+\.[0-9]+' "--version"
on 0 help
is "$rc" 0 "help"
for verb in train check eval predict export info balance 'data info' 'data check' 'data order' 'data dump' 'data synth' 'data stats' 'data split' 'data shuffle' 'data repack' 'data import mnist' 'data import cifar' 'data import csv' \
    'data import npy' 'data import npz' 'data import images' 'data import text'; do
    has out "^  $verb" "help lists $verb"
    on 0 $verb --help
    has out "^usage: trireme $verb" "$verb --help"
    on 0 help
done
on 0 help data
is "$rc" 0 "help of a group"
has out '^  data import mnist' "lists its verbs"
on 0 help data import
is "$(grep -c '^  data import' out)" 7 "and those of a smaller group"
on 0 help job
has out '^\| `micro_batches`' "help job lists the keys"
on 0 info
has out 'back end cpu' "info lists the back ends"
has out 'library .*libhdf5' "and the libraries"
on 0 check j.yaml
has out 'fc1 +linear +\(32\) +25120' "check shows the layers"
has out 'parameters +25450' "and counts parameters"

on 0 data info digits.h5
has out 'data .*uint8 \(1001,1,28,28\)' "data info"
on 0 data check digits.h5
has out '1001 samples of shape \(1,28,28\).*good' "data check of a file"
on 0 data check digits.h5 --classes 5
is "$rc" 2 "labels beyond --classes are a fault"
on 0 data check j.yaml
has out 'data.valid: 101 samples' "data check of a job"
on 0 data order --samples 10 --seed 1 --epoch 2
is "$(sort -n out | tr '\n' ' ')" "0 1 2 3 4 5 6 7 8 9 " "data order is a permutation"
on 0 data order --samples 1000 --shuffle window --batch 16 --block 20 --window 2
is "$(sort -n out | md5sum)" "$(seq 0 999 | md5sum)" "in window order too"
on 0 data order j.yaml --head 5
is "$(wc -l <out)" 5 "the order of a job"
on 0 data order
is "$rc" 2 "of nothing is a fault"
"$TRIREME" data order --samples 1000000 2>err | head -n 1 >/dev/null
is "${PIPESTATUS[0]}" 0 "a reader that goes away is no fault"
is "$(cat err)" "" "and nothing is said"
trireme info >/dev/full 2>err
is $? 1 "a full disk is one"
printf 'a text' >t.txt
on 0 data import text --out t.h5 t.txt
has out 'wrote t.h5: 6 tokens' "data import text"

# On ranks
on 2 train j.yaml --set train.epochs=-1
is "$rc" 2 "a bad job on two ranks"
is "$(grep -c '^trireme:' err)" 1 "one sentence"
start=$(date +%s%N)
on 3 train none.yaml
is "$rc" 2 "no job on three ranks"
[ $((($(date +%s%N) - start) / 1000000)) -lt 3000 ]
ok $? "at once"
on 2 train j.yaml --set data.train=none.h5
is "$rc" 2 "no data on two ranks"
is "$(grep -c '^trireme:' err)" 1 "one sentence"
on 2 data order --samples 3
is "$(wc -l <out)" 3 "a verb for one process runs once"
done_testing
