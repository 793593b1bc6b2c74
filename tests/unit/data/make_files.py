#!/usr/bin/python3
"""Files for the tests of the room data.   usage: make_files.py good|bad FOLDER

good: the same samples in every type and layout that is read; one name a line on stdout.
      x[i, j] = (7 i + 13 j) % 101 with j the flat element of a sample (3,5,4); label[i] = i % 10; 37 samples.
bad:  files that have to be refused, and a few that look odd and are good.
Needs h5py; without it the exit code is 77."""
import os
import struct
import sys
import zlib

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(77)

what, out = sys.argv[1], sys.argv[2]
os.makedirs(out, exist_ok=True)
N, SHAPE = 37, (3, 5, 4)


def samples(n, dtype="u1"):
    i, j = np.arange(n)[:, None], np.arange(60)[None, :]
    return ((7 * i + 13 * j) % 101).astype(dtype).reshape((n,) + SHAPE)


def labels(n, dtype="<i8"):
    return (np.arange(n) % 10).astype(dtype)


def path(name):
    return os.path.join(out, name)


def new(name, **how):
    return h5py.File(path(name), "w", **how)


def save(name, n=N, dtype="u1", label="<i8", how={}, label_how={}, **file_how):
    with new(name, **file_how) as f:
        f.create_dataset("data", data=samples(n, dtype), **how)
        f.create_dataset("label", data=labels(n, label), **label_how)
    print(name)


def low_level(name, layout=None, fill_times=None, **file_how):
    """A data set whose creation list h5py's face does not reach."""
    with new(name, **file_how) as f:
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        if layout is not None:
            plist.set_layout(layout)
        if fill_times:
            plist.set_chunk((8,) + SHAPE)
            plist.set_alloc_time(h5py.h5d.ALLOC_TIME_EARLY)
        space = h5py.h5s.create_simple((N,) + SHAPE)
        d = h5py.h5d.create(f.id, b"data", h5py.h5t.STD_U8LE, space, plist)
        d.write(h5py.h5s.ALL, h5py.h5s.ALL, samples(N))
        f["label"] = labels(N)
    print(name)


def good():
    for t in "u1 i1 <u2 >u2 <i2 >i2 <u4 >u4 <i4 >i4 <u8 >u8 <i8 >i8 <f2 >f2 <f4 >f4 <f8 >f8".split():
        clean = t.replace("<", "le_").replace(">", "be_")
        save(f"type_{clean}.h5", dtype=t)
        save(f"chunk_{clean}.h5", dtype=t, how=dict(chunks=(8, 2, 3, 4), compression="gzip", shuffle=True))
        if "f" not in t:
            save(f"label_{clean}.h5", label=t, label_how=dict(chunks=(10,)))
    save("label_float.h5", label="<f4")
    save("label_half.h5", label=">f2")
    for c in (1, 3, 8, 37):
        save(f"rows_{c}.h5", how=dict(chunks=(c,) + SHAPE))
        save(f"cut_{c}.h5", how=dict(chunks=(c, 2, 2, 3)))
        save(f"cut_gzip_{c}.h5", how=dict(chunks=(c, 3, 5, 1), compression="gzip"))
    save("wide.h5", how=dict(chunks=(64, 4, 5, 4), maxshape=(None, 6, 5, 4), compression="gzip"))
    for name, how in dict(gzip0=dict(compression="gzip", compression_opts=0), gzip9=dict(compression="gzip", compression_opts=9),
                          fletcher=dict(fletcher32=True), lzf=dict(compression="lzf"),
                          lzf_shuffle=dict(compression="lzf", shuffle=True, fletcher32=True), auto=dict(chunks=True),
                          all=dict(compression="gzip", shuffle=True, fletcher32=True)).items():
        save(f"filter_{name}.h5", dtype="<f4", how={**dict(chunks=(8,) + SHAPE), **how})
    save("filter_scaleoffset.h5", dtype="<i4", how=dict(chunks=(8,) + SHAPE, scaleoffset=0))
    for version in ("earliest", "latest"):
        save(f"{version}.h5", libver=version)
        for block in (512, 2048):
            save(f"{version}_block{block}.h5", libver=version, userblock_size=block)
            save(f"{version}_block{block}_gzip.h5", libver=version, userblock_size=block,
                 how=dict(chunks=(8,) + SHAPE, compression="gzip"))
        for name, most in dict(fixed=(N,) + SHAPE, grow=(None,) + SHAPE, grow2=(None, None, 5, 4)).items():
            save(f"{version}_{name}.h5", libver=version, how=dict(chunks=(8,) + SHAPE, maxshape=most))
        save(f"{version}_single.h5", libver=version, how=dict(chunks=(N,) + SHAPE, compression="gzip"))
        low_level(f"{version}_compact.h5", layout=h5py.h5d.COMPACT, libver=version)
        low_level(f"{version}_early.h5", fill_times=True, libver=version)
        save(f"{version}_many.h5", n=2500, libver=version, how=dict(chunks=(1,) + SHAPE, compression="gzip"))
    save("label_n1.h5")
    with h5py.File(path("label_n1.h5"), "a") as f:
        del f["label"]
        f["label"] = labels(N)[:, None, None]
    # A chunk whose filter was skipped is stored as it is.
    with new("mask.h5") as f:
        d = f.create_dataset("data", (N,) + SHAPE, "u1", chunks=(37,) + SHAPE, compression="gzip")
        d.id.write_direct_chunk((0, 0, 0, 0), samples(N).tobytes(), filter_mask=1)
        f["label"] = labels(N)
    print("mask.h5")
    # What MATLAB writes in front.
    save("matlab73.h5", userblock_size=512)
    with open(path("matlab73.h5"), "r+b") as f:
        f.write(b"MATLAB 7.3 MAT-file, Platform: GLNXA64")


def odd(name, type_id, n=N):
    with new(name) as f:
        h5py.h5d.create(f.id, b"data", type_id, h5py.h5s.create_simple((n, 4)))
        f["label"] = labels(n)


def patch(name, old, fresh, count=1):
    b = open(path(name), "rb").read()
    assert b.count(old) >= 1, name
    open(path(name), "wb").write(b.replace(old, fresh, count))


def chunk_of(name, raw, **how):
    with new(name) as f:
        d = f.create_dataset("data", (N,) + SHAPE, "u1", chunks=(N,) + SHAPE, **how)
        d.id.write_direct_chunk((0, 0, 0, 0), raw)
        f["label"] = labels(N)


def bad():
    raw = dict(html=b"\n <!DOCTYPE html><html><body>404</body></html>", gz=b"\x1f\x8b\x08\0" + bytes(30), zero=bytes(4096),
               pickle=b"\x80\x04\x95" + bytes(30), npy=b"\x93NUMPY\1\0", png=b"\x89PNG\r\n\x1a\n" + bytes(20), noise=b"\x01\x02\x03" * 9,
               signature=b"\x89HDF\r\n\x1a\n", matlab5=b"MATLAB 5.0 MAT-file" + bytes(110), netcdf=b"CDF\x01" + bytes(60), one=b"x")
    for name, b in raw.items():
        open(path(f"raw_{name}.h5"), "wb").write(b)
    with new("soft.h5") as f:
        f["real"], f["label"] = samples(N), labels(N)
        f["data"] = h5py.SoftLink("/real")
    with new("hidden_soft.h5") as f:
        f["g/data"], f["label"] = samples(N), labels(N)
        f["h"] = h5py.SoftLink("/g")
    with new("below.h5") as f:
        f["data"], f["label"] = samples(N), labels(N)
    with new("null.h5") as f:
        f["data"], f["label"] = h5py.Empty("f4"), labels(N)
    with new("rank8.h5") as f:
        f["data"], f["label"] = np.zeros((N,) + (1,) * 7), labels(N)
    with new("empty_samples.h5") as f:
        f["data"], f["label"] = np.zeros((N, 0, 4)), labels(N)
    with new("names.h5") as f:
        f["data"] = samples(N)
        f["label"] = np.array(["cat"] * N, dtype=h5py.string_dtype())
    with new("region.h5") as f:
        f["data"] = samples(N)
        f.create_dataset("label", (N,), dtype=h5py.regionref_dtype)
    with new("array.h5") as f:
        f["label"] = labels(N)
        f.create_dataset("data", (N,), dtype=np.dtype("(3,)f4"))
    odd("bits.h5", h5py.h5t.STD_B8LE)
    t = h5py.h5t.STD_I16LE.copy()
    t.set_precision(12)
    odd("twelve.h5", t)
    odd("opaque.h5", h5py.h5t.create(h5py.h5t.OPAQUE, 5))
    with new("enum.h5") as f:
        f["data"] = samples(N)
        kind = h5py.enum_dtype({"cat": 0, "dog": 1, "owl": 2}, basetype="u1")
        f.create_dataset("label", data=(np.arange(N) % 3).astype("u1"), dtype=kind)
    with new("bomb.h5") as f:
        d = f.create_dataset("data", (10**8,) + SHAPE, "f4", chunks=(64,) + SHAPE, compression="gzip")
        d[0] = 1
        f.create_dataset("label", (10**8,), "u1", chunks=(65536,))
    with new("impossible.h5") as f:
        f.create_dataset("data", (2**40, 2**30, 2**20), "f8", chunks=(1, 1, 64))
        f["label"] = labels(N)
    with new("wide_chunk.h5") as f:
        d = f.create_dataset("data", (4096, 1024, 1024), "f4", chunks=(4096, 1, 1024), compression="gzip")
        d[0, 0] = 1
        f.create_dataset("label", (4096,), "u1")[:] = 1
    for name, dtype, value in (("label_nan", "f4", np.nan), ("label_half", "f4", 2.5), ("label_huge", "f8", 1e300)):
        with new(f"{name}.h5") as f:
            f["data"] = samples(N)
            f["label"] = labels(N, dtype)
            f["label"][3] = value
    with new("onehot_int.h5") as f:
        f["data"], f["label"] = samples(N), np.eye(10, dtype="u1")[labels(N)]
    with new("from_one.h5") as f:
        f["data"], f["label"] = samples(N), labels(N) + 1
    with new("label_u8.h5") as f:
        f["data"], f["label"] = samples(N), np.full(N, 2**63 + 5, dtype="u8")
    full = zlib.compress(samples(N).tobytes())
    chunk_of("short.h5", zlib.compress(b"12345"), compression="gzip")
    chunk_of("long.h5", zlib.compress(samples(N).tobytes() * 2), compression="gzip")
    chunk_of("cut.h5", full[: len(full) // 2], compression="gzip")
    chunk_of("nothing.h5", b"x", compression="gzip")
    chunk_of("sum_short.h5", b"abc", fletcher32=True)
    chunk_of("lzf_bad.h5", b"\xff\xff\xff\xff\xff", compression="lzf")
    for n, chunks in (("contiguous", None), ("chunked", (8,) + SHAPE)):
        with new(f"outside_{n}.h5") as f:
            d = f.create_dataset("data", data=samples(N), chunks=chunks)
            f["label"] = labels(N)
            f.flush()
            at = d.id.get_chunk_info(2).byte_offset if chunks else d.id.get_offset()
        patch(f"outside_{n}.h5", struct.pack("<Q", at), struct.pack("<Q", 2**40))
    with new("holes.h5") as f:
        d = f.create_dataset("data", (N,) + SHAPE, "u1", chunks=(8,) + SHAPE, compression="gzip", fillvalue=9)
        d[:16] = samples(16)
        f["label"] = labels(N)
    with new("open_holes.h5") as f:
        d = f.create_dataset("data", (N,) + SHAPE, ">i2", chunks=(8,) + SHAPE, fillvalue=9)
        d[8:16] = samples(8)
        f["label"] = labels(N)
    with new("many_holes.h5") as f:
        d = f.create_dataset("data", (2500,) + SHAPE, "u1", chunks=(1,) + SHAPE, compression="gzip", fillvalue=9)
        d[:2000] = samples(2000)
        f["label"] = labels(2500)
    with new("float.h5") as f:
        f["data"], f["label"] = samples(N, "f4"), labels(N)
    with new("infinite.h5") as f:
        x = samples(N, "f8")
        x[5, 2, 4, 3] = -np.inf
        f["data"], f["label"] = x, labels(N)
    with new("half_nan.h5") as f:
        x = samples(N, ">f2")
        x[6, 0, 0, 1] = np.nan
        f["data"], f["label"] = x, labels(N)
    with new("targets.h5") as f:
        y = np.linspace(0, 1, N).astype("f4")
        y[9] = np.inf
        f["data"], f["targets"] = samples(N), y
    with new("tokens.h5") as f:
        f["tokens"] = (np.arange(100) % 60).astype("u2")
        f["rows"] = np.arange(90).reshape(10, 9).astype("i4")
        f["next"] = np.arange(90).reshape(10, 9).astype("i4") + 1
        f["text"] = np.linspace(0, 1, 100)
        f["few"] = np.arange(5).astype("u1")
    lay = h5py.VirtualLayout((N,) + SHAPE, "u1")
    lay[:] = h5py.VirtualSource("below.h5", "data", (N,) + SHAPE)
    with new("virtual.h5", libver="latest") as f:
        f.create_virtual_dataset("data", lay)
        f["label"] = labels(N)
    # Sources by number, each of them a pipe: to ask for the shape would wait for a writer.
    os.mkfifo(path("source_0.h5"))
    with new("virtual_pipe.h5", libver="latest") as f:
        many = h5py.h5s.UNLIMITED
        space = h5py.h5s.create_simple((0, 4), (many, 4))
        space.select_hyperslab((0, 0), (many, 1), stride=(10, 4), block=(10, 4))
        plist = h5py.h5p.create(h5py.h5p.DATASET_CREATE)
        plist.set_virtual(space, os.path.abspath(path("source_%b.h5")).encode(), b"data", h5py.h5s.create_simple((10, 4)))
        h5py.h5d.create(f.id, b"data", h5py.h5t.STD_U8LE, space, plist)
        f["label"] = labels(N)
    with new("nofile.h5") as f:
        f["other"] = 1.0
    lists = dict(gone="below.h5\n\n gone.h5\n", nul="below.h5\0\n", nested="@other.txt\n", types="below.h5\nfloat.h5\n",
                 spaces="# head\r\n\r\n  below.h5 \t\r\nbelow.h5", only_comment="# nothing\n")
    for name, text in lists.items():
        open(path(f"{name}.txt"), "w").write(text)
    open(path("absolute.txt"), "w").write(os.path.abspath(path("below.h5")) + "\n")
    os.makedirs(path("folder.h5"), exist_ok=True)
    os.mkfifo(path("pipe.h5"))
    os.symlink("loop.h5", path("loop.h5"))


good() if what == "good" else bad()
