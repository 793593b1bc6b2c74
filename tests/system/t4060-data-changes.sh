#!/usr/bin/env bash
# timeout: 120
# Files that are deleted or replaced under a run: what is open is read on, and nothing else is taken for it.
. tests/system/lib.bash
trireme data synth --kind digits --samples 4000 --out digits.h5 >/dev/null
trireme data synth --kind digits --samples 4000 --seed 9 --out other.h5 >/dev/null
cat >j.yaml <<'YAML'
data: {train: digits.h5, cache: off}
model: {preset: mlp, hidden: [32]}
train: {updates: 1500, batch: 64, optimizer: {type: sgd, lr: 0.01}}
checkpoint: {every: 20}
balance: off
YAML

begin() { # starts two ranks and waits for their first checkpoint
    rm -rf runs
    timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 2 "$TRIREME" train j.yaml --dump-losses "$1" >out 2>err &
    pid=$!
    for _ in $(seq 400); do ls runs/j/checkpoints/step-* >/dev/null 2>&1 && return 0; sleep 0.05; done
    return 1
}
is "$(stat -c %s digits.h5)" "$(stat -c %s other.h5)" "two files of one size"
begin plain.txt
wait $pid
is $? 0 "a run"
begin replaced.txt
ok $? "a run is under way"
cp digits.h5 kept.h5
mv other.h5 digits.h5
kill -0 $pid
ok $? "its file is replaced by another of the same size"
wait $pid
is $? 0 "it comes to its end"
cmp -s plain.txt replaced.txt
ok $? "with the numbers of the file that it had opened"
on 2 train j.yaml --resume --set train.updates=1600
is "$rc" 2 "a resume on the other file"
has err 'the training data is not that of the checkpoint' "is refused"
mv kept.h5 digits.h5
on 2 train j.yaml --resume --set train.updates=1600
is "$rc" 0 "and goes on with the first one"
begin deleted.txt
rm digits.h5
wait $pid
is $? 0 "a run whose file is deleted comes to its end"
cmp -s plain.txt deleted.txt
ok $? "with the same numbers"

# ---- what may not be read ----

trireme data synth --kind digits --samples 20 --out secret.h5 >/dev/null
chmod 000 secret.h5
if [ -r secret.h5 ]; then
    ok 0 "a file that may not be read # SKIP this user may read all"
else
    on 0 data check secret.h5
    is "$rc" 2 "a file that may not be read"
    has err 'secret.h5: cannot open: Permission denied' "says so"
fi
done_testing
