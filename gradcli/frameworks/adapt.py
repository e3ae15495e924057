"""Wrapping of targets that are written in a framework as functions of numpy arrays."""

import inspect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import Any

from gradcli.arithmetic.devices import CPU, find_device, quiet_imports
from gradcli.errors import BadOption, BadTarget
from gradcli.frameworks.framework import EPS, KNOWN, MIXED, Framework, Placed
from gradcli.frameworks.native import Native
from gradcli.request.option_values import read_name
from gradcli.request.options import Options
from gradcli.targets.nesting import take_apart
from gradcli.targets.python import message_of
from gradcli.tracing.captured import closure_values, nested_codes

_ABOUT_FORMATS = ("dtype", "Double", "double", "float64", "scalar type")


def import_framework(name: str) -> Framework:
    """Import the adapter of a framework by name.

    Raises  BadOption for a framework that is unknown or not installed.
    """
    known = KNOWN.get(name)
    if known is None:
        raise BadOption(f"there is no framework '{name}'", do=f"frameworks: {', '.join(KNOWN)}")
    if not known.is_there:
        raise BadOption(f"{name} is not installed", do=known.install)
    with quiet_imports():
        if name == "torch":
            from gradcli.frameworks.torch.adapter import FRAMEWORK
        elif name == "jax":
            from gradcli.frameworks.jax.adapter import FRAMEWORK  # type: ignore[assignment]
        elif name == "tensorflow":
            from gradcli.frameworks.tensorflow.adapter import FRAMEWORK  # type: ignore[assignment]
        else:
            from gradcli.frameworks.mlx.adapter import FRAMEWORK  # type: ignore[assignment]
    return FRAMEWORK


def give_devices(options: Options) -> None:
    """Let JAX have as many devices as the options say, before its first operation. Raises BadOption after it."""
    if options.devices is not None:
        from gradcli.frameworks.jax.adapter import give_devices as give

        import_framework("jax")
        give(options.devices)


# Recognition of the framework that a function is written in, from the names it uses, or else from its module's imports.

_PACKAGES = {
    "torch": "torch", "jax": "jax", "jaxlib": "jax", "tensorflow": "tensorflow", "keras": "tensorflow", "mlx": "mlx",
}  # fmt: skip
_NUMPY = {"numpy", "scipy", "math", "gradcli"}
_DEPTH = 4  # levels of calls that are followed within the same module


def recognise_framework(
    found: Any, module: ModuleType | None, wanted: str | None, given: Iterable[Mapping[str, Any]] = ()
) -> str | None:
    """Return the framework that a target is written in, or None for plain Python and numpy.

    Where neither the target nor its module names one, values that are `given` as its arrays do.

    Raises  BadOption if the target uses several frameworks and the user did not choose one.
    """
    if wanted is not None:
        return None if wanted == "numpy" else import_framework(wanted).name
    tops = set(_packages_used(found, 0, set()))
    named = {_PACKAGES[top] for top in tops if top in _PACKAGES}
    if not named and not tops & _NUMPY and module is not None:
        named = {_PACKAGES[top] for top in map(_top_package, vars(module).values()) if top in _PACKAGES}
    if not named and not tops & _NUMPY:
        values = (x for point in given for x in take_apart("", dict(point))[1].values())
        tops_of_values = {type(x).__module__.partition(".")[0] for x in values}
        named = {_PACKAGES[top] for top in tops_of_values if top in _PACKAGES}
    if len(named) > 1:
        several = " and ".join(sorted(named))
        raise BadOption(f"the function uses {several}", do=f"say which it is: --framework {min(named)}")
    return next(iter(named), None)


def _packages_used(found: Any, depth: int, seen: set[int]) -> Iterator[str]:
    """Yield the top-level package of every type and name that a callable uses."""
    found = getattr(found, "__func__", found)
    if id(found) in seen or depth > _DEPTH:
        return
    seen.add(id(found))
    for one in inspect.getmro(found if inspect.isclass(found) else type(found)):
        yield one.__module__.partition(".")[0]
    wraps = inspect.isfunction(found) and hasattr(found, "__wrapped__")
    if wraps:
        yield from _packages_used(found.__wrapped__, depth + 1, seen)
    inner = inspect.unwrap(found) if callable(found) and not wraps else found
    code = getattr(inner, "__code__", None)
    if code is None:
        if inspect.isfunction(type(found).__call__):
            yield from _packages_used(type(found).__call__, depth + 1, seen)
        for name in ("fun", "func", "f"):  # attributes in which wrappers (custom_vjp, partial) keep the function
            if callable(getattr(found, name, None)):
                yield from _packages_used(getattr(found, name), depth + 1, seen)
        return
    space = {**inner.__globals__, **closure_values(inner)}
    names = [name for each in nested_codes(code) for name in (*each.co_names, *each.co_freevars)]
    named = [space[name] for name in names if name in space]
    named += [x for x in inspect.get_annotations(inner).values() if not isinstance(x, str)]
    for x in named:
        yield _top_package(x)
        if callable(x) and _module_name(x) == inner.__module__:
            yield from _packages_used(x, depth + 1, seen)


def _top_package(x: Any) -> str:
    return _module_name(x).partition(".")[0]


def _module_name(x: Any) -> str:
    """Return the module of a value: of a module its own name; no attribute of a module is asked for, which may import."""
    if isinstance(x, ModuleType):
        return x.__name__
    return str(getattr(x, "__module__", None) or type(x).__module__)


def adapt_target(
    found: Any,
    text: str,
    module: ModuleType | None,
    options: Options,
    given: Sequence[Mapping[str, Any]] = (),
    way: str | None = None,
) -> Native | None:
    """Wrap a target as a function of numpy arrays that runs in its framework; return None for plain Python and numpy.

    `way` is one of those of --same-as in which the function is run.

    Raises  BadOption for an unavailable framework, format or device, and for framework options on a plain function;
            BadTarget for a class that cannot be made without arguments.
    """
    if isinstance(found, Native):
        return found
    name = recognise_framework(found, module, options.framework, given)
    if name is None:
        refuse_options(options)
        return None
    for flag, word, words in (("--dtype", options.dtype, tuple(EPS)), ("--autocast", options.autocast, MIXED)):
        read_name(flag, word, words)
    own = import_framework(name)
    usual = KNOWN[name].dtype if options.autocast is None else "float32"  # mixed precision leaves float64 alone
    if options.dtype == "float64" and KNOWN[name].inexact:
        says = f"{KNOWN[name].title} computes {KNOWN[name].inexact} of float64 to float32 only"
        raise BadOption(says, do="leave out --dtype: gradients are checked in float32, values are taken in float64")
    placed = Placed(options.dtype or usual, find_device(name, options.device or CPU))
    made = _wrap_target(placed, own, found, text, options, way)
    made.run_with = lambda way=way, **changes: adapt_target(
        found, text, module, replace(options, **changes), given, way
    )
    made.run_at = lambda placed: _wrap_target(placed, own, found, text, replace(options, autocast=None), way)
    return made


def _wrap_target(placed: Placed, own: Framework, found: Any, text: str, options: Options, way: str | None) -> Native:
    """Wrap a target of a framework in a number format, on a device."""
    try:
        prepared = own.prepared(found, placed, options.seed)
    except TypeError as error:
        says = f"{text} cannot be made without arguments: {message_of(error)}"
        raise BadTarget(says, do="name a factory: model.py:make_net()") from error
    if options.autocast is not None:
        prepared = replace(prepared, function=own.mixed(prepared.function, placed, options.autocast))
    if options.compile or (options.devices is not None and way != "eager"):
        prepared = replace(prepared, function=own.compiled(prepared.function))
    if way is not None:
        prepared = replace(prepared, function=own.other_way(prepared.function, way))
    made = Native(prepared, own, placed, options.seed)
    made.__name__ = text
    return made


def refuse_options(options: Options) -> None:
    """Raise BadOption if an option is set that applies only to functions written in a framework."""
    option = next((o for o, on in _OPTIONS if on(options)), None)
    if option is not None:
        says = f"{option} is for functions written in a framework"
        raise BadOption(says, do="drop it, or name the framework: --framework")


def is_format_failure(said: str, dtype: str | None) -> bool:
    """Whether a failure in float64 is about the number format, and the user did not choose `dtype`."""
    return dtype is None and any(word in said for word in _ABOUT_FORMATS)


def wrap_claim(claim: Callable[..., Any], native: Native | None) -> Callable[..., Any]:
    """Wrap the user's own gradient function to take numpy arrays if the target is written in a framework."""
    if native is None or isinstance(claim, Native):
        return claim
    prepared = native.framework.prepared(claim, native.placed, native.seed)
    return Native(prepared, native.framework, native.placed, native.seed, differentiates=True)


_OPTIONS: tuple[tuple[str, Callable[[Options], Any]], ...] = (
    ("--dtype", lambda n: n.dtype),
    ("--compile", lambda n: n.compile or n.devices is not None),
    ("--localise", lambda n: n.localise),
    ("--expect", lambda n: n.expect),
    ("--autocast", lambda n: n.autocast),
    ("--same-as", lambda n: n.same_as),
)
