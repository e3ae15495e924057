"""What is found of functions of frameworks alone; the examples are of torch."""

from gradcli.reports.explain import Example, Explanation
from gradcli.words import DiagnosisKind, Kind

_ACCUMULATES = """\
import torch

w = torch.zeros(2, dtype=torch.float64, requires_grad=True)


def f(x):
    return torch.sum(x**3)


def g(x):
    with torch.no_grad():
        w.copy_(x)
    f(w).backward()
    return w.grad
"""
_UNLIKE_REFERENCE = """\
import torch


def plain(x):
    return (x * x).sum(-1)


def fast(x):
    pairs = x.shape[-1] // 2 * 2
    return (x * x)[:, :pairs].sum(-1)
"""

_OTHER_DERIVATIVE = """\
import torch


class Square(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        ctx.save_for_forward(x)
        return x**2

    @staticmethod
    def backward(ctx, ybar):
        (x,) = ctx.saved_tensors
        return 2 * x * ybar

    @staticmethod
    def jvp(ctx, xdot):
        (x,) = ctx.saved_tensors
        return x * xdot


def f(x):
    return torch.sum(Square.apply(x))
"""
_INNER_GRADIENT = """\
import torch


class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return 2 * x

    @staticmethod
    def backward(ctx, ybar):
        return ybar


def f(x):
    return torch.sum(x + 0 * Twice.apply(x))
"""
_MODULE = """\
import torch

f = torch.nn.Sequential(torch.nn.Linear(2, 3), torch.nn.Dropout(0.5))
"""
_CUT = """\
import torch


def f(x: torch.Tensor):
    return x.sum().item() * x.sum()
"""
_MASKED_NAN = """\
import torch


def f(x):
    return torch.sum(torch.where(x > 0.5, torch.sqrt(x), 2 * x))
"""
_STRAIGHT_THROUGH = """\
import torch


class Quantise(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return torch.round(x)

    @staticmethod
    def backward(ctx, ybar):
        return ybar


def f(x):
    return torch.sum(Quantise.apply(x) * torch.sin(x))
"""
_STOP_GRADIENT = """\
import torch


def f(x):
    return torch.sum(x * torch.exp(x).detach())
"""
_TOO_INEXACT = """\
import torch


def f(x):
    return (1e-6 * torch.sin(x) ** 2).mean()
"""

PREVENT = (
    Explanation(
        Kind.ACCUMULATES,
        group="prevents a pass",
        summary="each call of the claim adds to the one before",
        meaning=(
            "In torch, backward() adds to .grad. The claim returns .grad without setting it to zero first: the first "
            "call is right, the second twice as large."
        ),
        do="Set it to zero before each call: optimizer.zero_grad(), or x.grad = None.",
        example=Example(
            'gradcli check f.py:f "x=[1, 2]" --grad g',
            ("FAIL  f.py:f: each call adds its gradient to that of earlier calls: .grad is not set to zero",),
            file=_ACCUMULATES,
            needs="torch",
        ),
    ),
    Explanation(
        Kind.OTHER_DERIVATIVE,
        group="prevents a pass",
        summary="a framework's other derivative is wrong",
        meaning=(
            "Beside the gradient, gradcli looks at what else the framework offers: the forward mode, a second run, "
            "other memory layouts, vmap, loss scaling, and for a narrow format the same code in a wider one. One of these "
            "is wrong, while the gradient itself was not shown to be. Most often a custom function has a wrong jvp, or a "
            "backward pass that works for one layout only."
        ),
        do=(
            "Correct the rule that the message names. The table below the finding shows each derivative with its "
            "difference."
        ),
        example=Example(
            'gradcli check f.py:f "x=[1, 2]"',
            ("FAIL  f.py:f: forward (jvp): it is wrong",),
            file=_OTHER_DERIVATIVE,
            needs="torch",
        ),
    ),
    Explanation(
        Kind.UNLIKE_REFERENCE,
        group="prevents a pass",
        summary="an implementation differs from its reference",
        meaning=(
            "With --reference, value and gradient of an implementation are compared with those of another one, also where "
            "kernels go wrong: at a second call, with inputs that are not contiguous, with outputs prefilled with nan, at other "
            "sizes. One of these differs by more than rounding. The table at the end of the report has a row for each."
        ),
        do="Correct what the row names.",
        example=Example(
            'gradcli check f.py:fast --reference f.py:plain "x=randn(4, 6)"',
            ("FAIL  f.py:fast: an odd length, 5 for 6: the gradient by x is off by 1e+00",),
            file=_UNLIKE_REFERENCE,
            needs="torch",
        ),
    ),
    Explanation(
        Kind.INNER_GRADIENT,
        group="prevents a pass",
        summary="a custom gradient is not the derivative",
        meaning=(
            "Each custom backward pass inside a framework's function is checked alone, at the values that it was called with; "
            "with --localise each module, too. This one is not the derivative of its forward, although the whole gradient is "
            "not wrong. Where the inputs cannot move its arguments in the directions in which it differs, as behind a softmax, "
            "this is a note. One that is the same for every cotangent is wrong."
        ),
        do=(
            "Correct the backward pass that the message names, or leave a convention as it is. To see it fail alone, check it "
            "as a target of its own. To count this as success, add --allow inner-gradient."
        ),
        example=Example(
            'gradcli check f.py:f "x=[1, 2]"',
            ("INCONCLUSIVE  f.py:f: Twice: its own gradient is not the derivative of its forward",),
            file=_INNER_GRADIENT,
            needs="torch",
        ),
    ),
)

INFORM = (
    Explanation(
        Kind.MODULE,
        group="informs",
        summary="in which mode a module was checked",
        meaning=(
            "The module has layers that differ between training and evaluation, such as dropout and batch "
            "normalization. It was checked in the mode in which it was handed over."
        ),
        do="Nothing. For the other mode, call model.eval() or model.train() before.",
        example=Example(
            'gradcli check f.py:f "input=[1, 2]"',
            (
                "PASS  f.py:f: torch's gradient is right to better than 3e-12",
                "module: checked in training mode, as it was handed over",
            ),
            file=_MODULE,
            needs="torch",
        ),
    ),
    Explanation(
        Kind.CUT,
        group="informs",
        summary="a value left the framework's graph",
        meaning=(
            "A line takes a number out of a tensor, as .item(), float() or detach() do. What depends on it has no "
            "gradient for the framework, although the function's value changes with it. It is reported where the "
            "gradient is not confirmed, because it is a likely reason."
        ),
        do="Keep the value as a tensor. If the cut is meant, add --expect stop-gradient.",
        example=Example(
            'gradcli check f.py:f "x=[1, 2]"',
            (
                "FAIL  f.py:f: torch's gradient is wrong in 2 of 2 entries",
                "cut: a number is taken out of a tensor here (.item(), float(), an if): what depends on it has ...",
            ),
            file=_CUT,
            needs="torch",
        ),
    ),
    Explanation(
        Kind.MASKED_NAN,
        group="informs",
        summary="a masked value makes the gradient nan",
        meaning=(
            "A choice such as where(...) discards a value that is nan or infinite, so that the result is finite. The "
            "backward pass multiplies the infinite slope of the discarded side by 0, which is nan."
        ),
        do="Make the masked side safe before the operation: where(x > 0, sqrt(where(x > 0, x, 1)), 0).",
        example=Example(
            'gradcli check f.py:f "x=[4, 0]"',
            (
                "FAIL  f.py:f: torch's gradient is wrong in 1 of 2 entries",
                "masked-nan: a choice such as where(...) hides a value that is not finite, but its gradient is 0 ...",
            ),
            file=_MASKED_NAN,
            needs="torch",
        ),
    ),
    Explanation(
        Kind.STRAIGHT_THROUGH,
        group="informs",
        summary="a surrogate was checked in place of a step",
        meaning=(
            "--expect straight-through says that a step, such as rounding, passes its gradient through on purpose. "
            "The gradient is compared with that of a smooth function which replaces the step; the message names it."
        ),
        do="Nothing.",
        example=Example(
            'gradcli check f.py:f "x=[0.3, 1.2]" --expect straight-through',
            (
                "PASS  f.py:f: torch's gradient is right to better than 3e-12",
                "straight-through: aten.round passes the gradient through; the surrogate is checked",
            ),
            file=_STRAIGHT_THROUGH,
            needs="torch",
        ),
    ),
    Explanation(
        Kind.STOP_GRADIENT,
        group="informs",
        summary="what is detached was held constant",
        meaning=(
            "--expect stop-gradient says that values are detached on purpose. They are held constant at the point, "
            "and the gradient is compared with that of the remaining function."
        ),
        do="Nothing.",
        example=Example(
            'gradcli check f.py:f "x=[1, 2]" --expect stop-gradient',
            (
                "PASS  f.py:f: torch's gradient is right to better than 2e-12",
                "stop-gradient: aten.detach is held constant",
            ),
            file=_STOP_GRADIENT,
            needs="torch",
        ),
    ),
)

MISTAKES = (
    Explanation(
        DiagnosisKind.TOO_INEXACT,
        group="mistake",
        summary="the format has no right digit of the gradient",
        meaning=(
            "A framework's gradient in a narrow format has no right digit, although the same code is right in a wider one: "
            "its entries underflow to 0, or its rounding errors are as large as the gradient."
        ),
        do="Scale the loss, or compute the backward pass in a wider format.",
        example=Example(
            'gradcli check f.py:f "x=linspace(0.5, 1, 50)" --dtype float16',
            (
                "FAIL  f.py:f: torch's gradient is wrong in",
                "Likely mistake: every entry underflows to 0 in float16: scale the loss",
            ),
            file=_TOO_INEXACT,
            needs="torch",
        ),
    ),
)
