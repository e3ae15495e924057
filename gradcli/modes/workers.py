"""Child processes that load sympy while this one does something else. Imports nothing heavy: it runs first of all."""

import subprocess
import sys
import threading

# Without the collector sympy loads a tenth faster, and a process that answers once has no garbage worth collecting.
# Nor does it need the site module: it is told where this process found its packages.
_PROGRAM = (
    "import gc, sys; gc.disable(); sys.path[:] = {path!r}; from gradcli.modes.symbolic_worker import main; main()"
)


class Workers:
    """Processes that load sympy while this one does something else; one is asked once."""

    def __init__(self) -> None:
        self.waiting: subprocess.Popen[bytes] | None = None
        self.lock = threading.Lock()

    def start(self) -> None:
        """Begin to load sympy now; harmless if it is never asked."""
        with self.lock:
            if self.waiting is None:
                self.waiting = _process()

    def take(self) -> "subprocess.Popen[bytes]":
        """Return the waiting worker, or a new one."""
        with self.lock:
            worker, self.waiting = self.waiting, None
        return worker or _process()

    def stop(self) -> None:
        """End a worker that was never asked."""
        with self.lock:
            worker, self.waiting = self.waiting, None
        if worker is not None:
            worker.kill()
            worker.communicate()


def _process() -> "subprocess.Popen[bytes]":
    return subprocess.Popen(
        [sys.executable, "-S", "-c", _PROGRAM.format(path=sys.path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )


WORKERS = Workers()
