#!/usr/bin/env python3
"""The outputs of `trireme predict` against PyTorch's, from the same weights: nothing is trained.

  tests/reference/predict_torch.py [--model NAME]     (needs python3 with torch, numpy, h5py; build/trireme)

Trireme's initial weights are exported as safetensors, a PyTorch twin reads them by name, and both compute the rows of one file.
The largest difference may be 1e-5 of the norm of the twin's row.  Exit status 0 where every model agrees, 77 where
something that is needed is not there.
"""
import argparse
import os
import sys
import tempfile

try:
    import h5py
    import numpy as np
    import torch
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import parity  # noqa: E402
import twins  # noqa: E402

BOUND = 1e-5
ROWS = 200                          # of images; windows of tokens are as many as 10,000 tokens hold

JOBS = {
    "lenet": "data: {train: data.h5, valid: data.h5}\nmodel: lenet\n"
             "train: {updates: 1, batch: 32, optimizer: {type: sgd, lr: 1e-30}}\ncheckpoint: {every: 1}\n",
    "gpt": "data: {train: data.h5, valid: data.h5, window: 64}\nmodel: {preset: gpt, layers: 2, dim: 64, heads: 4, vocab: 256}\n"
           "train: {updates: 1, batch: 8, optimizer: {type: sgd, lr: 1e-30}}\ncheckpoint: {every: 1}\n",
}
MAKE = {"lenet": (twins.Lenet, "digits", ROWS), "gpt": (twins.Gpt, "tokens", 10000)}


def inputs(name, path):
    with h5py.File(path, "r") as f:
        if name == "gpt":
            t = torch.from_numpy(f["tokens"][:].astype(np.int64))
            return t[: len(t) // 64 * 64].reshape(-1, 64)
        return torch.from_numpy(f["data"][:].astype(np.float32) / np.float32(255))


def twin_output(name, cwd):
    model = MAKE[name][0]().eval()
    twins.load(model, twins.read_safetensors(os.path.join(cwd, "w.safetensors")))
    with torch.no_grad():
        return model(inputs(name, os.path.join(cwd, "data.h5"))).numpy()


def ours(cwd):
    """An update with a learning rate of next to nothing leaves the initial weights as they are."""
    parity.trireme("train", "job.yaml", "--quiet", "--set", "run.name=w", cwd=cwd)
    parity.trireme("export", "runs/w", "--to", "safetensors", "--out", "w.safetensors", cwd=cwd)
    parity.trireme("predict", "job.yaml", "--weights", "w.safetensors", "--out", "p.h5", cwd=cwd)
    with h5py.File(os.path.join(cwd, "p.h5"), "r") as f:
        return f["output"][:], f["label"][:]


def run(name):
    with tempfile.TemporaryDirectory() as cwd:
        with open(os.path.join(cwd, "job.yaml"), "w") as f:
            f.write(JOBS[name])
        _, kind, samples = MAKE[name]
        parity.trireme("data", "synth", "--kind", kind, "--samples", str(samples), "--seed", "1", "--out", "data.h5", cwd=cwd)
        output, label = ours(cwd)
        theirs = twin_output(name, cwd)
    if output.shape != theirs.shape:
        print(f"{name}: shapes {output.shape} and {theirs.shape}")
        return False
    a, b = (z.reshape(len(theirs), -1).astype(np.float64) for z in (output, theirs))
    worst = float((np.abs(a - b).max(1) / np.linalg.norm(b, axis=1)).max())
    same = bool((label == output.argmax(-1)).all())
    ok = worst <= BOUND and same
    print(f"{name:6s} {output.shape}: largest difference {worst:.1e} of a row's norm (bound {BOUND:g}), "
          f"labels {'as argmax' if same else 'NOT AS ARGMAX'}   {'ok' if ok else 'NOT WITHIN BOUNDS'}", flush=True)
    return ok


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=list(JOBS))
    a = p.parse_args()
    if not os.access(parity.TRIREME, os.X_OK):
        print(f"skipped: {parity.TRIREME} is not there; `make` builds it, TRIREME=PATH names another")
        return 77
    torch.set_num_threads(1)
    return 0 if all([run(n) for n in JOBS if a.model in (None, n)]) else 1


if __name__ == "__main__":
    sys.exit(main())
