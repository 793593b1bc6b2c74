#!/usr/bin/python3
"""Small files in every layout of docs/data.md, and what their samples are.

usage: layouts.py make FOLDER          the files, and FOLDER/expect/NAME.npz with x and y of each snippet
       layouts.py compare NPZ H5       are the rows that `trireme data dump` wrote the same numbers?
       layouts.py snippets DATA.MD FOLDER   the YAML blocks of the page as FOLDER/NAME.yaml
Needs h5py; without it the exit code is 77."""
import os
import re
import sys
import zlib

try:
    import h5py
    import numpy as np
except ImportError:
    sys.exit(77)


def numbers(n, shape, dtype="f4", seed=0):
    """Values that tell samples and elements apart, exact in half precision."""
    count = int(np.prod(shape, dtype=int))
    i, j = np.arange(n)[:, None], np.arange(count)[None, :]
    return ((31 * i + 7 * j + 3 * seed) % 113).astype(dtype).reshape((n,) + tuple(shape))


def classes(n, k=5, dtype="i8"):
    return (np.arange(n) % k).astype(dtype)


def png(pixels):
    """A PNG of (H,W,3) bytes, from its definition."""
    height, width, _ = pixels.shape
    raw = b"".join(b"\0" + pixels[y].tobytes() for y in range(height))

    def chunk(kind, body):
        return len(body).to_bytes(4, "big") + kind + body + zlib.crc32(kind + body).to_bytes(4, "big")

    head = width.to_bytes(4, "big") + height.to_bytes(4, "big") + bytes([8, 2, 0, 0, 0])
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(raw)) + chunk(b"IEND", b"")


class Maker:
    def __init__(self, folder):
        self.folder = folder
        os.makedirs(os.path.join(folder, "expect"), exist_ok=True)

    def new(self, name, **how):
        path = os.path.join(self.folder, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        return h5py.File(path, "w", **how)

    def expect(self, name, x, y):
        np.savez(os.path.join(self.folder, "expect", name + ".npz"), x=x, y=y)

    def images_and_lists(self):
        x, y = numbers(57, (3, 8, 8)), classes(57)
        at = 0
        for k, n in enumerate((30, 20, 7)):
            with self.new(f"caffe-{k}.h5") as f:
                f["data"], f["label"] = x[at:at + n], y[at:at + n].astype("f4")
            at += n
        with open(os.path.join(self.folder, "caffe.txt"), "w") as f:
            f.write("caffe-0.h5\ncaffe-1.h5\ncaffe-2.h5\n")
        self.expect("caffe", x, y)
        x, y = numbers(16, (64, 3)), classes(16)
        with self.new("points.h5") as f:
            f.create_dataset("data", data=x, compression="gzip", chunks=(4, 64, 3))
            f["label"] = y.astype("u1")[:, None]
        self.expect("points", x, y)
        x, y = numbers(40, (8, 8, 3), "u1"), classes(40)
        with self.new("keras.h5") as f:
            f["X_train"], f["y_train"] = x, y
            f["X_test"], f["y_test"] = x[:10] + 1, y[:10]
            f["list_classes"] = np.array([b"non-cat", b"cat"])
        self.expect("keras", np.moveaxis(x, 3, 1), y)
        x, y = numbers(24, (8, 8, 3), "u1"), classes(24, 2)
        with self.new("pcam_x.h5") as f:
            f.create_dataset("x", data=x, compression="gzip", chunks=(4, 8, 8, 3))
        with self.new("pcam_y.h5") as f:
            f["y"] = y.astype("u1").reshape(-1, 1, 1, 1)
        self.expect("pcam", np.moveaxis(x, 3, 1), y)
        x, y = numbers(50, (6,)), classes(50)
        with self.new("fuel.h5") as f:
            f["features"], f["targets"] = x, y.astype("u1")[:, None]
            table = np.zeros(4, dtype=[("split", "S5"), ("source", "S8"), ("start", "i8"), ("stop", "i8"),
                                       ("available", "?"), ("comment", "S1")])
            rows = [("train", "features", 0, 40), ("train", "targets", 0, 40), ("test", "features", 40, 50),
                    ("test", "targets", 40, 50)]
            for i, (a, b, c, d) in enumerate(rows):
                table[i] = (a, b, c, d, True, ".")
            f.attrs["split"] = table
        self.expect("fuel", x[:40], y[:40])

    def pictures(self):
        x, y = numbers(12, (6, 7, 3), "u1"), classes(12)
        with self.new("pictures.h5", libver="latest") as f:
            d = f.create_dataset("image_bytes", (12,), dtype=h5py.vlen_dtype("u1"))
            f["targets"] = y
            for i in range(12):
                d[i] = np.frombuffer(png(x[i]), "u1")
        self.expect("pictures", np.moveaxis(x, 3, 1), y)
        with self.new("damaged.h5") as f:
            d = f.create_dataset("image_bytes", (12,), dtype=h5py.vlen_dtype("u1"))
            e = f.create_dataset("others", (12,), dtype=h5py.vlen_dtype("u1"))
            f["targets"] = y
            for i in range(12):
                d[i] = np.frombuffer(png(x[i])[:None if i != 7 else -40], "u1")
                e[i] = np.arange(5, dtype="u1")
        flat = numbers(12, (3 * 6 * 7,), "u1")
        with self.new("flat.h5") as f:
            f["data"], f["labels"] = flat, y
        self.expect("flat", flat.reshape(12, 3, 6, 7), y)

    def whole_files(self):
        x = numbers(5, (6, 9, 4))
        y = (np.arange(5 * 54).reshape(5, 6, 9) % 3).astype("i4")
        for i in range(5):
            with self.new(f"climate/data-{i}.h5") as f:
                f["climate/data"], f["climate/labels_0"] = x[i], y[i]
        self.expect("climate", np.moveaxis(x, 3, 1), y)
        cubes, params = [], []
        for i in range(2):
            full = numbers(8, (8, 8, 4), "i2", i)
            with self.new(f"cosmo-{i}.h5") as f:
                f["full"], f["unitPar"] = full, np.full(4, i, "f4")
            for a in (0, 4):
                for b in (0, 4):
                    for c in (0, 4):
                        cubes.append(np.moveaxis(full[a:a + 4, b:b + 4, c:c + 4], 3, 0))
                        params.append(np.full(4, i, "f4"))
        self.expect("cosmo", np.array(cubes), np.array(params))

    def groups(self):
        with self.new("lbann.h5") as f:
            for i in range(9):
                g = f.create_group(f"RUN_ID/{i:09d}")
                g["inputs/a"], g["inputs/b"] = np.float64(i), np.float64(2 * i)
                g["outputs/scalars/BWx"] = np.float64(.5 * i)
        with open(os.path.join(self.folder, "lbann.lst"), "w") as f:
            f.write("CONDUIT_HDF5_EXCLUSION\n7 2 1\n.\nlbann.h5 7 2 RUN_ID/000000003 RUN_ID/000000005\n")
        with open(os.path.join(self.folder, "lbann-in.lst"), "w") as f:
            f.write("CONDUIT_HDF5_INCLUSION\n2 7 1\n.\nlbann.h5 2 7 RUN_ID/000000003 RUN_ID/000000005\n")
        i = np.array([k for k in range(9) if k not in (3, 5)], "f8")
        self.expect("lbann", np.stack([i, 2 * i], 1), .5 * i)
        i = np.array([3., 5.])
        self.expect("more-inclusion", np.stack([i, 2 * i], 1), .5 * i)
        x, y, at = [], [], 0
        with self.new("demos.hdf5") as f:
            for k, n in enumerate((7, 5)):
                g = f.create_group(f"data/demo_{k}")
                g["actions"], g["obs/eef"] = numbers(n, (3,), seed=k), numbers(n, (4,), seed=k + 9)
                if k == 0:
                    x, y = g["obs/eef"][:], g["actions"][:]
                at += n
            f["mask/train"] = np.array([b"demo_0"])
            f["mask/valid"] = np.array([b"demo_1"])
        self.expect("demos", x, y)
        x, y = [], []
        with self.new("molecules.h5") as f:
            for name, c, a in (("CH4", 5, 5), ("H2O", 3, 3)):
                g = f.create_group(name)
                g["coordinates"] = numbers(c, (a, 3))
                g["species"], g["energies"] = np.arange(a, dtype="u1") + 1, np.arange(c, dtype="f8")
                for i in range(c):
                    xyz, kind = np.zeros((5, 3)), np.zeros(5)
                    xyz[:a], kind[:a] = g["coordinates"][i], g["species"][:]
                    x.append(np.concatenate([xyz.ravel(), kind]))
                    y.append(float(i))
        self.expect("molecules", np.array(x), np.array(y))

    def tables(self):
        a = numbers(30, (20,), "f8")
        a[:, 14:19] = np.eye(5)[classes(30)]
        with self.new("jets.h5") as f:
            f["jets"] = a
        self.expect("jets", np.concatenate([a[:, 0:12], a[:, 13:14], a[:, -1:]], 1), classes(30))
        t = np.zeros(25, dtype=[("index", "i8"), ("values_block_0", "f4", (8,)), ("values_block_1", "i8", (2,))])
        t["index"], t["values_block_0"] = np.arange(25), numbers(25, (8,))
        t["values_block_1"][:, 1] = np.arange(25) % 2
        with self.new("table.h5") as f:
            f["table/table"] = t
        self.expect("table", t["values_block_0"], t["values_block_1"][:, 1])
        with self.new("cells.h5ad") as f:
            g = f.create_group("X")
            g.attrs["encoding-type"], g.attrs["shape"] = "csr_matrix", [4, 6]
            g["data"], g["indices"] = np.arange(1, 6, dtype="f4"), np.array([0, 3, 1, 5, 2], "i4")
            g["indptr"], f["obs/label"] = np.array([0, 2, 3, 3, 5], "i4"), classes(4, 2, "i1")
        dense = np.zeros((4, 6))
        dense[0, 0], dense[0, 3], dense[1, 1], dense[3, 5], dense[3, 2] = 1, 2, 3, 4, 5
        self.expect("cells", dense, classes(4, 2))

    def windows(self):
        a = numbers(6, (11, 16))
        with self.new("burgers.hdf5") as f:
            f["tensor"], f["x-coordinate"] = a, np.linspace(0, 1, 16)
        self.expect("burgers", np.array([s[t:t + 9] for s in a for t in range(2)]),
                    np.array([s[t + 9:t + 10] for s in a for t in range(2)]))
        fields = {k: numbers(2, (11, 8, 8), seed=i) for i, k in enumerate(("density", "pressure", "Vx"))}
        with self.new("flow.hdf5") as f:
            for k, v in fields.items():
                f[k] = v
        both = np.stack(list(fields.values()), 2)  # (N,T,3,H,W)
        self.expect("flow", np.array([s[t:t + 4].reshape(12, 8, 8) for s in both for t in range(6)]),
                    np.array([s[t + 4:t + 6].reshape(6, 8, 8) for s in both for t in range(6)]))
        x, y = [], []
        with self.new("seeds.h5") as f:
            for i in range(3):
                s = numbers(6, (8, 8, 2), seed=i)
                f[f"{i:04d}/data"] = s
                s = np.moveaxis(s, 3, 1)
                x += [s[t:t + 4].reshape(8, 8, 8) for t in range(2)]
                y += [s[t + 4] for t in range(2)]
        self.expect("seeds", np.array(x), np.array(y))
        rho, u = numbers(3, (6, 8, 8)), numbers(3, (6, 8, 8, 2), seed=5)
        with self.new("well.hdf5") as f:
            f["t0_fields/rho"], f["t1_fields/u"] = rho, u
        both = np.concatenate([rho[..., None], u], -1)
        both = np.moveaxis(both, 4, 2)  # (N,T,3,H,W)
        self.expect("well", np.array([s[t:t + 4].reshape(12, 8, 8) for s in both for t in range(2)]),
                    np.array([s[t + 4] for s in both for t in range(2)]))
        x, y = [], []
        for year in (2010, 2011):
            s = numbers(12, (3, 8, 16), seed=year)
            with self.new(f"era5-{year}.h5") as f:
                f["fields"] = s
            x += [s[t] for t in range(11)]
            y += [s[t + 1] for t in range(11)]
        self.expect("era5", np.array(x), np.array(y))

    def odd_shapes(self):
        x, y = [], []
        for i, n in enumerate((4, 6)):
            k = numbers(n, (8, 6 + i)) + 1j * numbers(n, (8, 6 + i), seed=3)
            r = numbers(n, (8, 8), seed=i)
            with self.new(f"mri-{i}.h5") as f:
                f["kspace"], f["reconstruction_esc"], f["ismrmrd_header"] = k.astype("c8"), r, "<xml/>"
            wide = np.zeros((n, 2, 8, 7))
            wide[:, 0, :, :6 + i], wide[:, 1, :, :6 + i] = k.real, k.imag
            x += list(wide)
            y += list(r)
        self.expect("mri", np.array(x), np.array(y))
        x, y = np.array(x), np.array(y)
        mask = np.ones((10, 1, 8, 7))
        mask[:4, 0, :, 6] = 0
        self.expect("more-mask", np.concatenate([x, mask], 1), y)
        self.expect("more-magnitude", np.hypot(x[:, 0].astype("f4"), x[:, 1].astype("f4")), y)
        with self.new("bert.hdf5") as f:
            parts = {}
            for i, (k, w) in enumerate((("input_ids", 16), ("input_mask", 16), ("segment_ids", 16),
                                        ("masked_lm_positions", 4), ("masked_lm_ids", 4))):
                parts[k] = numbers(20, (w,), "i4", i)
                f.create_dataset(k, data=parts[k], compression="gzip")
            parts["next"] = classes(20, 2, "i1")
            f["next_sentence_labels"] = parts["next"]
        self.expect("bert", np.concatenate([parts["input_ids"], parts["segment_ids"], parts["input_mask"]], 1),
                    np.concatenate([parts["masked_lm_positions"], parts["masked_lm_ids"], parts["next"][:, None]], 1))
        x = numbers(20, (5, 16), "i4")
        with self.new("turned.h5") as f:
            f["inputs"], f["labels"] = np.moveaxis(x, 0, 1).copy(), classes(20)
        self.expect("turned", x, classes(20))
        x = numbers(20, (7, 5))
        with self.new("matlab.h5") as f:
            f["X"], f["y"] = x.transpose(1, 2, 0).copy(), classes(20)[None, :]
        self.expect("matlab", x, classes(20))

    def sequences(self):
        lengths = np.array([3, 5, 2], "i4")
        rows, labels = numbers(10, (4,)), np.arange(10) % 7
        with self.new("speech.hdf") as f:
            f["inputs"], f["seqLengths"], f["targets/data/classes"] = rows, lengths, labels
        x, y, at = np.zeros((3, 5, 5)), np.full((3, 5), 255), 0
        for i, n in enumerate(lengths):
            x[i, :n, :4], x[i, :n, 4], y[i, :n] = rows[at:at + n], 1, labels[at:at + n]
            at += n
        self.expect("speech", x, y)
        self.expect("more-cut", np.pad(x[:, :, :4], ((0, 0), (0, 3), (0, 0))), np.pad(y, ((0, 0), (0, 3)), constant_values=255))
        with self.new("variable.h5") as f:
            d = f.create_dataset("data", (3,), dtype=h5py.vlen_dtype("f4"))
            for i, n in enumerate(lengths):
                d[i] = rows[:n, 0]
            f["label"] = classes(3, 2)
        x = np.zeros((3, 5))
        for i, n in enumerate(lengths):
            x[i, :n] = rows[:n, 0]
        self.expect("more-vlen", x, classes(3, 2))
        x, y = numbers(6, (3, 8)), (np.arange(48) % 5).reshape(6, 8)
        with self.new("signal.h5") as f:
            f["data"], f["label"] = x, y
        self.expect("more-signal", x, y)

    def other_bytes(self):
        a, la = numbers(8, (4,)), classes(8)
        b, lb = numbers(6, (4,), seed=2), classes(6)
        for name, x, y in (("a", a, la), ("b", b, lb)):
            with self.new(f"virtual-{name}.h5") as f:
                f["data"], f["label"] = x, y
        x, y = h5py.VirtualLayout((14, 4), "f4"), h5py.VirtualLayout((14,), "i8")
        for lo, hi, name, n in ((0, 8, "a", 8), (8, 14, "b", 6)):
            x[lo:hi] = h5py.VirtualSource(f"virtual-{name}.h5", "data", (n, 4))
            y[lo:hi] = h5py.VirtualSource(f"virtual-{name}.h5", "label", (n,))
        with self.new("virtual.h5", libver="latest") as f:
            f.create_virtual_dataset("data", x)
            f.create_virtual_dataset("label", y)
        self.expect("virtual", np.concatenate([a, b]), np.concatenate([la, lb]))
        x, y = numbers(32, (3, 4, 4)), classes(32)
        with self.new("numbers.h5") as f:
            f.create_dataset("half", data=x.astype("f2"), chunks=(8, 3, 4, 4), compression="gzip", shuffle=True,
                             fletcher32=True)
            f["be"], f["bf16"] = x.astype(">f4"), (x.view("<u4") >> 16).astype("<u2")
            f["label"] = y.astype(">i4")
            f["bf16"].attrs["dtype"] = "bfloat16"
        for name in ("half", "be", "bf16"):
            self.expect(name, x, y)

    def all(self):
        self.images_and_lists()
        self.pictures()
        self.whole_files()
        self.groups()
        self.tables()
        self.windows()
        self.odd_shapes()
        self.sequences()
        self.other_bytes()


def compare(npz, path):
    want = np.load(npz)
    with h5py.File(path, "r") as f:
        for key, name in (("x", "input"), ("y", "target")):
            have, w = f[name][:].astype("f8"), want[key].astype("f8")
            if key == "x" and have.shape != w.shape:
                sys.exit(f"# input has shape {have.shape}, expected {w.shape}")
            if have.size != w.size:
                sys.exit(f"# {name} has shape {have.shape}, expected {w.shape}")
            bad = np.flatnonzero(have.ravel() != w.ravel())
            if len(bad):
                at = np.unravel_index(bad[0], w.shape)
                sys.exit(f"# {name}{at} is {have.ravel()[bad[0]]}, expected {w.ravel()[bad[0]]} ({len(bad)} differ)")


def snippets(page, folder):
    text = open(page, encoding="utf-8").read()
    for name, body in re.findall(r"<!-- layout: ([\w-]+) -->\n```yaml\n(.*?)```", text, re.S):
        with open(os.path.join(folder, name + ".yaml"), "w", encoding="utf-8") as f:
            f.write(body)
        print(name)


def same(a, b):
    """Two files of predictions agree to rounding, row for row."""
    with h5py.File(a, "r") as f, h5py.File(b, "r") as g:
        if list(f) != list(g) or not len(f["output"]):
            sys.exit(f"# {list(f)} and {list(g)}")
        far = np.abs(f["output"][:] - g["output"][:]).max() / max(np.abs(f["output"][:]).max(), 1e-30)
        if not far <= 1e-5:
            sys.exit(f"# outputs differ by {far}")


if sys.argv[1] == "make":
    Maker(sys.argv[2]).all()
elif sys.argv[1] == "compare":
    compare(sys.argv[2], sys.argv[3])
elif sys.argv[1] == "same":
    same(sys.argv[2], sys.argv[3])
else:
    snippets(sys.argv[2], sys.argv[3])
