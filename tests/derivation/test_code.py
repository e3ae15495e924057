"""The code of closed forms: what gradcli's own language says of each word numpy and C say too, and a wrong word is found."""

import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy import linalg, special

from gradcli.derivation import languages
from gradcli.derivation import languages as c
from gradcli.derivation.languages import (
    ARRAYS,
    JAX,
    NUMPY,
    TORCH,
    C,
    CodeRequest,
    Dialect,
    Writer,
    c_code,
    valid_c_names,
    write_array_code,
    write_c_code,
)
from gradcli.derivation.matrix_expression import PLAIN, E, Statements, call, expression_text, name, rank
from gradcli.derivation.sized_problem import parse_shapes
from gradcli.errors import NotSupported
from gradcli.targets.expression import Expression
from tests.derivation import words
from tests.derivation.words import ARRAYS as FORMS
from tests.derivation.words import CASES, ELEMENTWISE, NUMBERS, RANKS, SCALARS, SIZES, VALUES, derived
from tests.rows import for_rows

CC = shutil.which("cc")
needs_cc = pytest.mark.skipif(CC is None, reason="there is no C compiler, cc")
FLAGS = ("-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic")
PAIRS = sorted(words._PAIRS)
FORM_OF = {w: words.of(w, words.x) for w in ELEMENTWISE} | {w: words.of(w, words.x, words.y) for w in PAIRS} | FORMS
NUMBER_OF = (
    {w: words.of(w, words.s) for w in ELEMENTWISE} | {w: words.of(w, words.s, words.HALF) for w in PAIRS} | SCALARS
)
_ORDERS = {"jv", "yv", "iv", "kv"}
_BESSEL = {"j0", "j1", "y0", "y1", "k0", "k1", *_ORDERS}
LACKING = {  # the words that a language has no function for
    "c": {"digamma", "log_ndtr", "beta", "i0", "i1", *_BESSEL}, "torch": {"gamma", "beta", "sqrtm", "logm", "expm_frechet", "convolve", "correlate", *_ORDERS},
    "jax": {*_BESSEL, "logm"},
}  # fmt: skip
PLANTED = {  # a word: what a slip would write for it
    "abs": "np.positive", "softmax": "special.log_softmax", "sum": "np.mean", "outer": "np.multiply.outer(2*{0}, {1})",
    "trace": "np.linalg.det", "inv": "np.transpose", "solve": "np.matmul", "sigmoid": "special.expit(-{0})", "eye": "np.ones(({0}, {0}))",
    "compare": "np.float64(~({0}))", "pad": "np.pad({0}, ({after}, {before}))", "tanh": "np.sinh", "digamma": "special.gammaln",
    "logsumexp": "special.logsumexp(2*{0}{axis})", "exp": "np.exp2", "diag": "(1 + 1e-6)*np.diag({0})",
}  # fmt: skip
SLIPS = {"exp": "exp2", "cos": "sin", "abs": "", "compare": "(double)!({0})", "log": "log10", "sigmoid": "tanh", "relu": "fabs", "maximum": "smaller", "pow": "fmod"}  # fmt: skip


def known() -> dict[str, Any]:
    return VALUES | {k: np.float64(v) for k, v in SIZES.items()} | {"n - 1": np.float64(2), "n + 1": np.float64(4)}


def value(e: E) -> Any:
    """Return what gradcli's language says."""
    f = Expression(expression_text(e))
    return np.asarray(f({n: x for n, x in known().items() if n in f.inputs}), dtype=np.float64)


@for_rows("word", FORM_OF)
def test_numpy_says_what_the_language_says(word: str) -> None:
    e = FORM_OF[word]
    found = eval(
        Writer(NUMPY, RANKS, "x").result(e), {"np": np, "special": special, "linalg": linalg, **VALUES, **SIZES}
    )
    right = value(e)
    assert np.shape(found) == right.shape
    np.testing.assert_allclose(found, right, rtol=1e-13, atol=1e-15)
    assert rank(e, RANKS) in ((right.ndim,) if right.ndim else (0, PLAIN))


@for_rows("dialect", [*ARRAYS, C], ids=lambda d: d.name)
def test_every_dialect_has_every_word(dialect: Dialect) -> None:
    assert {w for w in (*ELEMENTWISE, *PAIRS) if w not in dialect.rows} == LACKING.get(dialect.name, set()) & {
        *ELEMENTWISE,
        *PAIRS,
    }


@pytest.mark.slow
@needs_cc
def test_c_says_what_the_language_says(tmp_path: Path) -> None:
    known = {w: e for w, e in NUMBER_OF.items() if w not in LACKING["c"]}
    functions, calls = [], []
    for k, e in enumerate(known.values()):
        code = c_code((), e, "f", ["s"], "").replace("double f(", f"static double f{k}(")
        head, _, body = code.rpartition(f"static double f{k}(")
        functions += [line for line in head.splitlines() if line and line not in functions]
        functions.append(f"static double f{k}({body}")
        calls += [f'printf("%.17g\\n", f{k}({s!r}));' for s in (0.3, 0.7)]
    source = "\n".join(["#include <stdio.h>", *functions, "int main(void) {", *calls, "return 0;}"])
    found = np.array([float(line) for line in ran(source, tmp_path)]).reshape(-1, 2)
    for row, (word, e) in zip(found, known.items(), strict=True):
        f = Expression(expression_text(e))
        right = [f({"s": np.float64(s)} if f.inputs else {}) for s in (0.3, 0.7)]
        np.testing.assert_allclose(row, right, rtol=1e-13, atol=1e-16, err_msg=word)


def ran(source: str, folder: Path) -> list[str]:
    """Compile a file without a warning, run it, and return the lines it prints."""
    (folder / "made.c").write_text(source)
    built = subprocess.run([str(CC), *FLAGS, "made.c", "-o", "made", "-lm"], cwd=folder, capture_output=True, text=True, check=False)  # fmt: skip
    assert (built.returncode, built.stderr) == (0, "")
    return subprocess.run([folder / "made"], capture_output=True, text=True, check=False).stdout.splitlines()


HELPED = [
    # word          arguments                                     right
    ("sigmoid",     [(-800.0,), (-40.0,), (800.0,)],              special.expit),
    ("softplus",    [(-800.0,), (-40.0,), (40.0,), (800.0,)],     lambda x: np.logaddexp(0, x)),
    ("log_expit",   [(-800.0,), (-40.0,), (40.0,), (800.0,)],     special.log_expit),
    ("logaddexp",   [(800.0, 1.0), (-800.0, -801.0), (2.0, 2.0)], np.logaddexp),
    ("logit",       [(1e-300,), (0.5,), (0.5 + 1e-12,), (1 - 1e-12,)], special.logit),
    ("ndtr",        [(-10.0,), (-5.0,), (5.0,)],                  special.ndtr),
    ("xlogy",       [(0.0, 0.0), (2.0, 3.0)],                     special.xlogy),
    ("entr",        [(0.0,), (-1.0,), (0.4,)],                    special.entr),
    ("sign",        [(0.0,), (-2.0,), (3.0,)],                    np.sign),
    ("relu",        [(0.0,), (-2.0,), (3.0,)],                    lambda x: np.maximum(x, 0)),
    ("heaviside",   [(0.0, 0.5), (-2.0, 0.5), (3.0, 0.5)],        np.heaviside),
    ("maximum",     [(1.0, 2.0), (np.nan, 2.0), (2.0, np.nan)],   np.maximum),
    ("minimum",     [(1.0, 2.0), (np.nan, 2.0), (2.0, np.nan)],   np.minimum),
]  # fmt: skip


@needs_cc
def test_what_the_library_of_c_lacks_is_accurate_far_out(tmp_path: Path) -> None:
    functions, calls, right = [], [], []
    for word, points, f in HELPED:
        inputs = ["a", "b"][: len(points[0])]
        code = c_code((), call(word, *map(name, inputs)), f"f_{word}", inputs, "")
        functions += [line for line in code.splitlines() if (line and line not in functions) or line == "}"]
        for at in points:
            given = ", ".join("NAN" if np.isnan(v) else repr(v) for v in at)
            calls.append(f'printf("%.17g\\n", f_{word}({given}));')
            right.append(float(f(*at)))
    source = "\n".join(["#include <stdio.h>", *functions, "int main(void) {", *calls, "return 0;}"])
    np.testing.assert_allclose([float(line) for line in ran(source, tmp_path)], right, rtol=4e-14)


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0]} by {case[3]}")
def test_numpy_passes_its_self_test(case: tuple, capsys: pytest.CaptureFixture[str]) -> None:
    wanted, test = derived(*case)
    exec(write_array_code(wanted, NUMPY, test), {"__name__": "__main__"})
    assert capsys.readouterr().out == "ok\n"


@pytest.mark.slow
@needs_cc
@pytest.mark.parametrize(("f", "wrt", "order"), NUMBERS)
def test_c_passes_its_self_test(f: str, wrt: str, order: int, tmp_path: Path) -> None:
    wanted, test = derived(f, {}, {}, wrt, order)
    assert ran(write_c_code(wanted, test), tmp_path) == ["ok"]


@pytest.fixture(name="cases", scope="module")
def _cases() -> list[Any]:
    return [derived(*case) for case in CASES]


@pytest.mark.slow
def test_a_wrong_word_of_numpy_fails_the_self_test(cases: list[Any]) -> None:
    unseen = set(PLANTED)
    for wanted, test in cases:
        right = write_array_code(wanted, NUMPY, test)
        for word, wrong in PLANTED.items():
            code = write_array_code(wanted, replace(NUMPY, rows={**NUMPY.rows, word: wrong}), test)
            if code == right:
                continue
            unseen.discard(word)
            with np.errstate(all="ignore"), pytest.raises((AssertionError, np.linalg.LinAlgError, ValueError)):
                exec(code, {"__name__": "__main__"})
    assert unseen == set()


@pytest.mark.slow
@needs_cc
def test_a_wrong_word_of_c_fails_the_self_test(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    unseen = set(SLIPS)
    for f, wrt, order in NUMBERS:
        wanted, test = derived(f, {}, {}, wrt, order)
        right = write_c_code(wanted, test)
        for word, wrong in SLIPS.items():
            monkeypatch.setattr(c, "C", replace(C, rows={**C.rows, word: wrong}))
            code = write_c_code(wanted, test)
            monkeypatch.undo()
            if code != right:
                unseen.discard(word)
                assert ran(code, tmp_path) != ["ok"], code
    assert unseen == set()


def test_numpy_is_refused_where_a_word_is_wrong(gradcli: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(NUMPY.rows, "tanh", "np.sinh")  # type: ignore[arg-type]
    ran = gradcli("derive", "sum(tanh(x))", "--shapes", "x: n")
    assert ran.exit_status == 3 and "def gradient" not in ran.stdout


# fmt: off
WRITTEN = [
    # numpy                                    torch                                                         jax
    ("sum along",      "np.sum(X, axis=0)",                 "torch.sum(X, dim=0)",                                        "jnp.sum(X, axis=0)"),
    ("var",            "np.var(x)",                         "torch.var(x, correction=0)",                                 "jnp.var(x)"),
    ("softmax",        "special.softmax(x)",                "torch.softmax(x, dim=0)",                                    "jax.nn.softmax(x)"),
    ("softmax along",  "special.softmax(X, axis=1)",        "torch.softmax(X, dim=1)",                                    "jax.nn.softmax(X, axis=1)"),
    ("softmax of all", "special.softmax(X)",                "torch.softmax(torch.flatten(X), dim=0).view_as(X)",          "jax.nn.softmax(X, axis=None)"),
    ("logsumexp",      "special.logsumexp(x)",              "torch.logsumexp(x, dim=0)",                                  "jax.scipy.special.logsumexp(x)"),
    ("logsumexp of all", "special.logsumexp(X)",            "torch.logsumexp(X, dim=(0, 1))",                             "jax.scipy.special.logsumexp(X)"),
    ("eye",            "s*np.eye(n)",                       "s*torch.eye(n, dtype=x.dtype, device=x.device)",             "s*jnp.eye(n, dtype=x.dtype)"),
    ("ones",           "s*np.ones([m, n])",                 "s*x.new_ones(m, n)",                                         "s*jnp.ones([m, n], x.dtype)"),
    ("less a size",    "s*np.ones(n - 1)",                  "s*x.new_ones(n - 1)",                                        "s*jnp.ones(n - 1, x.dtype)"),
    ("greater",        "np.float64(x > y)",                 "(x > y).to(x.dtype)",                                        "jnp.asarray(x > y, x.dtype)"),
    ("choice",         "np.where(x > y, x, 0)",             "torch.where(x > y, x, x.new_tensor(0))",                     "jnp.where(x > y, x, 0)"),
    ("pad both",       "np.pad(u, (2, 1))",                 "torch.nn.functional.pad(u, (2, 1))",                         "jnp.pad(u, (2, 1))"),
    ("relu",           "np.maximum(x, 0)",                  "torch.relu(x)",                                              "jax.nn.relu(x)"),
    ("number and array", "np.maximum(x, 0.5)",              "torch.maximum(x, x.new_tensor(0.5))",                        "jnp.maximum(x, 0.5)"),
    ("root of a size", "x/np.sqrt(n)",                      "x/math.sqrt(n)",                                             "x/jnp.sqrt(n)"),
    ("larger size",    "np.maximum(n, m)*s",                "max(n, m)*s",                                                "jnp.maximum(n, m)*s"),
    ("pi",             "np.pi*x",                           "math.pi*x",                                                  "jnp.pi*x"),
    ("a constant",     "2/np.sqrt(np.pi)*x",                "2/math.sqrt(math.pi)*x",                                     "2/jnp.sqrt(jnp.pi)*x"),
    ("large",          "1e+20*x",                           "1e+20*x",                                                    "1e+20*x"),
    ("a number",       "3",                                 "x.new_tensor(3)",                                            "jnp.asarray(3, x.dtype)"),
    ("solve turned",   "np.linalg.solve(A.T, x)",           "torch.linalg.solve(A.T, x)",                                 "jnp.linalg.solve(A.T, x)"),
    ("solve in a product", "x@np.linalg.solve(A, S)",       "x@torch.linalg.solve(A, S)",                                 "x@jnp.linalg.solve(A, S)"),
    ("transpose of a vector", "x",                          "x",                                                          "x"),
    ("below",          "np.tril(A, -1)",                    "torch.tril(A, -1)",                                          "jnp.tril(A, -1)"),
    ("flip along",     "np.flip(X, axis=1)",                "torch.flip(X, (1,))",                                        "jnp.flip(X, axis=1)"),
    ("places",         "x[[0, 2]]",                         "x[[0, 2]]",                                                  "x[jnp.array([0, 2])]"),
    ("einsum",         'np.einsum("ij,j->ij", X, x)',       'torch.einsum("ij,j->ij", X, x)',                             'jnp.einsum("ij,j->ij", X, x)'),
]
# fmt: on


@for_rows(("word", "numpy", "torch", "jax"), WRITTEN)
def test_words_are_written_as_each_dialect_has_them(word: str, numpy: str, torch: str, jax: str) -> None:
    written = [Writer(d, RANKS, "x").result(FORM_OF[word]) for d in (NUMPY, TORCH, JAX)]
    assert written == [numpy, torch, jax]


@for_rows(("dialect", "e", "why"), [
    (TORCH, call("sigmoid", words.n), "torch has no sigmoid of a number"), (TORCH, call("softmax", words.s), "torch has no softmax"),
    (TORCH, call("outer", words.n, words.x), "torch has no outer of a number"), (JAX, call("j0", words.x), "jax has no j0"),
    (TORCH, E("index", (words.x,), "[::-2]"), "torch has no steps backward"), (TORCH, E("index", (words.X,), "[:, 2:0:-1]"), "torch has no steps backward"),
    (NUMPY, E("matmul", (words.s, words.x)), "an operand of @ or dot must have one or two axes"), (C, call("digamma", words.s), "C has no digamma"),
])  # fmt: skip
def test_what_a_dialect_cannot_say_is_refused(dialect: Dialect, e: E, why: str) -> None:
    with pytest.raises(NotSupported, match=f"^{re.escape(why)}$"):
        Writer(dialect, RANKS, "x").code(e)


def wanted(e: E, shapes: str, wrt: str, *parts: tuple[str, E]) -> CodeRequest:
    return CodeRequest(Statements(parts, e), "gradient", parse_shapes([shapes]), wrt)


@for_rows(("inputs", "parts", "lacks"), [
    ("torch: n", (), {"torch"}), ("math:", (), {"torch"}), ("float: n", (), {"torch"}), ("jax: n n", (), {"jax"}), ("jnp:", (), {"jax"}),
    ("x: torch", (), {"torch"}), ("x: n", ("jnp",), {"jax"}), ("x: n", ("torch",), {"torch"}), ("x: n", (), set()),
])  # fmt: skip
def test_a_name_that_hides_a_module_leaves_the_dialect_out(
    inputs: str, parts: tuple[str, ...], lacks: set[str]
) -> None:
    ((first, dims),) = parse_shapes([inputs]).items()
    e = ex_sum(*(name(p) for p in (first, *parts)), *(name(d) for d in dims))
    found, refused = languages.write_all_languages(wanted(e, inputs, first, *((p, name(first)) for p in parts)), None)
    assert set(refused) - {"c"} == lacks and set(found) - {"c"} == {"numpy", "torch", "jax"} - lacks
    assert all("hides a module in the code" in refused[d] for d in lacks)


def ex_sum(*parts: E) -> E:
    return E("add", parts) if len(parts) > 1 else parts[0]


@for_rows(("inputs", "parts"), [("np: n", ()), ("special:", ()), ("x: np", ()), ("x: n", ("np",))])
def test_a_name_that_hides_numpy_is_refused(inputs: str, parts: tuple[str, ...]) -> None:
    ((first, dims),) = parse_shapes([inputs]).items()
    e = ex_sum(*(name(p) for p in (first, *parts)), *(name(d) for d in dims))
    with pytest.raises(NotSupported, match="hides a module in the code"):
        languages.write_all_languages(wanted(e, inputs, first, *((p, name(first)) for p in parts)), None)


@for_rows(("given", "found"), [
    (["x", "y"], ["x", "y"]), (["gamma", "y0", "exp"], ["gamma_", "y0_", "exp_"]), (["double", "int", "main"], ["double_", "int_", "main_"]),
    (["exp", "exp_"], ["exp__", "exp_"]), (["NAN", "sigmoid", "gradient"], ["NAN_", "sigmoid_", "gradient_"]), (["sinf", "expl"], ["sinf_", "expl_"]),
])  # fmt: skip
def test_names_that_c_has_taken_get_an_underscore(given: list[str], found: list[str]) -> None:
    assert list(valid_c_names(given).values()) == found


@pytest.mark.parametrize("word", ["λ", "_x", "é"])
def test_names_that_c_cannot_have_leave_it_out(word: str) -> None:
    with pytest.raises(NotSupported, match=f"C has no name like {word}"):
        valid_c_names([word])


@pytest.mark.slow
@needs_cc
def test_no_name_is_one_that_c_has_taken(tmp_path: Path) -> None:
    taken = [*c._KEYWORDS.split(), *c._LIBRARY.split(), *c._MACROS.split(), *c._HELPERS]
    e = ex_sum(*(call("sigmoid", call("exp", name(w))) for w in taken))
    code = c_code((), e, "gradient", taken, "int main(void) { return 0; }\n")
    assert ran(code, tmp_path) == []


def test_an_input_that_is_not_used_is_one_of_the_function(tmp_path: Path) -> None:
    code = c_code((), name("x"), "gradient", ["x", "y"], "")
    assert "double gradient(double x, double y) {\n    (void)y;\n    return x;\n}" in code


@pytest.mark.parametrize(("shapes", "wrt", "why"), [
    ("x: n", "x", "C is written for functions of numbers, and x is none"), ("x: 3; s:", "s", "C is written for functions of numbers, and x is none"),
])  # fmt: skip
def test_c_is_for_numbers(shapes: str, wrt: str, why: str) -> None:
    found, refused = languages.write_all_languages(wanted(name(wrt), shapes, wrt), None)
    assert "c" not in found and refused["c"] == why


def functions(code: str) -> Iterator[str]:
    yield from re.findall(r"(?<![\w.)\]])([a-z_]\w*)\(", code)


@for_rows("case", CASES, ids=lambda case: f"{case[0]} by {case[3]}", parts=7)
def test_every_function_of_torch_and_jax_is_qualified(case: tuple) -> None:
    made, test = derived(*case)
    for dialect in (TORCH, JAX):
        body = write_array_code(made, dialect, test).partition("\n\nif __name__")[0]
        assert set(functions(body)) <= {"gradient", "jacobian", "hessian", "max", "min", "float"}
        assert "np." not in body.replace("jnp.", "") and "axis" not in (body if dialect is TORCH else "")
