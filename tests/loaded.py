"""Runs of the program in copies of a process that has loaded a framework and done nothing with it, as loading takes seconds.

A framework may be copied before its first operation only: the tests' own processes have done many.
"""

import contextlib
import dataclasses
import importlib
import json
import subprocess
import sys
from typing import Any

from gradcli.arithmetic.devices import discard_stderr
from tests.conftest import Ran, process
from tests.documents.blocks import ROOT

MODULES = {  # that a check of a function of the framework loads
    "torch": ("torch._dynamo", "torch.fx.experimental.symbolic_shapes", "gradcli.frameworks.torch.adapter"),
    "jax": ("gradcli.frameworks.jax.adapter",),
    "tensorflow": ("gradcli.frameworks.tensorflow",),
    "mlx": ("gradcli.frameworks.mlx",),
}


class Loaded:
    """A process that has loaded frameworks; what it runs finds the environment that it was started with."""

    def __init__(self, *frameworks: str, environ: dict[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.loaded", *frameworks], cwd=ROOT, env=environ, text=True,
            stdin=subprocess.PIPE, stdout=subprocess.PIPE,
        )  # fmt: skip

    def run(self, *argv: str, **more: Any) -> Ran:
        """Run the program as `tests.conftest.process` does, in a copy of the process."""
        print(json.dumps([argv, more], default=str), file=self._process.stdin, flush=True)
        return Ran(**json.loads(self._process.stdout.readline()))  # type: ignore[union-attr]

    def close(self) -> None:
        self._process.communicate()


def main() -> None:
    """Load the frameworks that the arguments name, then run what each line of standard input asks for.

    Its workers are new processes: JAX and TensorFlow may not be copied after their first operation.
    """
    with discard_stderr():
        for framework in sys.argv[1:]:
            for module in MODULES[framework]:
                with contextlib.suppress(ImportError):  # of another version
                    importlib.import_module(module)
    for line in sys.stdin:
        argv, more = json.loads(line)
        print(json.dumps(dataclasses.asdict(process(*argv, new_workers=True, **more))), flush=True)


if __name__ == "__main__":
    main()
