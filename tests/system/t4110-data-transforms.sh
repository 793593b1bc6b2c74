#!/usr/bin/env bash
# timeout: 300
# Transforms, scaling and targets of a whole program: the same losses on any ranks, from any order of storage, before and
# after a resume; what the model sees; what evaluation and inference do.
# shellcheck disable=SC2086 # options are words
. tests/system/lib.bash
root=$OLDPWD
trireme data synth --kind images --samples 300 --out train.h5 >/dev/null
trireme data synth --kind images --samples 40 --seed 2 --out valid.h5 >/dev/null

find_python h5py

cat >net.yaml <<'YAML'
run: {name: net, seed: 3}
data:
  train: train.h5
  valid: valid.h5
  transform: [resize: 36x34]
  augment: [{pad: {pixels: 3, value: 100}}, crop: 32x30, flip, erase: {p: 0.5, value: 9}]
model:
  layers: [conv2d: {out: 6, kernel: 5, stride: 2}, relu, max_pool: 2, flatten, linear: 10]
train: {updates: 13, batch: 32, valid_every: never, optimizer: {type: sgd, lr: 0.02, momentum: 0.9}}
checkpoint: {every: 7 updates}
YAML

# losses FILE RANKS OPTIONS...: trains, and keeps its losses
losses() {
    local file=$1 n=$2
    shift 2
    rm -rf runs
    on $n train net.yaml --quiet --dump-losses "$file" "$@"
    is "$rc" 0 "trains on $n ranks: $*" || cat err
}

# ---- what the model sees ----

on 0 check net.yaml
is "$rc" 0 "a job with transforms is good" || cat err
has out '^data +\(3,32,30\) -> class' "the model sees what is behind the transforms"
on 0 check net.yaml --set 'data.augment=[crop: 40x40]'
is "$rc" 2 "a crop that is too large is refused"
has err "train.h5: 'data' images are 36x34 where crop of data.augment takes 40x40 of them" "with its sentence"
has err '^hint: a smaller crop' "and a hint"

# ---- the same on any ranks, again, and after a resume ----

losses one 0
losses again 0
cmp -s one again
ok $? "two runs are equal to the bit"
losses plain 0 --set 'data.augment=[crop: 32x30]' --set data.transform='[resize: 36x34]'
! close_losses one plain 1e-3 2>/dev/null
ok $? "augmentation changes what is learnt from"
for n in 2 3; do
    losses "on$n" $n
    close_losses one "on$n" 1e-5
    ok $? "the same losses on $n ranks"
done
losses two 2
losses first 2 --set train.updates=7
on 2 train net.yaml --quiet --resume --dump-losses rest
is "$rc" 0 "goes on in the middle of the epoch" || cat err
tail -n +8 two >want
cmp -s want rest
ok $? "and its losses are those of the run that did not stop, to the bit"

# ---- order of storage ----

if [ -n "$python" ]; then
    "$python" -c '
import h5py
for name in "train", "valid":
    with h5py.File(name + ".h5") as a, h5py.File(name + "-hwc.h5", "w") as b:
        b["data"] = a["data"][:].transpose(0, 2, 3, 1)
        b["label"] = a["label"][:]
with h5py.File("train.h5") as a, h5py.File("mirror.h5", "w") as b:
    b["data"] = a["data"][:][:, :, ::-1, ::-1]
    b["label"] = a["label"][:]'
    losses hwc 0 --set data.train=train-hwc.h5 --set data.valid=valid-hwc.h5 --set data.layout=hwc
    cmp -s one hwc
    ok $? "images stored channels last give the same to the bit"
    losses flips 0 --set 'data.transform=[resize: 32x32]' --set 'data.augment=[flip: {p: 1}, flip: {p: 1, direction: vertical}]'
    losses mirror 0 --set 'data.transform=[resize: 32x32]' --set 'data.augment=[pad: 0]' --set data.train=mirror.h5
    cmp -s flips mirror
    ok $? "flips that are certain give what a file of mirror images gives"
else
    echo "# no python3-h5py: channels last is not tried here"
fi

# ---- evaluation and inference ----

losses one 0 --set train.valid_every=13
valid=$(field runs/net/metrics.jsonl valid loss)
on 0 eval net.yaml runs/net
is "$rc" 0 "evaluates" || cat err
has out "^valid loss $(printf %.6f "$valid")" "with the loss of the validation within the run"
on 2 predict net.yaml --weights runs/net --out p.h5
is "$rc" 0 "predicts" || cat err
on 0 data info p.h5
has out 'output +float32 +\(40, ?10\)' "a row for each image"

# ---- statistics ----

stats() { losses "$1" "$2" --set data.stats=auto "${@:3}"; }
stats s1 0
grep -q 'stats' runs/net/job.yaml
is $? 1 "job.yaml has no statistics to take ..."
has runs/net/job.yaml '^  mean: \[[0-9.]+, [0-9.]+, [0-9.]+\]$' "... but their numbers"
has runs/net/job.yaml '^  scale: 1$' "and their scale"
cp -r runs/net keep
on 0 eval net.yaml keep --set data.stats=auto
is "$rc" 0 "eval of a checkpoint takes its numbers" || cat err
cp out by_auto
on 0 eval keep/job.yaml keep
is "$(grep -o 'valid loss [0-9.]*' out)" "$(grep -o 'valid loss [0-9.]*' by_auto)" "as job.yaml of the run's folder has them"
on 0 eval net.yaml keep --set data.stats=auto --set data.train=valid.h5
is "$(grep -o 'valid loss [0-9.]*' out)" "$(grep -o 'valid loss [0-9.]*' by_auto)" "whatever the training set now is"
on 0 export keep --to safetensors --out w.safetensors
on 0 eval net.yaml w.safetensors --set data.stats=auto
is "$rc" 2 "a file of weights alone is refused"
has err 'data.stats is auto, but w.safetensors does not say what the inputs were trained with' "with its sentence"
on 0 eval keep/job.yaml w.safetensors
is "$rc" 0 "and evaluated with the run's job.yaml" || cat err
for n in 2 3; do
    stats "s$n" $n
    close_losses s1 "s$n" 1e-5
    ok $? "data.stats: auto gives the same losses on $n ranks"
done
diff <(grep -E '^  (mean|std):' runs/net/job.yaml) <(grep -E '^  (mean|std):' keep/job.yaml) >/dev/null
ok $? "and the same numbers to the bit"
stats first 2 --set train.updates=7
on 2 train net.yaml --quiet --resume --dump-losses rest --set data.stats=auto
is "$rc" 0 "a run with statistics goes on" || cat err
tail -n +8 s2 >want
cmp -s want rest
ok $? "with the numbers that it has, to the bit"
stats range 0 --set data.normalize=min_max
has runs/net/job.yaml '^  mean: \[0, 0, 0\]$' "min_max begins at the smallest"
has runs/net/job.yaml '^  std: \[255, 255, 255\]$' "and ends at the largest"
losses limits 0 --set data.min=0 --set data.max=255
cmp -s range limits
ok $? "data.min and data.max say the same"

trireme data stats train.h5 --out measured.h5 >out
is $? 0 "data stats writes a file of statistics"
losses file 0 --set data.stats=measured.h5
cmp -s s1 file
ok $? "which gives what auto gives, to the bit"
on 0 check net.yaml --set data.stats=measured.h5
is "$rc" 0 "check looks at it" || cat err
on 0 check net.yaml --set data.stats=train.h5
is "$rc" 2 "and refuses one that has no statistics"
has err "train.h5: .*'?mean'?" "with a sentence"

# ---- targets ----

if [ -n "$python" ]; then
    "$python" -c '
import h5py, numpy as np
with h5py.File("train.h5") as a, h5py.File("targets.h5", "w") as b:
    label = a["label"][:].astype(int)
    b["data"] = a["data"][:]
    b["onehot"] = np.eye(10, dtype=np.uint8)[label]
    b["scores"] = np.eye(10, dtype=np.float32)[label] * 0.5 + 0.1
    b["tens"] = label * 10 - 30
    b["number"] = label.astype(np.float32)
with h5py.File("stats.h5", "w") as s:
    for name, v in (("mean", 110.0), ("std", 60.0), ("min", 0.0), ("max", 255.0)):
        s[name] = np.full(3, v)
    s["count"] = 1'
    set='--set data.train=targets.h5 --set data.valid=[]'
    losses onehot 0 $set --set data.target=onehot --set data.target_type=onehot
    losses argmax 0 $set --set data.target=scores --set data.target_type=argmax
    losses map 0 $set --set data.target=tens \
        --set 'data.label_map={-30: 0, -20: 1, -10: 2, 0: 3, 10: 4, 20: 5, 30: 6, 40: 7, 50: 8, 60: 9}'
    for kind in onehot argmax map; do
        cmp -s one $kind
        ok $? "$kind gives the losses of class numbers"
    done
    on 0 train net.yaml $set --set data.target=tens --set 'data.label_map={-30: 0}'
    is "$rc" 2 "a class that is not mapped is refused"
    has err "'tens'\[[0-9]+\] = -?[0-9]+, which data.label_map does not name" "with its sample"
    float="$set --set data.target=number --set data.target_type=float --set train.loss=mse --set model.layers.4.linear=1"
    losses plain 2 $float --set train.optimizer.lr=0.0001
    losses half 2 $float --set train.optimizer.lr=0.0001 --set data.target_scale=0.5 --set data.target_bias=-1
    ! cmp -s plain half
    ok $? "targets are scaled"
    losses file 0 --set data.stats=stats.h5
    losses same 0 --set data.scale=1 --set 'data.mean=[110, 110, 110]' --set data.std=60
    cmp -s file same
    ok $? "a file of statistics says what mean and std say"
else
    echo "# no python3-h5py: targets and files of statistics are not tried here"
fi

# ---- the examples of the documentation ----

perl -ne 'BEGIN { $n = 0 }
    $in = 1 if /^## Transforms/; $in = 0 if /^## / && !/Transforms/;
    if ($in && /^```yaml/) { $n++; open $f, ">", "example$n.yaml"; $on = 1; next }
    if (/^```/) { $on = 0 } print $f $_ if $on' "$root/docs/data.md"
cp train.h5 cifar-train.h5 && cp valid.h5 cifar-test.h5
for example in example*.yaml; do
    printf 'model: {preset: resnet, depth: 8}\ntrain: {updates: 2, batch: 8}\n' >>"$example"
    on 0 train "$example" --quiet
    is "$rc" 0 "$example of docs/data.md trains" || cat err "$example"
done
is "$(ls example*.yaml | wc -l)" 3 "there are three of them"

done_testing
