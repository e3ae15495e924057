"""The modes by name."""

from collections.abc import Iterable

from gradcli.errors import BadOption
from gradcli.lowering.jax import Jax
from gradcli.lowering.mlx import Mlx
from gradcli.lowering.tensorflow import TensorFlow
from gradcli.lowering.torch import Torch
from gradcli.modes.certified import Certified
from gradcli.modes.complex_step import ComplexStep
from gradcli.modes.finite_difference import FiniteDifference
from gradcli.modes.forward import Forward
from gradcli.modes.framework import FrameworkMode
from gradcli.modes.mode import Mode
from gradcli.modes.reverse import Reverse
from gradcli.modes.symbolic import Symbolic
from gradcli.modes.work import Effort
from gradcli.point import Witness

OWN: dict[str, Mode] = {
    mode.name: mode for mode in (Certified(), Symbolic(), Forward(), Reverse(), ComplexStep(), FiniteDifference())
}
FRAMEWORKS: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        FrameworkMode(Torch(), Witness.TORCH),
        FrameworkMode(Jax(), Witness.JAX),
        FrameworkMode(TensorFlow(), Witness.TENSORFLOW),
        FrameworkMode(Mlx(), Witness.MLX),
    )
}
MODES = OWN | FRAMEWORKS
SHORT = {"fd": "finite-difference", "cs": "complex-step", "fwd": "forward", "rev": "reverse"}


def chosen(text: str | None) -> tuple[str, ...]:
    """Return the modes a `--modes` list names: full names, unique prefixes, `fd cs fwd rev`, or `all` but the frameworks.

    Raises  BadOption.
    """
    if text is None or text.strip() == "all":
        return tuple(OWN)
    wanted = [_full(part.strip()) for part in text.split(",") if part.strip()]
    if not wanted:
        raise BadOption("--modes names no mode", do=f"modes: {', '.join(MODES)}, all")
    return tuple(name for name in MODES if name in _flat(wanted))


def effort_of(text: str | None) -> Effort:
    """Return how much work the modes of a `--modes` list may take."""
    if text is None:
        return Effort.DEFAULT
    return Effort.ALL if "all" in (part.strip() for part in text.split(",")) else Effort.NAMED


def _flat(wanted: Iterable[tuple[str, ...]]) -> set[str]:
    return {name for names in wanted for name in names}


def _full(word: str) -> tuple[str, ...]:
    if word == "all":
        return tuple(OWN)
    if word in SHORT:
        return (SHORT[word],)
    matches = [name for name in MODES if name.startswith(word)]
    if len(matches) != 1:
        what = f"'{word}' could be {' or '.join(matches)}" if matches else f"there is no mode '{word}'"
        raise BadOption(what, do=f"modes: {', '.join(MODES)}; short: {', '.join(SHORT)}; all")
    return (matches[0],)
