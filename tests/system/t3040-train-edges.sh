#!/usr/bin/env bash
# timeout: 120
# Few samples, many ranks, small last batches, and numbers that are not finite.
. tests/system/lib.bash
make_data
write_job j

small() { # TEXT RANKS SETTINGS...
    local text=$1 n=$2
    shift 2
    on 0 train j.yaml "$@" --dump-losses one
    is "$rc" 0 "$text: one process"
    on "$n" train j.yaml "$@" --dump-losses l
    is "$rc" 0 "$text: $n ranks"
    [ "$rc" = 0 ] || cat err
    close_losses one l 1e-5
    ok $? "$text: the same losses"
}
small "more ranks than samples" 3 --set data.train_rows=0:2 --set data.valid_rows=0:1
small "more ranks than a batch" 4 --set data.train_rows=0:30 --set train.batch=2 --set train.epochs=1 --set data.valid_rows=0:3
small "a last batch smaller than the micro-batches" 2 --set data.train_rows=0:66 --set train.micro_batches=4
small "a batch larger than the data" 2 --set train.batch=5000
small "drop_last" 2 --set train.drop_last=true
sed -i 's/epochs: 2/updates: 20/' j.yaml
small "updates in place of epochs" 2
on 0 train j.yaml --set train.batch=5000 --set train.drop_last=true
is "$rc" 2 "drop_last with a batch larger than the data is refused"


# Numbers to regress; one of them, in the second half of the file, is not finite.
trireme data synth --kind vectors --samples 1001 --out v.h5 >/dev/null
cat >v.yaml <<'YAML'
run: {name: v, seed: 3}
data: {train: v.h5, target_type: float, shuffle: none}
model: {layers: [linear: 8, relu, linear: 1]}
train: {epochs: 1, batch: 64, loss: mse, optimizer: {type: sgd, lr: 0.01}}
checkpoint: {every: 2}
YAML
on 2 train v.yaml --set train.optimizer.lr=1e5
is "$rc" 1 "a loss that is not finite ends the run"
has err 'update [0-9]+: loss is not finite .*last good checkpoint: runs/v/checkpoints/step-00000002' "the sentence says when, and what is left"
is "$(grep -c '^trireme:' err)" 1 "said once"
json_lines runs/v/metrics.jsonl
ok $? "metrics.jsonl stays JSON"

# One sample that becomes infinite when it is scaled: 3e38 is a number, 3e39 is none in float32.
printf '\xe6\xb1\x61\x7f' | dd of=v.h5 bs=4 seek=$(($(stat -c %s v.h5) / 8)) conv=notrunc status=none
on 2 train v.yaml --set data.scale=10 --set train.optimizer.lr=1e-6
is "$rc" 1 "a sample that is not finite ends the run"
has err 'update [0-9]+: loss is not finite \(first seen by rank [01]\)' "the sentence names a rank"
on 2 train v.yaml --set data.scale=10 --set train.optimizer.lr=1e-6 --set train.on_nonfinite=skip
is "$rc" 0 "or the update is left out"
has out '1 update was left out' "which is said"
on 2 train v.yaml --set data.scale=1e38 --set train.on_nonfinite=skip
is "$rc" 1 "a run of which every update is left out fails"
has err 'all 16 updates were left out' "with a sentence"
done_testing
