"""The code of one derivative in every language that can express it, each with its self-test."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from gradcli.derivation.code.c import c_code
from gradcli.derivation.code.dialect import ARRAYS, NUMPY, Dialect, imported
from gradcli.derivation.code.ranks import rank
from gradcli.derivation.code.writer import Writer
from gradcli.derivation.expression import E
from gradcli.derivation.statements import Statements
from gradcli.derivation.verified import SelfTest, in_c, in_python
from gradcli.errors import NotSupported
from gradcli.source.facts import Dims

LANGUAGES = (*(d.name for d in ARRAYS), "c")
_WORD = re.compile(r"[^\W\d]\w*")


@dataclass(frozen=True)
class CodeRequest:
    """What the code computes: a program that is named by its `kind`, a function of the inputs `dims`, by the input `wrt`."""

    made: Statements
    kind: str
    dims: Mapping[str, Dims]
    wrt: str

    @property
    def lines(self) -> tuple[tuple[str, E], ...]:
        """The named parts, and the result with an empty name."""
        return (*self.made.parts, ("", self.made.result))

    def owners(self) -> dict[str, tuple[str, int]]:
        """Return, for every named size that is used, an input and the axis that has it."""
        used = {w for _, e in self.lines for a in e.walk() if a.op == "name" for w in _WORD.findall(a.text)}
        found: dict[str, tuple[str, int]] = {}
        for name, dims in self.dims.items():
            for k, size in enumerate(dims):
                if size in used and size not in self.dims:
                    found.setdefault(size, (name, k))
        return found


def every(wanted: CodeRequest, test: SelfTest | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the code by language, and the reason for every language that cannot express it.

    Raises  NotSupported if numpy cannot, in which all closed forms are verified.
    """
    found, refused = {NUMPY.name: in_arrays(wanted, NUMPY, test)}, {}
    for dialect in ARRAYS[1:]:
        try:
            found[dialect.name] = in_arrays(wanted, dialect, test)
        except NotSupported as error:
            refused[dialect.name] = error.what
    try:
        found["c"] = of_numbers(wanted, test)
    except NotSupported as error:
        refused["c"] = error.what
    return found, refused


def in_arrays(wanted: CodeRequest, dialect: Dialect, test: SelfTest | None = None) -> str:
    """Return a function, named by its kind, that takes the inputs by keyword and reads sizes from shapes. Raises NotSupported."""
    taken = {*wanted.dims, *wanted.owners(), *(n for n, _ in wanted.made.parts)}
    if clash := sorted(taken & dialect.owned):
        raise NotSupported(f"what is called {clash[0]} hides a module in the code", do="call it something else")
    known = {name: len(dims) for name, dims in wanted.dims.items()}
    like = wanted.wrt if known[wanted.wrt] else next((n for n, r in known.items() if r), wanted.wrt)
    lines = [f"{size} = {dialect.size.format(*owner)}" for size, owner in wanted.owners().items()]
    for name, e in wanted.made.parts:
        lines.append(f"{name} = {Writer(dialect, known, like).code(e)}")
        known[name] = rank(e, known)
    lines.append(f"return {Writer(dialect, known, like).result(wanted.made.result)}")
    head = f"def {wanted.kind}({', '.join(['*', *wanted.dims])}):"
    body = "\n".join([head, *(f"    {line}" for line in lines)]) + "\n"
    imports = imported(dialect.imports, body)
    tested = in_python(test, wanted.kind, dialect, imports) if test else ""
    return "\n".join([*imports, "", "", body]) + tested if imports else body + tested


def of_numbers(wanted: CodeRequest, test: SelfTest | None = None) -> str:
    """Return a C file for a function of numbers whose result is a number. Raises NotSupported for any other."""
    known = dict.fromkeys(wanted.dims, 0)
    arrays: Sequence[str] = [name for name, dims in wanted.dims.items() if dims]
    if arrays:
        raise NotSupported(f"C is written for functions of numbers, and {arrays[0]} is none")
    if any(rank(e, known) > 0 for _, e in wanted.lines):
        raise NotSupported(f"C is written for functions of numbers, and the {wanted.kind} is none")
    return c_code(
        wanted.made.parts, wanted.made.result, wanted.kind, tuple(wanted.dims), in_c(test, wanted.kind) if test else ""
    )
