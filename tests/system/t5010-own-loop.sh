#!/usr/bin/env bash
# timeout: 120
# A program that owns MPI and its loop trains by the C interface: its numbers are those of `trireme train`.
. tests/system/lib.bash
own_loop=$(dirname "$TRIREME")/examples/own_loop
make_data
cat >j.yaml <<'YAML'
run: {name: j, seed: 1}
data: {train: digits.h5}
model: lenet
train: {epochs: 2, batch: 64, optimizer: {type: sgd, lr: 0.02, momentum: 0.9}}
balance: off
YAML
on 0 train j.yaml
is "$rc" 0 "trireme train"
want=$(field runs/j/metrics.jsonl epoch train_loss | tail -n 1)
for n in 1 2 3; do
    timeout -k 5 60 mpirun --oversubscribe --bind-to none -n $n "$own_loop" digits.h5 2 >out 2>err
    is $? 0 "own_loop on $n ranks"
    close_numbers "$want" "$(sed -nE 's/^epoch 2: loss ([0-9.]+),.*/\1/p' out)" 1e-5
    ok $? "the same loss on $n ranks"
done
timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 2 "$own_loop" nothing.h5 >out 2>err
isnt=$?
[ $isnt -ne 0 ]
ok $? "a missing file ends it"
has err 'own_loop: .*nothing.h5' "with a sentence"
"$own_loop" >out 2>err
is $? 2 "usage"
done_testing
