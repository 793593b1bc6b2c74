#!/usr/bin/env bash
# timeout: 240
# Other formats become data sets: what is written is what numpy, Pillow and a BPE of their own say, and a job trains on it.
top=$PWD
. tests/system/lib.bash

made() { # TEXT PATTERN ARGS...
    local text=$1 pattern=$2
    shift 2
    on 0 "$@"
    is "$rc" 0 "$text"
    has out "$pattern" "$text: one closing sentence"
    has out '^  data: \{train: ' "$text: and the line that reads it"
}

learns() { # FILE KEY=VALUE...: a few updates on an imported set
    cat >small.yaml <<YAML
run: {name: small, seed: 3}
data: {train: $1}
model: {preset: mlp, hidden: [16]}
train: {epochs: 1, batch: 8, optimizer: {type: sgd, lr: 0.01}}
YAML
    shift
    local set=()
    for s; do set+=(--set "$s"); done
    on 0 train small.yaml "${set[@]}" --set run.dir=runs/small-$RANDOM
    is "$rc" 0 "a job trains on it"
    [ "$rc" -eq 0 ] || sed 's/^/# /' err
}

# ---- tables, without any other program ----

printf 'length,width,kind\n' >iris.csv
for i in $(seq 1 60); do echo "$i.5,$((i * 7 % 10)),$([ $((i % 3)) = 0 ] && echo setosa || echo virginica)"; done >>iris.csv
made "a table" 'wrote iris.h5: 60 samples of shape \(2\), stored as float32, 2 classes' \
    data import csv iris.csv --target kind --classes --out iris.h5
learns iris.h5
gzip -k iris.csv
made "a packed one" 'wrote packed.h5: 60 samples' data import csv iris.csv.gz --target kind --classes --out packed.h5
cmp -s iris.h5 packed.h5
ok $? "is the same"
made "numbers to regress" 'wrote width.h5: 60 samples of shape \(1\)' \
    data import csv iris.csv --target width --drop kind --float-target --out width.h5
has out 'target_type: float' "the line says so"
cat >mse.yaml <<'YAML'
run: {name: mse, seed: 3}
data: {train: width.h5, target_type: float}
model: {layers: [{linear: {out: 1}}]}
train: {epochs: 1, batch: 8, loss: mse, optimizer: {type: sgd, lr: 0.00001}}
YAML
on 0 train mse.yaml
is "$rc" 0 "a job regresses with it"
refused 2 "a text in place of a number" "iris.csv line 2: column 3 \('kind'\) is 'virginica'" data import csv iris.csv --out x.h5
has err "^hint: .--drop kind. leaves the column out" "a hint says what to do"
refused 2 "the input as output" 'it is the input' data import csv iris.csv --target kind --classes --out iris.csv
refused 2 "a file that is no HDF5 file" 'will not replace keep.txt' data import csv iris.csv --drop kind --out keep.txt 2>/dev/null <<<"$(echo kept >keep.txt)"
is "$(cat keep.txt)" kept "it is kept"
mkfifo pipe.csv
refused 2 "a pipe" 'pipe.csv: is a pipe' data import csv pipe.csv --out x.h5
refused 2 "two characters" "delimiter is '::'" data import csv iris.csv --delimiter :: --out x.h5
is "$(find . -name 'x.h5*' | wc -l)" 0 "nothing is left of what was refused"

# ---- BPE against its definition ----

python=/usr/bin/python3
$python -c 'import unicodedata' 2>/dev/null || python=python3
if $python -c 'import json' 2>/dev/null; then
    $python - <<'PY'
import random
r = random.Random(3)
w = "the a of to and it's I'll we've they're don't 'S café naïve Straße 東京 日本語 число 3.14 2024 x² ½ a_b f(x) -- … \"q\" \u1680z \u180e \u0085 \u200b e\u0301".split(" ")
t = []
for i in range(3000):
    t += [r.choice(w), r.choice([" ", " ", " ", "  ", "\n", "\n\n", "\t", " \n ", "", "\r\n", "\u00a0", "   "])]
t = "".join(t) + "  "
open("learn.txt", "w", encoding="utf-8", newline="").write(t)
# Longer than a window of the reader: words and characters lie across its ends.
open("long.txt", "w", encoding="utf-8", newline="").write(t * 40 + "ab" * 600000 + " " * 1100000 + "x'r" + "e" * 10)
open("latin.txt", "wb").write(b"ok \xe9t\xe9")
PY
    $python "$top/tests/reference/bpe.py" learn learn.txt 300 vocab.json merges.txt
    made "BPE" 'wrote bpe.h5: [0-9]+ tokens, stored as uint16' \
        data import text --bpe vocab.json --merges merges.txt learn.txt long.txt --behind '<|endoftext|>' --out bpe.h5
    has out 'window: 128, classes: [0-9]+\}' "with the number of tokens"
    cat >gpt.yaml <<YAML
run: {name: gpt, seed: 3}
data: {train: bpe.h5, window: 16, train_rows: "0:600", classes: $(sed -nE 's/.*classes: ([0-9]+).*/\1/p' out)}
model: {preset: gpt, layers: 1, dim: 16, heads: 2}
train: {epochs: 1, batch: 8, optimizer: {type: adamw, lr: 0.001}}
YAML
    on 0 train gpt.yaml
    is "$rc" 0 "a model of language trains on it"
    [ "$rc" -eq 0 ] || sed 's/^/# /' err
    for f in learn long; do
        $python "$top/tests/reference/bpe.py" encode vocab.json merges.txt $f.txt
        $python -c 'import json; print(json.load(open("vocab.json"))["<|endoftext|>"])'
    done >want
    refused 2 "a text that is not UTF-8" 'latin.txt: byte 3 \(e9\) is not UTF-8' \
        data import text --bpe vocab.json --merges merges.txt latin.txt --out x.h5
    refused 2 "merges without a vocabulary" 'merges is given without --bpe' data import text --merges merges.txt learn.txt --out x.h5
    refused 2 "an unknown token" "'<eot>' is no token of" \
        data import text --bpe vocab.json --merges merges.txt --behind '<eot>' learn.txt --out x.h5
    refused 2 "no JSON" 'merges.txt line 1: no JSON' data import text --bpe merges.txt --merges merges.txt learn.txt --out x.h5
    printf '#version: 0.2\nt h\nt h e\n' >bad.txt
    refused 2 "a bad merge" "bad.txt line 3: 't h e'; expected are two tokens" \
        data import text --bpe vocab.json --merges bad.txt learn.txt --out x.h5
    printf 't ~~~\n' >bad.txt
    refused 2 "an unknown merge" "bad.txt line 1: .* is not in the vocabulary" \
        data import text --bpe vocab.json --merges bad.txt learn.txt --out x.h5
    echo '{"a": 0, "b": 0}' >bad.json
    refused 2 "one number twice" "two tokens have the number 0" \
        data import text --bpe bad.json --merges merges.txt learn.txt --out x.h5
    echo '{"a": 0, "b": -1}' >bad.json
    refused 2 "no number" "the number of token 'b' is none" data import text --bpe bad.json --merges merges.txt learn.txt --out x.h5
    echo '{"a": 0, "b": 1}' >bad.json
    : >none.txt
    refused 2 "a byte without a token" "learn.txt near byte [0-9]+: the vocabulary has no token for the byte" \
        data import text --bpe bad.json --merges none.txt learn.txt --out x.h5
fi

# ---- against numpy, h5py and Pillow ----

needs_h5py "the values"

python_says "tokens are those of the definition" '
assert (h5py.File("bpe.h5")["tokens"][:] == np.loadtxt("want", dtype=np.uint16)).all()'
python_says "numbers of the table" '
h = h5py.File("iris.h5")
rows = [l.strip().split(",") for l in open("iris.csv")][1:]
assert (h["data"][:] == np.array([[float(v) for v in r[:2]] for r in rows], "f4")).all()
assert [h["label_names"][i].decode() for i in h["label"][:]] == [r[2] for r in rows]
assert [n.decode() for n in h["label_names"][:]] == ["setosa", "virginica"]'

$python - <<'PY'
import numpy as np
r = np.random.default_rng(1)
x, y = r.normal(size=(50, 3, 4)).astype("f4"), r.integers(0, 5, 50)
np.save("x.npy", x)
np.save("y.npy", y)
np.savez("a.npz", x=x, y=y)
np.savez_compressed("b.npz", features=x, t=y.astype("f8")[:, None])
np.savez("fortran.npz", x=np.asfortranarray(x))
for t in "?bBhHiIlLefd":
    np.save(f"type_{t}.npy", (r.normal(size=(9, 2)) * 3).astype(t))
np.save("big.npy", r.normal(size=(7, 3)).astype(">f8"))
np.save("fortran.npy", np.asfortranarray(r.normal(size=(300, 7, 5))))
np.save("wide.npy", np.asfortranarray(r.normal(size=(3, 70000))))
np.save("tokens.npy", r.integers(0, 9, 1000).astype("u2"))
np.save("objects.npy", np.array([{}], dtype=object), allow_pickle=True)
np.lib.format.write_array(open("v3.npy", "wb"), x, version=(3, 0))
PY
made "two arrays" 'wrote n.h5: 50 samples of shape \(3,4\), stored as float32, 5 classes' data import npy x.npy y.npy --out n.h5
learns n.h5
made "an archive" 'wrote a.h5: 50 samples' data import npz a.npz --out a.h5
cmp -s n.h5 a.h5
ok $? "the same"
made "a packed archive, by names" 'wrote b.h5: 50 samples.*float32$' data import npz b.npz --input features --target t --out b.h5
for t in '?' b B h H i I l L e f d; do trireme data import npy "type_$t.npy" --out "type_$t.h5" >/dev/null; done
trireme data import npy big.npy --out big.h5 >/dev/null
trireme data import npy fortran.npy --out fortran.h5 >/dev/null
trireme data import npy wide.npy --out wide.h5 >/dev/null
trireme data import npy v3.npy --out v3.h5 >/dev/null
made "a stream" 'wrote tokens.h5: 1000 tokens, stored as uint16' data import npy tokens.npy --out tokens.h5
python_says "values and types of arrays" '
h = h5py.File("n.h5")
assert (h["data"][:] == np.load("x.npy")).all() and (h["label"][:] == np.load("y.npy")).all() and h["label"].dtype == np.int64
h = h5py.File("b.h5")
assert (h["data"][:] == np.load("x.npy")).all() and (h["targets"][:, 0] == np.load("y.npy")).all()
for t in "?bBhHiIlLefd":
    a, b = np.load(f"type_{t}.npy"), h5py.File(f"type_{t}.h5")["data"]
    assert (a == b[:]).all() and (t == "?" or a.dtype == b.dtype), t
for n in "big", "fortran", "wide", "v3":
    assert (np.load(n + ".npy") == h5py.File(n + ".h5")["data"][:]).all(), n
assert (h5py.File("tokens.h5")["tokens"][:] == np.load("tokens.npy")).all()'
refused 2 "an array of objects" "elements of type '.O'" data import npy objects.npy --out x.h5
refused 2 "a column order in an archive" 'Fortran.s order inside of an archive' data import npz fortran.npz --out x.h5
refused 2 "names that are not known" 'which array holds the inputs\? there are: features, t' data import npz b.npz --out x.h5
refused 2 "a name that is not there" "no array 'fatures' for --input" data import npz b.npz --input fatures --out x.h5
head -c -30 b.npz >cut.npz
refused 2 "half an archive" 'cut.npz: cannot be read as an archive' data import npz cut.npz --input features --out x.h5
$python -c '
b = bytearray(open("a.npz", "rb").read())
b[400] ^= 255
open("flipped.npz", "wb").write(b)'
refused 2 "a flipped byte in an archive" 'flipped.npz: x.npy: damaged' data import npz flipped.npz --out x.h5

if ! $python -c 'import PIL' 2>/dev/null; then
    ok 0 "pictures # SKIP Pillow is not there"
    done_testing
fi
$python - <<'PY'
import os
import numpy as np
from PIL import Image
r = np.random.default_rng(2)
for c in "Zebra", "ant", "bee":
    os.makedirs("pets/" + c)
    os.makedirs("mixed/" + c)
    for i in range(5):
        h, w = 16, 24
        a = np.kron(r.integers(0, 256, (4, 6, 3)), np.ones((4, 4, 1))).astype("u1")
        Image.fromarray(a).save(f"pets/{c}/{i}.png")
        Image.fromarray(np.kron(a, np.ones((1 + i % 2, 2, 1), "u1"))).save(f"mixed/{c}/{i}.jpg", quality=95)
    Image.fromarray(a).convert("P").save(f"pets/{c}/p.png")
    Image.fromarray(a[:, :, 0]).save(f"pets/{c}/grey.png")
    Image.fromarray(a).save(f"pets/{c}/q.jpg", quality=95)
open("pets/ant/.hidden", "w").write("no picture")
PY
made "pictures" 'wrote pets.h5: 24 samples of shape \(3,16,24\), stored as uint8, 3 classes' data import images pets --out pets.h5
learns pets.h5
made "in grey" 'wrote grey.h5: 24 samples of shape \(1,16,24\)' data import images pets --colour grey --out grey.h5
python_says "pixels and names are those of Pillow" '
import os
from PIL import Image
h, g = h5py.File("pets.h5"), h5py.File("grey.h5")
names = sorted(os.listdir("pets"))
assert [n.decode() for n in h["label_names"][:]] == names == ["Zebra", "ant", "bee"]
paths = [(k, f"pets/{n}/{f}") for k, n in enumerate(names) for f in sorted(os.listdir("pets/" + n)) if f[0] != "."]
assert list(h["label"][:]) == [k for k, _ in paths]
for i, (_, p) in enumerate(paths):
    want = np.asarray(Image.open(p).convert("RGB")).astype(int).transpose(2, 0, 1)
    assert abs(want - h["data"][i]).max() <= (2 if p.endswith("jpg") else 0), p
    want = np.asarray(Image.open(p).convert("L")).astype(int)
    assert abs(want - g["data"][i, 0]).max() <= (2 if p.endswith("jpg") else 0), p'
refused 2 "sizes that differ" 'mixed/Zebra/1.jpg: has 32 x 48 pixels but mixed/Zebra/0.jpg has 16 x 48' data import images mixed --out x.h5
has err '^hint: .--size 16x48. scales' "a hint names the option"
made "scaled" 'wrote mixed.h5: 15 samples of shape \(3,10,12\)' data import images mixed --size 10x12 --out mixed.h5
python_says "scaled as Pillow does" '
from PIL import Image
d, i = h5py.File("mixed.h5")["data"], 0
for n in "Zebra", "ant", "bee":
    for k in range(5):
        p = Image.open(f"mixed/{n}/{k}.jpg").convert("RGB")
        s = min(p.width / 12, p.height / 10)
        x, y = (p.width - 12 * s) / 2, (p.height - 10 * s) / 2
        q = p.resize((12, 10), Image.BILINEAR, box=(x, y, x + 12 * s, y + 10 * s))
        assert abs(np.asarray(q).astype(int).transpose(2, 0, 1) - d[i]).max() <= 2, (n, k)
        i += 1'
head -c 200 mixed/ant/0.jpg >pets/ant/cut.jpg
echo hello >pets/bee/notes.txt
refused 2 "a broken picture" 'pets/ant/cut.jpg: a damaged JPEG picture|pets/ant/cut.jpg: has' data import images pets --out x.h5
made "broken ones left out" 'wrote skip.h5: 24 samples .*3 classes \(2 left out\)' data import images pets --on-bad skip --out skip.h5
has err 'warning: left out: pets/bee/notes.txt: no PNG or JPEG picture' "and named"
python_says "the others are as before" '
assert (h5py.File("pets.h5")["data"][:] == h5py.File("skip.h5")["data"][:]).all()'
mkdir -p empty/a
refused 2 "an empty class" 'empty/a: there is no picture' data import images empty --out x.h5
refused 2 "a folder of pictures" 'there is no folder in it' data import images pets/ant --out x.h5
refused 2 "a file" 'iris.csv: is no folder' data import images iris.csv --out x.h5
refused 2 "a bad size" "size is '10'" data import images pets --size 10 --out x.h5

# ---- CIFAR ----

$python -c '
import numpy as np
r = np.random.default_rng(3)
for n in 1, 2:
    b = r.integers(0, 256, (40, 3073)).astype("u1"); b[:, 0] %= 10
    b.tofile(f"data_batch_{n}.bin")
b = r.integers(0, 256, (30, 3074)).astype("u1"); b[:, 0] %= 20; b[:, 1] %= 100
b.tofile("train.bin")'
made "CIFAR-10" 'wrote c10.h5: 80 samples of shape \(3,32,32\), stored as uint8, 10 classes' data import cifar 'data_batch_*.bin' --out c10.h5
learns c10.h5
made "CIFAR-100" 'wrote c100.h5: 30 samples .*100 classes' data import cifar train.bin --labels fine --out c100.h5
python_says "pictures and labels" '
b = np.concatenate([np.fromfile(f"data_batch_{n}.bin", "u1") for n in (1, 2)]).reshape(80, 3073)
h = h5py.File("c10.h5")
assert (h["label"][:] == b[:, 0]).all() and (h["data"][:].reshape(80, -1) == b[:, 1:]).all()
b = np.fromfile("train.bin", "u1").reshape(30, 3074)
h = h5py.File("c100.h5")
assert (h["label"][:] == b[:, 1]).all() and (h["data"][:].reshape(30, -1) == b[:, 2:]).all()'
refused 2 "CIFAR-100 for CIFAR-10" 'train.bin: has 92220 bytes; expected are records of 3073' data import cifar train.bin --out x.h5
is "$(find . -name 'x.h5*' | wc -l)" 0 "nothing is left of what was refused"
done_testing
