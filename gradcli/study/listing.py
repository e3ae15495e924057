"""The lists behind `modes` and `ops`: the modes and the primitives."""

from gradcli.checks.implementation import environment, installed
from gradcli.errors import BadOption, nearest
from gradcli.modes.registry import FRAMEWORKS, MODES
from gradcli.report.listing import ModeEntry, ModesReport, OpsReport
from gradcli.request.point import Witness
from gradcli.request.target_text import is_python
from gradcli.study.accuracy import functions, operation, operations
from gradcli.targets.loading import load
from gradcli.targets.names import FUNCTIONS
from gradcli.tracing.primitive import PRIMITIVES, Primitive

ALIASES = {"sigmoid": "expit", "softplus": "logaddexp"}  # composites of one primitive
_WITH = {"certified": "python-flint", "symbolic": "sympy"} | {name: name for name in FRAMEWORKS}


def available_modes() -> ModesReport:
    """Return a report of every mode: whether it can run here, its version, and how to install it."""
    entries = []
    for name, mode in MODES.items():
        state = mode.available()
        package = _WITH.get(name, "numpy")
        version = installed(package)
        rests = tuple(w.value for w in Witness if w in mode.rests_on)
        what = (mode.__doc__ or "").strip().split("\n")[0].rstrip(".")
        entries.append(
            ModeEntry(name, state.yes, f"{package} {version}" if version else None, rests, what, state.install or None)
        )
    return ModesReport(tuple(entries), ("cpu",), environment())


def known_operations(name: str | None) -> OpsReport:
    """Return a report of all primitives, or of the named one.

    Raises  BadOption for a name that is no primitive; BadTarget for Python code that cannot be loaded.
    """
    if name is not None and is_python(name):
        row = load(name).found
        if not isinstance(row, Primitive):
            raise BadOption(f"{name} is no primitive", do="make one: gradcli.primitive(fun, *partials)")
        return OpsReport((operation(row),), (), environment())
    known = FUNCTIONS.get(str(name))
    found = operations(known.name if isinstance(known, Primitive) else ALIASES.get(str(name), name))
    if not found:
        close = nearest(str(name), [row.name for row in PRIMITIVES.values() if row.rules])
        if name in FUNCTIONS:
            made = f"'{name}' is made of primitives and is not one itself"
            raise BadOption(made, do=f'gradcli trace shows them: gradcli trace "{name}(...)"')
        raise BadOption(
            f"there is no primitive '{name}'", do=f"did you mean '{close}'?" if close else "gradcli ops lists them"
        )
    return OpsReport(found, () if name else functions(), environment())
