"""Read TOML that people wrote: every mistake has its line."""

import tomllib
from pathlib import Path
from typing import Any

from gradcli.errors import BadOption
from gradcli.suite import positions

_MOST = 10_000_000  # bytes of a file


def read_text(path: Path) -> str:
    """Return the text of a file. Raises BadOption if it is too large, or not readable as UTF-8."""
    try:
        if path.stat().st_size > _MOST:
            raise BadOption(f"{path.name} is larger than {_MOST:,} bytes", do="keep data in files of its own")
        return path.read_text(encoding="utf-8-sig")  # some editors put a mark at the beginning
    except (OSError, UnicodeDecodeError) as error:
        raise BadOption(f"{path} cannot be read: {error}", do="write it in UTF-8, and make it readable") from None


def tables(text: str, name: str) -> dict[str, Any]:
    """Return what a TOML text says. Raises BadOption with the line of a mistake."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        where = positions.place_of_error(text, name, error)
        what = str(error).partition(" (at ")[0]
        raise BadOption(f"{name} is not valid TOML: {what}", where=where, do="correct this line") from None
    except RecursionError:
        raise BadOption(f"{name} is not usable: its lists are nested too deeply", do="write flat lists") from None
    except ValueError as error:  # a whole number of more digits than Python reads
        raise BadOption(f"{name} is not usable: {error}", do="write a shorter number") from None
