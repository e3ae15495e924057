"""The adapter for torch: converts tensors, computes torch's own gradients, and records its functions."""

import contextlib
import copy
import inspect
import warnings
import weakref
from collections.abc import Callable, Iterator, Sequence
from typing import Any, cast

import numpy as np
import torch

from gradcli.errors import BadOption, FunctionFailed, NotSupported
from gradcli.frameworks.framework import Call, Flat, Measured, Placed, Prepared, Run, Tensor, Without
from gradcli.frameworks.recorder import RecordedSteps
from gradcli.frameworks.torch.calls import applied, custom_calls, declined
from gradcli.frameworks.torch.modules import FORMATS, in_format, of_module
from gradcli.frameworks.torch.record import host, recorded
from gradcli.frameworks.torch.running import (
    checkpointed,
    deterministic,
    eager,
    in_mixed_precision,
    in_turn,
    measured,
    pulled,
)
from gradcli.point import Array
from gradcli.source.function import Notice
from gradcli.source.structure import taken_apart
from gradcli.words import Kind, Severity

_DIFFERENTIATING = {"grad", "backward", "jacobian", "hessian", "enable_grad"}  # names in functions that differentiate
_INSIDE = "not require grad"  # torch's message if a function needs gradients of inputs that require none
_BY_INPUTS: weakref.WeakSet[Any] = weakref.WeakSet()  # functions that differentiate with respect to their inputs inside
_MOST_ALONE = 8  # inputs at most, to be differentiated one at a time
_NO_FORWARD = ("jvp", "forward AD", "setup_context", "forward-mode", "forward mode")


class Torch(Without):
    """The adapter for torch."""

    name = "torch"

    def holds(self, x: Any) -> bool:
        return isinstance(x, torch.Tensor)

    def owns(self, x: Any) -> bool:
        """Whether it is a module, a custom function, or a method of one of these."""
        of = getattr(x, "__self__", x)
        kinds = (torch.nn.Module, torch.autograd.Function)
        return isinstance(of, kinds) or (inspect.isclass(of) and issubclass(of, kinds))

    def tensor(self, x: Array, placed: Placed) -> Tensor:
        x = np.asarray(x)
        dtype = FORMATS[placed.dtype] if x.dtype.kind == "f" else None  # complex numbers stay double
        return torch.tensor(x, dtype=dtype, device=placed.device)

    def array(self, x: Tensor) -> Array:
        return host(x)

    def is_float(self, x: Tensor) -> bool:
        return bool(x.is_floating_point())

    def joined(self, ys: Sequence[Tensor]) -> Tensor:
        return torch.cat([y.reshape(-1) for y in ys])

    def complex(self, real: Tensor, imag: Tensor) -> Tensor:
        return torch.complex(real, imag)

    def parts(self, y: Tensor) -> Tensor:
        return torch.view_as_real(y.resolve_conj()) if y.is_complex() else y

    def prepared(self, found: Any, placed: Placed, seed: int) -> Prepared:
        if placed.dtype not in FORMATS:
            raise BadOption(f"torch has no format '{placed.dtype}'", do=f"formats: {', '.join(FORMATS)}")
        notices: list[Notice] = []
        of = getattr(found, "__self__", None)
        if (
            inspect.isclass(of)
            and issubclass(of, torch.autograd.Function)
            and getattr(found, "__name__", "") == "apply"
        ):
            found = of
        if inspect.isclass(found) and issubclass(found, torch.autograd.Function):
            return Prepared(applied(found), found.__name__, {})
        if inspect.isclass(found) and issubclass(found, torch.nn.Module):
            with _seeded(seed):
                found = found()
        if isinstance(found, torch.nn.Module):
            module = copy.deepcopy(found).to(placed.device, FORMATS[placed.dtype])
            if any(
                True
                for _ in module.modules()
                if isinstance(_, torch.nn.modules.batchnorm._BatchNorm | torch.nn.Dropout)
            ):
                mode = "training" if module.training else "evaluation"
                notices.append(Notice(Kind.MODULE, Severity.INFO, f"checked in {mode} mode, as it was handed over"))
            parameters = {
                name: host(p) for name, p in module.named_parameters() if p.requires_grad and p.is_floating_point()
            }
            return Prepared(of_module(module), type(module).__name__, parameters, tuple(notices))
        return Prepared(in_format(found, placed), getattr(found, "__name__", type(found).__name__), {})

    def called(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], seed: int, differentiates: bool
    ) -> Any:
        if differentiates:
            with _seeded(seed), torch.enable_grad():
                return function(*args, **kwargs)
        return _run(function, lambda: function(*args, **kwargs), (args, kwargs), seed)

    def gradient(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        return self._pulled(f, xs, w, seed, set(range(len(xs))))[0]

    def pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> tuple[Array, list[Array]]:
        with torch.enable_grad(), _seeded(seed):
            return pulled(f, [x.detach().requires_grad_() for x in xs], w)

    def value(self, f: Flat, xs: Sequence[Tensor], seed: int) -> Array:
        with torch.no_grad(), _seeded(seed):
            return host(f(xs))

    def declined(self, f: Flat, xs: Sequence[Tensor], seed: int) -> frozenset[int]:
        with torch.enable_grad(), _seeded(seed):
            return declined(f, [x.detach().clone().requires_grad_() for x in xs])

    def in_turn(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> Iterator[Run]:
        return in_turn(f, xs, others, w, lambda: _seeded(seed))

    def tangent(self, f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int) -> Array:
        try:
            return _pushed(f, xs, vs, seed, inside=False)
        except (RuntimeError, FunctionFailed) as error:
            if _INSIDE not in str(error):
                raise _unsupported(error, _NO_FORWARD) from error
        try:
            return _pushed(f, xs, vs, seed, inside=True)
        except (RuntimeError, FunctionFailed) as error:
            raise _unsupported(error, (*_NO_FORWARD, _INSIDE)) from error

    def curvature(self, f: Flat, xs: Sequence[Tensor], w: Array, vs: Sequence[Array], seed: int) -> list[Array]:
        with torch.enable_grad(), _seeded(seed):
            leaves = [x.detach().clone().requires_grad_() for x in xs]
            y = f(leaves)
            still = [np.zeros(tuple(x.shape))[()] for x in xs]
            if not y.requires_grad:
                return still
            try:
                bars = torch.autograd.grad(y, leaves, _like(w, y), allow_unused=True, create_graph=True)
            except RuntimeError as error:
                raise _unsupported(error, ("use_reentrant",)) from error
            along = [
                torch.sum(bar * _like(v, bar))
                for bar, v in zip(bars, vs, strict=True)
                if bar is not None and bar.requires_grad
            ]
            if not along:
                return still
            try:
                again = torch.autograd.grad(torch.stack(along).sum(), leaves, allow_unused=True)
            except RuntimeError as error:
                raise _unsupported(
                    error, ("once_differentiable", "not implemented", "does not require grad")
                ) from error
        return [zero if bar is None else host(bar) for zero, bar in zip(still, again, strict=True)]

    def mapped(self, f: Flat, xs: Sequence[Tensor], others: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        def one(*leaves: Tensor) -> Tensor:
            y = f(list(leaves))
            return torch.sum(y * _like(w, y))

        pairs = [torch.stack([a.detach(), b.detach()]) for a, b in zip(xs, others, strict=True)]
        with _seeded(seed), warnings.catch_warnings():
            warnings.simplefilter(
                "ignore"
            )  # torch warns of slow operations without a batching rule, and only gradcli uses vmap
            try:
                gradient = torch.func.grad(one, argnums=tuple(range(len(xs))))
                return [host(g) for g in torch.func.vmap(gradient, randomness="same")(*pairs)]
            except (RuntimeError, FunctionFailed) as error:
                cause = error.__cause__ or error
                raise NotSupported(" ".join(str(cause).split())[:200]) from error

    def variants(
        self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, own: frozenset[int]
    ) -> dict[str, list[Array | None] | str | NotSupported]:
        """Return the gradient at strided inputs, one input at a time, and whether the backward writes into its cotangent."""
        found: dict[str, list[Array | None] | str | NotSupported] = {}
        if any(x.dim() > 0 for k, x in enumerate(xs) if k not in own):
            found["non-contiguous inputs"] = list(
                self._pulled(
                    f, [x if k in own else _strided(x) for k, x in enumerate(xs)], w, seed, set(range(len(xs)))
                )[0]
            )
        if 1 < len(xs) <= _MOST_ALONE:
            try:
                found["one input at a time"] = [self._pulled(f, xs, w, seed, {k})[0][k] for k in range(len(xs))]
            except (RuntimeError, FunctionFailed) as error:  # the function itself needs the gradient of all inputs
                if _INSIDE not in str(error):
                    raise
                found["one input at a time"] = NotSupported(f"it takes no fewer: {str(error)[:100]}")
        _, kept = self._pulled(f, xs, w, seed, set(range(len(xs))))
        if not kept:
            found["cotangent"] = (
                "the backward pass writes into the cotangent it is given: work on a copy of grad_output"
            )
        return found

    def _pulled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int, wanted: set[int]) -> tuple[list[Array], bool]:
        """Return the gradient with respect to the wanted inputs, and whether the cotangent is unchanged."""
        with torch.enable_grad(), _seeded(seed):
            leaves = [x.detach().requires_grad_(k in wanted) for k, x in enumerate(xs)]
            y = f(leaves)
            still = [np.zeros(tuple(x.shape))[()] for x in xs]
            if not y.requires_grad:
                return still, True
            ybar = _like(w, y)
            before = ybar.clone()
            bars = torch.autograd.grad(y, [x for x in leaves if x.requires_grad], ybar, allow_unused=True)
        given = dict(zip(sorted(wanted), bars, strict=True))
        found = [still[k] if given.get(k) is None else host(given[k]) for k in range(len(xs))]
        return found, bool(torch.equal(ybar, before))

    def mixed(self, function: Callable[..., Any], placed: Placed, dtype: str) -> Callable[..., Any]:
        return in_mixed_precision(function, placed.device, FORMATS[dtype])

    def settled(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> list[Array]:
        try:
            with deterministic():
                return self.gradient(f, xs, w, seed)
        except (RuntimeError, FunctionFailed) as error:  # the function's own errors arrive as FunctionFailed
            if "deterministic" not in str(error):
                raise
            raise NotSupported(str(error.__cause__ or error).partition(",")[0]) from error

    def measured(self, f: Flat, xs: Sequence[Tensor], w: Array, seed: int) -> Measured | None:
        with torch.enable_grad(), _seeded(seed):
            leaves = [x.detach().requires_grad_() for x in xs]
            return measured(f, leaves, _like(w, f(leaves)))

    def compiled(self, function: Callable[..., Any]) -> Callable[..., Any]:
        return torch.compile(function)  # type: ignore[no-any-return]

    def other_way(self, function: Callable[..., Any], way: str) -> Callable[..., Any]:
        return checkpointed(function) if way == "checkpoint" else eager(function)

    def recorded(
        self, function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any], xs: Sequence[Tensor], seed: int
    ) -> tuple[RecordedSteps, Any]:
        def outputs(y: Any) -> list[Tensor]:
            leaves = taken_apart("", y)[1].values()
            return [t for t in leaves if isinstance(t, torch.Tensor) and t.is_floating_point()]

        record = lambda: recorded(lambda: function(*args, **kwargs), list(xs), outputs)
        return cast("tuple[RecordedSteps, Any]", _run(function, record, (args, kwargs), seed))

    def calls(self, f: Flat, xs: Sequence[Tensor], seed: int, every: bool) -> list[Call]:
        with torch.enable_grad(), _seeded(seed):
            return custom_calls(lambda: f([x.detach().clone().requires_grad_() for x in xs]), every)


def _strided(x: Tensor) -> Tensor:
    """Return a non-contiguous tensor of the same values, with stride 2 in memory."""
    wide = torch.stack([x.detach(), torch.zeros_like(x)], dim=-1) if x.dim() > 0 else x.detach()
    return wide[..., 0] if x.dim() > 0 else wide


def _like(v: Array, x: Tensor) -> Tensor:
    return torch.tensor(np.asarray(v), dtype=x.dtype, device=x.device).reshape(x.shape)


def _unsupported(error: Exception, words: Sequence[str]) -> Exception:
    """Return NotSupported if the message says that torch cannot do this, else the error itself."""
    error = error.__cause__ if isinstance(error.__cause__, Exception) else error
    said = str(error)
    if isinstance(error, NotImplementedError) or any(word in said for word in words):
        return NotSupported(" ".join(said.split())[:200])
    return error


@contextlib.contextmanager
def _seeded(seed: int) -> Iterator[None]:
    """Run the block with seeded random numbers and float64 as the default type; restore both afterwards."""
    before, states = torch.get_default_dtype(), [(g, g.get_state()) for g in _generators()]
    for generator, _ in states:
        generator.manual_seed(seed)
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(before)
        for generator, state in states:
            generator.set_state(state)


def _generators() -> list[torch.Generator]:
    """Return torch's random generators; torch.manual_seed is not used because it also records where it is called."""
    return [torch.default_generator, *(torch.cuda.default_generators if torch.cuda.is_initialized() else ())]


def _pushed(f: Flat, xs: Sequence[Tensor], vs: Sequence[Array], seed: int, inside: bool) -> Array:
    """Return the derivative along vs by the forward mode; `inside` lets f differentiate with respect to its inputs, too."""
    import torch.autograd.forward_ad as forward

    with torch.enable_grad(), _seeded(seed), forward.dual_level():
        leaves = [x.detach().clone().requires_grad_(inside) for x in xs]
        y = forward.unpack_dual(f([forward.make_dual(x, _like(v, x)) for x, v in zip(leaves, vs, strict=True)]))
        return np.zeros(tuple(y.primal.shape)) if y.tangent is None else host(y.tangent)


def _run(function: Callable[..., Any], call: Callable[[], Any], given: Any, seed: int) -> Any:
    """Call a function for its value, without autograd unless the function differentiates inside.

    A function that turns out to differentiate with respect to its inputs is called again, with inputs that require a gradient.
    """
    known = getattr(function, "__func__", function)
    if known not in _BY_INPUTS:
        code = getattr(inspect.unwrap(known), "__code__", None)
        inside = code is not None and bool(_DIFFERENTIATING & set(code.co_names))
        try:
            with _seeded(seed), torch.set_grad_enabled(inside):
                return call()
        except RuntimeError as error:
            if _INSIDE not in str(error):
                raise
    with _seeded(seed), torch.enable_grad():
        for x in _floats(given):
            x.requires_grad_()
        y = call()
    with contextlib.suppress(TypeError):  # without weak references, it is tried again at each call
        _BY_INPUTS.add(known)
    return y


def _floats(given: Any) -> list[torch.Tensor]:
    """Return the float leaf tensors among the arguments, which can require a gradient."""
    _, leaves = taken_apart("", given)
    return [x for x in leaves.values() if isinstance(x, torch.Tensor) and x.is_floating_point() and x.is_leaf]


FRAMEWORK = Torch()
