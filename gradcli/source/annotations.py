"""Which parameters take integers, flags or strings, as their annotations or defaults say."""

import inspect
import re
from typing import Any

_UNTOUCHED: tuple[type, ...] = (int, bool, str)
_INTEGER = r"(?:(?:numpy|np|jnp|torch)\.)?(?:u?int(?:\d+|p|c|_)?|(?:signed|unsigned)?integer(?:\[.*\])?|long)"
_ONE = re.compile(rf"(?:typing\.)?(?:Optional\[)?{_INTEGER}\]?(?:\s*\|\s*None)?")
_SEVERAL = re.compile(
    rf"(?:[\w.]+\.)?(?:NDArray\[{_INTEGER}\]|ndarray\[.*dtype\[{_INTEGER}\]\]|(?:Long|Int|Short|Byte)Tensor|"
    r"(?:Int|Integer|UInt)\d*\[.*\])(?:\s*\|\s*None)?"
)
_LISTED = re.compile(
    rf"(?:[\w.]+\.)?(?:list|List|Sequence|Iterable|tuple|Tuple)\[{_INTEGER}(?:, \.\.\.)?\](?:\s*\|\s*None)?"
)


def annotated(parameter: inspect.Parameter | None) -> type | None:
    """Return int, bool or str if a parameter's annotation, or without one its default, has this type; else None.

    An array or a list of integers is int too: `NDArray[np.int64]`, `torch.LongTensor`, `list[int]`.
    """
    if parameter is None:
        return None
    for kind in _UNTOUCHED:
        if parameter.annotation in (kind, kind.__name__):
            return kind
    if parameter.annotation is parameter.empty:
        return type(parameter.default) if type(parameter.default) in _UNTOUCHED else None
    return int if any(form.fullmatch(_text(parameter)) for form in (_ONE, _SEVERAL, _LISTED)) else None


def takes_a_list(parameter: inspect.Parameter | None) -> bool:
    """Whether a parameter is annotated as a list, or another sequence of Python, of integers."""
    return parameter is not None and _LISTED.fullmatch(_text(parameter)) is not None


def takes_an_array(parameter: inspect.Parameter) -> bool:
    """Whether a parameter is annotated as an array of integers, or a list of them."""
    return any(form.fullmatch(_text(parameter)) for form in (_SEVERAL, _LISTED))


def _text(parameter: inspect.Parameter) -> str:
    annotation: Any = parameter.annotation
    if isinstance(annotation, str):
        return annotation.strip()
    if isinstance(annotation, type) and not hasattr(annotation, "__args__") and "[" not in repr(annotation):
        return f"{annotation.__module__}.{annotation.__qualname__}"
    return repr(annotation)
