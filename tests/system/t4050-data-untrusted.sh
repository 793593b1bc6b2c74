#!/usr/bin/env bash
# timeout: 240
# data.untrusted: a process of its own opens and reads the files; whatever it dies of is one sentence, and what is trained is
# the same to the bit.
. tests/system/lib.bash
make_data
write_job j

verbs=(data check --untrusted)
check() { on 0 "${verbs[@]}" "$@"; }
refused() { # TEXT PATTERN ARGS...
    local text=$1 pattern=$2
    shift 2
    check "$@"
    is "$rc" 2 "$text: refused"
    has err "^trireme: .*($pattern)" "$text: it says why"
    is "$(grep '^trireme: ' err | grep -vc 'warning: untrusted files:')" 1 "$text: in one sentence"
}

# ---- good files ----

check digits.h5
is "$rc" 0 "a good file"
has out '1001 samples of shape \(1,28,28\), stored as uint8, 10 classes: good' "is what it is"
for cache in on off; do
    rm -rf runs
    on 0 train j.yaml --set data.cache=$cache --dump-losses trusted.txt
    rm -rf runs
    on 0 train j.yaml --set data.cache=$cache --set data.untrusted=true --dump-losses untrusted.txt
    is "$rc" 0 "a run, cache $cache"
    cmp -s trusted.txt untrusted.txt
    ok $? "cache $cache: the same to the bit"
done
rm -rf runs
on 3 train j.yaml --set data.untrusted=true --set balance=off --dump-losses ranks.txt
is "$rc" 0 "three ranks"
close_losses trusted.txt ranks.txt 1e-5
ok $? "with the same losses"
is "$(grep -c 'warning: untrusted' err)" "$(grep -c 'warning: untrusted' <(trireme data check --untrusted digits.h5 2>&1) | awk '{ print 2 * $1 }')" \
    "each set warns of the library's version once, on rank 0"
rm -rf runs
on 0 train j.yaml --set data.untrusted=true --set train.epochs=1
on 0 train j.yaml --resume
is "$rc" 0 "a resume as trusted files: the fingerprint is the same"

# ---- who opens what ----

if command -v strace >/dev/null; then
    OMP_NUM_THREADS=1 GOMP_SPINCOUNT=1 timeout 60 strace -f -o trace -e trace=execve,openat,setrlimit,prlimit64 \
        "$TRIREME" data check --untrusted digits.h5 >/dev/null 2>&1
    has trace 'execve\("/proc/self/exe", \["trireme", "data", "guard"\]' "the program is started anew"
    has trace 'RLIMIT_FSIZE, \{rlim_cur=0, rlim_max=0\}' "it may write no file"
else
    ok 0 "what is opened # SKIP strace is not there"
fi

# ---- words of the parent and of nobody ----

on 0 data guard </dev/null
is "$rc" 2 "the verb answers nobody else"
has err "for Trireme's own use" "and says so"
trireme help >help
grep -q guard help
is $? 1 "no help names it"
on 0 data guard <<<noise
is "$rc" 2 "noise is no question"
refused "no file" 'none.h5: no such file' none.h5
printf 'digits.h5\nnone.h5\n' >list.txt
refused "a hole in a list" 'list.txt line 2: none.h5: no such file' @list.txt
head -c 100000 digits.h5 >half.h5
refused "half a file" 'truncated' half.h5

# ---- stricter rules ----

needs_h5py "files against the stricter rules"
"$python" - <<'PY'
import h5py, numpy as np
X, Y = np.arange(3200, dtype="i4").reshape(200, 16), np.arange(200) % 10
def new(name, data=X, label=Y, **how):
    with h5py.File(f"{name}.h5", "w") as f:
        f.create_dataset("data", data=data, **how)
        f["label"] = label
new("plain")
new("chunks", chunks=(16, 16), compression="gzip", shuffle=True, fletcher32=True)
new("lzf", chunks=(16, 16), compression="lzf")
new("scale", chunks=(16, 16), scaleoffset=0)
new("wide", np.ones((200, 1 << 17), "f4"), chunks=(200, 1 << 17))
new("grows", np.zeros((16, 1 << 23), "u1"), Y[:16], chunks=(1, 1 << 23), compression="gzip", compression_opts=9)
new("many", np.zeros((3000, 16), "f4"), np.arange(3000) % 10, chunks=(1, 16))
with h5py.File("compact.h5", "w") as f:
    p = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
    p.set_layout(h5py.h5d.COMPACT)
    d = h5py.h5d.create(f.id, b"data", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((200, 4)), p)
    d.write(h5py.h5s.ALL, h5py.h5s.ALL, np.ones((200, 4), "u1"))
    f["label"] = Y
with h5py.File("bad.h5", "w") as f:
    x = X.astype("f4")
    x[7, 3] = np.nan
    f["data"], f["label"] = x, Y
PY
# An index of links that leads to no address: version 1.10.8 crashes of it.
"$python" - <<'PY'
import h5py, numpy as np, struct
with h5py.File("crash.h5", "w") as f:
    f["data"], f["label"] = np.zeros((40, 12), "u1"), np.arange(40) % 10
b = open("crash.h5", "rb").read()
at = b.find(b"TREE") + 32
open("crash.h5", "wb").write(b[:at] + b"\xff" * 8 + b[at + 8:])
PY
trireme data check crash.h5 >/dev/null 2>&1
if [ $? -gt 128 ]; then
    refused "a file that crashes the library" 'crash.h5: the file makes HDF5 crash \(signal 11\): refused' crash.h5
    for n in 0 3; do
        on $n train j.yaml --set data.untrusted=true --set data.train=digits.h5 --set data.valid=crash.h5
        is "$rc" 2 "and a run on $n ranks ends in order"
        has err '^trireme: crash.h5: the file makes HDF5 crash \(signal 11\): refused' "with the sentence"
        is "$(grep -c '^trireme: [^w]' err)" 1 "said once"
    done
else
    refused "a file that crashed older libraries" 'crash.h5: ' crash.h5
fi
for name in plain chunks lzf many; do
    check $name.h5
    is "$rc" 0 "$name: read"
done
refused "another filter" "has the filter scaleoffset; untrusted files may have gzip" scale.h5
refused "large chunks" "has chunks of 100.0 MiB; untrusted files may have up to 64.0 MiB" wide.h5
refused "growth" "claims 128.0 MiB but stores .*; untrusted files may grow 1000 times" grows.h5
refused "compact storage" 'can only be read by the HDF5 library' compact.h5
refused "values" "'data' sample 7 element \(3\) is NaN" bad.h5
on 0 check j.yaml --set data.untrusted=true --set data.train=bad.h5 --set data.on_bad_sample=skip --set 'data.valid=[]'
is "$rc" 0 "bad samples may be left out"
has err 'warning: 1 of 200 samples are left out: 7' "the child's warning is the parent's"
done_testing
