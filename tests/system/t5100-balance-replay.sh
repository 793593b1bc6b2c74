#!/usr/bin/env bash
# A run looked at once more under another policy: trireme balance.
. tests/system/lib.bash

# Two ranks share 8 samples; the second takes three times as long. Windows of ten updates, half a second of wait in each.
# Equal shares take 12.5 s an update, 6 : 2 take 6.5 s, and nothing is faster. The run moved behind the second window.
window() { # UPDATE SHARE0 SHARE1 STEP_S
    echo "{\"kind\":\"balance\",\"v\":1,\"update\":$1,\"updates\":10,\"step_s\":$4,\"had\":[$2,$3],\"ranks\":[" \
        "{\"compute_s\":$2,\"cpu_s\":1,\"noise\":0.01,\"fixed_s\":0,\"each_s\":1}," \
        "{\"compute_s\":$((3 * $3)),\"cpu_s\":1,\"noise\":0.01,\"fixed_s\":0,\"each_s\":3}]," \
        "\"cost_s\":3,\"left\":$((40 - $1)),\"verdict\":\"stay\",\"moved\":false,\"words\":\"\"}"
}
mkdir -p run empty wrong/metrics.jsonl torn old
{
    echo '{"kind":"run","v":1,"name":"x","ranks":2,"batch":8,"micro_batches":1,"shares":[4,4],"updates":40}'
    window 10 4 4 12.5
    echo '{"kind":"update","v":1,"update":11,"loss":null}'
    window 20 4 4 12.5
    window 30 6 2 6.5
    window 40 6 2 6.5
} >run/metrics.jsonl

# value KEY.KEY: of the JSON object in out
value() { perl -MJSON::PP -e '
    local $/;
    my $v = decode_json(<STDIN>);
    $v = ref $v eq "ARRAY" ? $v->[$_] : $v->{$_} for split /\./, $ARGV[0];
    print $v // "none"' "$1" <out; }

on 0 balance run
is "$rc" 0 "a run"
has out '^as it was +383 +67\.9 % +1 +2$' "as it was, with the cost of the move"
has out '^equal shares +500 +52\.0 % +0 +0$' "equal shares"
has out '^this policy +323 +80\.5 % +1 +2$' "the policy moves behind the first window"
has out '^oracle +260 +100\.0 % +0 +0$' "the oracle had 6 : 2 from the start"
has out '^ideal +260 +100\.0 %$' "no shares are faster"
has out '^with the default policy the run would have taken 16 % less$' "one sentence says it"
on 0 balance run --threshold 60%
has out '^with --threshold 60% the run would have taken 31 % longer$' "a threshold that is never reached"
on 0 balance run --every 2
has out '^with --every 2 the run would have taken as long$' "as the run itself did"
on 0 balance run --policy off
has out '^with --policy off the run would have taken 31 % longer$' "without a policy"
on 0 balance run --decisions
has out '^update 10: rank 1 is 3\.00× slower; 2 samples moved, saves 48 %$' "a line for each decision"
is "$(grep -c '^update ' out)" 3 "none behind the last window"
on 0 balance run --json --decisions
json_lines out
ok $? "one JSON object"
is "$(value was.seconds)/$(value replay.seconds)/$(value replay.moves)/$(value oracle.seconds)" "383/323/1/260" "the same numbers"
is "$(value decisions.0.verdict)/$(value decisions.0.shares.0)/$(value decisions.1.verdict)" "move/6/stay" "and decisions"
on 2 balance run
is "$(grep -c '^ideal' out)" 1 "under a launcher it runs once"

# A run that goes on: its last line may be half written.
head -c -20 run/metrics.jsonl >torn/metrics.jsonl
on 0 balance torn/
is "$rc" 0 "a torn last line"
has out 'torn/: 30 updates on 2 ranks, 8 samples' "is passed over"

# ---- traces ----
for i in $(seq 20); do echo "$((i % 5 == 3 ? 90 : 10)),30"; done >wide.csv
on 0 balance --trace wide.csv --units 8 --every 10
is "$rc" 0 "a trace"
has out '^equal shares +840 ' "equal shares"
has out '^this policy +810 +[0-9.]+ % +1 +2$' "a policy that one slow step in five does not fool"
has out '^with --every 10 the trace takes 3\.6 % less than with equal shares$' "one sentence"
! grep -q 'as it was' out
ok $? "nobody knows what shares it had"
{
    echo ',worker,gpu,time,batch_time_norm'
    awk -F, '{ print 2 * NR - 2 ",0,25," 10 * NR "," $1; print 2 * NR - 1 ",1,25," 10 * NR "," $2 }' wide.csv
    echo '40,0,25,999,10'
} >long.csv
on 0 balance --trace long.csv --units 8 --every 10
has out '^this policy +810 ' "the same with a line for each worker and step"
has out '^left out: 1 of the steps' "a step that one worker has not"

# ---- nonsense ----
fails() { # PATTERN TEXT ARGS...
    local pattern=$1 text=$2
    shift 2
    on 0 balance "$@"
    is "$rc" 2 "$text"
    has err "$pattern" "$text: it says why"
    [ -s out ] && ok 1 "$text: nothing on stdout"
    is "$(grep -c '^trireme:' err)" 1 "$text: in one sentence"
}
fails 'needs RUN, or --trace FILE' "no run"
fails 'cannot read none/metrics.jsonl' "a run that is not there" none
fails 'cannot read empty/metrics.jsonl' "a folder that is none" empty
fails 'not a regular file' "a folder in place of the records" wrong
fails 'did you mean --threshold' "an unknown option" run --treshold 5%
fails "threshold is '5%%'; allowed are percent or numbers from 0 to 1" "a share that is none" run --threshold 5%%
fails "threshold is '101%'" "a share that is too large" run --threshold 101%
fails "threshold is '-1'" "a share below 0" run --threshold=-1
fails 'allowed are last\|ema\|median\|trend' "a predictor that is none" run --predictor emma
fails 'did you mean ema' "with the nearest one" run --predictor emma
fails 'every is .0.; allowed are whole numbers from 1' "no windows" run --every 0
fails 'units is given without --trace' "units of a run" run --units 8
fails 'a run and --trace are given' "two sources" run --trace wide.csv
fails 'cannot read none.csv' "a trace that is not there" --trace none.csv
fails "has no use for 'b'" "two runs" run b
echo '{"kind":"run","v":1,"ranks":2,"batch":8,"micro_batches":1}' >old/metrics.jsonl
fails 'holds no records of balancing' "a run that measured nothing" old
has err 'hint: .*balance.mode is dynamic or hybrid' "a hint says how to get them"
window 10 4 4 12.5 >old/metrics.jsonl
fails 'old/metrics.jsonl:1: .* before the one of the run' "a file without a head" old
sed 's/\[4,4\]/[4,4,4]/' run/metrics.jsonl >old/metrics.jsonl
fails 'old/metrics.jsonl:2: .*not one share of each rank' "shares for other ranks" old
sed '3s/.*/rubbish/' run/metrics.jsonl >old/metrics.jsonl
fails 'old/metrics.jsonl:3: no JSON object' "rubbish between records" old
mkdir replay
cat >replay/metrics.jsonl <<'J'
{"kind":"run","v":1,"update":0,"updates":60,"updates_per_epoch":20,"ranks":2,"batch":16,"micro_batches":1,"shares":[8,8]}
{"kind":"balance","v":1,"update":5,"epoch":1,"verdict":"replay","moved":true,"first_update":5,"shares":[4,12]}
J
fails 'replay/metrics.jsonl holds no records of balancing' "a replay measures nothing" replay
head -c 100000 /dev/urandom >rubbish.csv
fails 'rubbish.csv' "rubbish as a trace" --trace rubbish.csv
printf '1,2\n3\n' >short.csv
fails 'short.csv:2: 1 columns, before 2' "a trace with a gap" --trace short.csv
printf 'time,batch_time_norm\n1,2\n2,3\n' >columns.csv
fails 'columns.csv:1: no column is named worker' "a long table without workers" --trace columns.csv
printf 'Worker, Time, batch_time\n0,1,2\n1,1,3\n' >columns.csv
fails 'no column is named batch_time_norm' "a long table without times" --trace columns.csv
printf 'nan,1\n2,3\n' >value.csv
fails "value.csv:1: column 1 is 'nan'; a time is a number above 0" "a first line with one odd value" --trace value.csv
printf '1,2\n1e308,1e308\n' >value.csv
fails "value.csv:2: column 1 is '1e308'" "times without end" --trace value.csv
{
    printf '\357\273\277'
    cat wide.csv
} >mark.csv
on 0 balance --trace mark.csv --units 8 --every 10
has out '^equal shares +840 ' "a mark of UTF-8 loses no step"
sed '1s/worker/ Worker/; 1s/time/ TIME /' long.csv >names.csv
on 0 balance --trace names.csv --units 8 --every 10
has out '^this policy +810 ' "names of columns in any letters, with spaces"

on 0 balance --help
has out '^usage: trireme balance \[RUN\] \[options\]' "help"
has out '--threshold SHARE .*\(5%\)' "names defaults"
done_testing
