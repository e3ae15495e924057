"""The blocks of a page in Markdown, by what is done with each.

| block | what it is |
| --- | --- |
| `console` | commands after `$`, with what each prints; a line `[...]` stands for lines that are left out |
| any language, with `>>>` | a doctest; the doctests of a page share their names |
| any language, whose first line is `# NAME.ENDING` | a file of the folder that the page's blocks run in |
| others | shown only |

A comment `<!-- needs torch -->` before a block, or before the first heading of a page for all its blocks, names what has
to be installed.
"""

import re
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_FENCE = re.compile(
    r"(?P<needs><!-- needs (?P<names>[\w ,-]+) -->\n+)?```(?P<kind>[^\n`]*)\n(?P<text>.*?)^```$", re.M | re.S
)
_FILE = re.compile(r"# (?P<name>[\w./-]+\.(?:py|toml|yml|yaml|ini|cfg))\n")
_WHOLE = re.compile(r"\A(?:(?!#).*\n)*?<!-- needs (?P<names>[\w ,-]+) -->\n(?:\n*)#")
LEFT_OUT = "[...]"


@dataclass(frozen=True, slots=True)
class Command:
    """A command of a console block, and the output that is shown for it."""

    line: str
    shown: str


@dataclass(frozen=True, slots=True)
class Block:
    """A fenced block: `start` is the index of its text in the page."""

    kind: str
    text: str
    start: int
    needs: frozenset[str]

    @property
    def file(self) -> str | None:
        """The name of the file that the block is, if it is one."""
        found = _FILE.match(self.text)
        return found["name"] if found and self.kind not in ("console", "text") else None

    @property
    def is_doctest(self) -> bool:
        return self.kind not in ("console", "text") and bool(re.search(r"^>>> ", self.text, re.M))

    def commands(self) -> list[Command]:
        """Return the commands of a console block; a backslash at the end of a line continues it."""
        found: list[Command] = []
        lines = self.text.splitlines(keepends=True)
        while lines:
            line = lines.pop(0)
            if not line.startswith("$ "):
                raise ValueError(f"a console block begins with `$ `, not with {line!r}")
            while line.endswith("\\\n"):
                line += lines.pop(0)
            shown = ""
            while lines and not lines[0].startswith("$ "):
                shown += lines.pop(0)
            found.append(Command(line.removeprefix("$ ").rstrip("\n"), shown))
        return found


def blocks(text: str) -> list[Block]:
    """Return the blocks of a page in their order."""
    whole = _WHOLE.match(text)
    shared = _names(whole["names"]) if whole else frozenset()
    return [
        Block(m["kind"], m["text"], m.start("text"), shared | _names(m["names"] or "")) for m in _FENCE.finditer(text)
    ]


def _names(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"[\w-]+", text))


@cache
def pages() -> tuple[str, ...]:
    """Return all pages, by their paths from the root of the repository."""
    found = [
        *(p for p in ROOT.glob("docs/**/*.md") if p.parent.name != "findings" or p.name == "index.md"),
        *ROOT.glob("examples/**/README.md"),
        *ROOT.glob("pytest-gradcli/*.md"),
    ]
    return ("README.md", *sorted(path.relative_to(ROOT).as_posix() for path in found))


def read(page: str) -> str:
    return (ROOT / page).read_text(encoding="utf-8")


def sections(text: str) -> dict[str, str]:
    """Return the sections of a page by their headings; what stands before the first has the heading ""."""
    parts = re.split(r"^(?=## )", text, flags=re.MULTILINE)
    return {part.partition("\n")[0] if part.startswith("## ") else "": part for part in parts}


def to_run(page: str) -> list[Block]:
    """Return the blocks of a page that are run."""
    return [block for block in blocks(read(page)) if block.kind == "console" or block.is_doctest]
