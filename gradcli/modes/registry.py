"""The modes by name."""

from gradcli.arithmetic.devices import find_device
from gradcli.arithmetic.lowering import JaxLowering, MlxLowering, TensorFlowLowering, TorchLowering
from gradcli.errors import BadOption, Installed, install_command
from gradcli.modes.certified import Certified
from gradcli.modes.complex_step import ComplexStep
from gradcli.modes.finite_difference import FiniteDifference
from gradcli.modes.forward import Forward
from gradcli.modes.framework_modes import FrameworkMode
from gradcli.modes.mode import Mode
from gradcli.modes.problem import Effort
from gradcli.modes.reverse import Reverse
from gradcli.modes.symbolic import Symbolic
from gradcli.request.point import Witness

OWN: dict[str, Mode] = {
    mode.name: mode for mode in (Certified(), Symbolic(), Forward(), Reverse(), ComplexStep(), FiniteDifference())
}
FRAMEWORKS: dict[str, Mode] = {
    mode.name: mode
    for mode in (
        FrameworkMode(TorchLowering(), Witness.TORCH),
        FrameworkMode(JaxLowering(), Witness.JAX),
        FrameworkMode(TensorFlowLowering(), Witness.TENSORFLOW),
        FrameworkMode(MlxLowering(), Witness.MLX),
    )
}
MODES = OWN | FRAMEWORKS
FOR_DEVICES = ("torch", "jax")  # run on a device that is chosen if no framework is named; the first that has it
SHORT = {"fd": "finite-difference", "cs": "complex-step", "fwd": "forward", "rev": "reverse"}


def parse_modes(text: str | None) -> tuple[str, ...]:
    """Return the modes a `--modes` list names: full names, unique prefixes, `fd cs fwd rev`, or `all` but the frameworks.

    Raises  BadOption.
    """
    if text is None or text.strip() == "all":
        return tuple(OWN)
    wanted = {name for part in text.split(",") if part.strip() for name in _full_names(part.strip())}
    if not wanted:
        raise BadOption("--modes names no mode", do=f"modes: {', '.join(MODES)}, all")
    return tuple(name for name in MODES if name in wanted)


def add_mode_for_device(modes: tuple[str, ...], device: str) -> tuple[str, ...]:
    """Return the modes with one that runs on a device: torch or JAX is added if no framework is among them.

    Raises  BadOption if a framework has no such device here, or if neither of the two is installed.
    """
    named = [name for name in modes if name in FRAMEWORKS]
    here = [name for name in named or FOR_DEVICES if FRAMEWORKS[name].available().yes]
    if named:
        for name in here:
            find_device(name, device, in_float64=True)
        return modes
    if not here:
        raise BadOption(
            f"--device {device} needs {' or '.join(FOR_DEVICES)}",
            where=Installed("expressions and numpy functions run on a device in a framework, and neither is installed"),
            do=install_command(*FOR_DEVICES),
        )
    refused = []
    for name in here:
        try:
            find_device(name, device, in_float64=True)
        except BadOption as error:
            refused.append(error)
        else:
            return (*modes, name)
    raise refused[0]


def effort_of(text: str | None) -> Effort:
    """Return how much work the modes of a `--modes` list may take."""
    if text is None:
        return Effort.DEFAULT
    return Effort.ALL if "all" in (part.strip() for part in text.split(",")) else Effort.NAMED


def _full_names(word: str) -> tuple[str, ...]:
    if word == "all":
        return tuple(OWN)
    matches = (SHORT[word],) if word in SHORT else tuple(name for name in MODES if name.startswith(word))
    if len(matches) != 1:
        what = f"'{word}' could be {' or '.join(matches)}" if matches else f"there is no mode '{word}'"
        raise BadOption(what, do=f"modes: {', '.join(MODES)}; short: {', '.join(SHORT)}; all")
    return matches
