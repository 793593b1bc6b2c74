#!/usr/bin/env bash
# timeout: 240
# Data sets out of data sets: split, shuffle, repack; and numbers about them: stats, check.
. tests/system/lib.bash
make_data

done_well() { # TEXT PATTERN ARGS...
    local text=$1 pattern=$2
    shift 2
    on 0 "$@"
    is "$rc" 0 "$text"
    has out "$pattern" "$text: it says what was made"
}

done_well "split" 'wrote digits-train.h5 \(901\), digits-valid.h5 \(100\)' data split digits.h5 --parts train:0.9,valid:0.1
has out '^  data: \{train: digits-train.h5, valid: digits-valid.h5\}' "and the line that reads it"
cp digits-train.h5 first.h5
trireme data split digits.h5 --parts train:0.9,valid:0.1 >/dev/null
cmp -s first.h5 digits-train.h5
ok $? "the same seed makes the same file"
trireme data split digits.h5 --parts train:0.9,valid:0.1 --seed 2 >/dev/null
cmp -s first.h5 digits-train.h5
is $? 1 "another seed another one"
write_job j
on 0 train j.yaml --set data.train=digits-train.h5 --set data.valid=digits-valid.h5 --set train.epochs=1
is "$rc" 0 "a job trains on the parts"
done_well "numbers of rows" 'wrote p-a.h5 \(10\), p-b.h5 \(1\), p-c.h5 \(500\)' data split digits.h5 --parts a:10,b:1,c:500 --rows kept --out p
refused 2 "too much" 'the parts add up to 1101 rows; there are 1001' data split digits.h5 --parts a:0.9,b:0.2
refused 2 "an empty part" 'part 2 has no row' data split digits.h5 --parts a:0.5,b:0.0001
refused 2 "no size" "'train'; expected is NAME:SIZE" data split digits.h5 --parts train
refused 2 "a bad size" "'a:-1'; expected is NAME:SIZE" data split digits.h5 --parts a:-1
refused 2 "a folder in a name" "'a/b:0.5'; expected is NAME:SIZE" data split digits.h5 --parts a/b:0.5
refused 2 "one name twice" 'two parts would be written to digits-a.h5' data split digits.h5 --parts a:0.5,a:0.5
cp digits.h5 q-a.h5
refused 2 "the input as a part" 'it is the input q-a.h5' data split q-a.h5 --parts a:0.5 --out q
refused 2 "a target that nobody looks at" '--target is given without' data split digits.h5 --parts a:0.5 --target label
refused 2 "other data" "no data set 'none'" data split digits.h5 --parts a:0.5 --only none
refused 2 "no file" 'none.h5: no such file' data split none.h5 --parts a:0.5

printf 'to be or not to be, that is the question' >t.txt
trireme data import text t.txt --out tokens.h5 >/dev/null
refused 2 "a stream that would be drawn" "is a stream of tokens" data split tokens.h5 --parts a:0.5,b:0.5
has err '^hint: .--rows kept' "a hint says how"
done_well "a stream" 'tokens-a.h5 \(20\), tokens-b.h5 \(20\): tokens' data split tokens.h5 --parts a:0.5,b:0.5 --rows kept
refused 2 "a stream that would be shuffled" "is a stream of tokens" data shuffle tokens.h5 --out x.h5

done_well "shuffle" 'wrote s.h5: 1001 samples of shape \(1,28,28\)' data shuffle digits.h5 --out s.h5
done_well "in little memory" 'wrote s1.h5' data shuffle digits.h5 --memory 1 --out s1.h5
done_well "repack" 'KiB before, .* KiB now, chunks of 334 rows' data repack digits.h5 --filter gzip --out r.h5
done_well "with chunks alone" 'chunks of 100 rows' data repack r.h5 --chunk 100 --out r2.h5
done_well "and back" 'wrote back.h5' data repack r.h5 --out back.h5
cmp -s back.h5 digits.h5
ok $? "unpacked again it is the same file"
refused 2 "shuffle alone" 'shuffle is given without' data repack digits.h5 --shuffle --out x.h5
refused 2 "a level alone" 'level is given without' data repack digits.h5 --level 3 --out x.h5
refused 2 "gzip without chunks" 'gzip is asked for without chunks' data repack digits.h5 --filter gzip --chunk 0 --out x.h5
on 0 data check r.h5
is "$rc" 0 "it is good"
on 0 data check digits-train.h5 digits-valid.h5
has out '1001 samples of shape \(1,28,28\)' "several files are checked as one set"
refused 2 "a file behind a job" "stands behind a job file" data check j.yaml digits.h5

done_well "stats" 'digits.h5: 1001 samples, 784784 values a channel' data stats digits.h5 --out stats.h5
has out 'samples of 10 classes: [0-9]+ ' "samples of each class"
has out '^  data: \{stats: stats.h5\}' "and the line that reads it"
on 0 train j.yaml --set data.stats=stats.h5 --set train.epochs=1
is "$rc" 0 "a job scales its inputs by them"
on 0 data stats digits.h5 --untrusted
is "$rc" 0 "of a stranger's file"
on 0 data stats j.yaml
has out '^data.train: 1001 samples' "of a job"
refused 2 "of tokens" "tokens" data stats tokens.h5
refused 2 "the input as output" 'it is the input' data stats digits.h5 --out digits.h5
refused 2 "an option with a job" 'are given with a job' data stats j.yaml --input data
is "$(find . -name 'x.h5*' -o -name '*.new-*' | wc -l)" 0 "nothing is left of what was refused"

# ---- against h5py ----

needs_h5py "the values"

# Data sets of all kinds in two files; rows carry their number.
$python - <<'PY'
import h5py
import numpy as np
r = np.random.default_rng(5)
at = 0
for name, n in ("one.h5", 300), ("two.h5", 457):
    i = np.arange(at, at + n)
    at += n
    with h5py.File(name, "w") as f:
        f.attrs["made by"] = "a test"
        f.create_dataset("data", data=(i[:, None, None] + np.arange(6).reshape(2, 3)).astype(">i4"), chunks=(7, 1, 2), compression=1)
        f["data"].attrs["unit"] = np.array([1.5, 2.5])
        f["data"].attrs["note"] = "a text of any length"
        f.create_dataset("label", data=(i % 7 % 3).astype("u1"))
        f.create_dataset("deep/name", data=np.array([f"row {k}".encode() for k in i], "S9"), chunks=(50,), shuffle=True, compression=4)
        f.create_dataset("deep/half", data=i.astype("f2"), chunks=(11,))
        f.create_dataset("flag", data=i % 2 == 0)
        ragged = f.create_dataset("jpeg", n, h5py.vlen_dtype("u1"))
        pairs = f.create_dataset("boxes", (n, 2), h5py.vlen_dtype("<f4"), chunks=(9, 1))
        for k in range(n):
            ragged[k] = np.arange(i[k] % 5 * 40, dtype="u1")
            pairs[k, 0] = np.full(i[k] % 3, i[k])
        f.create_dataset("comment", data=[f"{k} " * (k % 4) for k in i], dtype=h5py.string_dtype())
        f.create_dataset("words", data=["un", "deux"], dtype=h5py.string_dtype())
        f.create_dataset("mean", data=np.array([0.1, 0.2]))
        f.create_dataset("label_names", data=np.array([b"a", b"b", b"c"], "S3"))
with h5py.File("three.h5", "w") as f:
    f["data"] = np.zeros((5, 2, 3), "f4")
    f["label"] = np.zeros(5, "u1")
with h5py.File("vlen.h5", "w") as f:
    f["data"] = np.zeros((5, 2), "f4")
    f.create_dataset("nest", 5, h5py.vlen_dtype(h5py.vlen_dtype("u1")))
PY
check='
def rows(*files):
    out = []
    for name in files:
        f = h5py.File(name)
        assert f.attrs["made by"] == "a test" and list(f["data"].attrs["unit"]) == [1.5, 2.5]
        assert f["data"].attrs["note"] == "a text of any length"
        d, n = f["data"], f["deep/name"][:]
        assert d.dtype == ">i4" and f["deep/half"].dtype == "f2" and f["flag"].dtype == bool and n.dtype == "S9"
        assert (f["mean"][:] == [0.1, 0.2]).all() and list(f["label_names"][:]) == [b"a", b"b", b"c"]
        i = d[:, 0, 0].astype(int)
        assert (d[:] == i[:, None, None] + np.arange(6).reshape(2, 3)).all() and (f["label"][:] == i % 7 % 3).all()
        assert [int(s[4:]) for s in n] == list(i) and (f["deep/half"][:] == i.astype("f2")).all() and (f["flag"][:] == (i % 2 == 0)).all()
        for k, row in enumerate(i):
            assert (f["jpeg"][k] == np.arange(row % 5 * 40, dtype="u1")).all() and len(f["jpeg"][k]) == row % 5 * 40
            assert list(f["boxes"][k, 0]) == [row] * (row % 3) and len(f["boxes"][k, 1]) == 0
        assert [s.decode() for s in f["comment"][:]] == [f"{k} " * (k % 4) for k in i]
        assert [s.decode() for s in f["words"][:]] == ["un", "deux"] and f["boxes"].dtype.metadata["vlen"] == "<f4"
        out.append(list(i))
    return out
'
done_well "split of many files" 'm-a.h5 \(454\), m-b.h5 \(227\)' data split one.h5 two.h5 --parts a:0.6,b:0.3 --rows stratified --out m
trireme data split 'o*.h5' two.h5 --parts a:0.6,b:0.4 --rows kept --out k >/dev/null
trireme data split '[ot][nw][eo].h5' --parts a:0.6,b:0.4 --out d >/dev/null
python_says "stratified parts" "$check
a, b = rows('m-a.h5', 'm-b.h5')
assert a == sorted(a) and b == sorted(b) and not set(a) & set(b)
all = np.bincount(np.arange(757) % 7 % 3)
for part, share in (a, 0.6), (b, 0.3):
    assert (abs(np.bincount(np.array(part) % 7 % 3) - share * all) <= 1.01).all()"
python_says "stretches" "$check
a, b = rows('k-a.h5', 'k-b.h5')
assert a + b == list(range(757))"
python_says "drawn parts" "$check
a, b = rows('d-a.h5', 'd-b.h5')
assert a == sorted(a) and b == sorted(b) and sorted(a + b) == list(range(757)) and a + b != list(range(757))"
done_well "shuffle of many files" 'wrote ms.h5: 757 samples' data shuffle one.h5 two.h5 --out ms.h5
done_well "repack of many files" 'wrote mr.h5: 757 samples' data repack one.h5 two.h5 --filter gzip --shuffle --chunk 100 --out mr.h5
python_says "shuffled rows stay together" "$check
(a,) = rows('ms.h5')
assert sorted(a) == list(range(757)) and a != sorted(a) and np.mean(np.abs(np.diff(a))) > 150"
python_says "repacked rows are as they were" "$check
(a,) = rows('mr.h5')
assert a == list(range(757))
d = h5py.File('mr.h5')['data']
assert d.chunks == (100, 2, 3) and d.compression == 'gzip' and d.shuffle"
python_says "little memory makes the same order" '
a, b = h5py.File("s.h5"), h5py.File("s1.h5")
assert (a["data"][:] == b["data"][:]).all() and (a["label"][:] == b["label"][:]).all()
o = h5py.File("digits.h5")["data"][:].reshape(1001, -1)
assert sorted(map(bytes, o)) == sorted(map(bytes, a["data"][:].reshape(1001, -1)))'
refused 2 "files of other types" "three.h5: " data split one.h5 three.h5 --parts a:0.5
refused 2 "sequences of sequences" "vlen.h5: 'nest' \(variable-length arrays of variable-length arrays of uint8 \(5\)\) cannot be copied" data shuffle vlen.h5 --out x.h5
on 0 data shuffle one.h5 --only label --out only.h5
python_says "only what is named" '
assert sorted(h5py.File("only.h5")) == ["data", "label"]'
on 0 data shuffle vlen.h5 --only data --out only.h5
is "$rc" 0 "so a file with other data sets can be used"
python_says "stats are those of numpy" '
f = h5py.File("stats.h5")
x = h5py.File("digits.h5")["data"][:].astype("f8")
y = h5py.File("digits.h5")["label"][:]
for k, want in dict(mean=x.mean(), std=x.std(), min=x.min(), max=x.max()).items():
    assert f[k].shape == (1,) and f[k].dtype == "f8" and abs(f[k][0] - want) <= 1e-9 * max(abs(want), 1), k
assert f["count"][()] == x.size and (f["class_count"][:] == np.bincount(y)).all()'
done_testing
