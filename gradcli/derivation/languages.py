"""The code of one derivative in every language that can express it, each with its self-test."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction

from gradcli.classes import dataclass
from gradcli.derivation.code_writer import ARRAYS, NUMPY, Dialect, Writer, needed_imports, rows_from_template
from gradcli.derivation.matrix_expression import E, Number, Op, Statements, name, number_as_code, rank
from gradcli.derivation.verified import SelfTest, write_c_test, write_python_test
from gradcli.errors import NotSupported
from gradcli.targets.facts import Dims

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
