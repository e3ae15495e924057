"""Functions, modules and custom functions written in torch, checked as the command line does it."""

import subprocess
import sys
import textwrap
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradcli as library

torch: Any = pytest.importorskip("torch", reason="torch is not installed")

HEAD = """
    import math
    from dataclasses import dataclass

    import numpy as np
    import torch
    import torch.nn.functional as F

    class Sine(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return torch.sin(x)

        @staticmethod
        def backward(ctx, ybar):
            return ybar * torch.cos(ctx.saved_tensors[0])

    class Wrong(Sine):
        @staticmethod
        def backward(ctx, ybar):
            return -ybar * torch.cos(ctx.saved_tensors[0])

    class Tangent(torch.autograd.Function):
        @staticmethod
        def forward(x):
            return torch.sin(x)

        @staticmethod
        def setup_context(ctx, inputs, output):
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx, ybar):
            return ybar * torch.cos(ctx.saved_tensors[0])

        @staticmethod
        def jvp(ctx, xdot):
            return 2 * xdot * torch.cos(ctx.saved_tensors[0])

    class Scaled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x, c):
            ctx.save_for_backward(x)
            ctx.c = c
            return x * x * c

        @staticmethod
        def backward(ctx, ybar):
            return 2 * ybar * ctx.saved_tensors[0] * ctx.c, None

    class Written(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.exp_()
            ctx.mark_dirty(x)
            ctx.save_for_backward(y)
            return y

        @staticmethod
        def backward(ctx, ybar):
            return ybar * ctx.saved_tensors[0]
"""

#       what: source, point
RIGHT = {
    "a custom function of a number": ("def f(x):\n    return Scaled.apply(x, 0.3).sin().sum()", "x=randn(3)"),
    "a custom function of a mask": ("M = torch.tensor([1.0, 0.0, 2.0])\ndef f(x):\n    return Scaled.apply(x, M).sin().sum()", "x=randn(3)"),
    "a custom function that writes into its input": ("def f(x):\n    return Written.apply(x * 2).sum()", "x=randn(3)"),
    "jacfwd inside": ("def f(x):\n    return torch.func.jacfwd(lambda y: (y.sin() * y).cumsum(0))(x).pow(2).sum()", "x=randn(3)"),
    "what vmap cannot do": ("def f(x):\n    return x.flip(0) * x.view(1)[0]", "x=1.3"),
    "integers that are counted": (
        "def f(x):\n    n = torch.zeros(3, dtype=torch.long)\n    n[0] += 1\n    n[0] %= 5\n    return (x**2 * (n >= 1) + x).sum()",
        "x=randn(3,3)"),
    "a mask that is written to": (
        "def f(x):\n    m = torch.zeros(3, dtype=torch.bool)\n    m[0] = True\n    return x.masked_fill(m, 0.0).pow(2).sum()", "x=randn(3)"),
    "a row of a mask that is written to": (
        "def f(x):\n    m = torch.zeros(2, 3, dtype=torch.bool)\n    n = x + m\n    m[0] = True\n"
        "    return (x.masked_fill(m, 0.0) * n).sum()", "x=randn(2,3)"),
    "a row of a constant that is written to": (
        "def f(x):\n    c = torch.zeros(2, 3)\n    c[0] = 2.0\n    return (x.square() * c + x).sum()", "x=randn(2,3)"),
    "a view of integers": (
        "def f(x):\n    i = torch.zeros(3, dtype=torch.long)\n    i[1:] = 2\n    return (x[i] ** 2).sum()", "x=randn(3)"),
    "torch.equal": ("def f(x):\n    return x.sum() if torch.equal(x, x.flip(0)) else (x**2).sum()", "x=randn(3)"),
    "a distribution": (
        "def f(x):\n    return torch.distributions.Normal(x, torch.ones(3)).log_prob(torch.zeros(3)).sum()", "x=randn(3)"),
    "a transformer in evaluation": (
        "L = torch.nn.TransformerEncoderLayer(4, 2, 8, batch_first=True).double().eval()\ndef f(x):\n    return L(x).sin().sum()",
        "x=randn(1,3,4)"),
    "a function": ("def f(x, w):\n    return torch.tanh(x @ w).sum()", "x=randn(3,4), w=randn(4)"),
    "several results": ("def f(x, y):\n    return {'a': x * y, 'b': (x.sum(), y.argmax())}", "x=randn(3), y=randn(3)"),
    "complex numbers": (
        "class Square(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, z):\n        ctx.save_for_backward(z)\n"
        "        return z * z\n    @staticmethod\n    def backward(ctx, ybar):\n        return ybar * (2 * ctx.saved_tensors[0]).conj()\n"
        "def f(z):\n    return Square.apply(z) * torch.exp(1j * z)",
        "z=complex(randn(3), [1, 2, 3])",
    ),
    "a dataclass": (
        "@dataclass\nclass P:\n    w: object\n    b: object\npoint = {'p': P(np.ones(3), 0.5), 'x': np.arange(3.0)}\n"
        "def f(p, x):\n    return torch.sum(torch.sin(p.w * x + p.b))",
        "@target:point",
    ),
    "a dict": ("point = {'p': {'w': np.eye(2), 'b': [np.array([0.1, 0.2])]}}\ndef f(p):\n    return torch.sum(p['w'] @ p['b'][0])",
               "@target:point"),
    "a module class": ("class f(torch.nn.Module):\n    def __init__(self):\n        super().__init__()\n"
                       "        self.a = torch.nn.Linear(3, 2)\n    def forward(self, x):\n        return torch.tanh(self.a(x))",
                       "x=randn(4,3)"),
    "a factory": ("def made():\n    return torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2))\nf = made()",
                  "input=randn(4,3)"),
    "a custom function": ("f = Sine", "x=randn(3)"),
    "its apply": ("f = Sine.apply", "x=randn(3)"),
    "inside": ("def f(x):\n    return (Sine.apply(x) * x).sum()", "x=randn(3)"),
    "in place": ("def f(x):\n    y = torch.zeros(4)\n    y[1:] += x\n    y[0] = x.sum()\n    y.mul_(2)\n    return (y**2).sum()",
                 "x=randn(3)"),
    "a branch": ("def f(x):\n    return (x**2).sum() if x[0] > 0 else -x.sum()", "x=randn(3)"),
    "a loop": ("def f(x):\n    while (x * x).sum() < 30:\n        x = 2 * x\n    return x.sum()", "x=randn(3)"),
    "dropout": ("def f(x):\n    return (F.dropout(x, 0.5) ** 2).sum()", "x=randn(6)"),
    "a gradient inside": ("def f(x):\n    x = x.requires_grad_()\n    g, = torch.autograd.grad((x**3).sum(), x, create_graph=True)\n"
                          "    return (g * x).sum()", "x=randn(3)"),
    "integers": ("def f(x, rows):\n    return (x[rows] ** 2).sum()", "x=randn(4,3), rows=int([0, 2, 2])"),
    "linear algebra": ("def f(a):\n    s = a @ a.T + torch.eye(3)\n    return torch.logdet(s) + torch.linalg.solve(s, a).sum()",
                       "a=randn(3,3)"),
    "attention": ("def f(q, k, v):\n    return F.scaled_dot_product_attention(q[None], k[None], v[None]).sum()",
                  "q=randn(4,3), k=randn(5,3), v=randn(5,2)"),
    "convolution": ("def f(x, k):\n    return F.conv1d(x[None, None], k[None, None], padding=1).tanh().sum()", "x=randn(7), k=randn(3)"),
    "a global module": ("net = torch.nn.Linear(3, 2)\ndef f(x):\n    return net(x).sum()", "x=randn(3)"),
    "a view of the memory of its input": ("def f(x):\n    return x.view(-1)[::2].exp().sum() + Sine.apply(x).sum()", "x=randn(2,3)"),
    "a backward that takes no other layout": (
        "class B(Sine):\n    @staticmethod\n    def backward(ctx, ybar):\n        assert ctx.saved_tensors[0].is_contiguous()\n"
        "        return Sine.backward(ctx, ybar)\ndef f(x):\n    return B.apply(x).sum()", "x=randn(2,3)"),
    "a backward that needs all gradients": (
        "class B(Scaled):\n    @staticmethod\n    def backward(ctx, ybar):\n        assert all(ctx.needs_input_grad)\n"
        "        x = ctx.saved_tensors[0]\n        return 2 * ybar * x * ctx.c, ybar * x * x\ndef f(x, c):\n    return B.apply(x, c).sum()",
        "x=randn(3), c=randn(3)"),
    "a hook that reads": ("def f(x):\n    seen = []\n    y = 2 * x\n    y.register_hook(seen.append)\n    return y.sin().sum()", "x=randn(3)"),
    "a gradient that is kept": ("def f(x):\n    y = 2 * x\n    y.retain_grad()\n    return y.sin().sum()", "x=randn(3)"),
    "complex inside": ("def f(x):\n    return torch.fft.fft(torch.sin(x)).abs().square().sum()", "x=randn(4)"),
    "an expanded input": ("def f(x):\n    return (x[None].expand(3, -1).contiguous() ** 2).sum()", "x=randn(3)"),
}  # fmt: skip

#        what: source, point, words of the report
WRONG = {
    "a derivative that is missing": ("def f(x):\n    return Scaled.apply(x, 2 * x).sum()", "x=randn(3)", ["Scaled"]),
    "a custom function": ("f = Wrong", "x=randn(3)", ["the sign is flipped"]),
    "inside": ("def f(x):\n    return (Sine.apply(x) * Wrong.apply(x)).sum()", "x=randn(3)", ["Wrong alone is wrong", "Sine alone is right"]),
    "forward mode": ("f = Tangent", "x=randn(3)", ["forward (jvp)", "wrong"]),
    "item": ("def f(x):\n    return x.sum().item() * x.sum()", "x=randn(3)", ["a number is taken out of a tensor", "`x.sum().item()` is held constant"]),
    "detach": ("def f(x):\n    return (x.detach() * x).sum()", "x=randn(3)", 
               ["`x.detach()` is held constant: no gradient passes through it", "detach() or .data cuts the graph here"]),
    "a straight-through estimator": (
        "class R(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x):\n        return x.round()\n"
        "    @staticmethod\n    def backward(ctx, ybar):\n        return ybar\ndef f(x):\n    return (R.apply(x) * x).sum()",
        "x=randn(3)",
        ["`x.round()` passes the gradient through, as a straight-through estimator; if that is meant: --expect straight-through"]),
    "a straight-through estimator by detach": (
        "def f(x):\n    return ((x.round() - x).detach() + x).square().sum()", "x=randn(3)", ["if that is meant: --expect stop-gradient"]),
    "a gradient that is left out where another one is not needed": (
        "class P(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, x, w):\n        ctx.save_for_backward(x, w)\n"
        "        return x * w\n    @staticmethod\n    def backward(ctx, ybar):\n        x, w = ctx.saved_tensors\n"
        "        return ybar * w if ctx.needs_input_grad[1] else None, ybar * x\ndef f(x, w):\n    return P.apply(x, w).sin().sum()",
        "x=randn(3), w=randn(3)", ["one input at a time: the gradient by x is wrong"]),
    "repeated positions that are assigned": (
        "class E(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, w):\n        return w[torch.tensor([0, 2, 2])]\n"
        "    @staticmethod\n    def backward(ctx, ybar):\n        wbar = torch.zeros(3, 2)\n"
        "        wbar[torch.tensor([0, 2, 2])] += ybar\n        return wbar\ndef f(w):\n    return E.apply(w).sin().sum()",
        "w=randn(3,2)", ["only the last is counted (index_add_ adds them all)"]),
    "two values that are detached": (
        "def f(x):\n    m = x.mean().detach()\n    return ((x - m) / x.std().detach()).pow(3).sum()", "x=randn(3)",
        ["`x.mean().detach()` and `x.std().detach()` are held constant: no gradient passes through them"]),
    "no_grad": (
        "def f(x):\n    with torch.no_grad():\n        n = x.norm()\n    return (x / n).pow(3).sum()", "x=randn(3)",
        ["`x.norm()` is held constant"]),
    "a gradient inside without a graph": (
        "def f(x):\n    g, = torch.autograd.grad((x**3).sum(), x.requires_grad_())\n    return (g * x).sum()", "x=randn(3)",
        ["is held constant: no gradient passes through it", "without create_graph=True cuts the graph here"]),
    "numbers in a new tensor": (
        "def f(x):\n    return (torch.tensor([x[0], x[1]]) ** 2).sum() + x.sum()", "x=randn(3)",
        ["`torch.tensor([x[0], x[1]])` is held constant: no gradient passes through it"]),
    "a number": ("def f(x):\n    return float(x[0]) * x[1] ** 2", "x=randn(3)", ["`float(x[0])` is held constant"]),
    "a list": ("def f(x):\n    return x.tolist()[0] * x[1]", "x=randn(3)", ["`x.tolist()` is held constant"]),
    "a plain array": (
        "def f(x):\n    return torch.as_tensor(np.asarray(x.detach()) ** 2).sum() * x[0]", "x=randn(3)",
        ["`np.asarray(x.detach())` are held constant"]),
    "a number in a branch": (
        "def f(x):\n    return (x**2).sum() * x.mean().item() if x[int(x.argmax())] > 0 else x.sum()", "x=[1, 2, 3]",
        ["Likely mistake: `x.mean().item()` is held constant: no gradient passes through it"]),
    "data": ("def f(x):\n    return (x.data * x).sum()", "x=randn(3)", [".data"]),
    "numpy": ("def f(x):\n    return torch.as_tensor(np.sin(x.detach().numpy())).sum() + x.sum()", "x=randn(3)", ["detach() or .data cuts"]),
    "masked-nan": ("def f(x):\n    return torch.where(x > 0.5, x.sqrt(), x).sum()", "x=[4, 0]", ["masked-nan", "torch.where"]),
    "a missing conj": (
        "class f(torch.autograd.Function):\n    @staticmethod\n    def forward(ctx, z):\n        ctx.save_for_backward(z)\n"
        "        return z * z\n    @staticmethod\n    def backward(ctx, ybar):\n        return ybar * 2 * ctx.saved_tensors[0]",
        "z=complex(randn(3), [1, 2, 3])", ["z.real", "z.imag"]),
    "a cotangent written to": (
        "class f(Sine):\n    @staticmethod\n    def backward(ctx, ybar):\n        return ybar.mul_(torch.cos(ctx.saved_tensors[0]))",
        "x=randn(3)", ["writes into the cotangent"]),
    "a shape": (
        "class B(Sine):\n    @staticmethod\n    def backward(ctx, ybar):\n        return ybar[:-1]\ndef f(x):\n    return B.apply(x).sum()",
        "x=randn(3)", ["wrong number or shape"]),
    "a hook that changes a gradient": (
        "def f(x):\n    y = 2 * x\n    y.register_hook(lambda ybar: -ybar)\n    return y.sin().sum()", "x=randn(3)", ["the sign is flipped"]),
    "a hook of a parameter": (
        "class f(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(3, 2)\n"
        "        self.weight.register_hook(lambda wbar: 0.5 * wbar)\n    def forward(self, x):\n        return super().forward(x).tanh().sum()",
        "x=randn(4,3)", ["a factor 2 too small", "in 6 of 20 entries"]),
    "a hook of a module, which raises where its input needs no gradient": (
        "class f(torch.nn.Linear):\n    def __init__(self):\n        super().__init__(3, 2)\n"
        "        self.register_full_backward_hook(lambda module, xbars, ybars: (2 * xbars[0],))\n", "input=randn(4,3)", ["a factor 2 too large"]),
    "random backward": (
        "class B(Sine):\n    @staticmethod\n    def backward(ctx, ybar):\n        return ybar * torch.cos(ctx.saved_tensors[0]) "
        "* (1 + 1e-3 * np.random.rand())\ndef f(x):\n    return B.apply(x).sum()",
        "x=randn(3)", ["not-deterministic"]),
}  # fmt: skip

#      what: source, point, words of the error
BAD = {
    "nothing": ("def f(x):\n    return None", "x=randn(3)", "returns None"),
    "integers": ("def f(x):\n    return torch.argmax(x)", "x=randn(3)", "int64, which has no gradient"),
    "in place": ("def f(x):\n    y = x.exp()\n    y += 1\n    return y.sum()", "x=randn(3)", "changed in place"),
    "a class that needs arguments": ("class f(torch.nn.Linear):\n    pass", "input=randn(3)", "cannot be made without arguments"),
    "it raises": ("def f(x):\n    return x @ torch.ones(7, dtype=x.dtype)", "x=randn(3)", "x @ torch.ones(7"),
    "a device": ("def f(x):\n    return x.sum()", "x=randn(3) --device cuda:9", "there is no device 'cuda:9' here"),
    "a format": ("def f(x):\n    return x.sum()", "x=randn(3) --dtype float3", "did you mean 'float32'?"),
    "nothing expected": ("def f(x):\n    return x.sum()", "x=randn(3) --expect straight-through", "the function has no step function"),
    "something else expected": ("def f(x):\n    return x.sum()", "x=randn(3) --expect magic", "--expect does not know 'magic'"),
    "two frameworks": ("import jax.numpy as jnp\ndef f(x):\n    return jnp.sum(x) + torch.sum(x)", "x=randn(3)", "--framework jax"),
}  # fmt: skip


@pytest.fixture
def ran(gradcli: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(source: str, point: str, *more: str) -> Any:
        name = f"target{abs(hash(source)) % 10**8}"
        (tmp_path / f"{name}.py").write_text(textwrap.dedent(HEAD) + source + "\n")
        monkeypatch.chdir(tmp_path)
        point, *words = point.split(" --")
        options = [word for text in words for word in ("--" + text).split()]
        at = f"{name}.py:point" if point == "@target:point" else point
        return gradcli("check", f"{name}.py:f", "--at", at, *options, *more)

    return run


@pytest.mark.parametrize("what", RIGHT)
def test_right_gradients_pass(what: str, ran: Any) -> None:
    done = ran(*RIGHT[what])
    assert done.exit_status == 0, done.stdout + done.stderr
    assert done.stdout.startswith("PASS  ") and ": torch's gradient is right" in " ".join(done.stdout.split())


# torch says it once in a process, of the code that is checked
MAKES_NUMBERS = pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad")


@MAKES_NUMBERS
@pytest.mark.parametrize("what", ["numbers in a new tensor", "item"])
def test_no_closed_form_is_shown_of_a_recording_that_is_not_the_function(what: str, ran: Any) -> None:
    assert "closed form" not in ran(*WRONG[what][:2]).stdout


@MAKES_NUMBERS
@pytest.mark.parametrize("what", WRONG)
def test_wrong_gradients_fail_and_are_named(what: str, ran: Any) -> None:
    source, point, words = WRONG[what]
    done = ran(source, point)
    assert done.exit_status == 1, done.stdout + done.stderr
    said = " ".join(done.stdout.split())
    assert [word for word in words if word not in said] == []


@pytest.mark.parametrize("what", [what for what in WRONG if "straight-through" in what])
def test_what_a_likely_mistake_says_is_meant_passes_as_such(what: str, ran: Any) -> None:
    source, point, (words,) = WRONG[what]
    done = ran(source, point, *words.rpartition(": ")[2].split())
    assert done.exit_status == 0, done.stdout + done.stderr


@pytest.mark.parametrize("what", BAD)
def test_bad_input_gets_one_error(what: str, ran: Any) -> None:
    source, point, words = BAD[what]
    if "jax" in source:
        pytest.importorskip("jax", reason="JAX is not installed")
    done = ran(source, point)
    assert (done.exit_status, words in done.stderr) == (2, True), done.stdout + done.stderr


@pytest.mark.parametrize(("dtype", "least"), [("float32", 1e-3), ("bfloat16", 1.0), ("float16", 0.5)])
def test_a_narrow_format_is_judged_by_its_own_bounds(dtype: str, least: float, ran: Any) -> None:
    done = ran(
        "def f(x, w):\n    return torch.sin(x @ w).sum()", "x=randn(3,4), w=randn(4)", "--dtype", dtype, "--json"
    )
    assert done.exit_status == 0, done.stdout
    report = done.json
    assert report["native"]["dtype"] == dtype
    assert 1e-7 < report["detects"]["relative"] < least


def test_a_wrong_gradient_is_seen_in_float32(ran: Any) -> None:
    done = ran("f = Wrong", "x=randn(3)", "--dtype", "float32")
    assert (done.exit_status, "the sign is flipped" in done.stdout) == (1, True)


def test_what_takes_float32_only_is_checked_in_it(ran: Any) -> None:
    done = ran("w = np.ones(3, dtype=np.float32)\ndef f(x):\n    return (x @ torch.from_numpy(w)).tanh()", "x=randn(3)")
    assert done.exit_status == 0, done.stdout + done.stderr
    assert "f takes float32 only" in done.stdout and "in float32 f = " in " ".join(done.stdout.split())


def test_a_cast_on_the_way_is_seen(ran: Any) -> None:
    assert (
        ran("def f(x):\n    return x.float().tanh().sum()", "x=randn(3)", "--json").json["native"]["dtype"] == "float32"
    )


@pytest.mark.parametrize("what", [what for what in RIGHT if "that is written to" in what])
def test_constants_that_are_written_to_are_recorded(what: str, ran: Any) -> None:
    assert "untraced" not in ran(*RIGHT[what]).stdout


def test_the_program_is_certified(ran: Any) -> None:
    source, point = RIGHT["linear algebra"]
    report = ran(source, point, "--json").json
    assert report["points"][0]["modes"]["certified"]["verdict"] == "agree"


def test_an_operation_that_is_not_known_is_named(ran: Any) -> None:
    done = ran("def f(x):\n    return torch.linalg.eigvals(torch.outer(x, x) + torch.eye(2)).abs().sum()", "x=randn(2)")
    assert "gradcli does not know aten." in " ".join(done.stdout.split())


def test_modules_are_checked_alone_when_asked(ran: Any) -> None:
    done = ran(RIGHT["a factory"][0], "input=randn(4,3)", "--localise", "--json")
    assert [(part["name"], part["verdict"]) for part in done.json["native"]["parts"]] == [
        ("Linear", "pass"),
        ("BatchNorm1d", "pass"),
    ]


@pytest.mark.parametrize(
    "forward", ["", "    @staticmethod\n    def forward(ctx, x):\n        return Sine.forward(ctx, x)\n"]
)
def test_a_base_whose_forward_is_inherited_or_called_is_not_reported(forward: str, ran: Any) -> None:
    done = ran(
        f"class Own(Wrong):\n    name = 'own'\n{forward}def f(x):\n    return Own.apply(x).sum()",
        "x=randn(3)",
        "--json",
    )
    assert [part["name"] for part in done.json["native"]["parts"]] == ["Own"]


def test_buffers_stay_as_they_are() -> None:
    norm = torch.nn.BatchNorm1d(3)
    before = {name: b.clone() for name, b in norm.named_buffers()}
    assert library.check(norm, {"input": np.random.default_rng(0).normal(size=(4, 3))})
    assert all(torch.equal(b, before[name]) for name, b in norm.named_buffers())


def test_random_numbers_of_the_user_go_on_as_they_would() -> None:
    torch.manual_seed(3)
    expected = torch.rand(2)
    torch.manual_seed(3)
    library.check(lambda x: torch.sum(torch.sin(x)), {"x": np.ones(2)}, framework="torch")
    assert torch.equal(torch.rand(2), expected)
    assert torch.get_default_dtype() == torch.float32


def test_tensors_may_be_given_from_python() -> None:
    assert library.check(lambda x: torch.sum(torch.sin(x)), {"x": torch.ones(2, requires_grad=True)}, framework="torch")


def test_tensors_that_are_given_say_what_a_function_is_written_in_that_names_no_framework() -> None:
    report = library.check(lambda x: (x.square() * 3).sum(), {"x": torch.tensor([1.0, 2.0], dtype=torch.float64)})
    assert (report.verdict, report.native.framework) == ("pass", "torch")


def test_second_derivatives(ran: Any) -> None:
    done = ran("def f(x):\n    return torch.exp(x).prod()", "x=randn(3)", "--order", "2")
    assert done.exit_status == 0, done.stdout
    wrong = (
        "class W(Sine):\n    @staticmethod\n    def backward(ctx, ybar):\n        return ybar * torch.cos(ctx.saved_tensors[0].detach())\n"
        "def f(x):\n    return W.apply(x).sum()"
    )
    assert ran(wrong, "x=randn(3)").exit_status == 0
    assert ran(wrong, "x=randn(3)", "--order", "2").exit_status == 1


def test_a_compiled_function(ran: Any) -> None:
    done = ran("def f(x):\n    return torch.sum(torch.sin(x))", "x=randn(3)", "--compile")
    assert done.exit_status == 0, done.stdout + done.stderr


class _Energy(torch.autograd.Function):
    """A scalar, whose backward multiplies by its cotangent, or forgets it."""

    forgets = False

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return torch.sum(torch.sin(x))

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        (x,) = ctx.saved_tensors
        return torch.cos(x) if _Energy.forgets else ybar * torch.cos(x)


@pytest.mark.parametrize("forgets", [False, True])
def test_a_custom_gradient_that_is_the_whole_function_is_compared_for_another_cotangent(
    forgets: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_Energy, "forgets", forgets)
    report = library.check(lambda x: _Energy.apply(x), torch.linspace(0.1, 1.0, 5, dtype=torch.float64))
    (part,) = report.native.parts
    assert part.verdict == ("fail" if forgets else "pass") and report.verdict == part.verdict


def test_other_derivatives_are_compared_where_a_custom_gradient_is_or_on_request() -> None:
    def rows(f: Any, **options: Any) -> dict[str, str]:
        report = library.check(f, torch.linspace(0.1, 1.0, 5, dtype=torch.float64), **options)
        assert report.verdict == "pass", str(report)
        return {aspect.name: aspect.status for aspect in report.native.aspects}

    plain = lambda x: torch.sum(torch.sin(x))
    assert rows(plain) == {"other derivatives": "not run"}
    assert rows(plain, modes="all")["double backward"] == "agrees"
    custom = rows(lambda x: _Energy.apply(x))
    assert custom["double backward"] == "agrees" and custom["forward (jvp)"] == "unavailable"


def test_a_check_imports_nothing_of_torch_that_takes_longer_than_itself() -> None:
    code = """
import sys, gradcli, torch
from torch.nn import functional as F

def loss(x):
    h = F.layer_norm(F.gelu(x), (4,))
    error = F.mse_loss(h, x) + F.huber_loss(h, x) + F.smooth_l1_loss(h, x) + F.binary_cross_entropy(h.sigmoid(), x)
    return F.cross_entropy(F.group_norm(h, 2), torch.tensor([0, 3, 1])) + error

before = set(sys.modules)
print(gradcli.check(loss, {"x": torch.linspace(0.1, 0.9, 12).sqrt().reshape(3, 4)}).verdict)
print(*(name for name in sorted(set(sys.modules) - before) if name.split(".")[0] in ("torch", "sympy", "mpmath")))
"""
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["pass"], ran.stdout


def test_a_norm_of_single_entries_is_right_up_to_rounding() -> None:
    x = torch.tensor([[0.3, -0.7, 1.2], [0.1, 0.45, -0.9]], dtype=torch.float64)
    at = {"x": x, "a": torch.tensor([1.1, 0.3, -0.7], dtype=torch.float64), "b": torch.zeros(3, dtype=torch.float64)}
    report = library.check(lambda x, a, b: (torch.nn.functional.group_norm(x, 3, a, b) * x.detach().cos()).sum(), at)
    assert report.exit_status == 0, str(report)


@pytest.mark.parametrize("seed", range(4))
def test_torchs_own_norms_in_float32_are_as_exact_as_their_formula(seed: int) -> None:
    draw = np.random.default_rng(seed)
    at = {name: torch.tensor(draw.normal(size=shape)) for name, shape in (("x", (2, 6, 4)), ("a", 6), ("b", 6))}
    report = library.check(lambda x, a, b: torch.nn.functional.group_norm(x, 3, a, b).sin().sum(), at, dtype="float32")
    assert not [f for f in report.points[0].findings if f.kind == "inaccurate"], str(report)


class Generated(torch.autograd.Function):  # type: ignore[misc]
    """An exponential, whose rule for vmap torch generates; its forward mode fails in torch itself."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x: Any) -> Any:
        return x.exp()

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.save_for_backward(output)

    @staticmethod
    def backward(ctx: Any, ybar: Any) -> Any:
        return ybar * ctx.saved_tensors[0]


def test_a_forward_mode_that_fails_in_torch_itself_is_unavailable() -> None:
    x = torch.tensor([0.3, -0.7], dtype=torch.float64)
    report = library.check(lambda x: torch.func.vmap(Generated.apply)(x).pow(2).sum(), {"x": x})
    assert report.verdict == "pass", str(report)
    assert [a.status for a in report.native.aspects if a.name == "forward (jvp)"] == ["unavailable"]
