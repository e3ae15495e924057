"""Kernels of attention: causal with capped scores, and with padding and a bias by distance."""

import math
from typing import Any

import numpy as np
import torch
from torch.autograd.function import once_differentiable

from tests.frameworks.corpus.kernel import added_up, kernel, matmul_in_blocks, normals, wide

CAP = 2.0


def capped_attention(q: Any, k: Any, v: Any) -> Any:
    scores = CAP * torch.tanh(q @ k.mT / math.sqrt(q.shape[-1]) / CAP)
    return torch.softmax(scores.masked_fill(~causal(q.shape[1]), -math.inf), -1) @ v


def causal(length: int, ahead: int = 0) -> Any:
    return torch.ones(length, length, dtype=torch.bool).tril(ahead)


class CappedAttention:
    """Causal attention by blocks of queries; its methods are the passes of one torch.autograd.Function."""

    block = 16

    def __init__(self) -> None:
        class CappedAttentionFunction(torch.autograd.Function):
            forward = staticmethod(self.forward)
            backward = staticmethod(self.backward)

        self.function = CappedAttentionFunction

    def __call__(self, q: Any, k: Any, v: Any) -> Any:
        return self.function.apply(q, k, v)

    def inside(self, x: Any) -> Any:
        return wide(x)

    def product(self, a: Any, b: Any) -> Any:
        return a @ b

    def slope(self, t: Any) -> Any:
        return 1 - t * t

    def seen(self, length: int) -> Any:
        return causal(length)

    def seen_backwards(self, length: int) -> Any:
        return self.seen(length)

    def blocks(self, length: int) -> Any:
        return [slice(start, start + self.block) for start in range(0, length, self.block)]

    def forward(self, ctx: Any, q: Any, k: Any, v: Any) -> Any:
        y, totals, seen = torch.empty_like(v), [], self.seen(q.shape[1])
        keys, values = self.inside(k), self.inside(v)
        for rows in self.blocks(q.shape[1]):
            t = torch.tanh(self.product(self.inside(q[:, rows]), keys.mT) / math.sqrt(q.shape[-1]) / CAP)
            e = torch.exp(CAP * t - CAP).masked_fill(~seen[rows], 0.0)  # no score is above the cap
            totals.append(self.product(e, torch.ones_like(values[..., :1])))
            y[:, rows] = (self.product(e, values) / totals[-1]).to(q.dtype)
        ctx.save_for_backward(q, k, v, y, torch.cat(totals, 1))
        return y

    def backward(self, ctx: Any, ybar: Any) -> Any:
        q, k, v, y, totals = ctx.saved_tensors
        keys, values, seen = self.inside(k), self.inside(v), self.seen_backwards(q.shape[1])
        qbar, kbar, vbar = torch.zeros_like(keys), torch.zeros_like(keys), torch.zeros_like(values)
        for rows in self.blocks(q.shape[1]):
            queries, bar = self.inside(q[:, rows]), self.inside(ybar[:, rows])
            t = torch.tanh(self.product(queries, keys.mT) / math.sqrt(q.shape[-1]) / CAP)
            p = torch.exp(CAP * t - CAP).masked_fill(~seen[rows], 0.0) / totals[:, rows]
            delta = (bar * self.inside(y[:, rows])).sum(-1, keepdim=True)
            sbar = p * (bar @ values.mT - delta) * self.slope(t) / math.sqrt(q.shape[-1])
            qbar[:, rows] = self.product(sbar, keys)
            kbar = kbar + sbar.mT @ queries
            vbar = vbar + p.mT @ bar
        return tuple(xbar.to(q.dtype) for xbar in (qbar, kbar, vbar))


class NarrowCappedAttention(CappedAttention):
    block = 1

    def inside(self, x: Any) -> Any:
        return x

    def product(self, a: Any, b: Any) -> Any:
        return matmul_in_blocks(a, b, 8)


class CappedAttentionUncapped(CappedAttention):
    def slope(self, t: Any) -> Any:
        return torch.ones_like(t)


class CappedAttentionBeforeDiagonal(CappedAttention):
    def seen_backwards(self, length: int) -> Any:
        return causal(length, -1)


class CappedAttentionOneAhead(CappedAttention):
    def seen(self, length: int) -> Any:
        return causal(length, 1)

    def seen_backwards(self, length: int) -> Any:
        return causal(length)


class CappedAttentionWholeBlocks(CappedAttention):
    block = 2

    def blocks(self, length: int) -> Any:
        return [slice(start, start + 2) for start in range(0, length - 1, 2)]

    def forward(self, ctx: Any, q: Any, k: Any, v: Any) -> Any:
        return CAPPED_ATTENTION.forward(ctx, q, k, v)


class CappedAttentionUnwritten(CappedAttention):
    def backward(self, ctx: Any, ybar: Any) -> Any:
        q, k, v, _, totals = ctx.saved_tensors
        qbar, kbar, _ = super().backward(ctx, ybar)
        p = torch.empty(*q.shape[:2], k.shape[1], dtype=totals.dtype)
        for rows in self.blocks(q.shape[1]):
            keys = slice(0, rows.stop)  # the rest of the row is never read as a score, but it is by the product below
            t = torch.tanh(wide(q[:, rows]) @ wide(k[:, keys]).mT / math.sqrt(q.shape[-1]) / CAP)
            seen = causal(q.shape[1])[rows, keys]
            p[:, rows, keys] = torch.exp(CAP * t - CAP).masked_fill(~seen, 0.0) / totals[:, rows]
        return qbar, kbar, (p.mT @ wide(ybar)).to(v.dtype)


CAPPED_ATTENTION = CappedAttention()


def padded_attention(q: Any, k: Any, v: Any, bias: Any, lengths: Any) -> Any:
    by_distance = torch.nn.functional.one_hot(distances(q.shape[1], len(bias)), len(bias)).to(bias.dtype) @ bias
    kept = valid(lengths, q.shape[1])
    scores = q @ k.mT / math.sqrt(q.shape[-1]) + by_distance
    p = torch.softmax(scores.masked_fill(~kept, torch.finfo(q.dtype).min), -1)
    return p.masked_fill(~kept, 0.0) @ v


def distances(length: int, buckets: int) -> Any:
    """Return how far key and query are apart, with all that are far in the last bucket."""
    at = torch.arange(length)
    return (at - at[:, None]).abs().clamp(max=buckets - 1)


def valid(lengths: Any, length: int) -> Any:
    return (torch.arange(length) < lengths[:, None])[:, None]


def by_bucket(scores: Any, buckets: Any, bias: Any) -> Any:
    """Return the sums of the scores' gradients that have one distance, over the batch, too."""
    return torch.zeros_like(wide(bias)).index_add(0, buckets.flatten(), scores.sum(0).flatten())


class PaddedAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, bias: Any, lengths: Any) -> Any:
        scores = wide(q) @ wide(k).mT / math.sqrt(q.shape[-1]) + wide(bias)[distances(q.shape[1], len(bias))]
        kept = valid(lengths, q.shape[1])
        top = scores.masked_fill(~kept, -math.inf).amax(-1, keepdim=True).clamp(min=-1e30)
        e = torch.exp(scores - top).masked_fill(~kept, 0.0)
        p = e / e.sum(-1, keepdim=True).clamp(min=1e-30)  # where all is padding, nothing is attended to
        ctx.save_for_backward(q, k, v, bias, p, lengths)
        return (p @ wide(v)).to(q.dtype)

    @staticmethod
    def scores_bar(ctx: Any, ybar: Any) -> Any:
        _, _, v, _, p, _ = ctx.saved_tensors
        pbar = wide(ybar) @ wide(v).mT
        return p * (pbar - (p * pbar).sum(-1, keepdim=True))

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        q, k, _, bias, p, _ = ctx.saved_tensors
        sbar, scale = PaddedAttention.scores_bar(ctx, ybar), 1 / math.sqrt(q.shape[-1])
        biasbar = by_bucket(sbar, distances(q.shape[1], len(bias)), bias)
        bars = scale * sbar @ wide(k), scale * sbar.mT @ wide(q), p.mT @ wide(ybar), biasbar
        return *(bar.to(q.dtype) for bar in bars), None


class NarrowPaddedAttention(PaddedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        q, k, v, bias, weights, _ = ctx.saved_tensors
        p, pbar, scale = weights.to(q.dtype), ybar @ v.mT, 1 / math.sqrt(q.shape[-1])
        sbar = p * (pbar - added_up(p * pbar, -1, keepdim=True))
        biasbar, buckets = torch.zeros_like(bias), distances(q.shape[1], len(bias))
        for row in range(q.shape[1]):
            for bars in sbar[:, row]:
                biasbar = biasbar.index_add(0, buckets[row], bars)
        qbar, kbar = matmul_in_blocks(sbar, k), matmul_in_blocks(sbar.mT, q)
        return scale * qbar, scale * kbar, matmul_in_blocks(p.mT, ybar), biasbar, None


class PaddedAttentionToNothing(PaddedAttention):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, bias: Any, lengths: Any) -> Any:
        scores = wide(q) @ wide(k).mT / math.sqrt(q.shape[-1]) + wide(bias)[distances(q.shape[1], len(bias))]
        p = torch.softmax(scores.masked_fill(~valid(lengths, q.shape[1]), -math.inf), -1)
        ctx.save_for_backward(q, k, v, bias, p, lengths)
        return (p @ wide(v)).to(q.dtype)


class PaddedAttentionOneMore(PaddedAttention):
    @staticmethod
    def forward(ctx: Any, q: Any, k: Any, v: Any, bias: Any, lengths: Any) -> Any:
        return PaddedAttention.forward(ctx, q, k, v, bias, lengths + (lengths > 0))


class PaddedAttentionLastBias(PaddedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        qbar, kbar, vbar, biasbar, _ = PaddedAttention.backward(ctx, ybar)
        for sbar in PaddedAttention.scores_bar(ctx, ybar):
            biasbar = by_bucket(sbar[None], distances(ybar.shape[1], len(biasbar)), biasbar).to(ybar.dtype)
        return qbar, kbar, vbar, biasbar, None


class PaddedAttentionUnwritten(PaddedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        *bars, _ = PaddedAttention.backward(ctx, ybar)
        kbar, vbar = torch.empty_like(bars[1]), torch.empty_like(bars[2])
        for row, length in enumerate(ctx.saved_tensors[-1].tolist()):
            kbar[row, :length], vbar[row, :length] = bars[1][row, :length], bars[2][row, :length]
        return bars[0], kbar, vbar, bars[3], None


def adds_to_kept_bias() -> Any:
    buffers: dict[Any, Any] = {}

    class PaddedAttentionKeptBias(PaddedAttention):
        @staticmethod
        @once_differentiable
        def backward(ctx: Any, ybar: Any) -> Any:
            *bars, biasbar, _ = PaddedAttention.backward(ctx, ybar)
            buffer = buffers.setdefault((biasbar.shape, biasbar.dtype), torch.zeros_like(biasbar))
            return *bars, buffer.add_(biasbar).clone(), None

    return PaddedAttentionKeptBias


PADDED = normals(q=(4, 48, 6), k=(4, 48, 6), v=(4, 48, 6), bias=(16,))
# small queries keep the scores close, so that their rounding does not hide that of the sums
PADDED |= {"q": PADDED["q"] / 4, "bias": PADDED["bias"] / 2, "lengths": np.array([48, 40, 0, 33])}

ATTENTION = (
    kernel(capped_attention, CAPPED_ATTENTION, NarrowCappedAttention(), {
        "the cap has no slope": ("point", CappedAttentionUncapped()),
        "the mask of the backward pass hides the diagonal": ("point", CappedAttentionBeforeDiagonal()),
        "the mask lets one key too many through": ("value", CappedAttentionOneAhead()),
        "the last query of an odd length has no gradient": ("odd", CappedAttentionWholeBlocks()),
        "weights above the diagonal are not written": ("nan", CappedAttentionUnwritten()),
    }, normals(q=(3, 64, 6), k=(3, 64, 6), v=(3, 64, 6))),
    kernel(padded_attention, PaddedAttention, NarrowPaddedAttention, {
        "a sequence of padding alone is nan": ("value", PaddedAttentionToNothing),
        "the padding mask lets one key too many through": ("value", PaddedAttentionOneMore),
        "the bias's gradient is that of the last sequence": ("point", PaddedAttentionLastBias),
        "gradients of padding are not written": ("nan", PaddedAttentionUnwritten),
        "the bias's gradient is added to that of the call before": ("repeat", adds_to_kept_bias()),
    }, PADDED),
)  # fmt: skip
