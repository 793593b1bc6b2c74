#!/usr/bin/env bash
# What a command writes never takes the place of something else.
. tests/system/lib.bash
make_data

kept() { # PATTERN TEXT ARGS...
    local pattern=$1 text=$2
    shift 2
    on 0 "$@"
    is "$rc" 2 "$text: refused"
    has err "$pattern" "$text: it says why"
}
synth="data synth --kind digits --samples 2 --out"
mkfifo pipe
mkdir folder
ln -s digits.h5 link.h5
ln -s nowhere gone.h5
echo mine >notes.txt
: >empty.h5
kept 'it is a pipe' "a pipe" $synth pipe
[ -p pipe ]
ok $? "it is still one"
kept 'it is a folder' "a folder" $synth folder
kept 'it is a symbolic link' "a link" $synth link.h5
kept 'it is a symbolic link' "a link to nothing" $synth gone.h5
kept 'no HDF5 file' "a text" $synth notes.txt
is "$(cat notes.txt)" mine "it is still there"
kept 'nodir is no folder' "no folder" $synth nodir/x.h5
kept 'it is the input' "an input" data import text --out notes.txt notes.txt
is "$(cat notes.txt)" mine "it is still there, too"
on 0 $synth empty.h5
is "$rc" 0 "an empty file is replaced"
on 0 $synth empty.h5
is "$rc" 0 "a data set is replaced"
is "$(find . -name '*new-*' | wc -l)" 0 "nothing is left beside"

# idx RANK DIMS...: the head of an IDX file
idx() {
    printf '\0\0\10\'"$1"
    shift
    for d; do printf '\0\0\0\'"$(printf %o "$d")"; done
}
{ idx 3 2 4 4; head -c 32 digits.h5; } | gzip >images.gz
{ idx 1 2; printf '\1\2'; } | gzip >labels.gz
on 0 data import mnist --images images.gz --labels labels.gz --out m.h5
is "$rc" 0 "two images"
kept 'it is the input' "its input" data import mnist --images images.gz --labels labels.gz --out labels.gz
for cut in 1 4 8 9; do
    head -c -$cut labels.gz >cut.gz
    kept 'cut.gz: ' "$cut bytes less" data import mnist --images images.gz --labels cut.gz --out m2.h5
done

# Code 2 where a name is wrong
write_job j
kept 'cannot read the weights nosuch' "no first weights" train j.yaml --set model.init=nosuch
kept 'it is no file' "first weights of a pipe" train j.yaml --set model.init=pipe
kept 'cannot read the weights nosuch' "no weights" eval j.yaml nosuch
kept 'cannot read the checkpoint nosuch' "info of nothing" info nosuch
kept 'no checkpoint' "info of a file" info j.yaml
kept 'no checkpoint' "export of a file" export j.yaml --to hdf5
kept 'something else has this name' "runs in a file" train j.yaml --set run.dir=notes.txt
kept 'nodir is no folder' "losses into no folder" train j.yaml --dump-losses nodir/x
kept 'it is a pipe' "losses into a pipe" train j.yaml --dump-losses pipe
kept 'it is the input' "losses over the job" train j.yaml --dump-losses j.yaml

on 0 train j.yaml --set train.epochs=1 --quiet
part=$(echo runs/j/checkpoints/step-*/part-0.h5)
kept 'it is the input' "an export over its checkpoint" export runs/j --to hdf5 --out "$part"
kept 'no safetensors file' "and as safetensors" export runs/j --to safetensors --out "$part"
on 0 info runs/j
is "$rc" 0 "the checkpoint is whole"
done_testing
