"""The words of a command that repeats a check."""

from collections.abc import Collection

from gradcli.request.options import CLAIM_KINDS, Options, rows_of

_FIRST = ("at", "shapes", *CLAIM_KINDS)


def replayed(options: Options, only: Collection[str] | None = None) -> tuple[str, ...]:
    """Return the words of a `check` command with these options: the point and the claim first, the seed last.

    Options at their defaults are left out, but for the seed; where `only` names options, they alone are written.
    """
    words: list[str] = []
    for option in sorted(rows_of("check"), key=lambda option: (option.name == "seed", option.name not in _FIRST)):
        value = getattr(options, option.name)
        wanted = value != option.default or option.name == "seed" if only is None else option.name in only
        if option.write is not None and wanted:
            for text in option.write(value):
                words += [option.flag, text] if text or option.kind is not bool else [option.flag]
    return tuple(words)
