#!/usr/bin/env bash
# timeout: 240
# What is refused unless a job allows it: links, external raw storage, plug-ins; and what stays refused even then.
. tests/system/lib.bash

needs_h5py "what a job allows"
mkdir -p set/sub outside
cat >make.py <<'PY'
import h5py, numpy as np, os
from h5py import SoftLink, ExternalLink
rng = np.random.default_rng(2)
X, Y = rng.normal(size=(200, 8)).astype("f4"), rng.integers(0, 4, 200)
def new(name, **entries):
    with h5py.File(f"set/{name}.h5", "w") as f:
        for k, v in entries.items():
            f[k.replace("__", "/")] = v
new("plain", data=X, label=Y)
new("other", a__x=X, y=Y)
with h5py.File("set/sub/deep.h5", "w") as f:
    f.create_dataset("x", data=X, chunks=(16, 8), compression="gzip")
    f.create_dataset("z", data=(X * 0).astype("i4"), chunks=(16, 8), scaleoffset=0)
with h5py.File("outside/x.h5", "w") as f:
    f["x"] = X
new("soft", real__x=X, real__up=SoftLink("x"), data=SoftLink("/real/up"), label=Y)
new("through", real__x=X, r=SoftLink("/real"), data=SoftLink("r/x"), label=Y)
new("dangling", real=X, data=SoftLink("/none"), label=Y)
new("ring", data=SoftLink("/b"), b=SoftLink("/data"), label=Y)
new("beside", data=ExternalLink("other.h5", "/a/x"), label=ExternalLink("./other.h5", "y"))
new("below", data=ExternalLink("sub/deep.h5", "x"), label=Y)
new("library", data=ExternalLink("sub/deep.h5", "z"), label=Y)
new("twice", data=ExternalLink("beside.h5", "/data"), label=Y)
new("mirror", data=ExternalLink("mirror.h5", "/data"), label=Y)
new("missing", data=ExternalLink("none.h5", "/a"), label=Y)
new("up", data=ExternalLink("../outside/x.h5", "/x"), label=Y)
new("down_up", data=ExternalLink("sub/../../outside/x.h5", "/x"), label=Y)
new("absolute", data=ExternalLink(os.path.abspath("outside/x.h5"), "/x"), label=Y)
new("linked", data=ExternalLink("link.h5", "/x"), label=Y)
new("linked_folder", data=ExternalLink("folder/x.h5", "/x"), label=Y)
new("pipe", data=ExternalLink("fifo", "/x"), label=Y)
new("device", data=ExternalLink("/dev/zero", "/x"), label=Y)
new("folder_itself", data=ExternalLink("sub", "/x"), label=Y)
os.symlink("../outside/x.h5", "set/link.h5")
os.symlink("../outside", "set/folder")
os.mkfifo("set/fifo")
# External raw storage: two pieces of two files.
raw = X.tobytes()
open("set/a.raw", "wb").write(b"----" + raw[:3200])
open("set/sub/b.raw", "wb").write(raw[3200:])
def outer(name, *files):
    with h5py.File(f"set/{name}.h5", "w") as f:
        f.create_dataset("data", (200, 8), "f4", external=list(files))
        f["label"] = Y
outer("storage", ("a.raw", 4, 3200), ("sub/b.raw", 0, 3200))
outer("storage_short", ("a.raw", 5, 3200), ("sub/b.raw", 0, 3200))
outer("storage_gone", ("gone.raw", 0, 6400))
outer("storage_passwd", ("/etc/passwd", 0, 6400))
outer("storage_up", ("../outside/x.h5", 0, 6400))
outer("storage_link", ("link.h5", 0, 6400))
outer("storage_pipe", ("fifo", 0, 6400))
# A filter of no library: number 32999, which leaves bytes as they are.
with h5py.File("set/filter.h5", "w") as f:
    d = f.create_dataset("data", (200, 8), "f4", chunks=(200, 8), compression="lzf")
    d.id.write_direct_chunk((0, 0), bytes(b ^ 0x55 for b in raw))
    f["label"] = Y
b = open("set/filter.h5", "rb").read()
import struct
old = struct.pack("<HHHH", 32000, 8, 1, 3)
assert b.count(old) == 1
open("set/filter.h5", "wb").write(b.replace(old, struct.pack("<HHHH", 32999, 8, 1, 3)).replace(b"lzf\0", b"xor\0"))
PY
"$python" make.py
ok $? "files are made"
cat >j.yaml <<'YAML'
run: {name: j}
data: {train: set/plain.h5, classes: 4}
model: {preset: mlp, hidden: [8]}
train: {epochs: 1, batch: 50, optimizer: {type: sgd, lr: 0.1}}
checkpoint: {every: never}
YAML

train() { # RANKS FILE SETTINGS...
    local n=$1 file=$2
    shift 2
    rm -rf runs
    on "$n" train j.yaml --quiet --set data.train="set/$file.h5" --dump-losses losses.txt "$@"
}
refused() { # FILE PATTERN SETTINGS...
    local file=$1 pattern=$2
    shift 2
    train 0 "$file" "$@"
    is "$rc" 2 "$file $*: refused"
    has err "^trireme: .*$pattern" "$file $*: it says why"
    is "$(grep -c '^trireme' err)" 1 "$file $*: in one sentence"
}
read_as_plain() { # FILE SETTINGS...
    local file=$1
    shift
    for cache in on off; do
        train 0 "$file" --set data.cache=$cache "$@"
        is "$rc" 0 "$file $*: read, cache $cache"
        cmp -s plain.txt losses.txt
        ok $? "$file $*: the same run to the bit"
    done
    train 3 "$file" --set data.cache=off "$@"
    is "$rc" 0 "$file $*: on three ranks"
    close_losses plain.txt losses.txt 1e-5
    ok $? "$file $*: the same losses there"
}

train 0 plain
is "$rc" 0 "the plain file"
mv losses.txt plain.txt

# ---- links ----

for file in soft through beside below; do
    refused $file 'links? .*not followed|not followed'
    has err '^hint: .*`data.allow_links: true`' "$file: the hint names the key"
    read_as_plain $file --set data.allow_links=true
done
read_as_plain twice --set data.allow_links=true
train 3 library --set data.allow_links=true --set data.cache=off
is "$rc" 0 "what the library decodes lies behind a link too"
links=(--set data.allow_links=true)
refused dangling "no data set '.none'" "${links[@]}"
refused ring "'data' leads through more than 16 links" "${links[@]}"
refused mirror "'data' leads through more than 16 links" "${links[@]}"
refused missing "'data' is an external link to none.h5:/a, which cannot be opened: .*does not exist" "${links[@]}"
for file in up down_up; do refused $file 'leads up: only files of its own folder and below' "${links[@]}"; done
refused absolute 'is no path below it: only files of its own folder' "${links[@]}"
for file in linked linked_folder; do refused $file 'is reached by a link: only files of its own folder' "${links[@]}"; done
refused pipe 'fifo, which is no plain file' "${links[@]}"
refused folder_itself 'sub, which is no plain file' "${links[@]}"
refused device 'is no path below it' "${links[@]}"
refused storage 'external raw storage is refused' "${links[@]}"

# ---- external raw storage ----

refused storage 'external raw storage is refused'
has err '^hint: `data.allow_external: true`' "the hint names the key"
read_as_plain storage --set data.allow_external=true
outer=(--set data.allow_external=true)
refused storage_short 'needs 3200 bytes at byte 5 of a.raw, which has 3204' "${outer[@]}"
refused storage_gone 'gone.raw, which does not exist' "${outer[@]}"
refused storage_passwd 'is no path below it' "${outer[@]}"
refused storage_up 'leads up' "${outer[@]}"
refused storage_link 'is reached by a link' "${outer[@]}"
refused storage_pipe 'is no plain file' "${outer[@]}"
refused beside 'not followed' "${outer[@]}"
export HDF5_EXTFILE_PREFIX=/
refused storage 'HDF5_EXTFILE_PREFIX is set' "${outer[@]}"
unset HDF5_EXTFILE_PREFIX

# ---- plug-ins ----

refused filter 'needs HDF5 filter 32999 \(xor\), which is not available; plug-ins are not loaded'
has err '^hint: .*`data.allow_plugins: true`' "the hint names the key"
refused filter 'which is not available; no plug-in for it was found' --set data.allow_plugins=true
cat >xor.c <<'C'
#include <H5PLextern.h>
static size_t turn(unsigned flags, size_t n, const unsigned *v, size_t bytes, size_t *cap, void **buf) {
    (void)flags, (void)n, (void)v, (void)cap;
    for (size_t i = 0; i < bytes; i++) ((unsigned char *)*buf)[i] ^= 0x55;
    return bytes;
}
static const H5Z_class2_t filter = {H5Z_CLASS_T_VERS, 32999, 1, 1, "xor", NULL, NULL, turn};
H5PL_type_t H5PLget_plugin_type(void) { return H5PL_TYPE_FILTER; }
const void *H5PLget_plugin_info(void) { return &filter; }
C
mkdir plugins
flags=$(pkg-config --cflags hdf5-serial 2>/dev/null || pkg-config --cflags hdf5 2>/dev/null)
# shellcheck disable=SC2086 # flags are words
if ${CC:-cc} -shared -fPIC $flags xor.c -o plugins/libxor.so 2>cc.log; then
    export HDF5_PLUGIN_PATH=$PWD/plugins
    refused filter 'plug-ins are not loaded'
    read_as_plain filter --set data.allow_plugins=true
    unset HDF5_PLUGIN_PATH
else
    ok 0 "a plug-in is loaded # SKIP no compiler that finds hdf5.h"
fi

# ---- files of strangers ----

for key in links external plugins; do
    on 0 check j.yaml --set data.untrusted=true --set data.allow_$key=true
    is "$rc" 2 "untrusted files may have no $key"
    has err "data.allow_$key is true beside data.untrusted" "it says so"
done
done_testing
