#!/usr/bin/env bash
# timeout: 120
# A run whose validations bring nothing ends in order, at the same update on any number of ranks; a resume goes on counting.
. tests/system/lib.bash
make_data
write_job j
# A rate of next to nothing: the first validation is the best one, and each after it brings nothing but, on another number of
# ranks, a last bit.
still="--set train.optimizer.lr=1e-30 --set train.valid_every=epoch --set train.epochs=9 --set train.early_stop.min_delta=1e-9"
updates() { field runs/"$1"/metrics.jsonl update update | wc -l; }

for ranks in 0 1 2 3; do
    rm -rf runs
    on $ranks train j.yaml $still --set train.early_stop.patience=2
    is "$rc" 0 "$ranks ranks: an early stop is no fault"
    has out 'early stop at update 48: 2 validations brought no loss below' "and is said"
    is "$(updates j)" 48 "behind the third epoch"
    [ -f runs/j/checkpoints/step-00000048/index.json ]
    ok $? "with a checkpoint"
done

on 0 train j.yaml $still --set train.early_stop.patience=2 --resume
has out 'nothing to do: the run was ended by train.early_stop at update 48' "a resume has nothing to do"
on 2 train j.yaml $still --set train.early_stop.patience=4 --resume
has out 'early stop at update 80: 4 validations' "and with more patience goes on counting"

rm -rf runs
on 0 train j.yaml $still --set train.early_stop.patience=2 --set train.valid_every=5
has out 'early stop at update 15: 2 validations' "also within an epoch"
is "$(updates j)" 15 "at that update"
is "$(field runs/j/metrics.jsonl epoch epoch | wc -l)" 1 "the epoch is closed"

rm -rf runs
on 0 train j.yaml --set train.epochs=3 --set train.early_stop=1
is "$rc" 0 "a run that learns"
is "$(updates j)" 48 "is not stopped"
on 0 train j.yaml --set train.epochs=3 --set train.early_stop.patience=1 --set train.early_stop.min_delta=1000
has out 'early stop at update 32: 1 validation brought no loss below' "unless more is asked of it"

on 0 train j.yaml --set train.early_stop=1 --set train.valid_every=never
is "$rc" 2 "no validations, no early stop"
has err 'train.early_stop needs validations' "with a sentence"
on 0 train j.yaml --set train.early_stop.min_delta=1
is "$rc" 2 "a difference alone is refused"
done_testing
