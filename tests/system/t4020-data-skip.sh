#!/usr/bin/env bash
# timeout: 180
# `data.on_bad_sample: skip`: a run on a file with bad samples is to the bit the run on a file without them.
. tests/system/lib.bash

needs_h5py "samples that are left out"

# 300 samples, of which 1 has a NaN, 1 an infinity, 2 labels that are none, and 8 lie in a chunk that is damaged.
cat >make.py <<'PY'
import h5py, numpy as np
rng = np.random.default_rng(5)
x = rng.normal(size=(300, 12)).astype("f4")
y = (x[:, 0] > 0).astype("i8") + 2 * (x[:, 1] > 0)
bad = sorted({3, 50, 120, 299} | set(range(64, 72)))
good = [i for i in range(300) if i not in bad]
for name, at in dict(clean=good, valid=good[:100]).items():
    with h5py.File(f"{name}.h5", "w") as f:
        f.create_dataset("data", data=x[at], chunks=(8, 12), compression="gzip")
        f["label"] = y[at]
with h5py.File("bad.h5", "w") as f:
    z, w = x.copy(), y.copy()
    z[3, 7], z[120, 0], w[50], w[299] = np.nan, -np.inf, 4, -1
    d = f.create_dataset("data", data=z, chunks=(8, 12), compression="gzip")
    f["label"] = w
    f.flush()
    at = d.id.get_chunk_info_by_coord((64, 0)).byte_offset
with open("bad.h5", "r+b") as f:
    f.seek(at + 6)
    f.write(b"\xff" * 8)
PY
"$python" make.py
cat >j.yaml <<'YAML'
run: {name: j, seed: 3}
data: {train: clean.h5, classes: 4}
model: {preset: mlp, hidden: [16]}
train: {epochs: 3, batch: 32, optimizer: {type: sgd, lr: 0.1}}
YAML
skip=(--set data.train=bad.h5 --set data.on_bad_sample=skip)

on 0 train j.yaml --set data.train=bad.h5
is "$rc" 2 "without the word a bad sample ends it"
has err "^trireme: bad.h5: 'data' sample 3 element \(7\) is NaN|chunk at sample 64" "by name"
is "$(grep -c '^trireme' err)" 1 "in one sentence"

on 0 train j.yaml --dump-losses clean.txt
is "$rc" 0 "a clean file"
for cache in on off auto; do
    rm -rf runs
    on 0 train j.yaml "${skip[@]}" --set data.cache=$cache --dump-losses bad.txt
    is "$rc" 0 "cache $cache: a run that leaves samples out"
    cmp -s clean.txt bad.txt
    ok $? "cache $cache: to the bit that on the clean file"
done
has err "warning: 12 of 300 samples are left out: 3, 50, 64 to 71, 120, 299; the first: bad.h5: 'data'\[3\] holds nan" "one warning names them"
is "$(grep -c warning: err)" 1 "and no other"
is "$(field runs/j/metrics.jsonl run left_out)" 12 "the run folder counts them"
is "$(field runs/j/metrics.jsonl run left_out_first)" '3, 50, 64 to 71, 120, 299' "and names them"
has runs/j/log.txt '12 of 300 samples are left out' "and so does its log"

for n in 2 3; do
    on $n train j.yaml "${skip[@]}" --set balance=off --dump-losses ranks.txt
    is "$rc" 0 "$n ranks"
    close_losses clean.txt ranks.txt 1e-5
    ok $? "$n ranks: the same losses"
    is "$(grep -c 'left out' err)" 1 "$n ranks: warned once"
done
window=(--set data.shuffle=window --set data.cache=off --set balance=off)
on 0 train j.yaml "${skip[@]}" "${window[@]}" --dump-losses window.txt
is "$rc" 0 "blocks of the file, some with holes"
for n in 2 3; do
    on $n train j.yaml "${skip[@]}" "${window[@]}" --dump-losses ranks.txt
    is "$rc" 0 "blocks on $n ranks"
    close_losses window.txt ranks.txt 1e-5
    ok $? "blocks on $n ranks: the same losses"
done
rm -rf runs
on 0 train j.yaml "${skip[@]}" --set train.epochs=2
on 0 train j.yaml "${skip[@]}" --resume
is "$rc" 0 "a resume on the same file"
on 0 train j.yaml --resume
is "$rc" 2 "another list of samples is another data set"
has err 'the training data is not that of the checkpoint' "and is said to be one"

# ---- validation, check, prediction ----

on 0 check j.yaml "${skip[@]}"
is "$rc" 0 "check"
has out '9 an epoch of 288 samples' "counts what is left"
on 0 data check j.yaml "${skip[@]}"
is "$rc" 0 "data check"
has out '288 samples of shape \(12\), stored as float32, 4 classes, 12 left out: good' "says how many"
rm -rf runs
on 3 train j.yaml --set data.valid=bad.h5 --set data.on_bad_sample=skip --set train.epochs=1
is "$rc" 0 "a validation set"
is "$(field runs/j/metrics.jsonl valid samples)" 288 "of what is left"
is "$(field runs/j/metrics.jsonl run valid_left_out)" 12 "is counted on its own"
weights=$(echo runs/j/checkpoints/step-*)
on 2 eval j.yaml "$weights" --set data.valid=bad.h5 --set data.on_bad_sample=skip
is "$rc" 0 "eval"
has out '288 samples' "of what is left"
on 2 predict j.yaml --weights "$weights" --input bad.h5 --out p.h5
is "$rc" 2 "a prediction ends with the first bad sample"
[ ! -e p.h5 ]
ok $? "and leaves no file"
for n in 1 3; do
    on $n predict j.yaml --weights "$weights" --input bad.h5 --out p$n.h5 --set data.on_bad_sample=skip
    is "$rc" 0 "predict on $n ranks"
done
on 0 predict j.yaml --weights "$weights" --input clean.h5 --out c.h5
"$python" - <<'PY'
import h5py, numpy as np
bad = [3, 120] + list(range(64, 72))  # labels are not read
a, b, c = (h5py.File(f"{n}.h5") for n in ("p1", "p3", "c"))
rows, label = a["output"][:], a["label"][:]
assert rows.shape == (300, 4), rows.shape
assert np.isnan(rows[bad]).all() and (label[bad] == -1).all()
good = [i for i in range(300) if i not in bad]
assert np.isfinite(rows[good]).all() and (label[good] == rows[good].argmax(1)).all()
assert np.allclose(rows, b["output"][:], rtol=1e-5, atol=1e-6, equal_nan=True)
both = [i for i in good if i not in (50, 299)]
assert np.allclose(rows[both], c["output"][:], rtol=1e-5, atol=1e-6)
PY
ok $? "rows stand where their samples stand, NaN where one was left out"

on 0 train j.yaml --set data.on_bad_sample=pass
is "$rc" 2 "another word is refused"
has err 'data.on_bad_sample is .*pass.*; allowed are error, skip' "with the two"
done_testing
