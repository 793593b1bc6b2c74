#!/usr/bin/env bash
# timeout: 120
# A run that goes on from a checkpoint is the run that was never stopped.
. tests/system/lib.bash
make_data
write_job j
tail_of() { awk -v from="$2" '$1 > from' "$1"; }

# The schedule depends on the whole length, so the shorter run is a stopped one of the same length: made by keeping
# its checkpoint of update 10 only.
on 0 train j.yaml --set checkpoint.every=10 --set checkpoint.keep=0 --set train.optimizer=adam --set train.optimizer.lr=0.001 \
    --set train.schedule=cosine --dump-losses whole
is "$rc" 0 "the whole run"
cut_at() { # RUN UPDATE: as if it had been killed behind this update
    for d in runs/"$1"/checkpoints/step-*; do
        [ "$((10#${d##*-}))" -le "$2" ] || rm -r "$d"
    done
}
adam="--set checkpoint.every=10 --set checkpoint.keep=0 --set train.optimizer=adam --set train.optimizer.lr=0.001 --set train.schedule=cosine"

cut_at j 10
on 0 train j.yaml $adam --resume --dump-losses rest
is "$rc" 0 "resumes in the middle of an epoch"
has out 'resumed from .* at update 10' "and says where"
tail_of whole 10 | cmp -s - rest
ok $? "equal to the bit to the run that was not stopped"
is "$(field runs/j/metrics.jsonl update update | sort -n | uniq -d | wc -l)" 0 "no update stands twice in metrics.jsonl"
is "$(field runs/j/metrics.jsonl update update | wc -l)" 32 "and none is missing"
json_lines runs/j/metrics.jsonl
ok $? "each line is JSON"

cut_at j 10
for step in 2:10:20 3:20:30 1:30:32; do
    IFS=: read -r ranks from to <<<"$step"
    on "$ranks" train j.yaml $adam --resume --dump-losses rest
    tail_of whole "$from" >want
    close_losses want rest 5e-5
    ok $? "resumes on $ranks ranks at update $from"
    cut_at j "$to"
done

on 0 train j.yaml $adam --resume
has out 'nothing to do' "a run that is done has nothing to do"

cut_at j 10
on 0 train j.yaml $adam --set train.batch=32 --resume
is "$rc" 2 "another batch within an epoch is refused"
has err 'train.batch 64, the job has 32' "with a sentence"
on 0 train j.yaml $adam --set run.seed=4 --resume
is "$rc" 2 "another seed within an epoch is refused"
on 0 train j.yaml $adam --set data.shuffle=none --resume
is "$rc" 2 "another order within an epoch is refused"
has err 'data.shuffle exact, the job has none' "with a sentence"
on 0 train j.yaml $adam --set train.drop_last=true --resume
is "$rc" 2 "another end of the epoch within it is refused"
has err 'train.drop_last false, the job has true' "with a sentence"
on 0 train j.yaml $adam --set data.train_rows=0:960 --resume
is "$rc" 2 "other data is refused"
has err 'not that of the checkpoint' "with a sentence"
on 0 train j.yaml --set checkpoint.every=10 --resume
is "$rc" 2 "another optimizer is refused"
has err 'optimizer adam, the job has sgd' "with a sentence"
on 0 train j.yaml $adam --set 'model.hidden=[16]' --resume
is "$rc" 2 "another model is refused"
has err 'fc1.weight has shape \(32,784\), the model has \(16,784\)' "with names and shapes"
on 2 train j.yaml --set run.name=none --resume
is "$rc" 2 "nothing to resume from is refused"
has err 'hint: leave --resume out' "with a hint"

on 0 train j.yaml $adam --resume=runs/j/checkpoints/step-00000010 --dump-losses rest
is "$rc" 0 "resumes from a named checkpoint"
has out 'run folder: runs/j-2' "into a folder of its own"
tail_of whole 10 | cmp -s - rest
ok $? "equal to the bit"

on 0 train j.yaml --set run.name=j-2 --resume
is "$rc" 2 "a run named j-2 does not go on in the second folder of run j"
has err 'no checkpoint to resume from' "with a sentence"
ls runs >before
on 0 train j.yaml $adam --resume=runs/j/checkpoints/step-00000010 --set train.updates=5
is "$rc" 0 "a checkpoint behind the last update is nothing to do"
has out 'nothing to do: all 10 updates' "which is said"
ls runs | cmp -s - before
ok $? "and leaves no folder"
# Other optimizers keep other moments.
for optimizer in 'type: rmsprop, lr: 0.001' 'type: rmsprop, lr: 0.001, momentum: 0.9' 'type: lamb, lr: 0.01, weight_decay: 0.01'; do
    rm -rf runs
    on 0 train j.yaml --set train.optimizer="{$optimizer}" --set checkpoint.every=10 --set checkpoint.keep=0 --dump-losses whole
    is "$rc" 0 "$optimizer"
    cut_at j 10
    on 0 train j.yaml --set train.optimizer="{$optimizer}" --set checkpoint.every=10 --resume --dump-losses rest
    tail_of whole 10 | cmp -s - rest
    ok $? "$optimizer: resumed, equal to the bit"
    cut_at j 10
    on 3 train j.yaml --set train.optimizer="{$optimizer}" --resume --dump-losses rest
    tail_of whole 10 >want
    close_losses want rest 5e-5
    ok $? "$optimizer: resumed on three ranks"
done
# Fewer updates than are done: nothing to do, and all ranks know it, in the old folder and in a new one.
rm -rf runs
on 3 train j.yaml --set train.updates=12 --set checkpoint.every=6
on 3 train j.yaml --resume --set train.updates=6
is "$rc" 0 "three ranks with nothing left to do end well"
has out 'nothing to do' "and say so"
on 3 train j.yaml --resume runs/j/checkpoints/step-00000012 --set train.updates=6
is "$rc" 0 "also from a checkpoint"
done_testing
