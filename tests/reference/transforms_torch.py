#!/usr/bin/env python3
"""What the model sees behind `data.transform` against PyTorch's interpolation, padding and slices.

  tests/reference/transforms_torch.py     (needs python3 with torch, numpy, h5py; build/trireme)

A 1x1 convolution with the unit matrix as its weight hands the images through: `trireme predict` writes what the model sees.
float32 may differ by 1e-5 of the range, and uint8 by 1 where a sum lies at a half.  Exit status 0 where all agree, 77 where
something that is needed is not there.
"""
import os
import subprocess
import sys
import tempfile

try:
    import h5py
    import numpy as np
    import torch
    import torch.nn.functional as F
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TRIREME = os.environ.get("TRIREME") or os.path.join(os.getcwd(), "build", "trireme")
JOB = """data: {{train: data.h5, valid: data.h5, target_type: float, scale: 1, layout: {layout}, transform: [{transform}]}}
model: {{layers: [conv2d: {{out: 3, kernel: 1, bias: false, name: same}}]}}
train: {{updates: 1, batch: 4, loss: mse}}
"""


def bilinear(h, w):
    return lambda x: F.interpolate(x, size=(h, w), mode="bilinear", align_corners=False, antialias=False)


def area(h, w):
    return lambda x: F.interpolate(x, size=(h, w), mode="area")


CASES = [
    ("resize: 48x40", bilinear(48, 40)),
    ("resize: 20x31", bilinear(20, 31)),
    ("resize: 1x1", bilinear(1, 1)),
    ("resize: {size: 16x11, method: area}", area(16, 11)),
    ("resize: {size: 9x7, method: area}", area(9, 7)),
    ("center_crop: 24x22", lambda x: x[:, :, 4:28, 4:26]),
    ("pad: {pixels: [2, 5], value: 7}", lambda x: F.pad(x, (5, 5, 2, 2), value=7.0)),
]


def ours(cwd, images, layout, transform):
    with h5py.File(os.path.join(cwd, "data.h5"), "w") as f:
        f["data"] = images if layout == "chw" else np.ascontiguousarray(images.transpose(0, 2, 3, 1))
    with open(os.path.join(cwd, "job.yaml"), "w") as f:
        f.write(JOB.format(layout=layout, transform=transform))
    done = subprocess.run([TRIREME, "predict", "job.yaml", "--weights", "w.h5", "--out", "p.h5", "--force"],
                          cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"{transform}: {done.stderr}")
    with h5py.File(os.path.join(cwd, "p.h5"), "r") as f:
        return f["output"][:]


def main():
    rng = np.random.default_rng(1)
    byte = rng.integers(0, 256, (6, 3, 32, 30), dtype=np.uint8)
    real = rng.standard_normal((6, 3, 32, 30)).astype(np.float32)
    worst = 0
    with tempfile.TemporaryDirectory() as cwd:
        with h5py.File(os.path.join(cwd, "w.h5"), "w") as f:
            f["same.weight"] = np.eye(3, dtype=np.float32).reshape(3, 3, 1, 1)
        for transform, twin in CASES:
            for images in byte, real:
                want = twin(torch.from_numpy(images.astype(np.float32))).numpy()
                got = [ours(cwd, images, layout, transform) for layout in ("chw", "hwc")]
                if not np.array_equal(got[0], got[1]):
                    sys.exit(f"{transform}: the order of storage changes the numbers")
                if got[0].shape != want.shape:
                    sys.exit(f"{transform}: {got[0].shape}, not {want.shape}")
                if images.dtype == np.uint8:
                    off = np.abs(got[0] - np.floor(want + 0.5))
                    if off.max() > 1 or (off > 0).mean() > 0.02:
                        sys.exit(f"{transform}, uint8: {off.max()} off, {(off > 0).mean():.3f} of all")
                else:
                    worst = max(worst, np.abs(got[0] - want).max())
            print(f"{transform}: agrees")
    print(f"largest difference of float32: {worst:.1e}")
    sys.exit(not worst <= 1e-5)


main()
