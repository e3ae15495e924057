"""autograd-gamma: incomplete gamma and beta functions with vector-Jacobian products of their own, for autograd."""

import autograd
from autograd_gamma import betainc, betaincinv, gammainc, gammaincc, gammaincinv, gammaincln

from tests.packages.cases import Case, negated, scaled

A, B, X = 1.7, 2.2, 0.4


def lower(x):
    return gammainc(A, x)


def upper(x):
    return gammaincc(A, x)


def inverse(x):
    return gammaincinv(A, x)


def logarithm(x):
    return gammaincln(A, x)


def beta(x):
    return betainc(A, B, x)


def beta_inverse(x):
    return betaincinv(A, B, x)


CASES = [
    Case("gammainc", lower, (X,), autograd.grad(lower), scaled(autograd.grad(lower), 1 / X), glue=2),
    Case("gammaincc", upper, (X,), autograd.grad(upper), negated(autograd.grad(upper)), glue=2),
    Case("gammaincinv", inverse, (X,), autograd.grad(inverse), lambda y: 1 / autograd.grad(inverse)(y), glue=2, ended_by="gammaincinv has no derivative rule"),
    Case("gammaincln", logarithm, (X,), autograd.grad(logarithm), scaled(autograd.grad(logarithm), gammainc(A, X)), glue=2),
    Case("betainc", beta, (X,), autograd.grad(beta), lambda x: autograd.grad(beta)(1 - x), glue=2),
    Case("betaincinv", beta_inverse, (X,), autograd.grad(beta_inverse), negated(autograd.grad(beta_inverse)), glue=2, ended_by="betaincinv has no derivative rule"),
]  # fmt: skip
