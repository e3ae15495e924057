"""The devices of each framework: those that there are here, those that its build is for, and how to install others."""

import importlib
import importlib.util
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

from gradcli.classes import dataclass
from gradcli.errors import BadOption, Installed

CPU = "cpu"
_CUDA_PLUGINS = ("jax_cuda12_plugin", "jax_cuda13_plugin")


@dataclass(frozen=True, slots=True)
class Devices:
    """What one framework can run on. A device is a kind and a number, `cuda:1`; number 0 may be left out.

    package     The name of the module, which the functions below take.
    names       Returns the names of the devices that there are, the CPU first.
    own         Returns the framework's own object or name for a kind and a number.
    built_for   Returns the kinds of device besides the CPU that the installed build supports.
    install     The command that installs a build for a kind.
    in_float64  The kinds that compute in float64.
    spellings   Other names of kinds.
    """

    package: str
    names: Callable[[Any], list[str]]
    own: Callable[[Any, str, int], Any]
    built_for: Callable[[Any], set[str]]
    install: Mapping[str, str]
    in_float64: frozenset[str] = frozenset({CPU, "cuda"})
    spellings: Mapping[str, str] = field(default_factory=lambda: {"gpu": "cuda"})

    def parsed(self, name: str) -> tuple[str, str]:
        """Return the kind and the number of a device."""
        kind, _, number = name.partition(":")
        return self.spellings.get(kind, kind), number or "0"

    @property
    def module(self) -> Any:
        """The framework, imported."""
        return importlib.import_module(self.package)

    def native(self, name: str) -> Any:
        """Return the framework's own object or name for a device."""
        kind, number = self.parsed(name)
        return self.own(self.module, kind, int(number))


# Quiet imports of packages that print messages about the machine while they are imported.

_LOUD = {"tensorflow": ("TF_CPP_MIN_LOG_LEVEL", "3")}  # and the variable that keeps each quiet later
_PATIENT = ("OMP_WAIT_POLICY", "PASSIVE")  # idle threads of a framework sleep; if they spin, numpy runs at half speed


@contextmanager
def quiet_imports() -> Iterator[None]:
    """Discard the messages of loud packages that are imported inside the context."""
    os.environ.setdefault(*_PATIENT)
    finder = _Finder()
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)


@contextmanager
def discard_stderr() -> Iterator[None]:
    """Discard what is written to standard error inside the context, by C code too."""
    kept = os.dup(2)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    try:
        os.dup2(nowhere, 2)
        yield
    finally:
        os.dup2(kept, 2)
        os.close(kept)
        os.close(nowhere)


class _Finder:
    """An import finder for the loud packages, which runs before the usual finders."""

    def find_spec(
        self, name: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Return the package's own spec, with a loader that runs the package with standard error discarded."""
        spec = PathFinder.find_spec(name, path, target) if name in _LOUD else None
        loader: Any = spec and spec.loader
        if not loader:
            return spec
        os.environ.setdefault(*_LOUD[name])
        run = loader.exec_module

        def run_quietly(module: ModuleType) -> None:
            with discard_stderr():
                run(module)
                if name == "tensorflow":  # looks for devices now, while its messages are discarded
                    module.constant(0.0)

        loader.exec_module = run_quietly
        return spec


def find_device(framework: str, name: str, *, in_float64: bool = False) -> str:
    """Return the full name of a device of a framework, such as cuda:0 for cuda; the framework is imported for all but the CPU.

    Raises  BadOption if there is no such device here, or if it has to compute in float64 and does not. The error names the
            devices that there are, the build that is installed, and what to install.
    """
    if name == CPU:
        return CPU
    devices = DEVICES[framework]
    with quiet_imports():
        module = devices.module
    kind, number = devices.parsed(name)
    here = devices.names(module)
    found = next((known for known in here if devices.parsed(known) == (kind, number)), None)
    where = Installed(f"{framework} {framework_version(framework)} finds these devices: {', '.join(here)}")
    if found is None:
        raise BadOption(f"there is no device '{name}' here", where=where, do=_device_advice(devices, kind, here))
    if in_float64 and kind not in devices.in_float64:
        able = [known for known in here if devices.parsed(known)[0] in devices.in_float64]
        says = f"{framework} has no float64 on {name}, and float64 is what a gradient is compared in"
        raise BadOption(says, where=where, do=f"name one that has it: --device {' or '.join(able)}")
    return found


def framework_version(framework: str) -> str:
    """Return the version of an installed framework, with that of its build, as `2.13.0+cpu`."""
    return str(getattr(DEVICES[framework].module, "__version__", "unknown"))


def _device_advice(devices: Devices, kind: str, here: list[str]) -> str:
    if any(devices.parsed(known)[0] == kind for known in here) or kind not in devices.install:
        return f"name one of these: --device {' or '.join(here)}"
    if kind in devices.built_for(devices.module):
        return f"this build is for {kind}; see whether the driver finds a GPU: nvidia-smi"
    return f"install the build for {kind}: {devices.install[kind]}"


def _names_in_jax(jax: Any) -> list[str]:
    kinds = sorted({device.platform for device in jax.devices()} - {CPU})
    others = [f"{'cuda' if kind == 'gpu' else kind}:{k}" for kind in kinds for k in range(len(jax.devices(kind)))]
    return [CPU, *(f"{CPU}:{k}" for k in range(1, len(jax.devices(CPU)))), *others]


def _install_commands(**commands: str) -> Mapping[str, str]:
    """Return the commands by kind of device; there are none for macOS, where the usual package has what there is."""
    return {} if sys.platform == "darwin" else commands


DEVICES: Mapping[str, Devices] = {
    "torch": Devices(
        "torch",
        lambda torch: [
            CPU, *(f"cuda:{k}" for k in range(torch.cuda.device_count())),
            *(["mps"] if torch.backends.mps.is_available() else []),
        ],
        lambda torch, kind, number: f"{kind}:{number}",
        lambda torch: {"cuda"} if torch.version.cuda or torch.version.hip else set(),
        _install_commands(cuda="pip install -U torch --index-url https://download.pytorch.org/whl/cu130"),
    ),
    "jax": Devices(
        "jax", _names_in_jax,
        lambda jax, kind, number: jax.devices("gpu" if kind == "cuda" else kind)[number],
        lambda jax: {"cuda"} if any(map(importlib.util.find_spec, _CUDA_PLUGINS)) else set(),
        _install_commands(cuda='pip install -U "jax[cuda12]"', tpu='pip install -U "jax[tpu]"'),
    ),
    "tensorflow": Devices(
        "tensorflow",
        lambda tf: [CPU, *(f"cuda:{k}" for k in range(len(tf.config.list_physical_devices("GPU"))))],
        lambda tf, kind, number: f"/{'GPU' if kind == 'cuda' else 'CPU'}:{number}",
        # the usual build loads the libraries of CUDA when it starts, if they are there
        lambda tf: {"cuda"} if importlib.util.find_spec("nvidia") is not None else set(),
        _install_commands(cuda='pip install -U "tensorflow[and-cuda]"'),
    ),
    "mlx": Devices(
        "mlx.core",
        lambda mx: [CPU, *(["gpu"] if mx.is_available(mx.gpu) else [])],
        lambda mx, kind, number: mx.gpu if kind == "gpu" else mx.cpu,
        lambda mx: set(),
        _install_commands(gpu='pip install -U "mlx[cuda12]"'),
        in_float64=frozenset({CPU}), spellings={"cuda": "gpu", "mps": "gpu"},
    ),
}  # fmt: skip
