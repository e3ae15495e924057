"""A reader of printed mathematics that knows nothing of how it was written: it parses a notation and evaluates it."""

import re
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import numpy as np

from tests.derivation.notation.tokens import READERS, Tokens, spelled
from tests.derivation.notation.values import COMPARISONS, Array, Senseless, Value, called, chosen, product, together

Meaning = Callable[[Mapping[str, int]], Value]


class Reader:
    """Parses one right side; `values` are the inputs, sizes and earlier parts."""

    def __init__(self, tokens: Tokens, values: Mapping[str, Any], letters: tuple[str, ...]) -> None:
        self.tokens, self.values, self.at = tokens, values, 0
        self.letters = set(letters)
        self.bars: list[str] = []  # those that are open: the same sign ends them
        self.lengths: dict[str, set[int]] = {}

    def peek(self) -> str:
        return self.tokens[self.at] if self.at < len(self.tokens) else ""

    def take(self, wanted: str = "") -> str:
        token = self.peek()
        if (wanted and token != wanted) or not token:
            raise Senseless(f"{token!r} where {wanted!r} is expected in {' '.join(self.tokens)}")
        self.at += 1
        return token

    def cases(self) -> Meaning:
        """Return a sum, or a choice: `a if u > v, else b`."""
        yes = self.sum()
        if self.peek() != "if":
            return yes
        self.take()
        left, sign, right = self.sum(), self.take(), self.sum()
        self.take(",")
        self.take("else")
        no = self.cases()
        return lambda env: chosen(together(COMPARISONS[sign], left(env), right(env)), yes(env), no(env))

    def sum(self) -> Meaning:
        negative = self.peek() == "-" and bool(self.take())
        first = self.term()
        found: Meaning = (lambda env: product(-1.0, first(env))) if negative else first
        while self.peek() in ("+", "-"):
            sign = 1.0 if self.take() == "+" else -1.0
            found = self._added(found, self.term(), sign)
        return found

    def _added(self, x: Meaning, y: Meaning, sign: float) -> Meaning:
        def total(env: Mapping[str, int]) -> Value:
            return together(np.add, x(env), product(sign, y(env)))

        return total

    def term(self) -> Meaning:
        found = self.factor()
        while self.peek() in ("∘", "/", "·", "*"):
            sign = self.take()
            found = self._combined(found, self.factor(), sign)
        return found

    def _combined(self, x: Meaning, y: Meaning, sign: str) -> Meaning:
        def value(env: Mapping[str, int]) -> Value:
            a, b = x(env), y(env)
            if sign in "·*" or (sign == "/" and isinstance(b, float)):
                return product(a, b if sign in "·*" else 1 / b)
            return together(np.multiply if sign == "∘" else np.divide, a, b)

        return value

    def factor(self) -> Meaning:
        found = self.power()
        while self._begins():
            found = self._neighbours(found, self.power())
        return found

    def _begins(self) -> bool:
        token = self.peek()
        if self.bars and token == self.bars[-1]:
            return False
        return (
            bool(token)
            and token not in ("if", "else")
            and (token[0].isalnum() or token in ("(", "‖", "|", "𝟏", "√", "["))
        )

    def _neighbours(self, x: Meaning, y: Meaning) -> Meaning:
        return lambda env: product(x(env), y(env))

    def power(self) -> Meaning:
        found = self.atom()
        while self.peek() == "^":
            self.take()
            found = self._raised(found, self._group())
        return found

    def _group(self) -> Tokens:
        if self.peek() != "(":
            sign = [self.take()]
            return [*sign, *self._group()] if sign[0] in ("∘", "-") else sign
        self.take()
        depth, found = 1, []
        while depth:
            found.append(self.take())
            depth += {"(": 1, ")": -1}.get(found[-1], 0)
        return found[:-1]

    def _raised(self, x: Meaning, up: Tokens) -> Meaning:
        if up[-1] == "T":
            inverse = len(up) > 1

            def turned(env: Mapping[str, int]) -> Value:
                y = _inverse(x(env)) if inverse else x(env)
                return y if isinstance(y, float) else y.T

            return turned
        by_entry = up[0] == "∘"
        p = Reader(up[by_entry:], self.values, tuple(self.letters)).sum()

        def value(env: Mapping[str, int]) -> Value:
            base, power = x(env), p(env)
            assert isinstance(power, float)
            if isinstance(base, float):
                return float(base**power)
            if min(base.a.shape) > 1 and not by_entry:
                if power == -1:
                    return _inverse(base)
                raise Senseless("a power of a matrix, or of its entries?")
            return Array(base.a**power, base.stretches)

        return value

    def atom(self) -> Meaning:
        token = self.take()
        if token == "(":
            return self._indexed(self._inside(")"), None)
        if token in ("‖", "|"):
            inner = self._inside(token)
            return lambda env: _sized(inner(env), token)
        if token == "√":
            under = self.atom()
            return lambda env: called("√", under(env), "")
        if token == "𝟏":
            if self.peek() == "[":
                return self._truth()
            return lambda env: Array(np.ones((1, 1)), (True, False))
        if token == "[":
            self.at -= 1
            return self._truth()
        if token[0].isdigit():
            return lambda env: float(token)
        return self._named(token)

    def _inside(self, end: str) -> Meaning:
        self.bars.append(end)
        inner = self.cases()
        self.take(end)
        self.bars.pop()
        return inner

    def _truth(self) -> Meaning:
        self.take("[")
        left = self.sum()
        sign = self.take()
        right = self.sum()
        self.take("]")
        return lambda env: together(lambda a, b: COMPARISONS[sign](a, b) * 1.0, left(env), right(env))

    def _named(self, name: str) -> Meaning:
        low = self._lowered()
        if name in ("sum", "prod") and low and not set(low) <= {"rows", "columns"}:
            return self._total(name, [t for t in low if t != ","])
        whole = spelled(name + "".join(low))
        if whole in self.values:
            x = self.values[whole]
            return self._indexed(lambda env: x if isinstance(x, Array | float) else Array(x), x)
        if spelled(name) in self.values:
            x = self.values[spelled(name)]
            return self._entry(lambda env: Array(x), np.shape(x), low)
        if name in self.letters:
            return lambda env: float(env[name])
        if name in ("δ", "delta") or (name in ("I", "Id") and self.peek() == "["):
            i, j = [t for t in (low or self._places()) if t != ","]
            return lambda env: float(self._index(i, env) == self._index(j, env))
        if name == "π" or name == "pi":
            return lambda env: np.pi
        if name in ("I", "Id"):
            return lambda env: Array(np.zeros((1, 1)), (True, True), 1.0)
        if name == "softmax" and low and not set(low) <= {"rows", "columns"}:
            return self._softmax([t for t in low if t != ","])
        self.take("(")
        argument = self.cases()
        self.take(")")
        return self._indexed(lambda env: called(name, argument(env), "".join(low)), None)

    def _lowered(self) -> Tokens:
        if self.peek() != "_":
            return []
        self.take()
        found = self._group()
        while self.peek() == "," and self.tokens[self.at + 1] in self.free:
            found += [self.take(), self.take()]
        return found

    free = "ijklmnpqrstuvwabcdgh"

    def _places(self) -> Tokens:
        self.take("[")
        found: Tokens = []
        while self.peek() != "]":
            found.append(self.take())
        self.take()
        return found

    def _indexed(self, x: Meaning, value: Any) -> Meaning:
        if self.peek() == "_":
            return self._entry(x, None if value is None else np.shape(value), self._lowered())
        if self.peek() == "[" and (value is not None or self.tokens[self.at - 1] == ")"):
            return self._entry(x, None if value is None else np.shape(value), self._places())
        return x

    def _entry(self, x: Meaning, shape: tuple[int, ...] | None, low: Tokens) -> Meaning:
        places = [t for t in low if t != ","]
        for k, place in enumerate(places):
            if not place.isdigit():
                length = np.shape(_array(x({})))[k] if shape is None else shape[k]
                self.lengths.setdefault(place, set()).add(length)

        def value(env: Mapping[str, int]) -> Value:
            return float(_array(x({}))[tuple(self._index(p, env) for p in places)])

        return value

    def _index(self, place: str, env: Mapping[str, int]) -> int:
        return int(place) if place.isdigit() else env[place]

    def _total(self, name: str, letters: Tokens) -> Meaning:
        if self.letters & set(letters):
            raise Senseless(f"an index is bound again: {letters}")
        self.letters |= set(letters)
        body = self.term()
        self.letters -= set(letters)
        ranges = {c: self.lengths.pop(c) for c in letters}

        def value(env: Mapping[str, int]) -> Value:
            terms = [body({**env, **at}) for at in _every(ranges)]
            return float((np.sum if name == "sum" else np.prod)(terms))

        return value

    def _softmax(self, letters: Tokens) -> Meaning:
        self.take("(")
        body = self.cases()
        self.take(")")
        ranges = {c: self.lengths[c] for c in letters}

        def value(env: Mapping[str, int]) -> Value:
            below = sum(np.exp(body({**env, **at})) for at in _every(ranges))
            return float(np.exp(body(env)) / below)

        return value


def _array(x: Value) -> Any:
    a = np.asarray(x.a if isinstance(x, Array) else x)
    return a[:, 0] if a.ndim == 2 and a.shape[1] == 1 else a


def _inverse(x: Value) -> Array:
    assert isinstance(x, Array)
    return Array(np.linalg.inv(x.a))


def _sized(x: Value, bar: str) -> Value:
    if bar == "‖":
        return float(np.linalg.norm(_array(x)))
    return abs(x) if isinstance(x, float) else Array(np.abs(x.a))


def _every(ranges: Mapping[str, set[int]]) -> Iterator[dict[str, int]]:
    if any(len(n) != 1 for n in ranges.values()):
        raise Senseless(f"an index runs over {ranges}")
    lengths = [next(iter(n)) for n in ranges.values()]
    return (dict(zip(ranges, at, strict=True)) for at in np.ndindex(*lengths))


def evaluated(notation: str, text: str, values: Mapping[str, Any], shape: tuple[int, ...]) -> Any:
    """Return what the last of several statements is worth, as an array of the shape. Raises Senseless."""
    known: dict[str, Any] = {}
    for name, x in values.items():
        a = np.asarray(x, dtype=float)
        known[spelled(name)] = float(a) if a.ndim == 0 else a.reshape(-1, 1) if a.ndim == 1 else a
        if a.ndim > 2:
            known[spelled(name)] = a
    statements: list[Tokens] = [[]]
    for token in READERS[notation](text):
        if token == ";":
            statements.append([])
        else:
            statements[-1].append(token)
    for tokens in statements[:-1]:
        at = tokens.index("=")
        found = _right(tokens[at + 1 :], known, ())({})
        known[spelled("".join(t for t in tokens[:at] if t not in "_()"))] = (
            found if isinstance(found, float) else found.a
        )
    left, right = _split(statements[-1])
    letters = _letters_of(left, values)
    meaning = _right(right, known, letters)
    if letters:
        entries = [meaning(dict(zip(letters, at, strict=True))) for at in np.ndindex(*shape)]
        return np.reshape(entries, shape)
    found = meaning({})
    if isinstance(found, float):
        return np.asarray(found)
    wanted = (*shape, 1)[:2]
    return np.broadcast_to(found.a + (found.eye * np.eye(wanted[0]) if found.eye else 0), wanted).reshape(shape)


def _split(tokens: Tokens) -> tuple[Tokens, Tokens]:
    at = tokens.index("=")
    return tokens[:at], tokens[at + 1 :]


def _letters_of(left: Tokens, values: Mapping[str, Any]) -> tuple[str, ...]:
    inside = re.findall(r"[\[(]([^\[\]()]*)[\])]", " ".join(left))
    names = [t for part in inside for t in part.replace(",", " ").split() if len(t) == 1 and t.isalpha()]
    known = {spelled(name) for name in values}
    return tuple(t for t in names if t not in known and t != "f")


def _right(tokens: Tokens, known: Mapping[str, Any], letters: tuple[str, ...]) -> Meaning:
    reader = Reader(tokens, known, letters)
    found = reader.cases()
    if reader.peek():
        raise Senseless(f"{reader.peek()!r} is left of {' '.join(tokens)}")
    return found
