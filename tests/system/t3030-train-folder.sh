#!/usr/bin/env bash
# timeout: 120
# The run folder: what is in it, who may write there, and what a damaged checkpoint does.
. tests/system/lib.bash
make_data
write_job j

on 2 train j.yaml --set checkpoint.every=8 --set checkpoint.keep=2
is "$rc" 0 "a run on two ranks"
for f in job.yaml metrics.jsonl log.txt checkpoints; do
    [ -e runs/j/$f ]
    ok $? "$f is there"
done
json_lines runs/j/metrics.jsonl
ok $? "each line of metrics.jsonl is JSON"
is "$(field runs/j/metrics.jsonl update loss | wc -l)" 32 "a record for each update"
is "$(field runs/j/metrics.jsonl epoch epoch | tr '\n' ' ')" "1 2 " "a record for each epoch"
is "$(field runs/j/metrics.jsonl end status)" OK "a record of the end"
is "$(perl -MJSON::PP -ne '$r = decode_json($_); print scalar @{$r->{ranks}}, "\n" if $r->{kind} eq "epoch"' runs/j/metrics.jsonl | sort -u)" 2 \
    "an epoch says what each rank did"
cmp -s out runs/j/log.txt
ok $? "log.txt has the lines that were printed, without a bar"
trireme check runs/j/job.yaml >/dev/null
ok $? "job.yaml is a job"
is "$(cd runs/j/checkpoints && ls -d step-* | wc -l)" 2 "two checkpoints are kept, the best among them or not"
[ -f runs/j/checkpoints/best/index.json ]
ok $? "best leads to one"
has out 'rank +host +share +compute' "the why table is printed"

on 0 train j.yaml --quiet
is "$rc" 0 "a second run"
is "$(cat out)" "" "says nothing when quiet"
[ -f runs/j-2/metrics.jsonl ]
ok $? "and writes to a folder of its own"
has runs/j-2/log.txt 'runs/j-2 \(runs/j holds an earlier run\)' "which its log explains"

# Two at once
"$TRIREME" train j.yaml --set run.name=lock --set train.epochs=200 --set checkpoint.every=20 >/dev/null 2>&1 &
pid=$!
for _ in $(seq 200); do ls runs/lock/checkpoints/step-* >/dev/null 2>&1 && break; sleep 0.05; done
on 0 train j.yaml --set run.name=lock --resume
is "$rc" 1 "a run that is going on cannot be resumed"
has err "runs/lock is in use by process $pid" "the sentence names the process"
kill -KILL $pid
wait $pid 2>/dev/null
on 0 train j.yaml --set run.name=lock --set train.epochs=1 --resume
is "$rc" 0 "the lock of a killed run holds no one up"

# Damage
write_job d
on 0 train d.yaml --set checkpoint.every=8 --set checkpoint.keep=0
newest=runs/d/checkpoints/step-00000032
printf '\x55' | dd of=$newest/part-0.h5 bs=1 seek=5000 conv=notrunc status=none
on 0 info runs/d
has err "warning: .*step-00000032/part-0.h5 is damaged: its checksum does not hold; falling back" "a flipped byte is seen"
has out 'step-00000024 \(whole' "and the one before it is taken"
on 0 train d.yaml --set checkpoint.every=8 --set checkpoint.keep=0 --resume
is "$rc" 0 "the run goes on from there"
has out 'at update 24' "at its update"
[ -d runs/d/checkpoints/damaged-00000032 ] && [ -d runs/d/checkpoints/step-00000032 ]
ok $? "the damaged one was set aside, a new one took its place"
for i in 08 16 24 32; do truncate -s -1 runs/d/checkpoints/step-000000$i/index.json; done
on 0 train d.yaml --resume
is "$rc" 2 "no whole checkpoint left: refused"
has err 'holds no whole checkpoint' "with a sentence"
done_testing
