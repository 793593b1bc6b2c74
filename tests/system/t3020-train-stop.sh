#!/usr/bin/env bash
# timeout: 120
# A signal ends the run with a checkpoint and code 75; what is resumed is what would have come.
. tests/system/lib.bash
make_data
write_job j
sed -i 's/epochs: 2/updates: 2500/' j.yaml
long="--set balance.mode=off --set checkpoint.every=never --set data.valid=[]"
tail_of() { awk -v from="$2" '$1 > from' "$1"; }
# Waits until the run has done some updates.
wait_for_updates() {
    for _ in $(seq 1000); do
        [ -f "$1" ] && [ "$(wc -l <"$1")" -gt 5 ] && return 0
        sleep 0.01
    done
    return 1
}

on 0 train j.yaml $long --set run.name=whole --dump-losses whole
is "$rc" 0 "the whole run"

"$TRIREME" train j.yaml $long --dump-losses first >out 2>err &
pid=$!
wait_for_updates first
kill -TERM $pid
wait $pid
is $? 75 "SIGTERM: code 75"
n=$(tail -n 1 first | cut -d' ' -f1)
has err "stopped at update $n; resume with --resume" "it says where it stopped"
[ -d "runs/j/checkpoints/step-$(printf %08d "$n")" ]
ok $? "and the checkpoint of that update is there"
on 0 train j.yaml $long --resume --dump-losses rest
is "$rc" 0 "resumes"
cat first rest | cmp -s - whole
ok $? "together equal to the bit to the whole run"

rm -r runs/j
timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 2 "$TRIREME" train j.yaml $long --dump-losses second >out 2>err &
pid=$!
wait_for_updates second
kill -USR1 "$(pgrep -P $pid mpirun || echo $pid)"
wait $pid
is $? 75 "two ranks, SIGUSR1 to mpirun: code 75"
is "$(grep -c 'stopped at update' err)" 1 "said once"
on 2 train j.yaml $long --resume --dump-losses rest
cat second rest >both
on 2 train j.yaml $long --set run.name=whole --dump-losses whole
cmp -s both whole
ok $? "together equal to the bit to the whole run on two ranks"

rm -r runs/j
"$TRIREME" train j.yaml $long --dump-losses third >out 2>err &
pid=$!
wait_for_updates third
kill -INT $pid
kill -INT $pid
wait $pid
rc=$?
[ $rc -eq 130 ] || [ $rc -eq 75 ]
ok $? "a second SIGINT ends it at once (code $rc)"

# The handler runs on no thread that computes: matrix kernels use the stack register for something else.
rm -rf runs/j
worst=75
for i in $(seq 12); do
    "$TRIREME" train j.yaml $long --dump-losses fourth >out 2>err &
    pid=$!
    wait_for_updates fourth
    sleep "0.0$((i * 7 % 10))"
    kill -HUP $pid
    wait $pid
    rc=$?
    [ $rc -eq 75 ] || worst=$rc
    rm -rf runs/j fourth
done
is $worst 75 "SIGHUP at a dozen moments: code 75"
grep -q SigBlk /proc/self/status && {
    "$TRIREME" train j.yaml $long --dump-losses fifth >out 2>err &
    pid=$!
    wait_for_updates fifth
    blocked=$(awk '/SigBlk/ { print $2 }' /proc/$pid/status)
    kill -TERM $pid
    wait $pid
}
# SIGHUP 1, SIGINT 2, SIGUSR1 10, SIGTERM 15
is "$((0x${blocked:-4203} & 0x4203))" "$((0x4203))" "the computing thread has them blocked"

done_testing
