#!/usr/bin/env bash
# timeout: 120
# A rank that fails alone, or dies, ends the whole run within seconds, with a code and a sentence.
. tests/system/lib.bash
trireme data synth --kind digits --samples 20000 --out digits.h5 >/dev/null
cat >j.yaml <<'YAML'
data: {train: digits.h5, cache: off}
model: {preset: mlp, hidden: [32]}
train: {updates: 100000, batch: 64, optimizer: {type: sgd, lr: 0.01}}
checkpoint: {every: 20}
balance: {mode: static, weights: [0, 1, 0]}
YAML

begin() { # starts three ranks and waits for their first checkpoint
    rm -rf runs
    timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 3 "$TRIREME" train j.yaml >out 2>err &
    pid=$!
    for _ in $(seq 400); do ls runs/j/checkpoints/step-* >/dev/null 2>&1 && return 0; sleep 0.05; done
    return 1
}
ended() { # code in rc, seconds in took
    local start=$SECONDS
    wait $pid
    rc=$?
    took=$((SECONDS - start))
}
ranks_alive() { pgrep -f "$TRIREME train j.yaml" | wc -l; }

begin
# Only rank 1 reads samples; its file ends under its hands.
truncate -s 100000 digits.h5
ended
[ $rc -ne 0 ] && [ $rc -ne 124 ]
ok $? "a fault of one rank ends the run (code $rc)"
[ $took -le 5 ]
ok $? "within five seconds ($took s)"
has err '^trireme: rank 1 on .*digits.h5' "the sentence names the rank and the file"
is "$(grep -c '^trireme:' err)" 1 "said once"
is "$(ranks_alive)" 0 "no rank is left"
on 0 info runs/j
is "$rc" 0 "a whole checkpoint is left"

trireme data synth --kind digits --samples 20000 --out digits.h5 >/dev/null
begin
kill -KILL "$(pgrep -f "^$TRIREME train j.yaml" | tail -n 1)"
ended
[ $rc -ne 0 ] && [ $rc -ne 124 ]
ok $? "a killed rank ends the run (code $rc)"
[ $took -le 5 ]
ok $? "within five seconds ($took s)"
sleep 1
is "$(ranks_alive)" 0 "no rank is left"
on 3 train j.yaml --resume --set train.updates=40
[ "$rc" = 0 ]
ok $? "and the run goes on"
[ "$rc" = 0 ] || cat err
done_testing
