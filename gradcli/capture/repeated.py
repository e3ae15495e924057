"""Whether a torch backward pass that the program ran gives the same gradient again, at the same values."""

import sys
from typing import Any

from gradcli.capture.recorder import Kept
from gradcli.reports.common import Finding, finding
from gradcli.words import Kind, Severity


def repeated(kept: Kept) -> Finding | None:
    """Return a finding if a backward pass returned another gradient than it returns now; None if it is the same.

    Two gradients count as different if more than half of their digits differ: sums in another order do not count.
    """
    torch = sys.modules.get("torch")
    if torch is None or kept.returned is None or not hasattr(kept.pair.function, "apply"):
        return None
    floats = [isinstance(x, torch.Tensor) and x.is_floating_point() for x in kept.args]
    args = [x.clone().requires_grad_() if moves else x for x, moves in zip(kept.args, floats, strict=True)]
    try:
        with torch.enable_grad():
            y = kept.pair.function.apply(*args)
            outputs = [x for x in (y if isinstance(y, tuple | list) else [y]) if isinstance(x, torch.Tensor)]
            pairs = [
                (x, w) for x, w in zip(outputs, kept.cotangents, strict=False) if w is not None and x.requires_grad
            ]
            inputs = [x for x, moves in zip(args, floats, strict=True) if moves]
            again = torch.autograd.grad([x for x, _ in pairs], inputs, [w for _, w in pairs], allow_unused=True)
    except (RuntimeError, TypeError):  # it needs another device, or what the program has freed
        return None
    if not all(_near(x, then) for x, then in zip(outputs, kept.value, strict=False)):
        says = "the function has another value now than when it was called"
        return finding(Kind.CHANGED_SINCE, Severity.INCONCLUSIVE, says)
    tensors = [x for x in kept.args if isinstance(x, torch.Tensor)]
    then = [g for x, g in zip(tensors, kept.returned, strict=False) if x.is_floating_point()]
    if all(_near(x, g) for x, g in zip(again, then, strict=False) if x is not None and g is not None):
        return None
    says = f"the backward pass of call {kept.number:,} returned another gradient than the same values give now"
    hint = "a buffer that a later call overwrites, a cache, or a saved tensor that was changed in place"
    return finding(Kind.EARLIER_CALLS, Severity.ERROR, says, hint=hint)


def _near(x: Any, y: Any) -> bool:
    """Whether two tensors agree in half of their digits, relative to the largest entry."""
    if x.shape != y.shape:
        return False
    if not x.is_floating_point() or x.numel() == 0:
        return bool((x == y).all())
    eps = float(sys.modules["torch"].finfo(x.dtype).eps)
    x, y = x.detach().double(), y.detach().double()
    return bool(((x - y).abs() <= eps**0.5 * max(float(y.abs().max()), 1e-300)).all() or not y.isfinite().all())
