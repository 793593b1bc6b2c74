#!/usr/bin/env python3
"""Layers against PyTorch, one at a time: the value forward, and the gradients of weights and of the input.

  tests/reference/layers.py [NAME...]     (needs python3 with torch, numpy, h5py; build/trireme)

Each layer stands behind a convolution of one pixel, whose weight's gradient is the layer's gradient by its input.  Trireme
predicts with its initial weights and makes one update of SGD with a large rate, from which the gradients follow; both are
held against PyTorch's in float64 with the same weights, within 1e-5 of the norm of the tensor.  Writes TAP.
"""
import math
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch
import torch.nn as nn

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import twins  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRIREME = os.environ.get("TRIREME", os.path.join(ROOT, "build", "trireme"))
SAMPLES, RATE, BOUND = 5, 1e6, 1e-5
FIRST = {2: nn.Conv1d, 3: nn.Conv2d, 4: nn.Conv3d}

# name, shape of a sample, the layer in the job file, and in PyTorch
CASES = [
    ("conv1d", (4, 11), "conv1d: {out: 6, kernel: 3, stride: 2, pad: 1}", lambda: nn.Conv1d(4, 6, 3, 2, 1)),
    ("conv1d in groups, dilated", (4, 11), "conv1d: {out: 6, kernel: 3, dilation: 3, groups: 2, bias: false}",
     lambda: nn.Conv1d(4, 6, 3, dilation=3, groups=2, bias=False)),
    ("conv1d of one pixel, stride above it", (4, 11), "conv1d: {out: 6, kernel: 1, stride: 3}", lambda: nn.Conv1d(4, 6, 1, 3)),
    ("conv2d", (4, 7, 6), "conv2d: {out: 6, kernel: [3, 2], stride: [2, 1], pad: [1, 0], dilation: [1, 2]}",
     lambda: nn.Conv2d(4, 6, (3, 2), (2, 1), (1, 0), (1, 2))),
    ("conv3d", (4, 5, 7, 6), "conv3d: {out: 6, kernel: [2, 3, 1], stride: [1, 2, 3], pad: [1, 0, 0]}",
     lambda: nn.Conv3d(4, 6, (2, 3, 1), (1, 2, 3), (1, 0, 0))),
    ("conv3d in groups, dilated", (4, 5, 7, 6), "conv3d: {out: 6, kernel: 2, dilation: [1, 3, 2], groups: 2, bias: false}",
     lambda: nn.Conv3d(4, 6, 2, dilation=(1, 3, 2), groups=2, bias=False)),
    ("conv3d, depthwise", (4, 4, 5, 5), "conv3d: {out: 8, kernel: 3, pad: 1, groups: 4}", lambda: nn.Conv3d(4, 8, 3, 1, 1, groups=4)),
    ("conv_transpose1d", (4, 6), "conv_transpose1d: {out: 6, kernel: 4, stride: 3, pad: 1, output_pad: 2}",
     lambda: nn.ConvTranspose1d(4, 6, 4, 3, 1, 2)),
    ("conv_transpose1d in groups, dilated", (4, 6), "conv_transpose1d: {out: 6, kernel: 3, dilation: 2, groups: 2, bias: false}",
     lambda: nn.ConvTranspose1d(4, 6, 3, dilation=2, groups=2, bias=False)),
    ("conv_transpose2d", (4, 5, 3), "conv_transpose2d: {out: 6, kernel: [3, 2], stride: [2, 3], pad: [1, 0], output_pad: [1, 2]}",
     lambda: nn.ConvTranspose2d(4, 6, (3, 2), (2, 3), (1, 0), (1, 2))),
    ("conv_transpose2d, depthwise", (4, 5, 3), "conv_transpose2d: {out: 4, kernel: 2, stride: 2, groups: 4}",
     lambda: nn.ConvTranspose2d(4, 4, 2, 2, groups=4)),
    ("conv_transpose3d", (4, 2, 3, 4), "conv_transpose3d: {out: 3, kernel: [2, 3, 1], stride: [1, 2, 2], pad: [0, 1, 0], output_pad: [0, 1, 0]}",
     lambda: nn.ConvTranspose3d(4, 3, (2, 3, 1), (1, 2, 2), (0, 1, 0), (0, 1, 0))),
    ("conv_transpose3d in groups, dilated", (4, 2, 3, 4), "conv_transpose3d: {out: 6, kernel: 2, stride: 2, dilation: [1, 2, 1], groups: 2}",
     lambda: nn.ConvTranspose3d(4, 6, 2, 2, dilation=(1, 2, 1), groups=2)),
    ("max_pool of signals", (4, 11), "max_pool: {kernel: 3, stride: 2, pad: 1}", lambda: nn.MaxPool1d(3, 2, 1)),
    ("max_pool of volumes", (4, 5, 7, 6), "max_pool: {kernel: [2, 3, 1], stride: [1, 2, 3], pad: [1, 1, 0]}",
     lambda: nn.MaxPool3d((2, 3, 1), (1, 2, 3), (1, 1, 0))),
    ("avg_pool of signals", (4, 11), "avg_pool: {kernel: 3, stride: 2, pad: 1}", lambda: nn.AvgPool1d(3, 2, 1, count_include_pad=False)),
    ("avg_pool of volumes", (4, 5, 7, 6), "avg_pool: {kernel: 2, stride: [1, 2, 3], pad: [1, 0, 1]}",
     lambda: nn.AvgPool3d(2, (1, 2, 3), (1, 0, 1), count_include_pad=False)),
    ("adaptive_max_pool of signals", (4, 11), "adaptive_max_pool: 4", lambda: nn.AdaptiveMaxPool1d(4)),
    ("adaptive_max_pool of images", (4, 7, 6), "adaptive_max_pool: [3, 6]", lambda: nn.AdaptiveMaxPool2d((3, 6))),
    ("adaptive_max_pool of volumes", (4, 5, 7, 6), "adaptive_max_pool: [2, 3, 4]", lambda: nn.AdaptiveMaxPool3d((2, 3, 4))),
    ("adaptive_avg_pool of signals", (4, 11), "adaptive_avg_pool: 13", lambda: nn.AdaptiveAvgPool1d(13)),
    ("adaptive_avg_pool of images", (4, 7, 6), "adaptive_avg_pool: [3, 6]", lambda: nn.AdaptiveAvgPool2d((3, 6))),
    ("adaptive_avg_pool of volumes", (4, 5, 7, 6), "adaptive_avg_pool: [2, 3, 4]", lambda: nn.AdaptiveAvgPool3d((2, 3, 4))),
    ("global_pool of signals", (4, 11), "global_pool", lambda: nn.AdaptiveAvgPool1d(1)),
    ("global_pool of volumes", (4, 5, 7, 6), "global_pool", lambda: nn.AdaptiveAvgPool3d(1)),
    ("batch_norm of signals", (4, 11), "batch_norm: {}", lambda: nn.BatchNorm1d(4)),
    ("batch_norm of volumes", (4, 3, 4, 5), "batch_norm: {}", lambda: nn.BatchNorm3d(4)),
    ("group_norm of signals", (4, 11), "group_norm: {groups: 2}", lambda: nn.GroupNorm(2, 4)),
    ("group_norm of volumes", (4, 3, 4, 5), "group_norm: {groups: 2}", lambda: nn.GroupNorm(2, 4)),
    ("softmax of signals", (4, 11), "softmax", lambda: nn.Softmax(1)),
    ("softmax of volumes", (4, 3, 4, 5), "softmax", lambda: nn.Softmax(1)),
    ("transpose", (4, 11), "transpose", lambda: Transpose()),
]


class Transpose(nn.Module):
    def forward(self, x):
        return x.transpose(1, 2)


class Twin(nn.Module):
    def __init__(self, shape, make):
        super().__init__()
        self.first = FIRST[len(shape)](shape[0], 4, 1)
        self.it = make()

    def forward(self, x):
        return self.it(self.first(x))


def trireme(*args, cwd):
    p = subprocess.run([TRIREME, *args], cwd=cwd, capture_output=True, text=True)
    if p.returncode:
        raise RuntimeError(f"trireme {' '.join(args)}: exit {p.returncode}: {p.stderr.strip()}")


def write_job(cwd, shape, layer):
    kind = {2: "conv1d", 3: "conv2d", 4: "conv3d"}[len(shape)]
    text = layer if ": " in layer else f"{layer}: {{}}"
    key, value = text.split(": ", 1)
    if not value.startswith("{"):
        main = "size" if key.startswith("adaptive") else "kernel"
        value = f"{{{main}: {value}}}"
    value = "{" + ", ".join(v for v in (value[1:-1], "name: it") if v) + "}"
    with open(os.path.join(cwd, "job.yaml"), "w") as f:
        f.write(f"""data: {{train: data.h5, target_type: float, scale: 1}}
model:
  layers:
    - {kind}: {{out: 4, kernel: 1, name: first}}
    - {key}: {value}
train: {{updates: 1, batch: {SAMPLES}, loss: mse, optimizer: {{type: sgd, lr: {RATE:g}}}}}
checkpoint: {{every: 1}}
""")


def export(cwd, name):
    trireme("export", f"runs/{name}/checkpoints/step-00000001", "--to", "safetensors", "--out", f"{name}.safetensors", cwd=cwd)
    return twins.read_safetensors(os.path.join(cwd, f"{name}.safetensors"))


def error(got, want, whole=0.0):
    """Relative to the tensor; to the whole where it is zero but for rounding (a bias before a batch norm)."""
    got, want = np.asarray(got, np.float64), np.asarray(want, np.float64)
    if got.shape != want.shape:
        return math.inf
    norm = np.linalg.norm(want)
    return float(np.linalg.norm(got - want) / (norm if norm > 1e-6 * whole else whole))


def check(shape, layer, make, cwd):
    rng = np.random.default_rng(7)
    x = rng.standard_normal((SAMPLES, *shape)).astype(np.float32)
    twin = Twin(shape, make).double()
    with torch.no_grad():
        y_shape = twin.eval()(torch.from_numpy(x).double()).shape
    twin.train()
    target = rng.standard_normal(tuple(y_shape)).astype(np.float32)
    with h5py.File(os.path.join(cwd, "data.h5"), "w") as f:
        f["data"], f["targets"] = x, target
    write_job(cwd, shape, layer)
    trireme("train", "job.yaml", "--quiet", "--set", "run.name=init", "--set", "train.optimizer.lr=1e-30", cwd=cwd)
    trireme("train", "job.yaml", "--quiet", "--set", "run.name=one", cwd=cwd)
    before, after = export(cwd, "init"), export(cwd, "one")
    weights = {k: v.double() for k, v in before.items() if not k.endswith(("running_mean", "running_var"))}
    twin.load_state_dict(weights, strict=False)
    out = twin(torch.from_numpy(x).double())
    nn.functional.mse_loss(out, torch.from_numpy(target).double()).backward()
    worst, whole = {}, math.sqrt(sum(float((p.grad**2).sum()) for p in twin.parameters()))
    for name, p in twin.named_parameters():
        worst[f"gradient of {name}"] = error((weights[name] - after[name].double()).numpy() / RATE, p.grad.numpy(), whole)
    for name, b in twin.named_buffers():
        if name.endswith(("running_mean", "running_var")):
            worst[name] = error(after[name].double().numpy(), b.numpy())
    # Prediction takes the running statistics, which belong to the checkpoint.
    twin.load_state_dict({k: v.double() for k, v in before.items()}, strict=False)
    twin.eval()
    trireme("predict", "job.yaml", "--input", "data.h5", "--weights", "init.safetensors", "--out", "out.h5", cwd=cwd)
    with h5py.File(os.path.join(cwd, "out.h5"), "r") as f, torch.no_grad():
        worst["value"] = error(f["output"][:], twin(torch.from_numpy(x).double()).numpy())
    return worst


def main():
    torch.set_num_threads(1)
    cases = [c for c in CASES if not sys.argv[1:] or c[0] in sys.argv[1:]]
    failed = 0
    print(f"1..{len(cases)}")
    for i, (name, shape, layer, make) in enumerate(cases, 1):
        with tempfile.TemporaryDirectory() as cwd:
            try:
                worst = check(shape, layer, make, cwd)
                wrong = {k: v for k, v in worst.items() if not v <= BOUND}
                said = ", ".join(f"{k} {v:.1e}" for k, v in wrong.items())
            except RuntimeError as e:
                worst, said = {}, str(e)
        good = worst and not said
        failed += not good
        print(f"{'ok' if good else 'not ok'} {i} - {name}" + (f"\n# {said}" if said else f": {max(worst.values()):.1e}"), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
