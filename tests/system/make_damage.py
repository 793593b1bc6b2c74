#!/usr/bin/env python3
"""Kinds of damaged and odd HDF5 files, each with the verdict that it has to get.   make_damage.py OUTDIR
Prints, for each:  NAME <TAB> accept|warn|reject <TAB> regular expression of what is said <TAB> further words of the command line
Sizes are those of make_bad's sound file: data uint8 (40,3,8,8), label int64 (40)."""
import os, struct, sys, zlib
import h5py, numpy as np

out = sys.argv[1]
os.makedirs(out, exist_ok=True)
N, SHAPE = 40, (3, 8, 8)
rng = np.random.default_rng(1)
X = rng.integers(0, 256, (N,) + SHAPE, dtype="u1")
Y = (np.arange(N) % 10).astype("<i8")


def path(name):
    return os.path.join(out, name)


def say(name, verdict, pattern, *words):
    print("\t".join((name, verdict, pattern or "-", " ".join(words))))


def save(name, data=X, label=Y, how={}, label_how={}, **file_how):
    with h5py.File(path(name), "w", **file_how) as f:
        if data is not None:
            f.create_dataset("data", data=data, **how)
        if label is not None:
            f.create_dataset("label", data=label, **label_how)


def change(name, what, source=None):
    """Writes NAME as SOURCE (or itself) with `what` done to its bytes."""
    with open(path(source or name), "rb") as f:
        b = bytearray(f.read())
    b = what(b) or b
    with open(path(name), "wb") as f:
        f.write(b)


def put(at, fresh):
    def what(b):
        b[at:at + len(fresh)] = fresh
    return what


def replace(old, fresh, count=1):
    def what(b):
        assert b.count(bytes(old)) >= 1, (old, "is not there")
        return bytearray(bytes(b).replace(bytes(old), bytes(fresh), count))
    return what


def low(name, dtype, space, plist=None, label=Y, **file_how):
    with h5py.File(path(name), "w", **file_how) as f:
        h5py.h5d.create(f.id, b"data", dtype, space, plist)
        f["label"] = label


# Whatever is broken inside: one of these sentences.
DAMAGED = "damaged|cannot be|truncated|no readable|no data set|lies outside|claims|stores|needs|unusual|more than|ends at|hardly|bytes, [0-9]+ expected"

# ---- sound, though odd ----
for name, how in dict(v0={}, v3=dict(libver="latest"), v2=dict(libver=("v108", "v108"))).items():
    save(f"superblock_{name}.h5", **how)
    say(f"superblock_{name}.h5", "accept", "")
for block in (512, 4096):
    save(f"block_{block}.h5", userblock_size=block, how=dict(chunks=(8,) + SHAPE, compression="gzip"))
    say(f"block_{block}.h5", "accept", "")
    change(f"block_{block}.h5", put(0, b"#!/bin/sh\n" * 20))
save("big_endian.h5", (X / 255).astype(">f8"), Y.astype(">u2"), how=dict(chunks=(8,) + SHAPE, shuffle=True, compression="lzf"))
say("big_endian.h5", "accept", "")
with h5py.File(path("committed.h5"), "w") as f:
    f["pixel"] = np.dtype("u1")
    f.create_dataset("data", data=X, dtype=f["pixel"])
    f["label"] = Y
say("committed.h5", "accept", "")
with h5py.File(path("hard.h5"), "w") as f:
    f["a/b/c"] = X
    f["data"] = f["a/b/c"]
    f["label"] = Y
    f["a/up"] = f["/"]
say("hard.h5", "accept", "")
with h5py.File(path("utf8.h5"), "w") as f:
    f["Bilder/größe"], f["label"] = X, Y
say("utf8.h5", "accept", "", "--input", "Bilder/größe")
with h5py.File(path("long_name.h5"), "w") as f:
    f["n" * 500], f["label"] = X, Y
say("long_name.h5", "reject", "no data set 'data'; this file has: label int64 .40., n+")
with h5py.File(path("newline.h5"), "w") as f:
    f["two\nlines\x1b[31m"], f["label"] = X, Y
say("newline.h5", "reject", r"no data set 'data'; this file has:.*two\?lines\?\[31m")
save("grown.h5", how=dict(maxshape=(None,) + SHAPE, chunks=(16,) + SHAPE))
with h5py.File(path("grown.h5"), "a") as f:
    f["data"].resize(N - 7, 0)
    del f["label"]
    f["label"] = Y[:-7]
say("grown.h5", "accept", "")
save("trailing.h5")
change("trailing.h5", lambda b: b + bytes(5000))
say("trailing.h5", "accept", "")
kind = h5py.enum_dtype({f"k{i}": i for i in range(10)}, basetype=">i2")
save("enum.h5", label=None)
with h5py.File(path("enum.h5"), "a") as f:
    f.create_dataset("label", data=Y.astype(">i2"), dtype=kind)
say("enum.h5", "accept", "")

# ---- superblock ----
save("s.h5")
size = os.path.getsize(path("s.h5"))
say("s.h5", "accept", "")
for n in (1, 7, 8, 9, 20, 47, 95, 96, 97, 300, 600, 1000, 2000, 3000, size // 2, size - 1000, size - 1):
    change(f"cut_{n}.h5", lambda b: b[:n], "s.h5")
    say(f"cut_{n}.h5", "reject", "truncated|not an HDF5 file|damaged")
for name, at, fresh, pattern in (("address0", 13, b"\0", "addresses of 0 bytes"), ("address255", 13, b"\xff", "addresses of 255 bytes"),
                                 ("length3", 14, b"\3", DAMAGED), ("version7", 8, b"\7", "superblock version 7"),
                                 ("root_far", 64, struct.pack("<Q", 1 << 40), DAMAGED), ("root_none", 64, b"\xff" * 8, DAMAGED),
                                 ("root_self", 64, struct.pack("<Q", 0), DAMAGED), ("leaf0", 16, b"\0\0", DAMAGED),
                                 ("end_far", 40, struct.pack("<Q", 1 << 60), "truncated: the file is .* its header says 1152921504606846976"),
                                 ("end_near", 40, struct.pack("<Q", 100), DAMAGED), ("base_far", 24, struct.pack("<Q", 1 << 33), DAMAGED)):
    change(f"super_{name}.h5", put(at, fresh), "s.h5")
    say(f"super_{name}.h5", "reject", pattern)
save("l.h5", libver="latest")
change("super_sum.h5", put(44, b"\1\2\3\4"), "l.h5")
say("super_sum.h5", "reject", DAMAGED)
change("super_writing.h5", put(11, b"\5"), "l.h5")
say("super_writing.h5", "reject", "marked open for writing")

# ---- heap, tree, object headers ----
for mark in (b"HEAP", b"TREE", b"SNOD"):
    change(f"mark_{mark.decode().lower()}.h5", replace(mark, b"XXXX"), "s.h5")
    say(f"mark_{mark.decode().lower()}.h5", "reject", DAMAGED)
change("heap_size.h5", lambda b: put(b.find(b"HEAP") + 8, struct.pack("<Q", 1 << 50))(b), "s.h5")
say("heap_size.h5", "reject", DAMAGED)
change("heap_data.h5", lambda b: put(b.find(b"HEAP") + 24, struct.pack("<Q", 1 << 50))(b), "s.h5")
say("heap_data.h5", "reject", DAMAGED)
change("snod_many.h5", lambda b: put(b.find(b"SNOD") + 6, b"\xff\xff")(b), "s.h5")
say("snod_many.h5", "reject", DAMAGED)
change("tree_child.h5", lambda b: put(b.find(b"TREE") + 32, struct.pack("<Q", 1 << 44))(b), "s.h5")
say("tree_child.h5", "reject", DAMAGED)
with open(path("s.h5"), "rb") as f:
    sound = f.read()
for name, mark in dict(tree=b"TREE", heap=b"HEAP").items():
    address = struct.pack("<Q", sound.find(mark))
    for word, to in dict(none=2**64 - 1, far=1 << 40, end=len(sound) - 4).items():
        change(f"root_{name}_{word}.h5", replace(address, struct.pack("<Q", to), 9), "s.h5")
        say(f"root_{name}_{word}.h5", "reject", "damaged HDF5 header: the (index|heap) of its root group lies at byte")
for mark in (b"OHDR", b"FSHD", b"OCHK"):
    with open(path("l.h5"), "rb") as f:
        there = f.read().count(mark)
    if there:
        change(f"new_{mark.decode().lower()}.h5", replace(mark, b"OXXX", there), "l.h5")
        say(f"new_{mark.decode().lower()}.h5", "reject", DAMAGED)

# ---- shapes ----
dims = struct.pack("<QQQQ", N, *SHAPE)
for name, shape in dict(rows=(1 << 40,) + SHAPE, wrap=(1 << 62, 1 << 62, 4, 4), zero=(N, 0, 8, 8), all=(2**64 - 1,) * 4, none=(0,) + SHAPE).items():
    change(f"dims_{name}.h5", replace(dims, struct.pack("<QQQQ", *shape), 99), "s.h5")
    say(f"dims_{name}.h5", "reject", DAMAGED + "|without elements|0 samples|but 'label' has")
change("dims_less.h5", replace(dims, struct.pack("<QQQQ", 12, *SHAPE), 99), "s.h5")
say("dims_less.h5", "reject", "'data' has 12 samples but 'label' has 40|" + DAMAGED)
low("rank32.h5", h5py.h5t.STD_U8LE, h5py.h5s.create_simple((N,) + (1,) * 31))
say("rank32.h5", "reject", "'data' has 32 dimensions, at most [0-9]+ are read")
low("rank0.h5", h5py.h5t.STD_U8LE, h5py.h5s.create(h5py.h5s.SCALAR))
say("rank0.h5", "reject", "'data' is a scalar")
low("null.h5", h5py.h5t.STD_U8LE, h5py.h5s.create(h5py.h5s.NULL))
say("null.h5", "reject", "'data' has no shape")
save("swapped.h5", Y, X)
say("swapped.h5", "reject", "'label' is uint8 \\(40,3,8,8\\): one class number per sample expected")

# ---- types ----
for name, t in dict(time=h5py.h5t.UNIX_D32LE, bits=h5py.h5t.STD_B64BE, refs=h5py.h5t.STD_REF_OBJ, region=h5py.h5t.STD_REF_DSETREG,
                    text=h5py.h5t.C_S1, opaque=h5py.h5t.create(h5py.h5t.OPAQUE, 8)).items():
    try:
        low(f"type_{name}.h5", t, h5py.h5s.create_simple((N, 4)))
        say(f"type_{name}.h5", "reject", "'data' (holds|is a) .*, numbers expected")
    except (TypeError, ValueError):
        pass
low("type_vlen.h5", h5py.h5t.vlen_create(h5py.h5t.STD_I32LE), h5py.h5s.create_simple((N,)))
say("type_vlen.h5", "reject", "variable-length arrays of int32, numbers expected")
save("type_deep.h5", np.zeros(N, [("a", [("b", [("c", [("d", "f4", (2,))])])]), ("z", "S3")]))
say("type_deep.h5", "reject", "'data' is a compound")
t = h5py.h5t.IEEE_F64LE.copy()
t.set_ebias(1000)
low("type_bias.h5", t, h5py.h5s.create_simple((N, 4)))
say("type_bias.h5", "reject", "8-byte numbers of an unusual kind")
t = h5py.h5t.STD_I32LE.copy()
t.set_size(3)
low("type_24.h5", t, h5py.h5s.create_simple((N, 4)))
say("type_24.h5", "reject", "3-byte numbers of an unusual kind")
with h5py.File(path("type_names.h5"), "w") as f:
    f["data"], f["label"] = X, np.array(["cat", "dog"] * (N // 2), dtype=h5py.string_dtype())
say("type_names.h5", "reject", "'label' holds variable-length strings, numbers expected")

# ---- values ----
def with_label(name, dtype, at, value, pattern):
    y = Y.astype(dtype)
    y[at] = value
    save(name, label=y)
    say(name, "reject", pattern)


with_label("label_minus.h5", "i1", 0, -1, r"'label'\[0\] = -1, outside 0..9")
with_label("label_last.h5", ">i4", 39, 10, r"'label'\[39\] = 10, outside 0..9")
with_label("label_2_63.h5", "u8", 4, 2**63, r"'label'\[4\] = 9223372036854775807, outside 0..9")
with_label("label_low.h5", "i8", 4, -(2**63), r"'label'\[4\] = -9223372036854775808, outside 0..9")
with_label("label_nan.h5", "f8", 5, np.nan, r"'label'\[5\] = -?nan is no class number")
with_label("label_inf.h5", "f4", 5, np.inf, r"'label'\[5\] = inf is no class number")
with_label("label_part.h5", "f2", 6, 1.5, r"'label'\[6\] = 1.5 is no class number")
with_label("label_2_53.h5", "f8", 6, 2.0**60, r"'label'\[6\] = 1.15292e\+18 is no class number")
for name, dtype, value, word in (("nan", ">f2", np.nan, "NaN"), ("inf", "<f4", np.inf, r"\+Inf"), ("low", ">f8", -np.inf, "-Inf"),
                                 ("large", "<f8", 1e200, "1e\\+200, which is too large for float32")):
    x = X.astype(dtype)
    x[17, 1, 2, 3] = value
    save(f"value_{name}.h5", x, how=dict(chunks=(8,) + SHAPE, compression="gzip"))
    say(f"value_{name}.h5", "reject", r"'data' sample 17 element \(1,2,3\) is " + word)

# ---- chunks ----
save("c.h5", how=dict(chunks=(8,) + SHAPE, compression="gzip", shuffle=True, fletcher32=True))
say("c.h5", "accept", "")
with h5py.File(path("c.h5")) as f:
    place = [f["data"].id.get_chunk_info(i) for i in range(5)]
at = [struct.pack("<Q", p.byte_offset) for p in place]
for name, to in dict(far=1 << 40, wrap=2**64 - 100, end=os.path.getsize(path("c.h5")) - 4, head=0).items():
    change(f"chunk_{name}.h5", replace(at[2], struct.pack("<Q", to)), "c.h5")
    say(f"chunk_{name}.h5", "reject", DAMAGED + "|checksum|overlap")
change("chunk_twice.h5", replace(at[2], at[1]), "c.h5")
say("chunk_twice.h5", "reject", "'data': chunks 1 and 2 overlap|" + DAMAGED)
tree = struct.pack("<I", place[2].size) + struct.pack("<I", 0)
change("chunk_size.h5", replace(tree, struct.pack("<I", 2**32 - 1) + struct.pack("<I", 0)), "c.h5")
say("chunk_size.h5", "reject", DAMAGED)
change("chunk_none.h5", replace(tree, struct.pack("<I", 0) + struct.pack("<I", 0)), "c.h5")
say("chunk_none.h5", "reject", DAMAGED + "|no room for its checksum|checksum|gzip")
change("chunk_mask.h5", replace(tree, struct.pack("<I", place[2].size) + struct.pack("<I", 7)), "c.h5")
say("chunk_mask.h5", "reject", DAMAGED + "|bytes, 1536 expected")
change("chunk_flip.h5", lambda b: put(place[3].byte_offset + 20, bytes([b[place[3].byte_offset + 20] ^ 1]))(b), "c.h5")
say("chunk_flip.h5", "reject", r"chunk at sample 24 \(8 samples at byte [0-9]+\).*checksum wrong")
layout = struct.pack("<IIIII", 8, 3, 8, 8, 1)
for name, chunk in dict(zero=(0, 3, 8, 8, 1), huge=(2**31, 3, 8, 8, 1), less=(4, 3, 8, 8, 1)).items():
    with open(path("c.h5"), "rb") as f:
        there = f.read().count(layout)
    if there:
        change(f"layout_{name}.h5", replace(layout, struct.pack("<IIIII", *chunk)), "c.h5")
        say(f"layout_{name}.h5", "reject", DAMAGED + "|chunks of|checksum|gzip|chunk sizes|a chunk has")


def one_chunk(name, raw, mask=0, rows=N, **how):
    with h5py.File(path(name), "w") as f:
        d = f.create_dataset("data", (N,) + SHAPE, "u1", chunks=(rows,) + SHAPE, **how)
        for first in range(0, N, rows):
            d.id.write_direct_chunk((first, 0, 0, 0), raw, filter_mask=mask)
        f["label"] = Y


whole = X.tobytes()
packed = zlib.compress(whole)
for name, raw, pattern in (("empty", b"\0", "gzip data damaged"), ("bomb", zlib.compress(bytes(200 << 20), 9), "inflates to too much"),
                           ("short", zlib.compress(whole[:100]), "inflates to 100 of 7680 bytes"), ("raw", whole, "gzip data damaged"),
                           ("cut", packed[:-9], "gzip data damaged: it ends early"), ("sum", packed[:-4] + b"abcd", "gzip data damaged"),
                           ("dictionary", b"\x78\xbb" + bytes(30), "gzip data damaged")):
    one_chunk(f"gzip_{name}.h5", raw, compression="gzip")
    say(f"gzip_{name}.h5", "reject", r"chunk at sample 0 \(40 samples at byte [0-9]+\).*" + pattern)
one_chunk("gzip_tail.h5", packed + b"tail", compression="gzip")
say("gzip_tail.h5", "accept|reject", "gzip data damaged")
for name, raw in dict(back=b"\xe0\x05\xff\xff", far=b"\x1f" + bytes(5), ones=b"\xff" * 3000, none=b"\0").items():
    one_chunk(f"lzf_{name}.h5", raw, compression="lzf")
    say(f"lzf_{name}.h5", "reject", "LZF data damaged")
one_chunk("sum_wrong.h5", whole + b"\1\2\3\4", fletcher32=True)
say("sum_wrong.h5", "reject", "checksum wrong")
one_chunk("sum_short.h5", b"ab", fletcher32=True)
say("sum_short.h5", "reject", "no room for its checksum")
one_chunk("stored_short.h5", whole[:-1])
say("stored_short.h5", "reject", "bytes, 7680 expected|has only|" + DAMAGED)
one_chunk("masked.h5", whole, mask=1, compression="gzip")
say("masked.h5", "accept", "")
save("shuffle.h5", X.astype("<f4"), how=dict(chunks=(8,) + SHAPE, shuffle=True))
shuffle = struct.pack("<HHHH", 2, 8, 1, 1) + b"shuffle\0" + struct.pack("<I", 4)
for name, n in dict(zero=0, huge=2**31 - 1, other=8, one=1).items():
    change(f"shuffle_{name}.h5", replace(shuffle, shuffle[:-4] + struct.pack("<I", n)), "shuffle.h5")
    say(f"shuffle_{name}.h5", "reject", f"its filter shuffle is for elements of {n} bytes, they have 4")
save("filters.h5", how=dict(chunks=(8,) + SHAPE, compression="lzf"))
change("filter_many.h5", replace(struct.pack("<HHHH", 32000, 8, 1, 3), struct.pack("<HHHH", 32000, 8, 1, 60000)), "filters.h5")
say("filter_many.h5", "reject", DAMAGED)
change("filter_blosc.h5", replace(struct.pack("<HHHH", 32000, 8, 1, 3), struct.pack("<HHHH", 32001, 8, 1, 3)), "filters.h5")
say("filter_blosc.h5", "reject", r"needs HDF5 filter 32001 \(blosc\), which is not available")

# ---- links ----
def links(name, **entries):
    with h5py.File(path(name), "w", libver="latest") as f:
        f["real"], f["label"] = X, Y
        for key, to in entries.items():
            f[key] = to


links("soft.h5", data=h5py.SoftLink("/real"))
say("soft.h5", "reject", "'data' is a soft link to '/real', which exists")
links("soft_gone.h5", data=h5py.SoftLink("/gone"))
say("soft_gone.h5", "reject", "'data' is a soft link to '/gone', which does not exist")
links("soft_self.h5", data=h5py.SoftLink("/data"))
say("soft_self.h5", "reject", "'data' is a soft link to '/data'")
links("soft_ring.h5", data=h5py.SoftLink("/b"), b=h5py.SoftLink("/c"), c=h5py.SoftLink("/data"))
say("soft_ring.h5", "reject", "'data' is a soft link to '/b'")
links("outer.h5", data=h5py.ExternalLink("s.h5", "/data"))
say("outer.h5", "reject", "'data' is an external link to s.h5:/data")
links("outer_root.h5", data=h5py.ExternalLink("/etc/passwd", "/data"))
say("outer_root.h5", "reject", "'data' is an external link to /etc/passwd:/data")
links("outer_self.h5", data=h5py.ExternalLink("outer_self.h5", "/data"))
say("outer_self.h5", "reject", "'data' is an external link to outer_self.h5:/data")
with h5py.File(path("user.h5"), "w") as f:
    f["real"], f["label"], f["data"] = X, Y, h5py.ExternalLink("s.h5", "/data")
change("user.h5", replace(b"\x40\x04data", b"\x80\x04data"))
say("user.h5", "reject", "'data' is a link of an unknown kind; it is not followed")
change("user_odd.h5", replace(b"\x80\x04data", b"\x3f\x04data"), "user.h5")
say("user_odd.h5", "reject", DAMAGED + "|unknown kind")
with h5py.File(path("storage.h5"), "w") as f:
    f.create_dataset("data", (N,) + SHAPE, "u1", external=[("s.h5", 0, X.nbytes)])
    f["label"] = Y
say("storage.h5", "reject", r"'data' keeps its bytes in another file \(s.h5\)")
lay = h5py.VirtualLayout((N,) + SHAPE, "u1")
lay[:] = h5py.VirtualSource("s.h5", "data", (N,) + SHAPE)
with h5py.File(path("virtual.h5"), "w", libver="latest") as f:
    f.create_virtual_dataset("data", lay)
    f["label"] = Y
say("virtual.h5", "reject", "'data' is a virtual data set")
with h5py.File(path("group.h5"), "w") as f:
    f["label/data/x"] = Y
    f["data"] = X
say("group.h5", "reject", "'label' is a group, not a data set; it contains: label/data/x int64 \\(40\\)")
with h5py.File(path("many.h5"), "w", libver="latest") as f:
    for i in range(3000):
        f.create_group(f"group{i}")
say("many.h5", "reject", "no data set 'data'")

# ---- lists ----
for name, text, verdict, pattern in (
        ("good", "s.h5\nl.h5\n", "accept", ""), ("gap", "s.h5\n\nnone.h5\n", "reject", "gap.txt line 3: .*none.h5: no such file"),
        ("windows", "\ufeffs.h5\r\n", "reject", "no such file"), ("crlf", "s.h5\r\nl.h5\r\n", "accept", ""),
        ("itself", "@itself.txt\n", "reject", "a list may not name another list"), ("device", "/dev/zero\n", "reject", "device.txt line 1: /dev/zero: is a device"),
        ("folder", "s.h5\n.\n", "reject", "folder.txt line 2: .*: is a directory"), ("pipe", "pipe\n", "reject", "pipe.txt line 1: .*pipe: is a pipe"),
        ("list", "list.txt\n", "reject", "list.txt line 1: .*list.txt: not an HDF5 file"), ("loop", "loop\n", "reject", "symbolic links"),
        ("up", "../../../../../../../../etc/passwd\n", "reject", "not an HDF5 file"), ("space", "s .h5\n", "reject", "no such file")):
    with open(path(f"{name}.txt"), "w") as f:
        f.write(text)
    say(f"@{name}.txt", verdict, pattern)
with open(path("long.txt"), "w") as f:
    f.write("x" * 100000)
say("@long.txt", "reject", "long.txt line 1: the name of a file has 100000 bytes; allowed are up to 4095")
os.mkfifo(path("pipe"))
os.symlink("loop", path("loop"))
