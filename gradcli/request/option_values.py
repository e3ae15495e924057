"""Convert the strings of options to their values. The first argument, `flag`, is the option's name in messages."""

import re
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any

from gradcli.errors import BadOption, closest_name
from gradcli.request.target_text import Pick, normalise_name
from gradcli.words import ALLOWED, slug

_DURATION = re.compile(r"\s*(\d+(?:\.\d*)?|\.\d+)\s*(ms|s|min|m|h)?\s*")
_INCHES = re.compile(r"\s*(\d{1,4}(?:\.\d{0,9})?|\.\d{1,9})\s*[x×]\s*(\d{1,4}(?:\.\d{0,9})?|\.\d{1,9})\s*", re.ASCII)
_OCTETS = re.compile(r"\s*(\d{1,15}(?:\.\d{0,9})?)\s*(k?|[KMGkmg]?[Bb])\s*", re.ASCII)
_BYTES = {"": 1, "b": 1, "k": 2**10, "kb": 2**10, "mb": 2**20, "gb": 2**30}
_SHARE = re.compile(r"\s*(\d{1,5})\s*/\s*(\d{1,5})\s*")
_WORKERS = 1024
SEEDS = 2**64  # as many as numpy's, torch's and MLX's generators tell apart
MOST_SHARDS = 99_999
_SIDES = (1.0, 40.0)  # inches
_DOTS = (50, 1200)
_PARTS = ("value", "grad")
_UNITS = {"ms": 1e-3, "s": 1.0, None: 1.0, "m": 60.0, "min": 60.0, "h": 3600.0}


_WHOLE = re.compile(r"\d[\d_]{0,30}(\.\d{1,30})?([eE]\+?\d{1,2})?")
_NEXT_SIZE = re.compile(r"[;,](?=\s*[^\W\d]\w*\s*=)|;")
_LARGEST = 10**13  # the largest size: its counts are still exact, and nothing of it is allocated


def parse_duration(flag: str, text: str) -> float:
    """Return the number of seconds in `90s`, `2min` or `500ms`. Raises BadOption."""
    match = _DURATION.fullmatch(text)
    if match is None or float(match[1]) <= 0:
        raise BadOption(f"{flag} takes a time, not '{text}'", do=f"write {flag} 10s, {flag} 2min")
    return float(match[1]) * _UNITS[match[2]]


def parse_seconds(flag: str, given: str | float | None) -> float | None:
    """Return a number of seconds as it is, or those in a text such as `90s`. Raises BadOption."""
    return parse_duration(flag, given) if isinstance(given, str) else given


class RandomSeed(int):
    """A seed that was drawn for one run (--seed random), so that no earlier result is that of this run."""


def seed_words(seed: int) -> tuple[str, ...]:
    """Return the option that repeats a run whose seed was drawn; no words for a seed that the user gave."""
    return ("--seed", str(seed)) if isinstance(seed, RandomSeed) else ()


def seed(flag: str, given: str | int) -> int:
    """Return the seed in a string or an integer; a random one for `random`. Raises BadOption."""
    if isinstance(given, RandomSeed):
        return given
    text = str(given).strip()
    if text == "random":
        return RandomSeed(secrets.randbelow(SEEDS))
    written = f"{flag}0" if flag.endswith("=") else f"{flag} 0"
    if not re.fullmatch("[0-9]+", text):
        raise BadOption(f"{flag} takes a whole number or 'random', not '{text:.40}'", do=f"write {written}")
    if len(text) > len(str(SEEDS)) or int(text) >= SEEDS:
        raise BadOption(f"{flag} takes at most {SEEDS - 1} (64 bits), not '{text:.40}'", do=f"write {written}")
    return int(text)


def workers(flag: str, text: str) -> int:
    """Return a number of workers; that of the processors that this process may use for `auto`. Raises BadOption."""
    if text.strip() == "auto":
        return count_processors()
    if not text.strip().isdecimal() or not 0 < int(text.strip()[:6]) <= _WORKERS:
        raise BadOption(f"{flag} takes a number from 1 to {_WORKERS}, or auto, not '{text}'", do=f"write {flag} auto")
    return int(text)


def count_processors() -> int:
    """Return how many processors this process may use: the least of its affinity and of the limits of its control groups."""
    import os
    from pathlib import Path

    count = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text().split()
    except (OSError, ValueError):
        return max(1, count)
    limited = int(quota) // int(period) if quota.isdecimal() else count
    return max(1, min(count, limited))


def parse_bytes(flag: str, text: str) -> int:
    """Return the number of bytes in `256MB`, `2GB` or `100000`. Raises BadOption."""
    match = _OCTETS.fullmatch(text)
    if match is None:
        raise BadOption(f"{flag} takes a size, not '{text}'", do=f"write {flag} 256MB, {flag} 2GB")
    return int(float(match[1]) * _BYTES[match[2].lower()])


def parse_decimal_bytes(flag: str, text: str) -> int:
    """Return the number of bytes in `4GB`, 4e9 as data sheets have it; `4GiB` is 2^32. Raises BadOption."""
    binary = re.sub(r"(?i)(?<=[kmg])ib$", "B", text.strip())
    found = parse_bytes(flag, binary)
    power = "kmg".find(text.strip()[-2:-1].lower()) + 1 if text.strip()[-1:].lower() == "b" else 0
    return found if binary != text.strip() else round(found * (1000 / 1024) ** power)


def parse_share_or_axes(flag: str, text: str) -> tuple[int, int] | str:
    """Return which part, and of how many, in `2/3`; any other text says how ranks share inputs. Raises BadOption."""
    if "/" not in text or ":" in text:
        return text.strip()
    match = _SHARE.fullmatch(text)
    if match is None or not 1 <= int(match[1]) <= int(match[2]):
        do = f"write {flag} 1/3, {flag} 2/3, {flag} 3/3"
        raise BadOption(f"{flag} takes K/N, with K from 1 to N, not '{text}'", do=do)
    return int(match[1]), int(match[2])


def read_axes_or_function(flag: str, given: Any) -> Any:
    """Return how ranks share inputs: a text, a dict of axes by name as that text, or a function. Raises BadOption."""
    if isinstance(given, Mapping):
        return ", ".join(f"{name}: {axis}" for name, axis in given.items())
    if not isinstance(given, str) and not callable(given):
        do = f'write {flag.rstrip("=")}="W: 1"'
        raise BadOption(f'{flag} takes "W: 1, b: 0" or a function, not {given!r}', do=do)
    return given


def reader_of_words(*words: str) -> Callable[[str, str], str]:
    """Return a reader of one of these words."""

    def read(flag: str, text: str) -> str:
        if text not in words:
            raise BadOption(f"{flag} takes {' or '.join(words)}, not '{text}'", do=f"write {flag} {words[-1]}")
        return text

    return read


def split_words(text: str | None) -> tuple[str, ...]:
    """Return the words of a comma-separated list."""
    return tuple(part.strip() for part in (text or "").split(",") if part.strip())


def formats(flag: str, text: str) -> tuple[str, ...]:
    """Return the formats in a comma-separated list. Raises BadOption for an empty list."""
    found = split_words(text)
    if not found:
        raise BadOption(f"{flag} names no format", do=f"write {flag} float16,bfloat16")
    return found


def parse_whole_numbers(flag: str, text: str) -> tuple[int, ...]:
    """Return the integers in a comma-separated list. Raises BadOption."""
    words = split_words(text)
    if not words or not all(word.isdecimal() and len(word) < 7 for word in words):
        raise BadOption(f"{flag} takes whole numbers, not '{text}'", do=f"{flag} 113,400")
    return tuple(map(int, words))


def parse_inches(flag: str, text: str) -> tuple[float, float]:
    """Return the width and the height in `3.5x2.5`, in inches. Raises BadOption."""
    match = _INCHES.fullmatch(text)
    if match is None:
        raise BadOption(f"{flag} takes WIDTHxHEIGHT in inches, not '{text}'", do=f"write {flag} 3.5x2.5")
    size = float(match[1]), float(match[2])
    if not (_SIDES[0] <= min(size) and max(size) <= _SIDES[1]):
        raise BadOption(f"{flag} takes 1x1 to 40x40 inches, not '{text}'", do=f"write {flag} 3.5x2.5")
    return size


def parse_dots(flag: str, text: str) -> int:
    """Return the number of dots per inch in a string. Raises BadOption."""
    if not re.fullmatch("[0-9]{1,9}", text.strip()) or not _DOTS[0] <= int(text) <= _DOTS[1]:
        raise BadOption(f"{flag} takes {_DOTS[0]} to {_DOTS[1]} dots per inch, not '{text}'", do=f"write {flag} 300")
    return int(text)


def parse_edges(flag: str, texts: Sequence[str]) -> Mapping[str, tuple[float, float]]:
    """Return the lower and upper edge of each input in strings such as `k=0:inf`. Raises BadOption."""
    found = {}
    for name, text in _parse_assignments(flag, texts, "k=0:inf"):
        low, colon, high = text.partition(":")
        found[name] = (_parse_number(low, flag, -float("inf")), _parse_number(high, flag, float("inf")))
        if not colon:
            raise BadOption(f"{flag} takes NAME=LOW:HIGH, not '{name}={text}'", do=f'write {flag} "k=0:inf"')
    return found


def parse_scales(flag: str, texts: Sequence[str]) -> Mapping[str, float]:
    """Return the typical size of each input in strings such as `x=1e-3`. Raises BadOption."""
    return {name: _parse_number(text, flag, 0.0) for name, text in _parse_assignments(flag, texts, "x=1e-3")}


def parse_sizes(flag: str, text: str) -> Mapping[str, tuple[int, ...]]:
    """Return the sizes of each name in `n=1,2,31; b=1,2`, or `n=512, d=7e10`. Raises BadOption."""
    found: dict[str, tuple[int, ...]] = {}
    for part in (part.strip() for part in _NEXT_SIZE.split(text) if part.strip()):
        name, equals, sizes = part.partition("=")
        numbers = [_parse_whole_number(word.strip()) for word in sizes.split(",") if word.strip()]
        if not equals or not name.strip().isidentifier() or not numbers or None in numbers:
            says = f"{flag} takes NAME=N,N,...; ..., with whole numbers from 0 to 10^13, not '{part}'"
            raise BadOption(says, do=f'write {flag} "n=1,2,31; b=1,2"')
        if name.strip() in found:
            raise BadOption(f"{flag} names '{name.strip()}' twice", do=f"write {flag} {name.strip()}=1,2")
        found[name.strip()] = tuple(n for n in numbers if n is not None)
    if not found:
        raise BadOption(f"{flag} names no size", do=f'write {flag} "n=1,2,31; b=1,2"')
    return found


def _parse_whole_number(word: str) -> int | None:
    """Return the whole number in a word, such as 70000000000, 70_000_000_000 or 7e10; None for any other word."""
    if not _WHOLE.fullmatch(word):
        return None
    size = Decimal(word.replace("_", ""))
    return int(size) if size <= _LARGEST and size == size.to_integral_value() else None


def _parse_assignments(flag: str, texts: Sequence[str], example: str) -> Iterator[tuple[str, str]]:
    seen = set()
    for part in (part.strip() for text in texts for part in text.split(",") if part.strip()):
        name, equals, value = part.partition("=")
        if not equals or not name.strip():
            raise BadOption(f"{flag} takes NAME=..., not '{part}'", do=f'write {flag} "{example}"')
        name = normalise_name(name.strip())
        if name in seen:
            raise BadOption(f"{flag} names '{name}' twice", do="leave one out")
        seen.add(name)
        yield name, value.strip()


def _parse_number(text: str, flag: str, absent: float) -> float:
    if not text.strip():
        return absent
    try:
        return float(text)
    except ValueError:
        says = f"{flag} takes numbers, not '{text.strip()}'"
        raise BadOption(says, do="write numbers such as 1e-3, -1, inf") from None


def parse_kinds(flag: str, text: str | Sequence[str]) -> frozenset[str]:
    """Return the allowed kinds of findings; strings may have blanks or hyphens in a kind. Raises BadOption."""
    wanted = frozenset(map(slug, split_words(text) if isinstance(text, str) else text))
    unknown = wanted - set(ALLOWED)
    if unknown:
        raise BadOption(f"{flag} does not know {', '.join(sorted(unknown))}", do=f"kinds: {', '.join(ALLOWED)}")
    return wanted


def pick(flag: str, given: "str | Mapping[str, int | str] | Pick | None") -> Pick | None:
    """Return the parts in `value=2,grad=1` or `value=loss,grad=dw`; without a value, it is part 0.

    Other names are those of an object's parameters: `W=dw,b=grads[1]`. Raises BadOption.
    """
    if given is None or isinstance(given, Pick):
        return given
    named: list[tuple[str, int | str]] = [*given.items()] if isinstance(given, Mapping) else []
    for word in () if isinstance(given, Mapping) else split_words(given):
        name, _, part = word.partition("=")
        name, part = name.strip(), part.strip().strip("'\"")
        if not part or not name or not part.isprintable():
            do = f"write {flag} value=2,grad=1; of a layer {flag} W=dw"
            raise BadOption(f"{flag} takes value=... and grad=..., not '{word}'", do=do)
        named.append((name, part))
    if named and all(name not in _PARTS for name, _ in named):
        return Pick(gradient_places=tuple((name, str(part)) for name, part in named))
    is_position = re.compile(r"-?[0-9]{1,4}").fullmatch
    parts = {name: int(part) if isinstance(part, str) and is_position(part) else part for name, part in named}
    do = f"write {flag} grad=1, {flag} value=2,grad=1 or {flag} value=loss,grad=dw"
    if "grad" not in parts or set(parts) - set(_PARTS) or len(parts) < len(named):
        raise BadOption(f"{flag} takes value=... and grad=..., each once, not '{given}'", do=do)
    if isinstance(parts["grad"], str) and "value" not in parts:
        do = f"{flag} value=...,grad={parts['grad']}"
        raise BadOption(f"{flag} names the gradient by a key, and not the value", do=do)
    found = Pick(parts.get("value", 0), parts["grad"])
    if found.value == found.grad:
        raise BadOption(f"{flag} names part {found.value} as the value and as the gradient", do=do)
    return found


def read_name(flag: str, text: str | None, names: Sequence[str]) -> str | None:
    """Return a text that is one of these names, or None. Raises BadOption, with the nearest name, for another text."""
    if text is not None and text not in names:
        near = closest_name(text, names)
        known = f"it knows {', '.join(names)}"
        raise BadOption(f"{flag} does not know '{text}'", do=f"did you mean '{near}'? {known}" if near else known)
    return text


def reader_of_name(names: Sequence[str]) -> Callable[[str, str | None], str | None]:
    """Return a reader of one of these names."""
    return lambda flag, text: read_name(flag, text, names)


def reader_of_names(names: Sequence[str]) -> Callable[[str, str | Sequence[str]], frozenset[str]]:
    """Return a reader of some of these names, from a comma-separated list or a sequence."""

    def read_names(flag: str, text: str | Sequence[str]) -> frozenset[str]:
        words = split_words(text) if isinstance(text, str) else tuple(text)
        for word in words:
            read_name(flag, word, names)
        return frozenset(words)

    return read_names


def as_texts(flag: str, texts: str | Sequence[str]) -> tuple[str, ...]:
    """Return one text, or several, as a tuple."""
    return (texts,) if isinstance(texts, str) else tuple(texts)


def join_names(name: str, names: str | Sequence[str] | None) -> str | None:
    """Return names as one comma-separated list, as on the command line."""
    return names if names is None or isinstance(names, str) else ",".join(names)
