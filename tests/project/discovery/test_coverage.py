"""Which gradients declared checks cover: claims are resolved by reading to definitions."""

from pathlib import Path

import pytest

from tests.project.discovery.reading import found
from tests.rows import for_rows

LOSSES = """import numpy as np
def focal(z, g=2.0): return np.sum(z**g)
def focal_grad(z, g=2.0): return g * z ** (g - 1)
def focal_hess(z, g=2.0): return z
def both(z):
    loss, grad = z @ z, 2 * z
    return loss, grad
"""
MODELS = """from .losses import focal_grad as fg
import pkg.losses
class Base:
    def loglike(self, b): return b @ b
    def score(self, b): return 2 * b
class Poisson(Base):
    def hessian(self, b): return 2 + 0 * b
counts = Poisson()
table = {}
"""
LAYERS = """import torch
class Soft(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x): return x
    @staticmethod
    def backward(ctx, g): return g * 2
def soft(x): return Soft.apply(x)
def other(x): return x
short = Soft.apply
"""
RULES = """import jax
@jax.custom_vjp
def f(x): return x
def fwd(x): return x, x
def bwd(x, g): return (g * 2,)
f.defvjp(fwd, bwd)
"""
PASSES = """
class Tanh:
    def forward(self, x): return x * x
    def backward(self, g): return 2 * g * self.x
tanh = Tanh()
"""
FILES = {
    "src/pkg/passes.py": PASSES,
    "src/pkg/__init__.py": "", "src/pkg/losses.py": LOSSES, "src/pkg/models.py": MODELS, "src/pkg/layers.py": LAYERS,
    "src/pkg/rules.py": RULES,
}  # fmt: skip

# fmt: off
COVERED = [  # a target, its claims, and what they cover
    (("src/pkg/losses.py:focal", "focal_grad"),                          {"focal_grad"}),
    (("src/pkg/losses.py:focal", "focal_grad", "focal_hess"),            {"focal_grad", "focal_hess"}),
    (("pkg.losses:focal", "focal_grad"),                                 {"focal_grad"}),
    (("sum(x**2)", "src/pkg/losses.py:focal_grad"),                      {"focal_grad"}),
    (("sum(x**2)", "pkg.losses:focal_grad"),                             {"focal_grad"}),
    (("src/pkg/models.py:counts.loglike", "counts.score"),               {"Base.score"}),
    (("pkg.models:counts.loglike", "counts.score", "counts.hessian"),    {"Base.score", "Poisson.hessian"}),
    (("pkg.models:counts.loglike", "fg"),                                {"focal_grad"}),
    (("pkg.models:counts.loglike", "pkg.losses.focal_grad"),             {"focal_grad"}),
    (("src/pkg/passes.py:Tanh",),                                        {"Tanh.backward"}),
    (("pkg.passes:tanh",),                                               {"Tanh.backward"}),
    (("pkg.passes:tanh.forward",),                                       set()),
    (("src/pkg/models.py:Poisson().loglike", "score"),                   {"Base.score"}),
    (("src/pkg/models.py:Poisson(3, randn(2)).loglike", "score", "hessian"), {"Base.score", "Poisson.hessian"}),
    (("pkg.models:counts.loglike", "score"),                             {"Base.score"}),
    (("pkg.models:Poisson.loglike", "fg"),                               {"focal_grad"}),
    (("src/pkg/losses.py:both",),                                        {"both"}),
    (("src/pkg/losses.py:focal",),                                       set()),
    (("src/pkg/losses.py:focal", "g*z**(g-1)"),                          set()),
    (("src/pkg/losses.py:focal", "no_such_grad"),                        set()),
    (("src/pkg/nowhere.py:focal", "focal_grad"),                         set()),
    (("src/pkg/models.py:table.loglike", "table.score"),                 set()),
    (("a b:c d", "x:y:z", ""),                                           set()),
    (("src/pkg/layers.py:Soft",),                                        {"Soft"}),
    (("src/pkg/layers.py:soft",),                                        {"Soft"}),
    (("pkg.layers:short",),                                              {"Soft"}),
    (("src/pkg/layers.py:other",),                                       set()),
    (("src/pkg/rules.py:f",),                                            {"bwd"}),
]
# fmt: on


@for_rows(("check", "covers"), COVERED, ids=lambda x: " ".join(x) if isinstance(x, tuple) else "")
def test_a_check_covers_what_it_names(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, check: tuple, covers: set
) -> None:
    monkeypatch.chdir(tmp_path)
    gradients = found(tmp_path, FILES, ("src",), ("it", *check))
    assert {g["name"] for g in gradients if g["checked_by"] == ("it",)} == covers
    assert {g["name"] for g in gradients if g["checked_by"]} == covers


def test_checks_are_named_in_the_order_of_the_suite(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    check = ("src/pkg/losses.py:focal", "focal_grad")
    gradients = found(tmp_path, FILES, ("src/pkg/losses.py",), ("b", *check), ("a", *check))
    assert next(g for g in gradients if g["name"] == "focal_grad")["checked_by"] == ("b", "a")


def test_a_target_outside_of_the_paths_is_read_and_not_listed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    gradients = found(tmp_path, FILES, ("src/pkg/losses.py",), ("it", "src/pkg/models.py:counts.loglike", "fg"))
    assert [(g["name"], g["checked_by"]) for g in gradients if g["checked_by"]] == [("focal_grad", ("it",))]
    assert {g["file"] for g in gradients} == {"src/pkg/losses.py"}
