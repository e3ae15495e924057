"""The Python interface to the studies `sweep`, `compare_modes` and `trace`; they return reports that can be printed."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from gradcli.api import locate_target
from gradcli.checks.build import request_for
from gradcli.checks.claims import Claiming
from gradcli.checks.request import Request
from gradcli.modes.mode import Question
from gradcli.report.compare import CompareReport
from gradcli.report.cost import CostReport
from gradcli.report.sweep import SweepReport
from gradcli.report.trace import TraceReport
from gradcli.request.option_values import as_texts
from gradcli.request.options import DEFAULTS, Options, options_from_keywords
from gradcli.study.accounting import account, refuse_unknown_formats
from gradcli.study.mode_comparison import compare_modes as comparison
from gradcli.study.sweep import sweep as study
from gradcli.study.walkthrough import walkthrough
from gradcli.targets.call import Function

__all__ = ["compare_modes", "cost", "sweep", "trace"]


def sweep(
    f: Function | str, at: Any = None, *, grad: Any = None, wrt: str | Sequence[str] | None = None, schemes: str | None = None,
    dtype: str | Sequence[str] = "float64", each: bool = False, samples: int | None = None, seed: int | str = 0,
) -> SweepReport:  # fmt: skip
    """Return a report of error against step size, as `gradcli sweep` prints it; `print(report)` shows it.

    `f` and `at` are those of `gradcli.check`. With a claim `grad`, the report includes its Taylor remainder test and the
    verdict of `check`.

    Raises  GradcliError in all cases where the command line exits with status 2.

    >>> import numpy as np
    >>> report = sweep(np.sin, 1.0, schemes="central")
    >>> round(report.curves[0].order, 1)
    2.0
    """
    options = options_from_keywords({"grad": grad, "wrt": wrt, "seed": seed})
    formats = as_texts("dtype=", dtype)
    return study(_make_request(f, at, replace(options, schemes=schemes, formats=formats, each=each, samples=samples)))


def compare_modes(
    f: Function | str, at: Any = None, *, grad: Any = None, wrt: str | Sequence[str] | None = None,
    modes: str | Sequence[str] | None = None, order: int = 1,
    dtype: str | Sequence[str] = (), seed: int | str = 0, device: str | None = None,
) -> CompareReport:  # fmt: skip
    """Return a report that compares all modes, as `gradcli compare-modes` prints it; `print(report)` shows it.

    `modes` is a list of names, or a text such as "certified,reverse".

    Raises  GradcliError in all cases where the command line exits with status 2.

    >>> report = compare_modes("sin(x)", {"x": 1.0}, modes=["certified", "reverse"])
    >>> list(report.modes)
    ['certified', 'reverse']
    """
    options = options_from_keywords(
        {"grad": grad, "wrt": wrt, "modes": modes, "order": order, "seed": seed, "device": device}
    )
    return comparison(_make_request(f, at, replace(options, formats=as_texts("dtype=", dtype))))


def cost(
    f: Function | str, at: Any = None, *, wrt: str | Sequence[str] | None = None, dtype: str = "float32",
    autocast: str | None = None, optimizer: str = "none", master: str | None = None, checkpoint: Sequence[str] = (),
    memory: int | None = None, seed: int | str = 0,
) -> CostReport:  # fmt: skip
    """Return a report of what a gradient costs at this point, as `gradcli cost` prints it; `print(report)` shows it.

    `checkpoint` names functions that are run again in the reverse sweep, and `memory` is the most that checkpoints may hold.
    Sizes that nothing runs are for the command line.

    Units   `memory` in bytes.
    Raises  GradcliError in all cases where the command line exits with status 2.

    >>> report = cost("sum(tanh(x)**2)", {"x": [0.1, 0.2]})
    >>> [(row.name, row.operations) for row in report.passes[:2]]
    [('f', 5), ('reverse mode', 15)]
    """
    request = _make_request(f, at, options_from_keywords({"wrt": wrt, "seed": seed}))
    options = replace(
        DEFAULTS, dtype=dtype, autocast=autocast, optimizer=optimizer, master=master, checkpoint=tuple(checkpoint), memory=memory
    )  # fmt: skip
    refuse_unknown_formats(options)
    return account(lambda _: request, {}, options)


def trace(
    f: Function | str, at: Any = None, *, wrt: str | Sequence[str] | None = None, seed: int | str = 0
) -> TraceReport:
    """Return a report of the computation, forward and backward, as `gradcli trace` prints it; `print(report)` shows it.

    Raises  GradcliError in all cases where the command line exits with status 2, and if f cannot be traced.

    >>> [node.name for node in trace("v = x*y; v + x", {"x": 3.0, "y": 4.0}).nodes]
    ['x', 'y', 'v', 'result']
    """
    options = options_from_keywords({"wrt": wrt, "seed": seed})
    found = locate_target(f, at, options)
    q = Question(found.f, found.points[0], found.wrt, options.seed)
    q.refuse_untraced()
    return walkthrough(q)


def _make_request(f: Function | str, at: Any, options: Options) -> Request:
    found = locate_target(f, at, options)
    return request_for(found, None if options.grad is None else Claiming("grad", options.grad), options)
