"""Fourier transforms of real and complex values, with every option, against numpy and every other witness."""

from typing import Any

import numpy as np
import pytest

from gradcli.arithmetic.recorded_program import record, vjp
from gradcli.errors import NoRule
from gradcli.modes.symbolic_worker import Symbol
from gradcli.rules import fourier
from gradcli.tracing.primitive import HANDLERS
from tests.rows import for_rows
from tests.rules.agreement import Function, Shapes, check_function, drawn

F = np.fft
ROUNDING = 1e-13  # transforms of at most 24 entries
V1, V4, V5, V6, M, K = (1,), (4,), (5,), (6,), (3, 4), (2, 3, 4)


def flat(z: Any) -> Any:
    """Return real and imaginary parts side by side."""
    return np.concatenate([np.ravel(z.real), np.ravel(z.imag)])


def mixed(x: Any) -> Any:
    """Return complex values made of real ones."""
    return x * np.exp(1j * x[::-1]) + 2j


# fmt: off
#    name                   function of arrays                                                  shapes
TABLE: tuple[tuple[str, Function, Shapes], ...] = (
    ("fft",                 lambda x: flat(F.fft(x)),                                           (V5,)),
    ("fft of one",          lambda x: flat(F.fft(x)),                                           (V1,)),
    ("fft longer",          lambda x: flat(F.fft(x, 7)),                                        (V4,)),
    ("fft shorter",         lambda x: flat(F.fft(x, n=3)),                                      (V5,)),
    ("fft axis",            lambda x: flat(F.fft(x, axis=0)),                                   (M,)),
    ("fft axis longer",     lambda x: flat(F.fft(x, 5, axis=1)),                                (K,)),
    ("fft ortho",           lambda x: flat(F.fft(x, norm="ortho")),                             (V6,)),
    ("fft forward",         lambda x: flat(F.fft(x, norm="forward")),                           (V6,)),
    ("fft of complex",      lambda x: flat(F.fft(mixed(x))),                                    (V5,)),
    ("fft of imaginary",    lambda x: flat(F.fft(1j * x)),                                      (V5,)),
    ("fft times complex",   lambda x: flat(F.fft(x) * np.array([1j, 2.0, 1 - 1j, 0.0])),        (V4,)),
    ("ifft",                lambda x: flat(F.ifft(x)),                                          (V5,)),
    ("ifft of complex",     lambda x: flat(F.ifft(mixed(x), norm="ortho")),                     (V5,)),
    ("ifft forward",        lambda x: flat(F.ifft(mixed(x), n=6, norm="forward")),              (V5,)),
    ("there and back",      lambda x: F.ifft(F.fft(x)).real,                                    (V6,)),
    ("rfft even",           lambda x: flat(F.rfft(x)),                                          (V6,)),
    ("rfft odd",            lambda x: flat(F.rfft(x, norm="ortho")),                            (V5,)),
    ("rfft shorter",        lambda x: flat(F.rfft(x, 3, axis=0)),                               ((4, 2),)),
    ("irfft even",          lambda x: F.irfft(mixed(x)),                                        (V4,)),
    ("irfft odd",           lambda x: F.irfft(mixed(x), n=7),                                   (V4,)),
    ("irfft shorter",       lambda x: F.irfft(mixed(x), n=4, norm="ortho"),                     (V5,)),
    ("irfft longer",        lambda x: F.irfft(mixed(x), n=12, norm="forward"),                  (V4,)),
    ("irfft of real",       lambda x: F.irfft(x, axis=0),                                       (M,)),
    ("irfft of imaginary",  lambda x: F.irfft(1j * x),                                          (V5,)),
    ("rfft and back",       lambda x: F.irfft(F.rfft(x) * np.array([1.0, 2j, 3.0]), 5),         (V5,)),
    ("hfft",                lambda x: F.hfft(mixed(x)),                                         (V5,)),
    ("hfft ortho",          lambda x: F.hfft(mixed(x), 7, norm="ortho"),                        (V4,)),
    ("hfft forward",        lambda x: F.hfft(mixed(x), norm="forward"),                         (V4,)),
    ("ihfft",               lambda x: flat(F.ihfft(x)),                                         (V6,)),
    ("ihfft ortho",         lambda x: flat(F.ihfft(x, 5, norm="ortho")),                        (V6,)),
    ("fft2",                lambda x: flat(F.fft2(x)),                                          (K,)),
    ("fft2 shaped",         lambda x: flat(F.fft2(x, s=(2, 5), norm="ortho")),                  (M,)),
    ("ifft2",               lambda x: flat(F.ifft2(x, axes=(0, 1))),                            (K,)),
    ("fftn",                lambda x: flat(F.fftn(x)),                                          (K,)),
    ("fftn axes",           lambda x: flat(F.fftn(x, s=(3, -1), axes=(0, 2))),                  (K,)),
    ("ifftn",               lambda x: flat(F.ifftn(x, norm="forward")),                         (M,)),
    ("rfft2",               lambda x: flat(F.rfft2(x)),                                         (M,)),
    ("irfft2",              lambda x: F.irfft2(F.rfft2(x) * 1j),                                (M,)),
    ("rfftn",               lambda x: flat(F.rfftn(x, axes=(2, 0))),                            (K,)),
    ("irfftn",              lambda x: F.irfftn(F.fftn(x), s=(3, 5), axes=(0, 2)),               (K,)),
    ("fftshift",            lambda x: F.fftshift(x) * np.arange(12.0).reshape(3, 4),            (M,)),
    ("fftshift axes",       lambda x: F.fftshift(x, axes=1),                                    (M,)),
    ("ifftshift",           lambda x: F.ifftshift(x, axes=(0, 2)),                              (K,)),
    ("fftshift of complex", lambda x: flat(F.fftshift(F.fft(x))),                               (V5,)),
    ("power spectrum",      lambda x: np.abs(F.rfft(x)) ** 2,                                   (V6,)),
    ("amplitudes",          lambda x: np.abs(F.fft(x)),                                         (V5,)),
    ("phases",              lambda x: np.angle(F.fft(x))[1:],                                   (V5,)),
    ("convolution",         lambda x, y: F.irfft(F.rfft(x, 8) * F.rfft(y, 8), 8),               (V4, V5)),
    ("correlation",         lambda x, y: F.ifft(F.fft(x) * np.conj(F.fft(y))).real,             (V5, V5)),
    ("derivative",          lambda x: F.ifft(2j * np.pi * F.fftfreq(6) * F.fft(x)).real,        (V6,)),
    ("filter",              lambda x: F.irfft(F.rfft(x) / (1 + 1j * F.rfftfreq(6)), 6),         (V6,)),
)
# fmt: on


@for_rows(("f", "shapes"), [pytest.param(f, shapes, id=name) for name, f, shapes in TABLE], parts=3)
def test_every_witness_agrees(f: Function, shapes: Shapes) -> None:
    check_function(f, shapes, ROUNDING)


def test_every_public_function_of_fft_is_declared_or_takes_no_values() -> None:
    assert {name for name in F.__all__ if getattr(F, name) not in HANDLERS} == {"fftfreq", "rfftfreq"}


@for_rows("n", [1, 2, 3, 8])
@for_rows("row", [fourier.DFT_COS, fourier.DFT_SIN])
def test_the_matrices_are_symmetric_and_symbols_have_them_exactly(row: Any, n: int) -> None:
    matrix = np.stack([row(e, axis=0) for e in np.eye(n)])
    np.testing.assert_allclose(matrix, matrix.T, atol=1e-15 * n)
    exact = np.stack([np.array(row(Symbol.lift(e), axis=0).value, dtype=float) for e in np.eye(n)])
    np.testing.assert_allclose(matrix, exact, atol=1e-15 * n)


def test_complex_steps_are_told_that_a_transform_back_drops_imaginary_parts() -> None:
    for f in (lambda x: F.irfft(F.rfft(x)), lambda x: F.ifft(F.fft(x)).real, lambda x: np.abs(F.fft(x))):
        tape = record(f, drawn(1, (V4,)))[2]
        assert any(line[0] is not None and not line[0].analytic for line in tape.lines)


REFUSED = [
    (lambda x: F.rfft(1j * x), NoRule, "rfft of complex values"),
    (lambda x: F.fft(x, norm="orto"), ValueError, "Invalid norm"),
    (lambda x: F.fft(x, 0), ValueError, "Invalid number of FFT data points"),
    (lambda x: F.fftn(x, s=(2, 3), axes=(0,)), ValueError, "Shape and axes have different lengths"),
]


@for_rows(("f", "error", "says"), REFUSED)
def test_what_is_refused_says_why(f: Function, error: type[Exception], says: str) -> None:
    with pytest.raises(error, match=says):
        vjp(f, drawn(1, (M,)))
