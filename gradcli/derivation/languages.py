"""The code of one derivative in every language that can express it, each with its self-test.

Function names are qualified, and linear solves stand in place of inverses.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.derivation.matrix_expression import (
    COMPARE,
    PLAIN,
    E,
    Number,
    Op,
    Statements,
    expression_text,
    matmul,
    name,
    neg,
    number,
    number_as_code,
    rank,
)
from gradcli.errors import NotSupported
from gradcli.targets.facts import SIZE, Dims, terms_of_size


def multiply_from_right(e: E, known: Mapping[str, int]) -> E:
    """Return an expression with chains of matrices applied to a vector from the right: A.T @ (A @ x).

    From the left, A.T @ A would be formed as a matrix. `known` has the ranks of names. Raises NotSupported.
    """
    args = tuple(multiply_from_right(a, known) for a in e.args)
    first = next((k for k, a in enumerate(args) if rank(a, known) == 1), 0) if e.op == Op.MATMUL else 0
    if not first:
        return replace(e, args=args)
    inner = args[first]
    for a in reversed(args[1:first]):
        inner = E(Op.MATMUL, (a, inner))
    return E(Op.MATMUL, (args[0], inner, *args[first + 1 :]))


_LARGE = 2**31  # larger integers may not fit into an array's integers, so they are written as floats
# a constant, or a number times or divided by one
_CONSTANT = re.compile(r"(?:(.+)([*/]))?(e|pi|\((?:e|pi) - 1\)|(?:sqrt|log)\(.+\))")
_FUNCTION = re.compile(r"\b(e|pi|sqrt|log)\b")
_PLACES = re.compile(r"\[[^\[\]]*\]")
_BACKWARD = re.compile(r":[^,\[\]]*:\s*-")
_WITH_NUMBERS = frozenset("eye ones zeros tril triu roll arange".split())  # noqa: SIM905 - their arguments may be sizes
_OF_ARRAYS = {"sum", "mean", "var", "logsumexp", "softmax", "einsum", "outer", "solve"}


# The names that numpy, torch and jax have for the functions in expressions: a table for each.
#
# A row is a function's name, or a template with braces: {0}, {1} are the arguments and {args} all of them, {shape} those of
# ones and zeros, {axis} the axis option, if any, and {along} its number, {before} and {after} how many zeros pad a vector,
# {like} and {dtype} an input and its dtype. A function that needs another template without an axis has two more rows: `of a
# vector` and `of a matrix`.


@dataclass(frozen=True)
class Dialect:
    """A language of generated code: its table, and its few other settings.

    `imports` are import lines by the words that need them; `owned` are names that inputs must not have. If the functions of
    the dialect take arrays only, `plain` has those for Python's own numbers, and `array` makes an array of such a number.
    `dtype` is that of an array, `dtype_of_number` that of an input which may be a Python number. `places` is how a list in an
    index is written; `backward` says whether an index may have negative steps.
    """

    name: str
    imports: Mapping[str, str]
    owned: frozenset[str]
    rows: Mapping[str, str]
    size: str
    constants: str
    axis: str = "axis"
    dtype: str = ""
    dtype_of_number: str = ""
    array: str = ""
    plain: Mapping[str, str] = field(default_factory=dict)
    places: str = "{0}"
    backward: bool = True

    @property
    def title(self) -> str:
        """Its name in a sentence."""
        return self.name.upper() if len(self.name) == 1 else self.name


def rows_from_template(form: str, words: str) -> dict[str, str]:
    """Return rows from a template, whose braces stand for each of the words."""
    return {word: form.format(word) for word in words.split()}


_SAME = (
    "sin cos tan arcsin arccos arctan sinh cosh tanh arcsinh arccosh arctanh exp log log1p expm1 exp2 log2 log10 sqrt sign abs "
    "floor ceil trunc maximum minimum hypot arctan2 logaddexp heaviside sum mean outer diag trace einsum ones_like zeros_like"
)
_SPECIAL = "erf erfc gammaln digamma polygamma logit ndtr log_ndtr xlogy entr"
_MATH = "sin cos tan sinh cosh tanh exp log log1p expm1 log2 log10 sqrt floor ceil trunc hypot erf erfc"

_OF_NUMPY = (  # what jax.numpy has by the same names
    rows_from_template("np.{}",
        f"{_SAME} cbrt rint var where prod cumsum flip tril triu max min cross roll sort arange concatenate convolve")
    | rows_from_template("np.linalg.{}", "inv solve det norm eigvalsh cholesky pinv")
    | {
        "pad": "np.pad({0}, ({before}, {after}))", "mirrored": "(np.tril({0}) + np.tril({0}, -1).T)",
        "eigenvectors": "np.linalg.eigh({0})[1]", "svdvals": "np.linalg.svd({0}, compute_uv=False)",
        "left_vectors": "np.linalg.svd({0}, full_matrices=False)[0]",
        "right_vectors": "np.linalg.svd({0}, full_matrices=False)[2].T",
    }
)  # fmt: skip

NUMPY = Dialect(
    "numpy",
    {"np.": "import numpy as np", "special.": "from scipy import special", "linalg.": "from scipy import linalg"},
    frozenset({"np", "special", "linalg"}),
    _OF_NUMPY
    | rows_from_template("special.{}", f"{_SPECIAL} softmax logsumexp log_expit gamma beta j0 j1 y0 y1 i0 i1 k0 k1 jv yv iv kv")
    | rows_from_template("linalg.{}", "expm sqrtm logm")
    | {
        "sigmoid": "special.expit", "relu": "np.maximum({0}, 0)", "softplus": "np.logaddexp(0, {0})",
        "compare": "np.float64({0})", "ones": "np.ones({shape})", "zeros": "np.zeros({shape})", "eye": "np.eye",
        "expm_frechet": "linalg.expm_frechet({0}, {1}, compute_expm=False)", "correlate": 'np.correlate({0}, {1}, "valid")',
    },
    "np.shape({0})[{1}]", "np.",
)  # fmt: skip

TORCH = Dialect(
    "torch",
    {"math.": "import math", "torch.": "import torch"},
    frozenset({"torch", "math", "abs", "max", "min", "float"}),
    rows_from_template("torch.{}", f"{_SAME} sigmoid relu where prod cumsum tril triu softmax logsumexp")
    | rows_from_template("torch.special.{}", f"{_SPECIAL} i0 i1")
    | rows_from_template("torch.linalg.{}", "inv solve det norm cross eigvalsh svdvals cholesky pinv")
    | {f"{name} of a {kind}": f"torch.{name}" for name in ("max", "min") for kind in ("vector", "matrix")}
    | {f"{name} of a vector": f"torch.{name}({{0}}, dim=0)" for name in ("softmax", "cumsum", "logsumexp")}
    | {name: f"torch.special.bessel_{name}" for name in ("j0", "j1", "y0", "y1")}
    | {name: f"torch.special.modified_bessel_{name}" for name in ("k0", "k1")}
    | {
        "softplus": "torch.nn.functional.softplus({0}, threshold=40)", "log_expit": "torch.nn.functional.logsigmoid",
        "rint": "torch.round", "cbrt": "torch.copysign(torch.abs({0})**(1/3), {0})",
        "var": "torch.var({0}, correction=0{axis})", "compare": "({0}).to({dtype})",
        "ones": "{like}.new_ones({args})", "zeros": "{like}.new_zeros({args})",
        "eye": "torch.eye({0}, dtype={dtype}, device={like}.device)", "arange": "torch.arange({0}, device={like}.device)",
        "pad": "torch.nn.functional.pad({0}, ({before}, {after}))", "concatenate": "torch.cat",
        "flip of a vector": "torch.flip({0}, (0,))", "flip": "torch.flip({0}, ({along},))",
        "roll of a vector": "torch.roll({0}, {1})", "roll": "torch.roll({0}, {1}, ({along},))",
        "sort": "torch.sort({0})[0]", "softmax of a matrix": "torch.softmax(torch.flatten({0}), dim=0).view_as({0})",
        "logsumexp of a matrix": "torch.logsumexp({0}, dim=(0, 1))", "max": "torch.amax", "min": "torch.amin",
        "eigenvectors": "torch.linalg.eigh({0})[1]", "left_vectors": "torch.linalg.svd({0}, full_matrices=False)[0]",
        "right_vectors": "torch.linalg.svd({0}, full_matrices=False)[2].T",
        "mirrored": "(torch.tril({0}) + torch.tril({0}, -1).T)", "expm": "torch.linalg.matrix_exp",
    },
    "{0}.shape[{1}]", "math.", "dim", "{like}.dtype", "{like}.dtype", "{like}.new_tensor({0})",
    rows_from_template("math.{}", _MATH)
    | {"arcsin": "math.asin", "arccos": "math.acos", "arctan": "math.atan", "arctan2": "math.atan2", "gammaln": "math.lgamma"}
    | {"abs": "abs", "maximum": "max", "minimum": "min", "relu": "max({0}, 0)", "compare": "float({0})"}
    | {"where": "({1} if {0} else {2})"},
    backward=False,
)  # fmt: skip

JAX = Dialect(
    "jax",
    {"jax.": "import jax", "jnp.": "import jax.numpy as jnp"},
    frozenset({"jax", "jnp"}),
    {word: row.replace("np.", "jnp.") for word, row in _OF_NUMPY.items()}
    | rows_from_template("jax.scipy.special.{}", f"{_SPECIAL} logsumexp gamma beta i0 i1")
    | rows_from_template("jax.scipy.linalg.{}", "expm sqrtm")
    | rows_from_template("jax.nn.{}", "relu softplus softmax")
    | {
        "sigmoid": "jax.scipy.special.expit", "log_expit": "jax.nn.log_sigmoid", "compare": "jnp.asarray({0}, {dtype})",
        "ones": "jnp.ones({shape}, {dtype})", "zeros": "jnp.zeros({shape}, {dtype})", "eye": "jnp.eye({0}, dtype={dtype})",
        "softmax of a vector": "jax.nn.softmax", "softmax of a matrix": "jax.nn.softmax({0}, axis=None)",
        "expm_frechet": "jax.scipy.linalg.expm_frechet({0}, {1}, compute_expm=False)",
        "correlate": 'jnp.correlate({0}, {1}, mode="valid")',
    },
    "{0}.shape[{1}]", "jnp.", dtype="{like}.dtype", dtype_of_number="jnp.result_type({like})", array="jnp.asarray({0}, {dtype})",
    places="jnp.array({0})",
)  # fmt: skip

ARRAYS = (NUMPY, TORCH, JAX)


def needed_imports(imports: Mapping[str, str], code: str) -> list[str]:
    """Return the lines that import what code needs."""
    return [line for word, line in imports.items() if re.search(rf"(?<![\w.]){re.escape(word)}", code)]


@dataclass(frozen=True)
class Writer:
    """Writes expressions for one dialect; `known` has the ranks of inputs and parts, `like` is the input to take a dtype from."""

    dialect: Dialect
    known: Mapping[str, int]
    like: str

    def code(self, e: E) -> str:
        """Return an expression as code. Raises NotSupported if the dialect has no word for it."""
        rank(e, self.known)
        return expression_text(self._said(multiply_from_right(use_linear_solves(e), self.known)), COMPARE)

    def result(self, e: E) -> str:
        """Return the code of the function's result: an array, even if it is computed as a Python number."""
        whole = self.code(e)
        if self.dialect.array and rank(e, self.known) == PLAIN:
            return self._fill_template(self.dialect.array, [whole])
        return whole

    def _said(self, e: E) -> E:
        args = tuple(map(self._said, e.args))
        ranks = [rank(a, self.known) for a in e.args]
        if e.op == "name":
            return self._name(e)
        if e.op == "number":
            return self._number(e)
        if e.op == Op.TRANSPOSE and ranks[0] < 2:
            return args[0]
        if e.is_call("where"):
            condition = replace(e.args[0], args=tuple(map(self._said, e.args[0].args)))
            return self._called("where", (condition, *args[1:]), ranks, e)
        if e.op == "compare":
            return self._called("compare", (replace(e, args=args),), ranks, e)
        if e.op == "concat":
            return self._called("pad", args, ranks, e)
        if e.op == "index":
            return replace(e, args=args, text=self._write_index(e.text))
        return self._called(e.text, args, ranks, e) if e.op == "call" else replace(e, args=args)

    def _name(self, e: E) -> E:
        if " " in e.text and SIZE.fullmatch(e.text):
            signs, words = zip(*terms_of_size(e.text), strict=True)
            terms = [number(Fraction(int(w))) if w.isdecimal() else name(w) for w in words]
            return E(Op.ADD, tuple(neg(x) if sign == "-" else x for sign, x in zip(signs, terms, strict=True)))
        return name(f"{self.dialect.constants}{e.text}") if e.text in ("pi", "inf") and e.text not in self.known else e

    def _write_index(self, text: str) -> str:
        """Return an index, with its brackets, as the dialect writes it."""
        if _BACKWARD.search(text) and not self.dialect.backward:
            raise NotSupported(f"{self.dialect.title} has no steps backward")
        return f"[{_PLACES.sub(lambda m: self.dialect.places.format(m[0]), text[1:-1])}]"

    def _number(self, e: E) -> E:
        known = _CONSTANT.fullmatch(number_as_code(e.number))
        if known:
            constant = name(_FUNCTION.sub(rf"{self.dialect.constants}\1", known[3]))
            if not known[2]:
                return constant
            return E(Op.MUL if known[2] == "*" else Op.DIV, (number(Fraction(known[1])), constant))
        return replace(e, number=float(e.number)) if e.number >= _LARGE else e

    def _called(self, word: str, args: Sequence[E], ranks: Sequence[int], e: E) -> E:
        strict = bool(self.dialect.plain) and word not in _WITH_NUMBERS  # numbers and arrays need different functions
        plain = strict and set(ranks) == {PLAIN}
        rows = self.dialect.plain if plain else self.dialect.rows
        options = dict(e.options) if e.op == "call" else {}
        rank = 0 if "axis" in options or word == "concatenate" else max(ranks, default=0)
        kind = {1: " of a vector", 2: " of a matrix"}.get(rank, "")
        row = rows.get(word + kind) or rows.get(word)
        if word + " of a vector" in rows and not kind and "axis" not in options:
            row = None
        if row is None or (strict and word in _OF_ARRAYS and PLAIN in ranks):
            of = " of a number" if PLAIN in ranks else " of more than two axes" if max(ranks, default=0) > 2 else ""
            raise NotSupported(f"{self.dialect.title} has no {word}{of}")
        if strict and not plain and word != "compare":  # numbers are made arrays, for functions that take arrays only
            args = [
                name(self._fill_template(self.dialect.array, [expression_text(a)])) if r == PLAIN else a
                for a, r in zip(args, ranks, strict=True)
            ]
        given = {self.dialect.axis if k == "axis" else k: v for k, v in options.items()}
        if "{" not in row:
            return E("call", tuple(args), row, options=tuple(given.items()))
        axis = "".join(f", {k}={v}" for k, v in given.items())
        return name(self._fill_template(row, [expression_text(a) for a in args], axis, e.text))

    def _fill_template(self, row: str, args: Sequence[str], axis: str = "", zeros: str = "") -> str:
        scalar = self.known.get(self.like) == 0
        dtype = (self.dialect.dtype_of_number if scalar else self.dialect.dtype).format(like=self.like)
        before, _, after = zeros.partition("|")
        shape = args[0] if len(args) == 1 else f"[{', '.join(args)}]"
        return row.format(
            *args, args=", ".join(args), shape=shape, axis=axis, along=axis.rpartition("=")[2], like=self.like, dtype=dtype,
            before=before.count("0"), after=after.count("0"),
        )  # fmt: skip


def use_linear_solves(e: E) -> E:
    """Return an expression with products by inverses as linear solves: inv(A) @ b is solve(A, b)."""
    args = tuple(map(use_linear_solves, e.args))
    apart = e.op == Op.DOT and all(a.op == Op.MATMUL and not any(b.text == "inv" for b in a.walk()) for a in e.args)
    if e.op not in (Op.MATMUL, Op.DOT) or apart:
        return replace(e, args=args)
    return _multiply_with_solves([x for a in args for x in (a.args if a.op == Op.MATMUL else (a,))])


def _multiply_with_solves(parts: Sequence[E]) -> E:
    for k, a in enumerate(parts[:-1]):
        turned = a.op == Op.TRANSPOSE and a.args[0].is_call("inv")
        if turned or a.is_call("inv"):
            inner = E(Op.TRANSPOSE, a.args[0].args) if turned else a.args[0]
            rest = E("call", (inner, _multiply_with_solves(parts[k + 1 :])), "solve")
            return matmul(*parts[:k], rest)
    return matmul(*parts)


# What a program that is made of the code runs: it compares its values with those of a certified derivative.

TOLERANCE = 1e-9


@dataclass(frozen=True)
class SelfTest:
    """Points with the derivative at each: one that `lines` make or, if all is numbers, several that are written out."""

    lines: tuple[str, ...]
    points: tuple[tuple[Mapping[str, Any], Any], ...]

    @property
    def of_numbers(self) -> bool:
        """Whether the inputs are numbers, and the derivative is one."""
        return all(np.ndim(x) == 0 for point, derivative in self.points for x in (*point.values(), derivative))

    def holds(self, value: Callable[[Mapping[str, Any]], Any]) -> bool:
        """Whether a function of points passes the test, as the lines of the test decide it."""
        with np.errstate(all="ignore"):
            return all(_is_near(np.asarray(value(point)), derivative) for point, derivative in self.points)


def _checksum_weights(x: Any) -> Any:
    return np.cos(np.arange(np.size(x))).reshape(np.shape(x))


def _is_near(found: Any, derivative: Any) -> bool:
    if found.shape != np.shape(derivative):
        return False
    apart = abs(np.sum((found - derivative) * _checksum_weights(derivative)))
    return bool(apart < TOLERANCE * (1 + np.max(np.abs(found)) * found.size))


#         how an input is passed, and how the result becomes a numpy array
_CALLED = {
    "numpy": ("{0}", "np.asarray({0})"),
    "torch": ("torch.as_tensor({0}, dtype=torch.float64)", "{0}.numpy()"),
    "jax": ("jnp.asarray({0})", "np.asarray({0})"),
}
_FIRST = {"jax": ('jax.config.update("jax_enable_x64", True)',)}


def write_python_test(test: SelfTest, kind: str, dialect: Dialect, above: Sequence[str]) -> str:
    """Return the lines at the end of a module, below the imports `above`, that print "ok" when it is run, or fail."""
    given, result = _CALLED[dialect.name]
    names = tuple(test.points[0][0])
    call = result.format(f"{kind}({', '.join(f'{name}={given.format(name)}' for name in names)})")
    body = _test_of_numbers(test, names, call) if test.of_numbers else _test_of_arrays(test, names, call)
    lines = [*_FIRST.get(dialect.name, ()), *body, 'print("ok")']
    needed = needed_imports({**dialect.imports, **NUMPY.imports}, "\n".join(lines))
    imports = [line for line in needed if line not in above]
    whole = [*imports, "", *lines] if imports else lines
    return '\n\nif __name__ == "__main__":\n' + "".join(f"    {line}\n" if line else "\n" for line in whole)


def _test_of_arrays(test: SelfTest, names: Sequence[str], call: str) -> list[str]:
    found, weights = (_untaken_name(word, names) for word in ("found", "weights"))
    ((_, derivative),) = test.points
    expected = float(np.sum(derivative * _checksum_weights(derivative)))
    return [
        *test.lines, f"{found} = {call}", f"assert {found}.shape == {np.shape(derivative)}",
        f"{weights} = np.cos(np.arange({found}.size)).reshape({found}.shape)",
        f"assert abs(np.sum({found}*{weights}) - {expected!r}) < {TOLERANCE}*(1 + np.max(np.abs({found}))*{found}.size)",
    ]  # fmt: skip


def _test_of_numbers(test: SelfTest, names: Sequence[str], call: str) -> list[str]:
    points, found, expected = (_untaken_name(word, names) for word in ("points", "found", "expected"))
    head = ", ".join([*names, expected])
    return [
        f"{points} = [  # {head}", *(f"    ({', '.join(row)})," for row in _rows_of_points(test)), "]",
        f"for {head} in {points}:",
        f"    {found} = {call}",
        f"    assert {found}.shape == () and abs({found} - {expected}) < {TOLERANCE}*(1 + abs({expected}))",
    ]  # fmt: skip


def _rows_of_points(test: SelfTest) -> list[list[str]]:
    return [[repr(float(x)) for x in (*point.values(), derivative)] for point, derivative in test.points]


def _untaken_name(word: str, taken: Sequence[str]) -> str:
    return word if word not in taken else _untaken_name(f"{word}_", taken)


def write_c_test(test: SelfTest, kind: str) -> str:
    """Return the main function of a C file, which prints "ok" when it is run, or the first value that is wrong."""
    rows = _rows_of_points(test)
    count, width = len(rows), len(rows[0])
    given = ", ".join(f"at[{k}]" for k in range(width - 1))
    lines = [
        f"static const double points[{count}][{width}] = {{",
        *(f"    {{{', '.join(row)}}}," for row in rows),
        "};",
        f"for (int k = 0; k < {count}; k++) {{",
        "    const double *at = points[k];",
        f"    const double expected = at[{width - 1}];",
        f"    const double found = {kind}({given});",
        f"    if (!(fabs(found - expected) < {TOLERANCE}*(1.0 + fabs(expected)))) {{",
        '        printf("found %.17g, expected %.17g\\n", found, expected);',
        "        return 1;",
        "    }",
        "}",
        'puts("ok");',
        "return 0;",
    ]
    return "\n\n#include <stdio.h>\n\nint main(void) {\n" + "".join(f"    {line}\n" for line in lines) + "}\n"


# The code in each language.

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
        named = (a.text for _, e in self.lines for a in e.walk() if a.op in ("name", "index"))
        used = {w for text in named for w in _WORD.findall(text)}
        found: dict[str, tuple[str, int]] = {}
        for symbol, dims in self.dims.items():
            for k, size in enumerate(dims):
                if size in used and size not in self.dims:
                    found.setdefault(size, (symbol, k))
        return found


def write_all_languages(wanted: CodeRequest, test: SelfTest | None) -> tuple[dict[str, str], dict[str, str]]:
    """Return the code by language, and the reason for every language that cannot express it.

    Raises  NotSupported if numpy cannot, in which all closed forms are verified.
    """
    found, refused = {NUMPY.name: write_array_code(wanted, NUMPY, test)}, {}
    for dialect in (*ARRAYS[1:], C):
        try:
            own = write_c_code(wanted, test) if dialect is C else write_array_code(wanted, dialect, test)
            found[dialect.name] = own
        except NotSupported as error:
            refused[dialect.name] = error.what
    return found, refused


def write_array_code(wanted: CodeRequest, dialect: Dialect, test: SelfTest | None = None) -> str:
    """Return a function, named by its kind, that takes the inputs by keyword and reads sizes from shapes. Raises NotSupported."""
    taken = {*wanted.dims, *wanted.owners(), *(n for n, _ in wanted.made.parts)}
    if clash := sorted(taken & dialect.owned):
        raise NotSupported(f"what is called {clash[0]} hides a module in the code", do="call it something else")
    known = {name: len(dims) for name, dims in wanted.dims.items()}
    like = wanted.wrt if known[wanted.wrt] else next((n for n, r in known.items() if r), wanted.wrt)
    lines = [f"{size} = {dialect.size.format(*owner)}" for size, owner in wanted.owners().items()]
    for symbol, e in wanted.made.parts:
        lines.append(f"{symbol} = {Writer(dialect, known, like).code(e)}")
        known[symbol] = rank(e, known)
    lines.append(f"return {Writer(dialect, known, like).result(wanted.made.result)}")
    head = f"def {wanted.kind}({', '.join(['*', *wanted.dims])}):"
    body = "\n".join([head, *(f"    {line}" for line in lines)]) + "\n"
    imports = needed_imports(dialect.imports, body)
    tested = write_python_test(test, wanted.kind, dialect, imports) if test else ""
    return "\n".join([*imports, "", "", body]) + tested if imports else body + tested


# Functions of numbers in C99: one file, with the functions that C's library lacks and a self-test as its main.

_HELPERS = {
    "larger": "double larger(double a, double b) { return a > b || a != a ? a : b; }",
    "smaller": "double smaller(double a, double b) { return a < b || a != a ? a : b; }",
    "relu": "double relu(double x) { return x < 0.0 ? 0.0 : x; }",
    "sign": "double sign(double x) { return x != x ? x : (double)(x > 0.0) - (double)(x < 0.0); }",
    "heaviside": "double heaviside(double x, double h) { return x != x ? x : x < 0.0 ? 0.0 : x > 0.0 ? 1.0 : h; }",
    "sigmoid": "double sigmoid(double x) { return x < 0.0 ? exp(x)/(1.0 + exp(x)) : 1.0/(1.0 + exp(-x)); }",
    "softplus": "double softplus(double x) { return (x > 0.0 ? x : 0.0) + log1p(exp(-fabs(x))); }",
    "logaddexp": (
        "double logaddexp(double a, double b) "
        "{ return a == b ? a + log(2.0) : (a > b ? a : b) + log1p(exp(-fabs(a - b))); }"
    ),
    "logit": "double logit(double p) { return p > 0.3 && p < 0.65 ? 2.0*atanh(2.0*(p - 0.5)) : log(p/(1.0 - p)); }",
    "normal_cdf": "double normal_cdf(double x) { return 0.5*erfc(-x/sqrt(2.0)); }",
    "xlogy": "double xlogy(double x, double y) { return x == 0.0 && y == y ? 0.0 : x*log(y); }",
    "entropy": "double entropy(double x) { return x == 0.0 ? 0.0 : x < 0.0 ? -HUGE_VAL : -x*log(x); }",
}  # fmt: skip
C = Dialect(
    "c",
    {},
    frozenset(),
    rows_from_template("{}",
        "sin cos tan sinh cosh tanh exp log log1p expm1 exp2 log2 log10 sqrt cbrt floor ceil trunc rint hypot erf erfc")
    | rows_from_template("{}", "relu sign heaviside sigmoid softplus logaddexp logit xlogy")
    | {
        "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
        "abs": "fabs", "arctan2": "atan2", "gamma": "tgamma", "gammaln": "lgamma",
        "maximum": "larger", "minimum": "smaller", "ndtr": "normal_cdf",
        "entr": "entropy", "log_expit": "(-softplus(-({0})))", "pow": "pow", "compare": "(double)({0})",
        "where": "({0} ? {1} : {2})",
    },
    "", "",
)  # fmt: skip
_KEYWORDS = (
    "auto break case char const continue default do double else enum extern float for goto if inline int long register restrict "
    "return short signed sizeof static struct switch typedef union unsigned void volatile while asm typeof bool true false "
    "alignas alignof constexpr nullptr static_assert thread_local linux unix main gradient jacobian hessian"
)
_LIBRARY = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil copysign cos cosh erf erfc exp exp2 exp10 expm1 fabs fdim floor fma "
    "fmax fmin fmod fpclassify frexp gamma hypot ilogb isfinite isgreater isgreaterequal isinf isless islessequal "
    "islessgreater isnan isnormal isunordered j0 j1 jn ldexp lgamma llrint llround log log10 log1p log2 logb lrint lround "
    "modf nan nearbyint nextafter nexttoward pow pow10 remainder remquo rint round scalbln scalbn signbit sin sincos sinh "
    "sqrt tan tanh tgamma trunc y0 y1 yn"
)
_MACROS = (
    "HUGE HUGE_VAL HUGE_VALF HUGE_VALL INFINITY NAN DOMAIN SING OVERFLOW UNDERFLOW PLOSS TLOSS MAXFLOAT float_t double_t signgam "
    "math_errhandling EOF NULL FILE BUFSIZ stdin stdout stderr"
)
_TAKEN = frozenset((
    *_KEYWORDS.split(), *_LIBRARY.split(), *(f"{w}{s}" for w in _LIBRARY.split() for s in "fl"), *_MACROS.split(), *_HELPERS,
))  # fmt: skip


@dataclass(frozen=True)
class _Writer(Writer):
    names: Mapping[str, str]

    def _said(self, e: E) -> E:
        if e.op in (Op.TRANSPOSE, "index", "column", "concat"):
            raise NotSupported("C is written for functions of numbers")
        if e.op == Op.POW:
            base, power = e.args
            if power.op == "number" and power.number == 2 and base.op == "name":
                return E(Op.MUL, (self._said(base), self._said(base)))
            return self._called("pow", [self._said(a) for a in e.args], [0, 0], replace(e, op="call", text="pow"))
        return super()._said(e)

    def _name(self, e: E) -> E:
        return name(self.names[e.text]) if e.text in self.names else self._number(E("number", number=3.141592653589793))

    def _number(self, e: E) -> E:
        x: Number = e.number
        if isinstance(x, Fraction) and x.denominator > 1 and Fraction(float(x)) != x and "/" in number_as_code(x):
            return E(Op.DIV, (name(repr(float(x.numerator))), name(repr(float(x.denominator)))))
        return name(repr(float(x)))


def valid_c_names(names: Sequence[str]) -> dict[str, str]:
    """Return names that are valid in C: those of its keywords, its library and this file get an underscore.

    Raises  NotSupported for letters that are not ASCII, and for a leading underscore.
    """
    found: dict[str, str] = {}
    for word in names:
        if not word.isascii() or word.startswith("_"):
            raise NotSupported(f"C has no name like {word}")
        new = word
        while new in _TAKEN or new in found.values() or (new != word and new in names):
            new += "_"
        found[word] = new
    return found


def c_code(parts: Sequence[tuple[str, E]], result: E, kind: str, inputs: Sequence[str], main: str) -> str:
    """Return a C file that defines a function of numbers. Raises NotSupported for arrays, and for what C99 does not have."""
    names = valid_c_names([*inputs, *(n for n, _ in parts)])
    writer = _Writer(C, dict.fromkeys(names, 0), "", names)
    lines = [f"    const double {names[n]} = {writer.code(e)};" for n, e in parts]
    lines.append(f"    return {writer.code(result)};")
    used = {a.text for e in (*(e for _, e in parts), result) for a in e.walk() if a.op == "name"}
    unused = [f"    (void){names[n]};" for n in inputs if n not in used]
    head = f"double {kind}({', '.join(f'double {names[n]}' for n in inputs)}) {{"
    body = "\n".join([head, *unused, *lines, "}"])
    helpers = [f"static {code}\n" for word, code in _HELPERS.items() if re.search(rf"\b{word}\(", body)]
    return "#include <math.h>\n\n" + "".join(helpers) + ("\n" if helpers else "") + f"{body}\n{main}"


def write_c_code(wanted: CodeRequest, test: SelfTest | None = None) -> str:
    """Return a C file for a function of numbers whose result is a number. Raises NotSupported for any other."""
    known = dict.fromkeys(wanted.dims, 0)
    array = next((name for name, dims in wanted.dims.items() if dims), None)
    if array is not None:
        raise NotSupported(f"C is written for functions of numbers, and {array} is none")
    if any(rank(e, known) > 0 for _, e in wanted.lines):
        raise NotSupported(f"C is written for functions of numbers, and the {wanted.kind} is none")
    main = write_c_test(test, wanted.kind) if test else ""
    return c_code(wanted.made.parts, wanted.made.result, wanted.kind, tuple(wanted.dims), main)
