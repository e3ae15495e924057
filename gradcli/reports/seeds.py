"""A seed that was drawn for one run: how a report names it, and the words that repeat the run with it."""

from gradcli.reports.blocks import Block, Paragraph


class RandomSeed(int):
    """A seed that was drawn for one run (--seed random), so that no earlier result is that of this run."""


def seed_words(seed: int) -> tuple[str, ...]:
    """Return the option that repeats a run whose seed was drawn; no words for a seed that the user gave."""
    return ("--seed", str(seed)) if isinstance(seed, RandomSeed) else ()


def seed_line(seed: int, indent: int = 2, *, repeats: bool = True) -> tuple[Block, ...]:
    """Return a line that names a seed that was drawn, and whether it `repeats` the run; nothing for one that the user gave."""
    if not isinstance(seed, RandomSeed):
        return ()
    again = f"The seed was drawn: {' '.join(seed_words(seed))} repeats this."
    return (Paragraph(again if repeats else f"The seed {seed} was drawn.", indent),)
