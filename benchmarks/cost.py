"""`gradcli cost` beside what torch does: bytes that autograd saves, and operations of products; time and memory of counting.

Bytes are those of tensors that torch packs for the backward pass, each storage once, without parameters and inputs. torch
has kernels that keep less than the operations they are made of, or more; the column "of torch" is the ratio.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch
from torch.utils.flop_counter import FlopCounterMode

MODELS = """
import torch
from torch import nn


class MLP(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(64, 128), nn.Linear(128, 128), nn.Linear(128, 10)

    def forward(self, x):
        return torch.mean(self.c(torch.tanh(self.b(torch.relu(self.a(x))))) ** 2)


class Block(nn.Module):
    def __init__(self, d=48, heads=4):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(d, d, bias=False) for _ in range(4))
        self.up, self.down = nn.Linear(d, 4 * d, bias=False), nn.Linear(4 * d, d, bias=False)
        self.first, self.second = nn.LayerNorm(d), nn.LayerNorm(d)

    def split(self, x):
        b, n, d = x.shape
        return x.view(b, n, self.heads, d // self.heads).transpose(1, 2)

    def forward(self, x):
        b, n, d = x.shape
        y = self.first(x)
        weights = torch.softmax(self.split(self.q(y)) @ self.split(self.k(y)).transpose(-1, -2) / (d // self.heads) ** 0.5, -1)
        x = x + self.o((weights @ self.split(self.v(y))).transpose(1, 2).reshape(b, n, d))
        return torch.mean((x + self.down(torch.relu(self.up(self.second(x))))) ** 2)


class Conv(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Conv2d(3, 8, 3), nn.Conv2d(8, 8, 3)

    def forward(self, x):
        return torch.mean(self.b(torch.relu(self.a(x))) ** 2)


class LSTM(nn.Module):
    def __init__(self, d=16, h=24):
        super().__init__()
        self.h = h
        self.w, self.u = nn.Linear(d, 4 * h), nn.Linear(h, 4 * h, bias=False)

    def forward(self, x):
        h = c = x.new_zeros(x.shape[0], self.h)
        for t in range(x.shape[1]):
            i, f, g, o = (self.w(x[:, t]) + self.u(h)).chunk(4, -1)
            c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
            h = torch.sigmoid(o) * torch.tanh(c)
        return torch.mean(h ** 2)
"""
INPUTS = {"MLP": (32, 64), "Block": (4, 20, 48), "Conv": (4, 3, 16, 16), "LSTM": (8, 10, 16)}
FORMATS = {"float64": torch.float64, "float32": torch.float32, "bfloat16": torch.bfloat16}
TRANSFORMER = """
import numpy as np


def softmax(s):
    e = np.exp(s - np.max(s, axis=-1, keepdims=True))
    return e / np.sum(e, axis=-1, keepdims=True)


def norm(x):
    centred = x - np.mean(x, axis=-1, keepdims=True)
    return centred / np.sqrt(np.mean(centred * centred, axis=-1, keepdims=True) + 1e-5)


def attention(x, Q, K, V, O, heads):
    b, n, d = x.shape
    split = lambda y: np.transpose(np.reshape(y, (b, n, heads, d // heads)), (0, 2, 1, 3))
    weights = softmax(split(x @ Q) @ np.swapaxes(split(x @ K), -1, -2) / np.sqrt(d // heads))
    return np.reshape(np.transpose(weights @ split(x @ V), (0, 2, 1, 3)), (b, n, d)) @ O


def loss(x, Q, K, V, O, W1, W2, L=2, heads=12):
    for _ in range(L):
        x = x + attention(norm(x), Q, K, V, O, heads)
        x = x + np.maximum(norm(x) @ W1, 0) @ W2
    return np.mean(x**2)
"""
POINT = "x=randn(b, n, d), Q=randn(d, d), K=randn(d, d), V=randn(d, d), O=randn(d, d), W1=randn(d, f), W2=randn(f, d)"
COMMANDS = {
    "a transformer of 12 layers, by sizes": (
        "transformer.py:loss", "--at", POINT, "--wrt", "Q,K,V,O,W1,W2", "--sizes", "b=32, n=512, d=768, f=3072, L=12",
    ),
    "llama-2-70b": ("--model", "llama-2-70b", "--dtype", "bfloat16"),
}  # fmt: skip


def saved(model: torch.nn.Module, x: torch.Tensor) -> int:
    """Return the bytes that torch saves for the backward pass, each storage once, without parameters and the input."""
    known = {p.untyped_storage().data_ptr() for p in (*model.parameters(), x)}
    found: dict[int, int] = {}
    kept = []  # storages stay, so that no address is used twice

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in known and tensor.dim():
            found[storage.data_ptr()] = storage.nbytes()
            kept.append(storage)
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        model(x)
    return sum(found.values())


def gradcli(*argv: str, folder: Path) -> Any:
    """Return the document of `gradcli cost`."""
    command = [sys.executable, "-m", "gradcli", "cost", *argv, "--json"]
    return json.loads(subprocess.run(command, cwd=folder, capture_output=True, text=True, check=True).stdout)


def against_torch(folder: Path) -> list[dict[str, Any]]:
    """Return, for each module and format, the bytes and operations of gradcli and of torch."""
    (folder / "models.py").write_text(MODELS)
    sys.path.insert(0, str(folder))
    import models

    rows = []
    for name, shape in INPUTS.items():
        torch.manual_seed(0)
        model = getattr(models, name)()
        with FlopCounterMode(display=False) as counter:
            model(torch.randn(shape))
        at = f"x=randn({','.join(map(str, shape))})"
        for dtype, form in FORMATS.items():
            document = gradcli(f"models.py:{name}", "--at", at, "--dtype", dtype, folder=folder)
            own = sum(row["bytes"] for row in document["kept"])
            theirs = saved(model.to(form), torch.randn(shape, dtype=form))
            f = next(row["operations"] for row in document["passes"] if row["name"] == "f")
            rows.append(
                {"model": name, "dtype": dtype, "gradcli": own, "torch": theirs, "of torch": own / theirs,
                 "operations": f, "flops of torch": counter.get_total_flops(), "of flops": f / counter.get_total_flops(),
                 "kept": [(row["name"], row["shape"], row["count"], row["read_by"]) for row in document["kept"]]}
            )  # fmt: skip
    return rows


def timed(folder: Path) -> list[dict[str, Any]]:
    """Return the processor time and the peak memory of counting large programs."""
    (folder / "transformer.py").write_text(TRANSFORMER)
    rows = []
    for name, argv in COMMANDS.items():
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
        gradcli(*argv, folder=folder)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        rows.append(
            {"command": name, "processor seconds": after.ru_utime - before.ru_utime, "seconds": time.perf_counter() - start,
             "largest process, MB": after.ru_maxrss / 1000}
        )  # fmt: skip
    return rows


def main() -> None:
    """Print both tables."""
    options = argparse.ArgumentParser()
    options.add_argument("--json", action="store_true")
    options.add_argument("--kept", action="store_true", help="also what each model keeps")
    given = options.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = {"timed": timed(Path(folder)), "against torch": against_torch(Path(folder))}
    if given.json:
        print(json.dumps(found, indent=2))
        return
    for table in found.values():
        for row in table:
            print(
                "  ".join(f"{k} {v:.4g}" if isinstance(v, float) else f"{k} {v}" for k, v in row.items() if k != "kept")
            )
            if given.kept and "kept" in row:
                print(*(f"    {kept}" for kept in row["kept"]), sep="\n")


if __name__ == "__main__":
    main()
