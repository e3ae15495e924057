"""The checkers that are compared: each takes a function and a claimed gradient, and says whether it is right."""

import importlib.util
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from cases import Case


@dataclass(frozen=True)
class Outcome:
    """What a checker said: pass, fail, inconclusive or error; its name for the mistake; its words; its time."""

    verdict: str
    kind: str = ""
    message: str = ""
    seconds: float = 0.0


@dataclass(frozen=True)
class Flat:
    """A function and a claim of one vector, in which all inputs lie end to end."""

    f: Callable[[Any], Any]
    claim: Callable[[Any], Any]
    x: Any


def flat(case: Case, claim: Callable[..., Any]) -> Flat:
    """Return a case in the form that all peers take."""
    right = case.right()
    stops = np.cumsum([np.size(g) for g in right.values()])

    def at(v: Any) -> dict[str, Any]:
        parts = np.split(np.asarray(v, dtype=float), stops[:-1])
        shaped = {name: part.reshape(np.shape(right[name]))[()] for name, part in zip(right, parts, strict=True)}
        return {**case.at, **shaped}

    def claimed(v: Any) -> Any:
        return np.concatenate([np.ravel(g) for g in case.by_name(claim(**at(v))).values()])

    x = np.concatenate([np.ravel(np.asarray(case.at[name], dtype=float)) for name in right])
    return Flat(lambda v: float(case.f(**at(v))), claimed, x)


def gradcli_check(case: Case, claim: Callable[..., Any], modes: str | None = None) -> Outcome:
    """Return what gradcli says, at its defaults unless modes are chosen."""
    import gradcli

    report = gradcli.check(case.f, dict(case.at), grad=claim, modes=modes)
    diagnosis = report.points[0].diagnosis
    if diagnosis is None:
        return Outcome(report.verdict, message=report.sentence())
    return Outcome(report.verdict, diagnosis.kind, diagnosis.message)


def torch_check(p: Flat, fast: bool = False) -> bool:
    """Return what torch.autograd.gradcheck says of a Function that runs numpy inside."""
    import torch

    class Wrapped(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.save_for_backward(x)
            return torch.tensor(p.f(x.detach().numpy()), dtype=torch.float64)

        @staticmethod
        def backward(ctx: Any, ybar: Any) -> Any:
            (x,) = ctx.saved_tensors
            return ybar * torch.from_numpy(p.claim(x.detach().numpy()))

    x = torch.tensor(p.x, dtype=torch.float64, requires_grad=True)
    return bool(torch.autograd.gradcheck(Wrapped.apply, (x,), raise_exception=False, fast_mode=fast))


def jax_check(p: Flat) -> bool:
    """Return what jax.test_util.check_grads says of a custom_vjp that calls back to numpy."""
    import jax
    from jax.test_util import check_grads

    jax.config.update("jax_enable_x64", True)

    def called(f: Callable[[Any], Any], shape: tuple[int, ...], x: Any) -> Any:
        there = lambda v: np.asarray(f(np.asarray(v)), dtype=np.float64)
        return jax.pure_callback(there, jax.ShapeDtypeStruct(shape, np.float64), x)

    wrapped = jax.custom_vjp(lambda x: called(p.f, (), x))
    wrapped.defvjp(lambda x: (wrapped(x), x), lambda x, ybar: (ybar * called(p.claim, p.x.shape, x),))
    return _asserted(lambda: check_grads(wrapped, (jax.numpy.asarray(p.x),), order=1, modes=["rev"]))


def autograd_check(p: Flat) -> bool:
    """Return what autograd's check_grads says of a primitive with the claim as its rule."""
    from autograd.extend import defvjp, primitive
    from autograd.test_util import check_grads

    wrapped = primitive(lambda x: p.f(x))
    defvjp(wrapped, lambda y, x: lambda ybar: ybar * p.claim(x))
    np.random.seed(0)  # its directions are drawn from numpy's own generator
    return _asserted(lambda: check_grads(wrapped, modes=["rev"], order=1)(p.x))


def scipy_check(p: Flat) -> bool:
    """Return the usual idiom: whether the norm that check_grad returns is small."""
    from scipy.optimize import check_grad

    return bool(check_grad(p.f, p.claim, p.x) < 1e-6)


def numdifftools_check(p: Flat) -> bool:
    """Return whether the claim is close to numdifftools.Gradient, at numpy's defaults."""
    import numdifftools

    return bool(np.allclose(p.claim(p.x), numdifftools.Gradient(p.f)(p.x)))


def _asserted(check: Callable[[], Any]) -> bool:
    try:
        check()
    except AssertionError:
        return False
    return True


@dataclass(frozen=True)
class Peer:
    """A checker: its title, the module it needs, and how it is asked."""

    title: str
    module: str
    check: Callable[[Flat], bool]


PEERS = {
    "torch":        Peer("torch gradcheck",            "torch",        torch_check),
    "torch-fast":   Peer("torch gradcheck, fast mode", "torch",        lambda p: torch_check(p, fast=True)),
    "jax":          Peer("jax check_grads",            "jax",          jax_check),
    "autograd":     Peer("autograd check_grads",       "autograd",     autograd_check),
    "scipy":        Peer("scipy check_grad < 1e-6",    "scipy",        scipy_check),
    "numdifftools": Peer("numdifftools + allclose",    "numdifftools", numdifftools_check),
}  # fmt: skip
TITLES = {"gradcli": "gradcli"} | {name: peer.title for name, peer in PEERS.items()}


def installed(name: str) -> bool:
    """Whether a checker can be asked."""
    return importlib.util.find_spec(PEERS[name].module if name in PEERS else name) is not None


def ask(name: str, case: Case, claim: Callable[..., Any], modes: str | None = None) -> Outcome:
    """Ask a checker about a claim, by the clock; what it raises is an error."""
    p = None if name == "gradcli" else flat(case, claim)
    start = time.perf_counter()
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            found = gradcli_check(case, claim, modes) if p is None else _peer(name, p)
        except Exception as error:  # a crash is a result
            lines = str(error).splitlines() or [""]
            found = Outcome("error", message=f"{type(error).__name__}: {lines[0]}")
    return replace(found, seconds=time.perf_counter() - start)


def _peer(name: str, p: Flat) -> Outcome:
    return Outcome("pass" if PEERS[name].check(p) else "fail")
