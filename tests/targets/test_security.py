"""Expressions are data: nothing but the language's own table is reached, and hostile texts are refused."""

import builtins

import numpy as np
import pytest
import scipy.special

from gradcli.errors import BadExpression, GradcliError
from gradcli.targets.expression import Expression
from gradcli.targets.names import CONSTANTS, FUNCTIONS
from gradcli.targets.points import read_points
from tests.rows import for_rows

# fmt: off
HOSTILE = {
    "imports":        ["__import__('os')", "__import__('os').system('true')", "import os", "from os import path", "x; import os",
                       "x\nimport os", "\uff3f\uff3fimport\uff3f\uff3f('os')", "__builtins__.__import__('os')"],
    "builtins":       ["open('/etc/passwd')", "eval('1')", "exec('1')", "compile('1', '', 'eval')", "getattr(x, 'T')", "globals()", "vars()",
                       "breakpoint()", "print(x)", "exit()", "type(x)", "u = open; u('x')", "input()", "help(x)"],
    "dunders":        ["x.__class__", "x.__class__.__mro__", "''.__class__", "(1).__class__", "sin.__self__", "sum.__globals__", "x.T.__class__",
                       "sin(x).__class__", "v[0].__init__", "np.__dict__", "np.sum.__globals__", "math.__loader__", "F.__class__",
                       "x.\uff3f\uff3fclass\uff3f\uff3f", "x.sum.__func__", "x\\\n.__class__", "[x].__class__()", "x.__class__()",
                       "(x.__class__ if x else x)", "x.sum().__class__", "np.pi.__class__", "x[0].__class__[0]"],
    "modules":        ["np.load('x')", "np.fromfile('x')", "np.genfromtxt('x')", "np.random.rand(3)", "np.lib.format", "np.ctypeslib", "torch.load('x')",
                       "np.linalg.linalg", "scipy.special.__builtins__", "np.frompyfunc(x, 1, 1)", "np.vectorize(x)", "np.np.sin(x)",
                       "os.system('true')", "sys.exit()", "np.sin.reduce(v)", "np.add.at(v, 0, 1)", "np.memmap('x')", "jax.numpy.save('x', x)"],
    "methods":        ["x.tofile('x')", "v.dump('x')", "v.ctypes.data", "v.astype('O')", "v.data", "v.setfield(x, 'f8')", "v.fill(0)", "v.sort()",
                       "v.flags.writeable", "v.base", "v.sum.real"],
    "code":           ["lambda: 0", "(lambda: 0)()", "[i for i in v]", "(i for i in v)", "{i for i in v}", "{1: 2}", "(yield x)", "await x", "(u := 3)",
                       "del x", "x[lambda: 0]", "v[__import__('os')]", "assert x", "global x", "while 1: x", "def f(): 1", "@x", "sum(**{'axis': 0})",
                       "sum(*v)", "max(v, key=len)", "x is y", "x in v", "raise x", "pass", "with x: y", "`true`", "$HOME", "x = y = 1", "x[0] = 1"],
    "strings":        ["f'{x}'", "f'{open(1)}'", "'{0.__class__}'.format(x)", "'a'.join(v)", "'%s' % x", "'%9d' % x", "u = 'a'; t = u + u; t", "'a'*3",
                       "'a' < 'b'", "'a'[0]", "['a', 'b']", "'a' if x else 'b'", "-'a'", "not 'a'", "'a' and x", "x == 'a'", "sin('a')", "b'a'*x",
                       "r'a'*x", "where(x > 0, 'a', 'b')", "sum('a')", "maximum('a', 'b')", "'' '' + x"],
    "keywords":       ["sum(v, out=w)", "fmax(v, w, out=v)", "sum(v, dtype='O')", "cumsum(v, dtype='object')", "isnan(v, dtype='O')", "v.sum(out=w)",
                       "ones_like(v, dtype='O')", "clip(v, 0, 1, out=v)", "dot(v, w, v)", "sum(v, 0, None, w)", "zeros_like(v, dtype='S9')"],
    "nothing":        ["None + x", "[None]", "sum(None)", "None if x > 0 else x", "x[None](1)", "True(x)"],
}
# fmt: on
TEXTS = [pytest.param(text, id=f"{kind}-{text!a}") for kind, texts in HOSTILE.items() for text in texts]


def evaluated(text, at):
    f = Expression(text)
    with np.errstate(all="ignore"):
        return f.survey({name: at.get(name, np.float64(0.5)) for name in f.inputs})


@for_rows("text", TEXTS)
def test_a_hostile_text_is_refused(text):
    with pytest.raises(BadExpression):
        evaluated(text, {"v": np.ones(3), "w": np.ones(3)})


@for_rows("text", ["fmax(v, w, out=v)", "clip(v, 5, 6, out=v)", "cumsum(v, out=v)", "outer(v, w, out=v)"])
def test_no_expression_writes_into_its_inputs(text):
    at = {"v": np.ones(3), "w": np.full(3, 2.0)}
    with pytest.raises(GradcliError):
        evaluated(text, at)
    assert np.array_equal(at["v"], np.ones(3))


@pytest.mark.slow
@for_rows(
    ("prefix", "home"), [("np.", np), ("np.linalg.", np.linalg), ("scipy.special.", scipy.special), ("", builtins)]
)
def test_only_names_of_the_table_are_called(prefix, home):
    others = [name for name in dir(home) if name not in FUNCTIONS and name.isidentifier()]
    assert len(others) > 10
    for name in others:
        with pytest.raises(BadExpression):
            Expression(f"{prefix}{name}(x)")


@pytest.mark.parametrize(("prefix", "home"), [("np", np), ("np.linalg", np.linalg), ("scipy.special", scipy.special)])
def test_only_constants_of_the_table_are_read_from_a_module(prefix, home):
    for name in dir(home):
        if name not in CONSTANTS and name != "T":
            with pytest.raises(BadExpression):
                Expression(f"{prefix}.{name}")


@for_rows("name", ["__import__", "__builtins__", "open", "eval", "os", "self"])
def test_a_name_that_is_not_called_is_only_an_input(name):
    f = Expression(f"2*{name}")
    assert f.inputs == (name,)
    assert f({name: np.float64(1.5)}) == 3.0


# fmt: off
@for_rows(
    "text",
    ["__import__('os')", "open('x')", "eval('1')", "().__class__", "'a'.__class__", "randn.__globals__", "np.load('x')", "[i for i in [1]]",
     "lambda: 0", "f'{1}'", "'%9d' % 1", "'a'*3", "(1,)*3", "(1, 2)*100000000000000000", "-(1, 2)", "{1: 2}", "zeros(3, **y)", "zeros(*[3])",
     "1 if 2 else 3", "1 < 2", "[1, 2][0]", "1 .real", "zeros(3).ctypes", "zeros(3, dtype='O')", "np.zeros(3)", "x", "int(x)", "print(1)"],
    ids=ascii,
)
# fmt: on
def test_a_hostile_value_of_a_point_is_refused(text):
    with pytest.raises(GradcliError):
        read_points([f"x={text}"])
