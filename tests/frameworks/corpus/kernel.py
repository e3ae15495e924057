"""A kernel as one writes it for training in bfloat16: its reference, a right version, a less exact one, and how it goes wrong."""

import inspect
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from tests.frameworks.corpus.case import Function

NEEDS = {
    "point": "the gradient is wrong at the given inputs",
    "value": "the value is wrong at the given inputs",
    "repeat": "a second call: the first is right, the next uses or overwrites what the first left",
    "nan": "memory filled with nan when it is allocated: some of it is never written",
    "strided": "inputs that are not contiguous in memory",
    "in place": "a look at the inputs after the call: one was written to",
    "batch 1": "a first axis of one",
    "batch 2": "a first axis of two",
    "odd": "an odd second axis of the first input",
    "float32": "inputs in float32 or wider: in bfloat16 the mistake is as small as rounding",
    "bfloat16": "inputs in bfloat16: it is the less exact version, which is right in float64",
}


@dataclass(frozen=True)
class Kernel:
    """A kernel; `slips` says by each wrong version what its author missed, and `needs` by the same words what shows it.

    `reference` is in operations that torch differentiates. `right` computes in float32, or in the format of its inputs
    where that is wider. `less_exact` adds up in the format of its inputs. All return one tensor.
    Shapes   the first axis is the batch, and all axes that must agree, and no others, have the same size.
    """

    name: str
    reference: Function
    right: Function
    less_exact: Function
    slips: Mapping[str, Function]
    inputs: Mapping[str, Any]
    needs: Mapping[str, str]


def kernel(
    reference: Function, right: Any, less_exact: Any, slips: Mapping[str, tuple[str, Any]], inputs: Mapping[str, Any]
) -> Kernel:
    """Return a kernel with its reference's name; each slip is what it needs and the wrong version."""
    less = called_as(reference, less_exact)
    wrong = {said: less if made is less_exact else called_as(reference, made) for said, (_, made) in slips.items()}
    needs = {said: need for said, (need, _) in slips.items()}
    return Kernel(reference.__name__, reference, called_as(reference, right), less, wrong, inputs, needs)


def called_as(reference: Function, made: Any) -> Function:
    """Return a torch.autograd.Function as a function that takes its inputs by name, too; leave others as they are."""
    if not isinstance(made, type):
        return made
    signature = inspect.signature(reference)

    def apply(*args: Any, **kwargs: Any) -> Any:
        return made.apply(*signature.bind(*args, **kwargs).args)

    apply.__signature__ = signature  # type: ignore[attr-defined]
    apply.__name__, apply.__module__ = made.__name__, made.__module__
    return apply


def wide(x: Any) -> Any:
    """Return the values in float32, or as they are where they are wider."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def narrow(x: Any) -> Any:
    """Return the values as they are: what is computed with them is rounded to the format of the inputs."""
    return x


def added_up(x: Any, axis: int, keepdim: bool = False) -> Any:
    """Return the sum along an axis, one term after the other, each rounded to the format of x."""
    terms = x.movedim(axis, 0)
    total = torch.zeros_like(terms.sum(0))
    for term in terms:
        total = total + term
    return total.unsqueeze(axis) if keepdim else total


def softmax_added_up(z: Any) -> Any:
    """Return the softmax along rows with its sums added up one term after the other."""
    e = torch.exp(z - z.amax(-1, keepdim=True))
    return e / added_up(e, -1, keepdim=True)


def matmul_in_blocks(a: Any, b: Any, block: int = 1) -> Any:
    """Return a @ b with the products of one block after the other added to a total in the format of a and b."""
    total = torch.zeros_like(a @ b)
    for k in range(0, a.shape[-1], block):
        if block == 1:
            total = total + a[..., k, None] * b[..., k, None, :]
        else:
            total = total + a[..., k : k + block] @ b[..., k : k + block, :]
    return total


def in_storage_order(x: Any) -> Any:
    """Return the entries in the order in which they lie in memory, as code does that has no strides."""
    return x.as_strided(x.shape, [math.prod(x.shape[k + 1 :]) for k in range(x.ndim)], x.storage_offset())


def normals(seed: int = 0, **shapes: tuple[int, ...]) -> dict[str, Any]:
    """Return normally distributed numbers by name, the same at every call with the same arguments."""
    generator = np.random.default_rng(seed)
    return {name: generator.normal(size=shape) for name, shape in shapes.items()}
