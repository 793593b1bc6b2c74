"""The models of tests/reference/cases in PyTorch, with Trireme's parameter names, and the files that both read."""
import json
import struct

import numpy as np
import torch
import torch.nn as nn
import torch.nn.functional as F


class Mlp(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1, self.fc2, self.fc3 = nn.Linear(784, 512), nn.Linear(512, 512), nn.Linear(512, 10)

    def forward(self, x):
        x = F.relu(self.fc1(x.flatten(1)))
        return self.fc3(F.relu(self.fc2(x)))


class Lenet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 20, 5), nn.Conv2d(20, 50, 5)
        self.fc1, self.fc2 = nn.Linear(800, 500), nn.Linear(500, 10)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.conv1(x)), 2)
        x = F.max_pool2d(F.relu(self.conv2(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class Block(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(c_in, c_out, 3, stride, 1, bias=False), nn.BatchNorm2d(c_out)
        self.conv2, self.bn2 = nn.Conv2d(c_out, c_out, 3, 1, 1, bias=False), nn.BatchNorm2d(c_out)
        self.downsample = None
        if stride != 1 or c_in != c_out:
            self.downsample = nn.Sequential(nn.Conv2d(c_in, c_out, 1, stride, bias=False), nn.BatchNorm2d(c_out))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + (x if self.downsample is None else self.downsample(x)))


class Resnet20(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 16, 3, 1, 1, bias=False), nn.BatchNorm2d(16)
        width = 16
        for i, (c, s) in enumerate(((16, 1), (32, 2), (64, 2)), 1):
            blocks = []
            for k in range(3):
                blocks.append(Block(width, c, s if k == 0 else 1))
                width = c
            setattr(self, f"layer{i}", nn.Sequential(*blocks))
        self.fc = nn.Linear(64, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        x = self.layer3(self.layer2(self.layer1(x)))
        return self.fc(x.mean((2, 3)))


class Signal(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv1d(28, 32, 5, 2, 2), nn.BatchNorm1d(32)
        self.conv2, self.gn2 = nn.Conv1d(32, 32, 3, 1, 2, dilation=2, groups=4), nn.GroupNorm(4, 32)
        self.up = nn.ConvTranspose1d(32, 24, 4, 3, 1, output_padding=1, groups=2)
        self.fc = nn.Linear(96, 10)

    def forward(self, x):
        x = F.max_pool1d(F.relu(self.bn1(self.conv1(x.view(-1, 28, 28)))), 3, 2, 1)
        x = F.relu(self.up(F.silu(self.gn2(self.conv2(x)))))
        return self.fc(F.adaptive_avg_pool1d(x, 4).flatten(1))


class Volume(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv3d(3, 8, 3, (1, 2, 2), 1), nn.BatchNorm3d(8)
        self.up = nn.ConvTranspose3d(8, 8, (2, 3, 3), (1, 2, 2), (0, 1, 1), output_padding=(0, 1, 1), groups=2)
        self.conv2 = nn.Conv3d(8, 12, 3, dilation=(2, 1, 1), groups=2, bias=False)
        self.fc = nn.Linear(192, 10)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x.view(-1, 3, 4, 16, 16))))
        x = F.avg_pool3d(x, (1, 3, 3), (1, 2, 2), (0, 1, 1), count_include_pad=False)
        x = F.relu(self.conv2(F.relu(self.up(x))))
        return self.fc(F.adaptive_max_pool3d(x, (1, 4, 4)).flatten(1))


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (z.view(b, t, self.heads, c // self.heads).transpose(1, 2) for z in self.qkv(x).split(c, 2))
        a = (q @ k.transpose(-2, -1)) / (c // self.heads) ** 0.5
        a = a.masked_fill(torch.ones(t, t, dtype=torch.bool).triu(1), float("-inf")).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(b, t, c))


class Transformer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.ln_1, self.ln_2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.attn = Attention(dim, heads)
        self.mlp = nn.ModuleDict({"fc": nn.Linear(dim, 4 * dim), "proj": nn.Linear(4 * dim, dim)})

    def forward(self, x):
        x = x + self.attn(self.ln_1(x))
        return x + self.mlp["proj"](F.gelu(self.mlp["fc"](self.ln_2(x)), approximate="tanh"))


class Gpt(nn.Module):
    def __init__(self, layers=2, dim=64, heads=4, context=64, vocab=256):
        super().__init__()
        self.wte, self.wpe = nn.Embedding(vocab, dim), nn.Embedding(context, dim)
        self.h = nn.ModuleList(Transformer(dim, heads) for _ in range(layers))
        self.ln_f = nn.LayerNorm(dim)

    def forward(self, x):
        x = self.wte(x) + self.wpe.weight[: x.shape[1]]
        for block in self.h:
            x = block(x)
        return F.linear(self.ln_f(x), self.wte.weight)


def read_safetensors(path):
    """{name: tensor} of a safetensors file: 8 bytes of header length, a JSON header, the data."""
    with open(path, "rb") as f:
        header = json.loads(f.read(struct.unpack("<Q", f.read(8))[0]))
        data = f.read()
    out = {}
    for name, t in header.items():
        if name == "__metadata__":
            continue
        begin, end = t["data_offsets"]
        assert t["dtype"] == "F32", (name, t["dtype"])
        out[name] = torch.from_numpy(np.frombuffer(data[begin:end], "<f4").reshape(t["shape"]).copy())
    return out


def write_safetensors(path, tensors):
    header, blobs, at = {}, [], 0
    for name, t in tensors.items():
        blob = t.detach().numpy().astype("<f4").tobytes()
        header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + len(blob)]}
        blobs.append(blob)
        at += len(blob)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text + b"".join(blobs))


def load(model, tensors):
    """Every parameter by name; num_batches_tracked is PyTorch's own."""
    missing, unexpected = model.load_state_dict(tensors, strict=False)
    missing = [m for m in missing if not m.endswith("num_batches_tracked")]
    assert not missing and not unexpected, f"missing {missing}, unexpected {unexpected}"


def state(model):
    return {k: v for k, v in model.state_dict().items() if not k.endswith("num_batches_tracked")}
