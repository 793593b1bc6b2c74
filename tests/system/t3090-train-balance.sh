#!/usr/bin/env bash
# timeout: 240
# Shares that move in a run: the losses stay those of a run that never moves, for every kind of layer, with idle ranks too;
# the same moves give the same bits; what is asked wrongly is refused.
. tests/system/lib.bash
trireme data synth --kind digits --samples 200 --out digits.h5 >/dev/null
trireme data synth --kind images --samples 96 --out images.h5 >/dev/null
trireme data synth --kind tokens --samples 2500 --out tokens.h5 >/dev/null
trireme data synth --kind vectors --samples 300 --out vectors.h5 >/dev/null

cat >mlp.yaml <<'YAML'
data: {train: digits.h5}
model: {preset: mlp, hidden: [32]}
train: {epochs: 3, batch: 16, optimizer: {type: sgd, lr: 0.05, momentum: 0.9}}
YAML
cat >bn.yaml <<'YAML'
data: {train: digits.h5, valid: digits.h5}
model: {layers: [{conv2d: {out: 4, kernel: 3}}, batch_norm, relu, {max_pool: 2}, flatten, linear: 10]}
train: {epochs: 2, batch: 32, micro_batches: 2, optimizer: {type: sgd, lr: 0.05}}
YAML
cat >lenet.yaml <<'YAML'
data: {train: digits.h5}
model: lenet
train: {epochs: 2, batch: 16, optimizer: {type: sgd, lr: 0.01, momentum: 0.9}}
YAML
cat >resnet.yaml <<'YAML'
data: {train: images.h5}
model: {preset: resnet, depth: 8}
train: {epochs: 2, batch: 16, optimizer: {type: sgd, lr: 0.002}}
YAML
cat >gpt.yaml <<'YAML'
data: {train: tokens.h5, window: 16}
model: {preset: gpt, layers: 1, dim: 16, heads: 2, dropout: 0.1}
train: {epochs: 2, batch: 16, optimizer: {type: adamw, lr: 0.001}}
YAML
cat >mse.yaml <<'YAML'
data: {train: vectors.h5, target_type: float}
model: {layers: [linear: 8, gelu, linear: 1]}
train: {epochs: 2, batch: 16, loss: mse, optimizer: {type: adam, lr: 0.01}}
YAML

# moves DIR RANKS BATCH MICRO UPDATES SEED: a record of random shares, many of them 0, as often as they may change
moves() {
    mkdir -p "$1"
    awk -v ranks="$2" -v batch="$3" -v k="$4" -v updates="$5" -v seed="$6" '
        function shares(   i, left, n, s) {
            left = batch / k
            for (i = 0; i < ranks; i++) { n[i] = i < ranks - 1 ? int(rand() * 1.7 * left) : left
                if (n[i] > left) n[i] = left
                if (rand() < 0.3 && i < ranks - 1) n[i] = 0
                left -= n[i] }
            for (i = 0; i < ranks; i++) s = s (i ? "," : "") n[(i + int(seed)) % ranks]
            seed++
            return "[" s "]"
        }
        BEGIN { srand(seed)
            printf "{\"kind\":\"run\",\"update\":0,\"ranks\":%d,\"batch\":%d,\"micro_batches\":%d,\"shares\":%s}\n", ranks, batch, k, shares()
            for (u = 5; u <= updates; u += 4)
                printf "{\"kind\":\"balance\",\"update\":%d,\"moved\":true,\"first_update\":%d,\"shares\":%s}\n", u - 4, u, shares()
        }' >"$1/metrics.jsonl"
}

for model in mlp bn lenet resnet gpt mse; do
    tol=1e-5
    grep -q adam $model.yaml && tol=5e-5
    on 0 train $model.yaml --set run.name=$model --dump-losses one
    is "$rc" 0 "$model: one process"
    batch=16 k=1
    [ $model = bn ] && batch=32 k=2
    for n in 2 3; do
        moves "$model-moves$n" $n $batch $k 60 $((n * 7 + 1))
        on $n train $model.yaml --set run.name=$model$n --set balance.mode=replay --set balance.from=$model-moves$n --dump-losses l
        is "$rc" 0 "$model: $n ranks, shares that move"
        [ "$rc" = 0 ] || cat err
        close_losses one l $tol
        ok $? "$model: the same losses on $n ranks whose shares move"
        on $n train $model.yaml --set run.name=$model$n-again --set balance.mode=replay --set balance.from=runs/$model$n --dump-losses l2
        cmp -s l l2
        ok $? "$model: the replay of that run on $n ranks is equal to the bit"
    done
done
[ "$(grep -c '"verdict":"replay"' runs/mlp3/metrics.jsonl)" -ge 8 ]
ok $? "the moves were made"
for u in 5 9 13; do
    want=$(grep "\"first_update\":$u," mlp-moves3/metrics.jsonl | grep -o '"shares":[^}]*')
    grep "\"first_update\":$u," runs/mlp3/metrics.jsonl | grep -qF "$want"
    ok $? "and recorded: update $u"
done
is "$(grep -o '"samples":200,"seconds"' runs/mlp3/metrics.jsonl | wc -l)" 3 "each epoch has each sample once"

# One of six ranks gets all, in turn.
moves six 6 16 1 60 3
for i in 0 1 2 3 4 5; do sed -i "$((i + 2))s/\"shares\":.*/\"shares\":[$(for k in 0 1 2 3 4 5; do printf '%s%d' "$([ $k = 0 ] || echo ,)" $((k == i ? 16 : 0)); done)]}/" six/metrics.jsonl; done
on 0 train mlp.yaml --set run.name=one --dump-losses one
on 6 train mlp.yaml --set run.name=six-ranks --set balance='{mode: replay, from: six}' --dump-losses l
is "$rc" 0 "six ranks, one of which has all"
[ "$rc" = 0 ] || cat err
close_losses one l 1e-5
ok $? "the same losses"

# A stop in the middle, and on: with the record, and with what the run itself wrote.
on 3 train mlp.yaml --set run.name=part --set balance.mode=replay --set balance.from=mlp-moves3 --set train.epochs=2 --dump-losses first
on 3 train mlp.yaml --set run.name=part --set balance.mode=replay --set balance.from=mlp-moves3 --resume --dump-losses rest
is "$rc" 0 "resumes in a replay"
cat first rest >both
on 3 train mlp.yaml --set run.name=whole --set balance.mode=replay --set balance.from=mlp-moves3 --dump-losses whole
cmp -s both whole
ok $? "together equal to the bit"
on 3 train mlp.yaml --set run.name=part --set balance.mode=hybrid --set train.epochs=4 --resume
is "$rc" 0 "resumes with another mode"
last=$(grep '"kind":"balance"' runs/part/metrics.jsonl | tail -n 1 | grep -o '"shares":[^}]*')
grep '"kind":"run"' runs/part/metrics.jsonl | tail -n 1 | grep -qF "$last"
ok $? "and goes on with the shares that the run had"

# A run that was resumed right behind a move names the shares that it has: that is no move.
mkdir resumed
{
    head -n 2 mlp-moves3/metrics.jsonl
    sed -n 2p mlp-moves3/metrics.jsonl | sed -E 's/.*"shares":(.*)\}/{"kind":"run","update":5,"ranks":3,"batch":16,"micro_batches":1,"shares":\1}/'
    tail -n +3 mlp-moves3/metrics.jsonl
} >resumed/metrics.jsonl
on 3 train mlp.yaml --set run.name=resumed --set balance='{mode: replay, from: resumed}' --dump-losses l
is "$rc" 0 "replays a run that was resumed right behind a move"
cmp -s whole l
ok $? "equal to the bit"

# Probed shares.
on 2 train mlp.yaml --set run.name=probed --set balance.mode=static --set balance.weights=probe --set train.epochs=1
is "$rc" 0 "probes"
has out 'balance: probed; samples of the ranks [0-9]+:[0-9]+' "and says what came out"

# Real measuring: two ranks on one core, the third alone.
if taskset -c 0,1 true 2>/dev/null; then
    cat >pinned <<'SH'
#!/bin/sh
case ${OMPI_COMM_WORLD_RANK:-0} in 2) core=1 ;; *) core=0 ;; esac
exec taskset -c $core "$@"
SH
    chmod +x pinned
    trireme data synth --kind digits --samples 6000 --out many.h5 >/dev/null
    cat >slow.yaml <<'YAML'
data: {train: many.h5}
model: lenet
train: {epochs: 6, batch: 192, optimizer: {type: sgd, lr: 0.01}}
balance: {every: 10 updates, cooldown: 0}
checkpoint: {every: never}
YAML
    three() { timeout -k 5 60 mpirun --oversubscribe --bind-to none -n 3 ./pinned "$TRIREME" train slow.yaml "$@" >out 2>err; rc=$?; }
    three --set run.name=seen --dump-losses seen
    is "$rc" 0 "measures and decides"
    [ "$(grep -c '"kind":"balance"' runs/seen/metrics.jsonl)" -gt 0 ]
    ok $? "decisions are recorded"
    three --set run.name=again --set balance='{mode: replay, from: runs/seen}' --dump-losses again
    cmp -s seen again
    ok $? "what followed measurement is replayed to the bit ($(grep -c '"moved":true' runs/seen/metrics.jsonl) moves)"
    three --set run.name=dry --set balance.dry_run=true
    is "$rc" 0 "dry run"
    is "$(grep -c '"moved":true' runs/dry/metrics.jsonl)" 0 "a dry run moves nothing"
    has out 'balance \(dry run\): ' "and decides aloud"
fi

# ---- refusals ----
refuses() { # TEXT SETTINGS...
    local text=$1
    shift
    on 2 train mlp.yaml --set run.name=refused "$@"
    is "$rc" 2 "refused: $text"
    has err "$text" "the sentence"
    [ ! -e runs/refused ]
    ok $? "no folder"
}
refuses 'metrics.jsonl' --set 'balance={mode: replay, from: nowhere}'
refuses 'mlp-moves3 had 3 ranks, this run has 2' --set 'balance={mode: replay, from: mlp-moves3}'
refuses 'bn-moves2 had batches of 32 in 2 micro-batches, this run has 16 in 1' --set 'balance={mode: replay, from: bn-moves2}'
bad() { mkdir -p "$1"; cat >"$1/metrics.jsonl"; }
bad near <<'J'
{"kind":"run","update":0,"ranks":2,"batch":16,"micro_batches":1,"shares":[8,8]}
{"kind":"balance","moved":true,"first_update":5,"shares":[4,12]}
{"kind":"balance","moved":true,"first_update":7,"shares":[8,8]}
J
refuses 'nearer than 4 updates' --set 'balance={mode: replay, from: near}'
bad sum <<'J'
{"kind":"run","update":0,"ranks":2,"batch":16,"micro_batches":1,"shares":[8,9]}
J
refuses 'add up to 17, not to the 16' --set 'balance={mode: replay, from: sum}'
bad negative <<'J'
{"kind":"run","update":0,"ranks":2,"batch":16,"micro_batches":1,"shares":[-8,24]}
J
refuses 'a share is no whole number from 0' --set 'balance={mode: replay, from: negative}'
bad nonsense <<'J'
{"kind":"run","update":0,"ranks":2,"batch":16,"micro_batches":1,"shares":[8,8]}
not json
J
refuses 'metrics.jsonl:2: ' --set 'balance={mode: replay, from: nonsense}'
bad none <<'J'
{"kind":"run","update":0,"ranks":2,"batch":16,"micro_batches":1}
J
refuses 'names no shares' --set 'balance={mode: replay, from: none}'
done_testing
