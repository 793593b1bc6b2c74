#!/usr/bin/env python3
"""Trireme against PyTorch: the same weights, the same samples in the same order, 50 updates.

  tests/reference/parity.py [--model NAME] [--golden]     (needs python3 with torch, numpy, h5py; build/trireme)

For each model Trireme trains and writes its losses; its initial weights are exported, a PyTorch twin starts from them and is
fed the same batches.  Bounds on the relative difference of the losses: 1e-4 over updates 1 to 20 and 1e-3 over 1 to 50,
or three times the largest drift of five twins whose initial weights differ in the last bit, whichever is larger.
--golden writes the twin's losses to tests/reference/golden/, for the tests that need no PyTorch.
Exit status 0 where every model stays within its bounds.
"""
import argparse
import json
import math
import os
import subprocess
import sys
import tempfile

import h5py
import numpy as np
import torch

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
import twins  # noqa: E402

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
TRIREME = os.environ.get("TRIREME", os.path.join(ROOT, "build", "trireme"))
UPDATES = 50
CASES = os.path.join(ROOT, "tests", "reference", "cases")


def trireme(*args, cwd):
    p = subprocess.run([TRIREME, *args], cwd=cwd, capture_output=True, text=True)
    if p.returncode:
        sys.exit(f"trireme {' '.join(args)}: exit {p.returncode}\n{p.stderr}")
    return p.stdout


class Case:
    """A job file of tests/reference/cases, its data, and how the twin is made and trained."""

    def __init__(self, name, synth, samples, make, optimizer, lr_at=None, clip=0.0, window=0):
        self.name, self.synth, self.samples, self.make = name, synth, samples, make
        self.optimizer, self.lr_at, self.clip, self.window = optimizer, lr_at, clip, window


def no_decay_groups(model, decay):
    """Trireme's default: matrices and embeddings decay, norms and biases do not."""
    p = list(model.parameters())
    return [{"params": [q for q in p if q.dim() > 1], "weight_decay": decay}, {"params": [q for q in p if q.dim() <= 1], "weight_decay": 0}]


def gpt_lr(u, peak=1e-3, warmup=10, total=UPDATES, floor=0.1):
    if u <= warmup:
        return peak * u / warmup
    s = (u - warmup) / (total - warmup)
    return peak * (floor + (1 - floor) * (1 + math.cos(math.pi * s)) / 2)


CASES_LIST = [
    Case("mlp", "digits", 2000, twins.Mlp, lambda m: torch.optim.SGD(m.parameters(), lr=0.05)),
    Case("rmsprop", "digits", 2000, twins.Mlp,
         lambda m: torch.optim.RMSprop(no_decay_groups(m, 0.001), lr=2e-4, alpha=0.95, momentum=0.5)),
    Case("lenet", "digits", 2000, twins.Lenet, lambda m: torch.optim.SGD(m.parameters(), lr=0.02, momentum=0.9)),
    Case("resnet20", "images", 1000, twins.Resnet20, lambda m: torch.optim.SGD(m.parameters(), lr=0.02, momentum=0.9)),
    Case("signal", "digits", 2000, twins.Signal, lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9)),
    Case("volume", "images", 1000, twins.Volume, lambda m: torch.optim.SGD(m.parameters(), lr=0.04, momentum=0.9)),
    Case("gpt", "tokens", 40000, twins.Gpt, lambda m: torch.optim.AdamW(no_decay_groups(m, 0.1), lr=1e-3, betas=(0.9, 0.999)),
         lr_at=gpt_lr, clip=1.0, window=64),
]
BATCH = {"mlp": 64, "rmsprop": 64, "lenet": 64, "resnet20": 32, "signal": 64, "volume": 32, "gpt": 8}


def order(case, n, cwd):
    """Indices of as many epochs as the updates need: each epoch's last batch may be smaller."""
    batches, epoch = [], 0
    while len(batches) < UPDATES:
        text = trireme("data", "order", "--samples", str(n), "--seed", "1", "--epoch", str(epoch + 1), cwd=cwd)
        index = [int(line) for line in text.split()]
        assert sorted(index) == list(range(n)), "the order is not a permutation"
        batches += [index[i : i + BATCH[case.name]] for i in range(0, n, BATCH[case.name])]
        epoch += 1
    return batches[:UPDATES]


def batches_of(case, path, cwd):
    with h5py.File(path, "r") as f:
        if case.window:
            t = torch.from_numpy(f["tokens"][:].astype(np.int64))
            n = (len(t) - 1) // case.window
            rows = torch.stack([t[i * case.window : i * case.window + case.window + 1] for i in range(n)])
            x, y = rows[:, :-1], rows[:, 1:]
        else:
            x = torch.from_numpy(f["data"][:].astype(np.float32) / np.float32(255))
            y = torch.from_numpy(f["label"][:].astype(np.int64))
    return [(x[i], y[i]) for i in map(torch.tensor, order(case, len(x), cwd))]


def last_bit(model, k):
    """Moves every weight by a last bit, up or down by a fair coin of generator k."""
    g = torch.Generator().manual_seed(k)
    with torch.no_grad():
        for p in model.parameters():
            up = torch.randint(0, 2, p.shape, generator=g) * 2 - 1
            p.copy_(torch.from_numpy(np.nextafter(p.numpy(), (up * np.inf).numpy().astype(np.float32))))


def train_twin(case, weights, batches, perturb=0):
    model = case.make()
    twins.load(model, weights)
    if perturb:
        last_bit(model, perturb)
    model.train()
    opt, losses = case.optimizer(model), []
    for u, (x, y) in enumerate(batches, 1):
        if case.lr_at:
            for group in opt.param_groups:
                group["lr"] = case.lr_at(u)
        opt.zero_grad()
        out = model(x)
        loss = torch.nn.functional.cross_entropy(out.reshape(-1, out.shape[-1]), y.reshape(-1))
        loss.backward()
        if case.clip:
            torch.nn.utils.clip_grad_norm_(model.parameters(), case.clip)
        opt.step()
        losses.append(loss.item())
    return losses, model


def worst(a, b, upto):
    return max(abs(p - q) / abs(q) for p, q in zip(a[:upto], b[:upto]))


def initial_weights(case, job, cwd):
    """Trireme's weights before the first update: an update with a learning rate of next to nothing leaves them as they are."""
    trireme("train", job, "--quiet", "--set", "run.name=init", "--set", "train.updates=1", "--set", "train.optimizer.lr=1e-30", "--set",
            "train.schedule=constant", "--set", "checkpoint.every=1", cwd=cwd)
    trireme("export", "runs/init/checkpoints/step-00000001", "--to", "safetensors", "--out", "init.safetensors", cwd=cwd)
    weights = twins.read_safetensors(os.path.join(cwd, "init.safetensors"))
    for name in weights:            # the statistics of that one batch
        if name.endswith("running_mean"):
            weights[name].zero_()
        if name.endswith("running_var"):
            weights[name].fill_(1)
    return weights


def run(case, golden):
    with tempfile.TemporaryDirectory() as cwd:
        job = os.path.join(CASES, case.name + ".yaml")
        trireme("data", "synth", "--kind", case.synth, "--samples", str(case.samples), "--seed", "1", "--out", "data.h5", cwd=cwd)
        weights = initial_weights(case, job, cwd)
        trireme("train", job, "--quiet", "--dump-losses", "losses.txt", cwd=cwd)
        ours = [float.fromhex(line.split()[1]) for line in open(os.path.join(cwd, "losses.txt"))]
        batches = batches_of(case, os.path.join(cwd, "data.h5"), cwd)
        theirs, _ = train_twin(case, weights, batches)
        drift = [train_twin(case, weights, batches, k)[0] for k in range(1, 6)]
    bounds = {n: max(floor, 3 * max(worst(d, theirs, n) for d in drift)) for n, floor in ((20, 1e-4), (50, 1e-3))}
    got = {n: worst(ours, theirs, n) for n in bounds}
    ok = all(got[n] <= bounds[n] for n in bounds) and len(ours) == UPDATES
    print(f"{case.name:10s} loss {ours[0]:.6f} -> {ours[-1]:.6f} (PyTorch {theirs[-1]:.6f})   20 updates: {got[20]:.1e} of {bounds[20]:.1e}"
          f"   50 updates: {got[50]:.1e} of {bounds[50]:.1e}   {'ok' if ok else 'NOT WITHIN BOUNDS'}", flush=True)
    if golden:
        os.makedirs(os.path.join(ROOT, "tests", "reference", "golden"), exist_ok=True)
        with open(os.path.join(ROOT, "tests", "reference", "golden", case.name + ".txt"), "w") as f:
            f.write(f"# PyTorch {torch.__version__}: losses of updates 1 to {UPDATES}; bounds over 20 and 50 updates\n")
            f.write(f"bounds {bounds[20]:.3e} {bounds[50]:.3e}\n")
            f.writelines(f"{v!r}\n" for v in theirs)
    return ok


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--model", choices=[c.name for c in CASES_LIST])
    p.add_argument("--golden", action="store_true", help="write the twin's losses to tests/reference/golden/")
    a = p.parse_args()
    torch.set_num_threads(1)
    good = [run(c, a.golden) for c in CASES_LIST if a.model in (None, c.name)]
    return 0 if all(good) else 1


if __name__ == "__main__":
    sys.exit(main())
