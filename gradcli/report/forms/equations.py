"""Equations in LaTeX: several lines of a formula under each other, for documents and for notebooks."""

from collections.abc import Sequence

BREAK = r" \\ "  # between the lines of a formula


def aligned(lines: Sequence[str]) -> str:
    """Return equations under each other, their signs of equality, too."""
    shown = [line if line.startswith("&") else line.replace(" = ", " &= ", 1) for line in lines]
    return rf"\begin{{aligned}} {BREAK.join(shown)} \end{{aligned}}"
