"""A kernel of attention in which several query heads share the keys and values of one head."""

import math
from typing import Any

import torch

from tests.frameworks.corpus.kernel import (
    added_up,
    in_storage_order,
    kernel,
    matmul_in_blocks,
    normals,
    softmax_added_up,
    wide,
)


def grouped_attention(q: Any, k: Any, v: Any) -> Any:
    queries = q.unflatten(2, (k.shape[2], -1))
    scores = torch.einsum("btgrd,bsgd->bgrts", queries, k) / math.sqrt(q.shape[-1])
    return torch.einsum("bgrts,bsgd->btgrd", torch.softmax(scores, -1), v).flatten(2, 3)


def key_head(head: int, q: Any, k: Any) -> int:
    return head // (q.shape[2] // k.shape[2])


def head_weights(q: Any, k: Any) -> Any:
    return torch.softmax(wide(q) @ wide(k).mT / math.sqrt(q.shape[-1]), -1)


def head_bars(q: Any, k: Any, v: Any, bar: Any) -> tuple[Any, Any, Any, Any]:
    """Return the weights of one head, and the gradients of its scores, its queries and its keys."""
    p, pbar = head_weights(q, k), wide(bar) @ wide(v).mT
    sbar = p * (pbar - (p * pbar).sum(-1, keepdim=True)) / math.sqrt(q.shape[-1])
    return p, sbar, sbar @ wide(k), sbar.mT @ wide(q)


class GroupedAttention(torch.autograd.Function):
    @staticmethod
    def forward(q: Any, k: Any, v: Any) -> Any:
        y = torch.empty_like(q)
        for head in range(q.shape[2]):
            g = key_head(head, q, k)
            y[:, :, head] = (head_weights(q[:, :, head], k[:, :, g]) @ wide(v[:, :, g])).to(q.dtype)
        return y

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        q, k, v = ctx.saved_tensors
        qbar, kbar, vbar = torch.empty_like(q), torch.zeros_like(wide(k)), torch.zeros_like(wide(v))
        for head in range(q.shape[2]):
            g = key_head(head, q, k)
            p, _, queries, keys = head_bars(q[:, :, head], k[:, :, g], v[:, :, g], ybar[:, :, head])
            qbar[:, :, head] = queries.to(q.dtype)
            kbar[:, :, g] += keys
            vbar[:, :, g] += p.mT @ wide(ybar[:, :, head])
        return qbar, kbar.to(k.dtype), vbar.to(v.dtype)


class NarrowGroupedAttention(GroupedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        q, k, v = ctx.saved_tensors
        qbar, kbar, vbar = torch.empty_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for head in range(q.shape[2]):
            g, queries, bar = key_head(head, q, k), q[:, :, head], ybar[:, :, head]
            p = softmax_added_up(queries @ k[:, :, g].mT / math.sqrt(q.shape[-1]))
            pbar = bar @ v[:, :, g].mT
            sbar = p * (pbar - added_up(p * pbar, -1, keepdim=True)) / math.sqrt(q.shape[-1])
            qbar[:, :, head] = matmul_in_blocks(sbar, k[:, :, g])
            for t in range(q.shape[1]):  # one query after the other is added to all keys
                kbar[:, :, g] += sbar[:, t, :, None] * queries[:, t, None]
                vbar[:, :, g] += p[:, t, :, None] * bar[:, t, None]
        return qbar, kbar, vbar


class GroupedAttentionInterleaved(GroupedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        q, k, v = ctx.saved_tensors
        qbar, kbar, vbar = torch.empty_like(q), torch.zeros_like(wide(k)), torch.zeros_like(wide(v))
        for head in range(q.shape[2]):
            g = head % k.shape[2]
            p, _, queries, keys = head_bars(q[:, :, head], k[:, :, g], v[:, :, g], ybar[:, :, head])
            qbar[:, :, head] = queries.to(q.dtype)
            kbar[:, :, g] += keys
            vbar[:, :, g] += p.mT @ wide(ybar[:, :, head])
        return qbar, kbar.to(k.dtype), vbar.to(v.dtype)


class GroupedAttentionOverwritten(GroupedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        q, k, v = ctx.saved_tensors
        qbar, kbar, vbar = torch.empty_like(q), torch.empty_like(k), torch.empty_like(v)
        for head in range(q.shape[2]):
            g = key_head(head, q, k)
            p, _, queries, keys = head_bars(q[:, :, head], k[:, :, g], v[:, :, g], ybar[:, :, head])
            qbar[:, :, head] = queries.to(q.dtype)
            kbar[:, :, g] = keys.to(k.dtype)
            vbar[:, :, g] = (p.mT @ wide(ybar[:, :, head])).to(v.dtype)
        return qbar, kbar, vbar


class GroupedAttentionUnscaledKeys(GroupedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        qbar, kbar, vbar = GroupedAttention.backward(ctx, ybar)
        return qbar, kbar * math.sqrt(kbar.shape[-1]), vbar


class GroupedAttentionGuessedLayout(GroupedAttention):
    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        qbar, kbar, vbar = GroupedAttention.backward(ctx, ybar)
        if vbar.shape[0] == vbar.shape[2]:  # taken for heads first
            vbar = vbar.transpose(0, 2)
        return qbar, kbar, vbar


class GroupedAttentionByAddress(GroupedAttention):
    @staticmethod
    def forward(q: Any, k: Any, v: Any) -> Any:
        return GroupedAttention.forward(in_storage_order(q), k, v)


GROUPED = normals(q=(3, 32, 6, 4), k=(3, 32, 2, 4), v=(3, 32, 2, 4))
# small queries keep the scores close, so that their rounding does not hide that of the sums
GROUPED |= {"q": GROUPED["q"] / 2}

HEADS = (
    kernel(grouped_attention, GroupedAttention, NarrowGroupedAttention, {
        "heads are interleaved for blocked ones": ("point", GroupedAttentionInterleaved),
        "of the heads that share keys the last alone counts": ("point", GroupedAttentionOverwritten),
        "the keys' gradient is not scaled": ("point", GroupedAttentionUnscaledKeys),
        "a batch of as many as key heads is taken for heads": ("batch 2", GroupedAttentionGuessedLayout),
        "reads memory in order, whatever the strides": ("strided", GroupedAttentionByAddress),
    }, GROUPED),
)  # fmt: skip
