"""The same gradient obtained in other ways: compiled, eager, under a checkpoint, in mixed precision."""

from typing import Any

import numpy as np

from gradcli.checks.native import FrameworkClaim, with_function
from gradcli.checks.reference_comparison import Reference, Side, computed_by
from gradcli.checks.request import Request
from gradcli.errors import BadOption, GradcliError, NotSupported
from gradcli.frameworks.framework import EPS, WAYS
from gradcli.frameworks.native import Native
from gradcli.report.native import Aspect
from gradcli.targets.derived import root_of
from gradcli.targets.python import PythonFunction, message_of

_MIXED = "bfloat16"
_OPTIONS: dict[str, dict[str, Any]] = {
    "eager": {"compiles": False, "way": "eager"},
    "compile": {"compiles": True},
    "checkpoint": {"way": "checkpoint"},
    "autocast": {"autocast": _MIXED, "dtype": None},
}


def in_other_ways(request: Request, own: FrameworkClaim) -> list[Aspect]:
    """Return a row for each way that --same-as names, except vmap, which computes gradients at several points."""
    named = request.framework_options.same_as
    return [_row(request, own, way) for way in WAYS if way in named and way in _OPTIONS]


def _row(request: Request, own: FrameworkClaim, way: str) -> Aspect:
    name = f"autocast ({_MIXED})" if way == "autocast" else way
    try:
        native = own.native.run_with(same_as=frozenset(), **_OPTIONS[way])
        if native is None:
            return Aspect(name, "unavailable", message="the target cannot be made again")
        return _compared(request, own, native, name)
    except (NotSupported, BadOption) as error:
        return Aspect(name, "unavailable", message=error.what[:90])
    except GradcliError as error:
        return Aspect(name, "wrong", message=f"it raises {error.what[:90]}")
    except Exception as error:  # compilers raise errors of many types
        return Aspect(name, "unavailable", message=message_of(error)[:90])


def _compared(request: Request, own: FrameworkClaim, native: Native, name: str) -> Aspect:
    """Compare value and gradient with the right ones, within the rounding errors of the formats that this way uses."""
    values = dict(request.points[0].values)
    f, rounds_like = root_of(request.f), None
    if isinstance(f, PythonFunction) and native.placed != own.native.placed:
        values |= {key: native.numbers(values[key]) for key in request.wrt}
        rounds_like = with_function(own.f, native)
        rounds_like(values)  # recorded, so that its formats are known
    eps = max(EPS[native.narrowest], EPS[own.native.narrowest])
    reference = Reference(f, values, request.wrt, request.seed, eps, rounds_like)
    other = FrameworkClaim(with_function(own.f, native), native, own.wrt, own.w)
    side = Side(reference, computed_by(other, reference), other, eps)
    with np.errstate(all="ignore"):
        return side.row(name, side.compute(values), values)
