"""Signals: spectra, filters, windows and resampling."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

rng = np.random.default_rng(5)
TAPS = np.array([0.2, 0.5, 0.2, -0.1])


def power_spectrum(x):
    """Weighted power in the bands of a windowed signal."""
    spectrum = np.fft.rfft(x * np.hanning(len(x)))
    power = np.abs(spectrum) ** 2 / len(x)
    frequencies = np.fft.rfftfreq(len(x))
    return (power * frequencies).sum() / power.sum()


def spectral_entropy(x):
    """Entropy of the normalised spectrum."""
    z = np.fft.fft(x)
    p = z.real**2 + z.imag**2
    p = p / p.sum()
    return -np.sum(p * np.log2(p + 1e-12))


def fir(x):
    """Convolution with taps, three modes."""
    full, same, valid = (np.convolve(x, TAPS, mode) for mode in ("full", "same", "valid"))
    return np.sum(full**2) + same @ x + valid.mean()


def learned_filter(x, taps):
    """Mean squared output of a filter that is itself a parameter."""
    y = np.convolve(x, taps[::-1], mode="valid")
    return np.mean((y - x[: len(y)]) ** 2)


def moving_windows(x):
    """Sliding windows: variance in each."""
    windows = sliding_window_view(x, 3)
    return np.sum(windows.var(axis=-1) * windows.max(axis=-1))


def moving_windows_by_index(x):
    """The same windows by fancy indices."""
    index = np.arange(3)[None, :] + np.arange(len(x) - 2)[:, None]
    return np.sum(np.std(x[index], axis=1))


def iir(x, a):
    """A recursive filter in a loop."""
    y = np.zeros_like(x)
    for n in range(len(x)):
        y[n] = x[n]
        for k in range(min(n, len(a))):
            y[n] -= a[k] * y[n - k - 1]
    return np.mean(y**2)


def autocorrelation(x):
    """Normalised autocorrelation at two lags."""
    x = x - np.mean(x)
    r = np.correlate(x, x, mode="full")[len(x) - 1 :]
    return r[1] / r[0] - 0.5 * r[2] / r[0]


def haar(x):
    """Energy of the details of a Haar wavelet, level by level, in place."""
    work = x.astype(float)
    n = len(work)
    energy = 0.0
    while n > 1:
        a = (work[0:n:2] + work[1:n:2]) / np.sqrt(2)
        d = (work[0:n:2] - work[1:n:2]) / np.sqrt(2)
        n //= 2
        work[:n], work[n : 2 * n] = a, d
        energy += n * np.sum(d**2)
    return energy + work[0]


def stft_energy(x, size=4, hop=2):
    """Short-time Fourier transform in a list comprehension."""
    frames = [x[i : i + size] * np.hamming(size) for i in range(0, len(x) - size + 1, hop)]
    S = np.abs(np.fft.rfft(np.array(frames), axis=1))
    return np.log1p(S).sum()


def total_variation(image, eps=1e-3):
    """Smoothed isotropic total variation."""
    dy, dx = np.diff(image, axis=0)[:, :-1], np.diff(image, axis=1)[:-1, :]
    return np.sum(np.sqrt(dx**2 + dy**2 + eps))


def image_gradient(image):
    """np.gradient in both directions."""
    gy, gx = np.gradient(image)
    return np.sum(gx**2 * np.abs(gy))


def resampled(x, t):
    """Linear interpolation at times that are inputs."""
    grid = np.linspace(0, 1, len(x))
    return np.interp(t, grid, x) @ np.array([1.0, -2.0])


def trapezoid_area(y, x):
    """Area below samples at uneven times."""
    return np.trapezoid(y, x) + np.trapezoid(np.cumsum(y) ** 2, dx=0.1)


def goertzel(x, frequency):
    """Power at one frequency by Goertzel's recursion."""
    coefficient = 2 * np.cos(2 * np.pi * frequency)
    s_prev = s_prev2 = 0
    for sample in x:
        s_prev, s_prev2 = sample + coefficient * s_prev - s_prev2, s_prev
    return s_prev**2 + s_prev2**2 - coefficient * s_prev * s_prev2


def lms(x, mu):
    """Error of an adaptive filter whose weights are updated in place."""
    w = np.zeros(2)
    error = 0.0
    for n in range(2, len(x)):
        past = x[n - 2 : n]
        e = x[n] - w @ past
        w += mu * e * past
        error += e**2
    return error


def envelope(x):
    """Envelope by the analytic signal, made with the fft."""
    X = np.fft.fft(x)
    h = np.zeros(len(x))
    h[0] = h[len(x) // 2] = 1
    h[1 : len(x) // 2] = 2
    return np.abs(np.fft.ifft(X * h)).sum()


def soft_threshold(x, threshold):
    """Shrinkage by np.select and by np.piecewise."""
    selected = np.select([x > threshold, x < -threshold], [x - threshold, x + threshold], 0.0)
    pieces = np.piecewise(x, [x < 0, x >= 0], [lambda v: -(v**3), lambda v: v**2])
    return np.sum(selected**2) + pieces.sum()


def polynomial_trend(x):
    """Detrended by a fitted polynomial."""
    t = np.arange(len(x)) / len(x)
    V = np.vander(t, 3)
    coefficients, *_ = np.linalg.lstsq(V, x, rcond=None)
    return np.sum((x - V @ coefficients) ** 2) + np.polyval(coefficients, 1.5)


def blurred(image, sigma):
    """Separable Gaussian blur with apply_along_axis."""
    t = np.arange(-1, 2)
    kernel = np.exp(-0.5 * (t / sigma) ** 2)
    kernel /= kernel.sum()
    rows = np.apply_along_axis(lambda r: np.convolve(r, kernel, mode="same"), 1, image)
    return np.sum(rows**2)


def chirp_phase(parameters):
    """Mixing with a complex exponential written in real and imaginary parts."""
    amplitude, f0, rate = parameters
    t = np.linspace(0, 1, 8)
    phase = 2 * np.pi * (f0 * t + 0.5 * rate * t**2)
    i, q = amplitude * np.cos(phase), amplitude * np.sin(phase)
    return np.hypot(i.mean(), q.mean()) + np.arctan2(q[1], i[1])


POINTS = {
    power_spectrum: {"x": rng.normal(size=8)},
    spectral_entropy: {"x": rng.normal(size=6)},
    fir: {"x": rng.normal(size=6)},
    learned_filter: {"x": rng.normal(size=7), "taps": rng.normal(size=3)},
    moving_windows: {"x": rng.normal(size=5)},
    moving_windows_by_index: {"x": rng.normal(size=5)},
    iir: {"x": rng.normal(size=5), "a": np.array([-0.5, 0.2])},
    autocorrelation: {"x": rng.normal(size=6)},
    haar: {"x": rng.normal(size=8)},
    stft_energy: {"x": rng.normal(size=8)},
    total_variation: {"image": rng.normal(size=(3, 4))},
    image_gradient: {"image": rng.normal(size=(3, 4))},
    resampled: {"x": rng.normal(size=5), "t": np.array([0.31, 0.77])},
    trapezoid_area: {"y": rng.normal(size=4), "x": np.array([0.0, 0.3, 0.5, 1.1])},
    goertzel: {"x": rng.normal(size=6), "frequency": 0.17},
    lms: {"x": rng.normal(size=6), "mu": 0.1},
    envelope: {"x": rng.normal(size=8)},
    soft_threshold: {"x": np.array([0.7, -0.2, 0.1, -1.3]), "threshold": 0.4},
    polynomial_trend: {"x": rng.normal(size=5)},
    blurred: {"image": rng.normal(size=(2, 4)), "sigma": 0.8},
    chirp_phase: {"parameters": np.array([0.8, 1.3, 0.7])},
}
