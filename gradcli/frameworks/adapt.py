"""Wrapping of targets that are written in a framework as functions of numpy arrays."""

from collections.abc import Callable
from dataclasses import replace
from types import ModuleType
from typing import Any

from gradcli.errors import BadOption, BadTarget
from gradcli.frameworks.framework import KNOWN, Framework, FrameworkOptions, Placed, framework
from gradcli.frameworks.native import Native
from gradcli.frameworks.recognise import recognised
from gradcli.lowering.devices import CPU, find_device
from gradcli.source.python import message_of

_ABOUT_FORMATS = ("dtype", "Double", "double", "float64", "scalar type")
PLAIN = FrameworkOptions()


def adapted(
    found: Any, text: str, module: ModuleType | None, framework_options: FrameworkOptions, seed: int
) -> Native | None:
    """Wrap a target as a function of numpy arrays that runs in its framework; return None for plain Python and numpy.

    Raises  BadOption for an unavailable framework, format or device, and for framework options on a plain function;
            BadTarget for a class that cannot be made without arguments.
    """
    if isinstance(found, Native):
        return found
    name = recognised(found, module, framework_options.framework)
    if name is None:
        refuse_options(framework_options)
        return None
    own = framework(name)
    usual = (
        KNOWN[name].dtype if framework_options.autocast is None else "float32"
    )  # mixed precision leaves float64 alone
    if framework_options.dtype == "float64" and KNOWN[name].inexact:
        says = f"{KNOWN[name].title} computes {KNOWN[name].inexact} of float64 to float32 only"
        raise BadOption(says, do="leave out --dtype: gradients are checked in float32, values are taken in float64")
    placed = Placed(framework_options.dtype or usual, find_device(name, framework_options.device or CPU))
    made = _placed(placed, own, found, text, framework_options, seed)
    made.run_with = lambda **changes: adapted(found, text, module, replace(framework_options, **changes), seed)
    made.run_at = lambda placed: _placed(placed, own, found, text, replace(framework_options, autocast=None), seed)
    return made


def _placed(
    placed: Placed, own: Framework, found: Any, text: str, framework_options: FrameworkOptions, seed: int
) -> Native:
    """Wrap a target of a framework in a number format, on a device."""
    try:
        prepared = own.prepared(found, placed, seed)
    except TypeError as error:
        raise BadTarget(
            f"{text} cannot be made without arguments: {message_of(error)}", do="name a factory: model.py:make_net()"
        ) from error
    if framework_options.autocast is not None:
        prepared = replace(prepared, function=own.mixed(prepared.function, placed, framework_options.autocast))
    if framework_options.compiles:
        prepared = replace(prepared, function=own.compiled(prepared.function))
    if framework_options.way is not None:
        prepared = replace(prepared, function=own.other_way(prepared.function, framework_options.way))
    made = Native(prepared, own, placed, seed)
    made.__name__ = text
    return made


def refuse_options(framework_options: FrameworkOptions) -> None:
    """Raise BadOption if an option is set that applies only to functions written in a framework."""
    option = next((o for o, on in _OPTIONS if on(framework_options)), None)
    if option is not None:
        raise BadOption(
            f"{option} is for functions written in a framework", do="drop it, or name the framework: --framework"
        )


def takes_less(said: str, framework_options: FrameworkOptions) -> bool:
    """Whether a failure in float64 is about the number format, and the user did not choose a format."""
    return framework_options.dtype is None and any(word in said for word in _ABOUT_FORMATS)


def claimant(claim: Callable[..., Any], native: Native | None) -> Callable[..., Any]:
    """Wrap the user's own gradient function to take numpy arrays if the target is written in a framework."""
    if native is None or isinstance(claim, Native):
        return claim
    prepared = native.framework.prepared(claim, native.placed, native.seed)
    return Native(prepared, native.framework, native.placed, native.seed, differentiates=True)


_OPTIONS: tuple[tuple[str, Callable[[FrameworkOptions], Any]], ...] = (
    ("--dtype", lambda n: n.dtype),
    ("--compile", lambda n: n.compiles),
    ("--localise", lambda n: n.localises),
    ("--expect", lambda n: n.expect),
    ("--autocast", lambda n: n.autocast),
    ("--same-as", lambda n: n.same_as),
)
