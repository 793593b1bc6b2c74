#!/usr/bin/env bash
# The examples train, each for two updates on made-up data, and what a run writes is a job file again.
. tests/support/tap.sh
root=$PWD
cp docs/examples/*.yaml "$work"
cd "$work" || exit 1
export OMP_NUM_THREADS=1

synth() { "$TRIREME" data synth --kind "$1" --samples "$2" --out "$3" >/dev/null; }
mkdir cifar
synth digits 64 mnist-train.h5
synth digits 32 mnist-test.h5
synth images 32 cifar/train-1.h5
synth images 32 cifar/train-2.h5
synth images 16 cifar/test.h5
synth tokens 4000 book.h5

small=(--set train.updates=2 --set train.batch=8 --set train.valid_every=never --set device.threads=1)
example() { # NAME PARAMETERS [OPTIONS...]
    local name=$1 parameters=$2
    shift 2
    "$TRIREME" check "$name.yaml" "$@" >out 2>err
    is $? 0 "$name is a good job" || cat err
    has out "^parameters +$parameters\$" "$name has $parameters parameters"
    "$TRIREME" train "$name.yaml" "${small[@]}" "$@" >out 2>err
    is $? 0 "$name trains" || cat err
    "$TRIREME" check "runs/$name/job.yaml" >again 2>err
    is $? 0 "its job.yaml is a good job" || cat err
    has again "^parameters +$parameters\$" "of the same model"
}

example mlp 669706
example lenet 431080
example resnet20 272474
example signal 11562
example gpt 3257856 --set 'data.train_rows=":3000"' --set 'data.valid_rows="3000:"'

# The reference in the documentation is what the command says.
"$TRIREME" help job >out
sed '1,/^<!-- reference/d' "$root/docs/job-file.md" >want
cmp -s out want
ok $? "trireme help job is the reference of docs/job-file.md"

done_testing
