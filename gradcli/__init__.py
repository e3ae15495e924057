"""gradcli: the referee for gradients. Importing it loads nothing; names are found when they are used."""

from typing import TYPE_CHECKING, Any, TypeVar

__version__ = "0.1.0"

if TYPE_CHECKING:
    from collections.abc import Callable

    from gradcli.api import (
        check,
        checkpoint,
        compare_modes,
        compile,
        cost,
        derive,
        grad,
        hessian,
        hvp,
        jacobian,
        jvp,
        primitive,
        sweep,
        trace,
        value_and_grad,
        vjp,
    )
    from gradcli.errors import CannotCompile, GradcliError, NotConfirmed
    from gradcli.project.capture.session import watch
    from gradcli.targets.expression import Expression

_OUTSIDE_OF_API = {
    "CannotCompile": "gradcli.errors",
    "Expression": "gradcli.targets.expression",
    "watch": "gradcli.project.capture.session",
    "GradcliError": "gradcli.errors",
    "NotConfirmed": "gradcli.errors",
}

__all__ = [
    "CannotCompile", "Expression", "GradcliError", "NotConfirmed", "__version__", "check", "checked", "checkpoint",
    "compare_modes", "compile", "cost", "derive", "grad", "hessian", "hvp", "jacobian", "jvp", "primitive", "sweep", "trace",
    "value_and_grad", "vjp", "watch",
]  # fmt: skip


_F = TypeVar("_F", bound="Callable[..., Any]")


def checked(**options: Any) -> "Callable[[_F], _F]":
    """Declare a check of a function for `gradcli check`, and return the function untouched: the source is read for it.

    The keywords are the options of a check in a suite, with underscores: `grad` is a name, all others are literals.

    >>> @checked(grad="square_grad", at="x=[1, 2, 3]")
    ... def square(x):
    ...     return (x * x).sum()
    """
    return lambda function: function


def __getattr__(name: str) -> Any:
    if name in __all__:
        import importlib

        return getattr(importlib.import_module(_OUTSIDE_OF_API.get(name, "gradcli.api")), name)
    raise AttributeError(f"module 'gradcli' has no attribute {name!r}")


def load_ipython_extension(shell: Any) -> None:
    """Give IPython `%gradcheck` and `%%gradcheck`, as `%load_ext gradcli` asks for; they are loaded when they are used."""

    def gradcheck(line: str, cell: str | None = None) -> Any:
        """Check a gradient, or with %% all gradients that the cell defines; `%gradcheck --help` lists the options."""
        from gradcli.cli import notebooks

        __tracebackhide__ = True  # IPython shows an error of the cell without this frame
        return notebooks.gradcheck(shell, line, cell)

    gradcheck._ipython_magic_no_var_expand = True  # type: ignore[attr-defined]  # $ and {} are parts of expressions
    shell.register_magic_function(gradcheck, "line_cell", "gradcheck")


def __dir__() -> list[str]:
    return sorted(__all__)
