"""Keeping the point of a check in a file that `--at @FILE` reads."""

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gradcli.errors import BadOption

if TYPE_CHECKING:
    from gradcli.report.check import CheckReport

_ENDINGS = (".npz", ".json")


def keepable(text: str) -> Path:
    """Return the file of `--save-point`, before any work is done for it. Raises BadOption."""
    path = Path(text)
    if path.suffix.lower() not in _ENDINGS:
        raise BadOption(
            f"--save-point writes {' or '.join(_ENDINGS)}, not '{text[:80]}'", do="write --save-point point.npz"
        )
    if not path.parent.is_dir() or path.is_dir() or not os.access(path if path.exists() else path.parent, os.W_OK):
        raise BadOption(f"{text[:80]} cannot be written", do="name a file in a folder that exists")
    return path


def keep_point(report: "CheckReport", path: Path) -> None:
    """Write the first point that did not pass, or the first one."""
    point = next((p for p in report.points if p.verdict != "pass"), report.points[0])
    others = [name for name, x in point.at.items() if isinstance(x, str | bytes) or not _numeric(x)]
    if others:
        says = f"the point was not kept: {', '.join(others[:3])} {'is' if len(others) == 1 else 'are'} no numbers"
        raise BadOption(says, do="keep it in Python, in a function that returns it: --at file.py:point")
    try:
        if path.suffix.lower() == ".json":
            path.write_text(json.dumps({name: _plain(x) for name, x in point.at.items()}) + "\n", encoding="utf-8")
            return
        import numpy as np

        with path.open("wb") as stream:
            np.savez(stream, **{name: np.asarray(x) for name, x in point.at.items()})  # type: ignore[arg-type]
    except (OSError, ValueError, TypeError) as error:
        raise BadOption(f"the point cannot be kept in {path}: {error}", do="keep it as .npz") from None


def _numeric(x: Any) -> bool:
    import numpy as np

    return np.asarray(x).dtype.kind in "fiub"


def _plain(x: Any) -> Any:
    return x.tolist() if hasattr(x, "tolist") else x
