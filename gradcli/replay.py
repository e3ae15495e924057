"""The words of a command that repeats a check."""

from gradcli.options import CLAIM_KINDS, Options, rows_of

_FIRST = ("at", "shapes", *CLAIM_KINDS)


def replayed(options: Options) -> tuple[str, ...]:
    """Return the words of a `check` command with these options: the point and the claim first, the seed last."""
    words: list[str] = []
    for option in sorted(rows_of("check"), key=lambda option: (option.name == "seed", option.name not in _FIRST)):
        value = getattr(options, option.name)
        if option.write is not None and (value != option.default or option.name == "seed"):
            for text in option.write(value):
                words += [option.flag, text] if text or option.kind is not bool else [option.flag]
    return tuple(words)
