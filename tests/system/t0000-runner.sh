#!/usr/bin/env bash
# The runner itself: time limits, what it leaves behind, what it makes of CMocka's lines.
. tests/support/tap.sh

make_test() { # NAME TEXT...
    local f=$work/$1.sh
    shift
    printf '%s\n' '#!/usr/bin/env bash' "$@" >"$f"
    chmod +x "$f"
    echo "$f"
}
run() { OUT=$work tests/run "$1" >"$work/out" 2>"$work/err"; }

t=$(make_test good 'echo 1..1' 'echo ok 1 - fine')
run "$t"; is $? 0 "a good test ends with 0"
is "$(cat "$work/out")" $'1..1\nok 1 - fine' "its lines pass through"
is "$(cat "$work/err")" '' "nothing is said about it"

t=$(make_test bad 'echo 1..1' 'echo "# because"' 'echo not ok 1 - poor' 'exit 1')
run "$t"; is $? 1 "a failing test keeps its exit status"
has "$work/err" '# because' "its reason goes to stderr"

t=$(make_test hang '# timeout: 1' 'echo 1..2' 'echo ok 1 - first' 'trap "" TERM' 'sleep 977 & sleep 978')
SECONDS=0
run "$t"; is $? 1 "a test that hangs fails"
[ $SECONDS -lt 15 ]; ok $? "and does so soon after its limit"
has "$work/out" '^not ok 2 - timed out after [15] s' "the time limit is a line of TAP"
! grep -lsz -e '^97[78]$' /proc/[0-9]*/cmdline >"$work/left"; ok $? "no process of it is left"

t=$(make_test child 'sleep 979 & setsid -w true' 'echo 1..1' 'echo ok 1 - done')
SECONDS=0
run "$t"; is $? 0 "a test may leave a child that holds its output"
[ $SECONDS -lt 15 ]; ok $? "nobody waits for that child"
! grep -lsz -e '^979$' /proc/[0-9]*/cmdline >"$work/left"; ok $? "the child is ended"

t=$(make_test skipped 'echo 1..1' 'echo "not ok 1 # SKIP no locale"')
run "$t"
has "$work/out" '^ok 1 - no locale # SKIP' "a skipped test is no failed test"

t=$(make_test crash 'echo 1..1' 'kill -SEGV $$')
run "$t"; is $? 139 "a crash is the status of its signal"
has "$work/err" 'signal 11' "and is named"

run tests/unit/no/such_test; is $? 1 "a test that is not built fails"
has "$work/out" 'not built' "and says so"

printf '/* np: 1 3 */\n' >"$work/test_x.c"
is "$(tests/run --list "$work/test_x.c" | tr '\n' ' ')" "$work/test_x@1 $work/test_x@3 " "ranks come from the source"
done_testing
