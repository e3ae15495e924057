"""Programs of tensor, sequence, data and expert parallel training, as they are written by hand, and mistakes in them.

Each factory returns the loss of one rank; `mistake` names the wrong backward pass, or other slip, that is planted in it.
"""

import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch import nn


def total(x):
    """Return the sum of a tensor over the ranks."""
    y = x.clone()
    dist.all_reduce(y)
    return y


def cut(x, axis, rank=None):
    """Return a rank's part of a tensor."""
    return x.chunk(dist.get_world_size(), axis)[dist.get_rank() if rank is None else rank].contiguous()


def joined(x, axis):
    """Return the parts of all ranks, joined."""
    parts = [torch.empty_like(x) for _ in range(dist.get_world_size())]
    dist.all_gather(parts, x.contiguous())
    return torch.cat(parts, axis)


def average(x):
    return total(x) / dist.get_world_size()


def to_first(x):
    """Return the sum on rank 0 alone."""
    y = total(x)
    return y if dist.get_rank() == 0 else x.clone()


def of_next(x):
    """Return the tensor of the next rank."""
    rank, ranks = dist.get_rank(), dist.get_world_size()
    y = torch.empty_like(x)
    for request in dist.batch_isend_irecv([
        dist.P2POp(dist.isend, x.contiguous(), (rank - 1) % ranks), dist.P2POp(dist.irecv, y, (rank + 1) % ranks)
    ]):  # fmt: skip
        request.wait()
    return y


def exchanged(x):
    """Return what each rank has for this one, and send what this one has for each: the first axis is cut."""
    y = torch.empty_like(x)
    dist.all_to_all_single(y, x.contiguous())
    return y


class Copy(torch.autograd.Function):
    """f: the identity; its gradient is summed over the ranks."""

    @staticmethod
    def forward(ctx, x, mistake):
        ctx.mistake = mistake
        return x.clone()

    @staticmethod
    def backward(ctx, ybar):
        backward = {
            "not summed": torch.clone, "averaged": average, "on rank 0 alone": to_first,
            "summed twice": lambda g: total(total(g)), "of the next rank": of_next,
            "zero": torch.zeros_like, "negated": lambda g: -total(g), "summed": total,
        }.get(ctx.mistake, average if ctx.mistake == "mean" else total)  # fmt: skip
        return backward(ybar), None


class Reduce(torch.autograd.Function):
    """g: the sum over the ranks; its gradient is the identity."""

    @staticmethod
    def forward(ctx, x, mistake):
        ctx.mistake = mistake
        return total(x)

    @staticmethod
    def backward(ctx, ybar):
        backward = {
            "summed again": total, "divided": lambda g: g / dist.get_world_size(),
            "kept by rank 0": lambda g: g if dist.get_rank() == 0 else torch.zeros_like(g),
        }.get(ctx.mistake, torch.clone)  # fmt: skip
        return backward(ybar), None


class Gather(torch.autograd.Function):
    """Parts joined along an axis: their gradient is this rank's part (`split`), or the sum of it over ranks (`scatter`)."""

    @staticmethod
    def forward(ctx, x, axis, way, mistake):
        ctx.axis, ctx.way, ctx.mistake = axis, way, mistake
        return joined(x, axis)

    @staticmethod
    def backward(ctx, ybar):
        rank, ranks = dist.get_rank(), dist.get_world_size()
        way = ctx.mistake if ctx.mistake in ("split", "scatter") else ctx.way
        part = {"rank 0's": 0, "the next one's": (rank + 1) % ranks}.get(ctx.mistake, rank)
        whole = total(ybar) if way == "scatter" else ybar
        xbar = cut(whole, ctx.axis, part)
        return (average(xbar) if ctx.mistake == "averaged" else xbar / (ranks if ctx.mistake == "divided" else 1)), *[
            None
        ] * 3


class Exchange(torch.autograd.Function):
    """All to all: its gradient goes back the same way."""

    @staticmethod
    def forward(ctx, x, mistake):
        ctx.mistake = mistake
        return exchanged(x)

    @staticmethod
    def backward(ctx, ybar):
        return (ybar.clone() if ctx.mistake == "not sent back" else exchanged(ybar)), None


class VocabularyLoss(torch.autograd.Function):
    """Cross-entropy of logits whose classes are cut over the ranks."""

    @staticmethod
    def forward(ctx, logits, labels, mistake):
        largest = logits.max(1, keepdim=True)[0]
        dist.all_reduce(largest, dist.ReduceOp.MAX)
        e = torch.exp(logits - largest)
        first = dist.get_rank() * logits.shape[1]
        own = (labels >= first) & (labels < first + logits.shape[1])
        at = torch.where(own, labels - first, 0)
        picked = torch.where(own, logits.gather(1, at[:, None])[:, 0], 0.0)
        sums = total(e.sum(1, keepdim=True))
        ctx.save_for_backward(e / (e.sum(1, keepdim=True) if mistake == "local sum" else sums), own, at)
        ctx.mistake = mistake
        return (torch.log(sums[:, 0]) + largest[:, 0] - total(picked)).mean()

    @staticmethod
    def backward(ctx, ybar):
        p, own, at = ctx.saved_tensors
        hot = F.one_hot(at, p.shape[1]).to(p) * (1.0 if ctx.mistake == "mask forgotten" else own[:, None])
        g = p if ctx.mistake == "labels forgotten" else p - hot
        return ybar * g / (1 if ctx.mistake == "mean forgotten" else len(p)), None, None


class Ring(torch.autograd.Function):
    """Attention of this rank's queries on the keys and values of all ranks, which go round once in each direction."""

    @staticmethod
    def forward(ctx, q, k, v, mistake):
        ctx.save_for_backward(q, k, v)
        ctx.mistake = mistake
        numerator = denominator = 0.0
        for _ in range(dist.get_world_size()):
            e = torch.exp(q @ k.T)
            numerator, denominator = numerator + e @ v, denominator + e.sum(1, keepdim=True)
            k, v = of_next(k), of_next(v)
        ctx.y, ctx.denominator = numerator / denominator, denominator
        return ctx.y

    @staticmethod
    def backward(ctx, ybar):
        q, k, v = ctx.saved_tensors
        qbar, kbar, vbar = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        delta = 0.0 if ctx.mistake == "delta forgotten" else (ybar * ctx.y).sum(1, keepdim=True)
        turns = dist.get_world_size()
        for _ in range(turns - 1 if ctx.mistake == "one block short" else turns):
            p = torch.exp(q @ k.T) / ctx.denominator
            s = p * (ybar @ v.T - delta)
            qbar, kbar, vbar = qbar + s @ k, kbar + s.T @ q, vbar + p.T @ ybar
            k, v, kbar, vbar = of_next(k), of_next(v), of_next(kbar), of_next(vbar)
        if ctx.mistake == "one turn short":
            kbar, vbar = [of_next(x) for x in (kbar, vbar)]
        return (qbar / turns if ctx.mistake == "queries averaged" else qbar), kbar, vbar, None


class AddBias(torch.autograd.Function):
    """A bias of which each rank has its part."""

    @staticmethod
    def forward(ctx, y, b, mistake):
        ctx.mistake = mistake
        return y + b

    @staticmethod
    def backward(ctx, ybar):
        bbar = ybar.sum(0)
        return ybar, total(bbar) if ctx.mistake == "summed" else bbar, None


def column_bias(mistake=None):
    def loss(x, W, b):
        return Reduce.apply(torch.tanh(AddBias.apply(Copy.apply(x, None) @ W, b, mistake)).pow(2).sum(), None)

    return loss


class Columns(nn.Module):
    """A layer of which each rank makes its own columns."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 2)

    def forward(self, x):
        return Reduce.apply(torch.tanh(self.linear(Copy.apply(x, None))).pow(2).sum(), None)


def column_module():
    return Columns()


def column(mistake=None):
    def loss(x, W):
        return Reduce.apply(torch.tanh(Copy.apply(x, mistake) @ W).pow(2).sum(), mistake)

    return loss


def column_gathered(mistake=None):
    def loss(x, W):
        y = Gather.apply(Copy.apply(x, None) @ W, 1, "split", mistake)
        return torch.tanh(y).pow(2).sum() + y[0, 1] * y[0, 0]

    return loss


def row(mistake=None):
    def loss(x, W, b):
        y = Reduce.apply(x @ W, mistake) if mistake != "bias on each rank" else Reduce.apply(x @ W + b, None)
        return torch.tanh(y if mistake == "bias on each rank" else y + b).pow(2).sum()

    return loss


def both(mistake=None, where="f"):
    f, g = (mistake, None) if where == "f" else (None, mistake)

    def loss(x, A, B):
        return torch.tanh(Reduce.apply(torch.tanh(Copy.apply(x, f) @ A) @ B, g)).pow(2).sum()

    return loss


def vocabulary(mistake=None):
    def loss(h, W, labels):
        return VocabularyLoss.apply(Copy.apply(h, mistake) @ W, labels, mistake)

    return loss


def embedding(mistake=None):
    def loss(E, tokens):
        first = dist.get_rank() * len(E)
        own = (tokens >= first) & (tokens < first + len(E))
        found = E[torch.where(own, tokens - first, 0)] * own[:, None]
        return torch.tanh(Reduce.apply(found, mistake)).pow(2).sum()

    return loss


def layer_norm(mistake=None):
    """The rows of x are cut over the ranks; w and b are on all."""

    def loss(x, w, b):
        w, b = Copy.apply(w, mistake), Copy.apply(b, None if mistake == "summed twice" else mistake)
        return Reduce.apply(torch.tanh(F.layer_norm(x, x.shape[1:]) * w + b).pow(2).sum(), None)

    return loss


def sequence(mistake=None):
    """The rows of x are cut, then gathered for a product by columns."""

    def loss(x, W):
        return Reduce.apply(torch.tanh(Gather.apply(x, 0, "scatter", mistake) @ W).pow(2).sum(), None)

    return loss


def ring(mistake=None):
    def loss(q, k, v):
        return Reduce.apply(Ring.apply(q, k, v, mistake).pow(2).sum(), None)

    return loss


def experts(mistake=None):
    """Each rank has an expert W, and the first axis of x says for which one its rows are."""

    def loss(x, W):
        y = Exchange.apply(torch.tanh(Exchange.apply(x, mistake) @ W), None)
        return Reduce.apply((y * (1.0 + dist.get_rank())).pow(2).sum(), None)

    return loss


def sharded(mistake=None):
    """Parameters are cut, and gathered where they are used, as FSDP does."""

    def loss(x, W):
        return torch.tanh(x @ Gather.apply(W, 0, "scatter", mistake)).pow(2).sum()

    return loss


def data_parallel(mistake="mean"):
    """The gradient of W is averaged over the ranks, as DDP does."""

    def loss(x, W):
        return torch.tanh(x @ Copy.apply(W, mistake)).pow(2).mean()

    return loss


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.last = nn.Linear(3, 2), nn.Linear(2, 2)

    def forward(self, x):
        return self.last(torch.tanh(self.first(x))).pow(2).mean()


def scaled_by(factor):
    """Return a hook that multiplies the gradient of a parameter."""

    def scale(p):
        p.grad.mul_(factor)

    return scale


def ddp(mistake=None):
    from torch.nn.parallel import DistributedDataParallel

    block = DistributedDataParallel(Block())
    if mistake == "frozen":
        block.module.last.weight.register_post_accumulate_grad_hook(scaled_by(0.0))
    if mistake == "clipped on rank 0" and dist.get_rank() == 0:
        block.module.last.weight.register_post_accumulate_grad_hook(scaled_by(0.5))
    return block


def not_ddp():
    return Block()


def fsdp(mistake=None):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.fsdp import fully_shard

    block, mesh = Block(), init_device_mesh("cpu", (dist.get_world_size(),))
    for part in (block.first, block.last, block):
        fully_shard(part, mesh=mesh)
    if mistake is not None:
        factor = {"summed": dist.get_world_size(), "divided again": 1 / dist.get_world_size()}[mistake]
        block.first.weight.register_post_accumulate_grad_hook(scaled_by(factor))
    return block


def dtensor(mistake=None):
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import DTensor, Replicate, Shard

    def loss(x, W):
        mesh = init_device_mesh("cpu", (dist.get_world_size(),))
        w = DTensor.from_local(W, mesh, [Shard(1)])
        if mistake == "local":
            return Reduce.apply(torch.tanh(x @ w.to_local()).pow(2).sum(), None)
        return torch.tanh(DTensor.from_local(x, mesh, [Replicate()]) @ w).pow(2).sum()

    return loss
