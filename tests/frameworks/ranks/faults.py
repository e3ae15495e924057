"""Programs that fail on some ranks, or return what no loss is."""

import os

import torch
import torch.distributed as dist


def energy(x):
    y = x.square().sum()
    dist.all_reduce(y)
    return y / dist.get_world_size()


def raises(x):
    if dist.get_rank() == 1:
        raise ValueError("no")
    return energy(x)


def ends(x):
    if dist.get_rank() == 1:
        os._exit(3)
    return energy(x)


def waits(x):
    return energy(x) if dist.get_rank() == 0 else x.sum()


def all_wait(x):
    dist.recv(x, 1 - dist.get_rank())
    return x.sum()


def shapes(x):
    return x[: 1 + dist.get_rank()]


def differ(x):
    return (1 + dist.get_rank()) * x.sum()


def nothing():
    return torch.ones(())


def half(x):
    return x.square().sum() / 2


def square(x):
    return x.square().sum()


def place(name, value, rank, ranks):
    return value[rank::ranks] if name == "x" else None


def uneven(name, value, rank, ranks):
    return None if name == "w" else value[:1] if rank == 0 else value[1:]


def changed(name, value, rank, ranks):
    return 2 * value


def of_parts(x, w):
    y = (w * x.square().sum()).sum()
    dist.all_reduce(y)
    return y


def gap(name, value, rank, ranks):
    return value[rank : rank + 1]


def text(name, value, rank, ranks):
    return "x"


class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(4, 1)

    def forward(self, x):
        return self.linear(x).sum()


class Waits(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, ybar):
        if dist.get_rank() == 0:
            dist.all_reduce(ybar)
        return ybar


def waits_in_backward(x):
    return Waits.apply(x).square().sum()
