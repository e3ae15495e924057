"""Signals and images: spectra, total variation, splines, filters."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(18)
WINDOW = np.hanning(18)[1:-1]
SPECTRUM = rng.uniform(-1, 2, size=16)
NOISY = np.add.outer(np.linspace(0, 1, 6), np.linspace(0, 2, 6)) + 0.3 * rng.normal(size=(6, 6))
KNOTS = rng.normal(size=12)
SERIES = np.cumsum(rng.normal(size=15))
FILTERED = rng.normal(size=14)
EPS = 1e-2
LAMBDA = 0.4


def spectral_loss(x):
    windowed = x * WINDOW
    transform = np.fft.fft(windowed)
    power = np.abs(transform) ** 2 / len(x)
    decibel = 10 * np.log10(power + EPS)
    error = decibel / 10 - SPECTRUM
    return np.mean(error**2)


def spectral_loss_gradient(x):
    windowed = x * WINDOW
    transform = np.fft.fft(windowed)
    power = np.abs(transform) ** 2 / len(x)
    decibel = 10 * np.log10(power + EPS)
    error = decibel / 10 - SPECTRUM
    derror = 2 * error / len(error)
    ddecibel = derror / 10
    dpower = ddecibel * 10 / ((power + EPS) * np.log(10))
    dtransform = 2 * dpower * transform / len(x)
    dwindowed = np.real(np.fft.ifft(dtransform)) * len(x)
    return dwindowed * WINDOW


def band_energy(x, centre):
    transform = np.fft.rfft(x)
    freq = np.arange(len(transform)) / len(x)
    gain = np.exp(-0.5 * ((freq - centre) / 0.1) ** 2)
    band = np.fft.irfft(gain * transform, len(x))
    energy = np.sum(band**2)
    return np.log(energy) + 0.1 * np.sum((x - band) ** 2)


def band_energy_gradient(x, centre):
    transform = np.fft.rfft(x)
    freq = np.arange(len(transform)) / len(x)
    gain = np.exp(-0.5 * ((freq - centre) / 0.1) ** 2)
    band = np.fft.irfft(gain * transform, len(x))
    energy = np.sum(band**2)
    dband = 2 * band / energy
    dx = 0.2 * (x - band)
    dband -= 0.2 * (x - band)
    # the filter is symmetric: what takes x to band also takes dband to dx
    spectrum = np.fft.rfft(dband)
    dx += np.fft.irfft(gain * spectrum, len(x))
    weight = np.full(len(freq), 2.0)
    weight[0] = weight[-1] = 1.0
    dgain = weight * np.real(np.conj(spectrum) * transform) / len(x)
    dcentre = np.sum(dgain * gain * (freq - centre)) / 0.1**2
    return dx, dcentre


def total_variation(image):
    right = image[:-1, 1:] - image[:-1, :-1]
    down = image[1:, :-1] - image[:-1, :-1]
    length = np.sqrt(right**2 + down**2 + EPS)
    fit = 0.5 * np.sum((image - NOISY) ** 2)
    return fit + LAMBDA * np.sum(length)


def total_variation_gradient(image):
    right = image[:-1, 1:] - image[:-1, :-1]
    down = image[1:, :-1] - image[:-1, :-1]
    length = np.sqrt(right**2 + down**2 + EPS)
    dimage = image - NOISY
    dlength = LAMBDA
    dright = dlength * right / length
    ddown = dlength * down / length
    dimage[:-1, 1:] += dright
    dimage[:-1, :-1] -= dright
    dimage[1:, :-1] += ddown
    dimage[:-1, :-1] -= ddown
    return dimage


def spline_energy(y, stiffness):
    velocity = np.diff(y)
    accel = np.diff(velocity)
    bending = stiffness * np.sum(accel**2)
    stretching = np.sum(np.sqrt(1 + velocity**2))
    fit = 0.5 * np.sum((y - KNOTS) ** 2)
    return fit + bending + 0.1 * stretching


def spline_energy_gradient(y, stiffness):
    velocity = np.diff(y)
    accel = np.diff(velocity)
    dy = y - KNOTS
    daccel = 2 * stiffness * accel
    dvelocity = 0.1 * velocity / np.sqrt(1 + velocity**2)
    dvelocity[1:] += daccel
    dvelocity[:-1] -= daccel
    dy[1:] += dvelocity
    dy[:-1] -= dvelocity
    dstiffness = np.sum(accel**2)
    return dy, dstiffness


def holt_winters(alpha, beta, level0, trend0):
    level, trend = level0, trend0
    sse = 0.0
    for value in SERIES:
        error = value - (level + trend)
        sse = sse + error**2
        last = level
        level = alpha * value + (1 - alpha) * (level + trend)
        trend = beta * (level - last) + (1 - beta) * trend
    return sse / len(SERIES)


def holt_winters_gradient(alpha, beta, level0, trend0):
    levels, trends = [level0], [trend0]
    for value in SERIES:
        levels.append(alpha * value + (1 - alpha) * (levels[-1] + trends[-1]))
        trends.append(beta * (levels[-1] - levels[-2]) + (1 - beta) * trends[-1])
    dalpha = dbeta = dlevel = dtrend = 0.0
    for t in reversed(range(len(SERIES))):
        forecast = levels[t] + trends[t]
        error = SERIES[t] - forecast
        dbeta += dtrend * (levels[t + 1] - levels[t] - trends[t])
        dlevel += dtrend * beta
        dlast = -dtrend * beta
        dbefore = dtrend * (1 - beta)
        dalpha += dlevel * (SERIES[t] - forecast)
        dforecast = dlevel * (1 - alpha)
        dforecast -= 2 * error / len(SERIES)
        dlevel = dlast + dforecast
        dtrend = dbefore + dforecast
    return dalpha, dbeta, dlevel, dtrend


def filter_fit(x, kernel):
    smooth = np.convolve(x, kernel, mode="valid")
    error = smooth - FILTERED
    gain = np.sum(kernel)
    return 0.5 * np.sum(error**2) + (gain - 1) ** 2


def filter_fit_gradient(x, kernel):
    smooth = np.convolve(x, kernel, mode="valid")
    error = smooth - FILTERED
    gain = np.sum(kernel)
    dsmooth = error
    dx = np.convolve(dsmooth, kernel[::-1], mode="full")
    dkernel = np.convolve(x[::-1], dsmooth, mode="valid")
    dkernel = dkernel + 2 * (gain - 1)
    return dx, dkernel


def autocorrelation(x, phi):
    centred = x - np.mean(x)
    c0 = np.mean(centred**2)
    c1 = np.mean(centred[1:] * centred[:-1])
    c2 = np.mean(centred[2:] * centred[:-2])
    rho = np.array([c1, c2]) / c0
    model = np.array([phi, phi**2])
    return np.sum((rho - model) ** 2) + 0.1 * np.log(c0)


def autocorrelation_gradient(x, phi):
    n = len(x)
    centred = x - np.mean(x)
    c0 = np.mean(centred**2)
    c1 = np.mean(centred[1:] * centred[:-1])
    c2 = np.mean(centred[2:] * centred[:-2])
    drho = 2 * (np.array([c1, c2]) / c0 - np.array([phi, phi**2]))
    dphi = -drho[0] - drho[1] * 2 * phi
    dc1, dc2 = drho / c0
    dc0 = -(drho[0] * c1 + drho[1] * c2) / c0**2
    dc0 += 0.1 / c0
    dcentred = dc0 * 2 * centred / n
    dcentred[1:] += dc1 * centred[:-1] / (n - 1)
    dcentred[:-1] += dc1 * centred[1:] / (n - 1)
    dcentred[2:] += dc2 * centred[:-2] / (n - 2)
    dcentred[:-2] += dc2 * centred[2:] / (n - 2)
    dx = dcentred - np.mean(dcentred)
    return dx, dphi


def normal(*shape):
    return rng.normal(size=shape)


CASES = (
    Case("power spectrum in decibels", spectral_loss, spectral_loss_gradient, {"x": normal(16)}, (
        Slip("slip", " * np.log(10))", ")"),
        Slip("slip", "np.real(np.fft.ifft(dtransform)) * len(x)", "np.real(np.fft.ifft(dtransform))"),
        Slip("swapped", "np.fft.ifft(dtransform)) * len(x)", "np.fft.fft(dtransform))"),
        Slip("slip", "2 * dpower * transform", "dpower * transform"),
        Slip("left-out", "dwindowed * WINDOW", "dwindowed"),
        Slip("negated", "decibel / 10 - SPECTRUM", "decibel / 10 + SPECTRUM"),
    )),
    Case("energy of a band", band_energy, band_energy_gradient, {"x": normal(14), "centre": 0.22}, (
        Slip("left-out", "    dband -= 0.2 * (x - band)\n", ""),
        Slip("overwritten", "dx += np.fft", "dx = np.fft"),
        Slip("slip", "2 * band / energy", "2 * band"),
        Slip("slip", "    weight[0] = weight[-1] = 1.0\n", ""),
        Slip("negated", "(freq - centre)) / 0.1**2", "(centre - freq)) / 0.1**2"),
        Slip("slip", "/ 0.1**2", "/ 0.1"),
    )),
    Case("total variation", total_variation, total_variation_gradient, {"image": NOISY + 0.1 * normal(6, 6)}, (
        Slip("axis", "dimage[1:, :-1] += ddown", "dimage[:-1, 1:] += ddown"),
        Slip("negated", "dimage[:-1, :-1] -= ddown", "dimage[:-1, :-1] += ddown"),
        Slip("left-out", "    dimage[:-1, :-1] -= dright\n", ""),
        Slip("overwritten", "dimage[:-1, 1:] += dright", "dimage[:-1, 1:] = dright"),
        Slip("term", "dimage = image - NOISY", "dimage = np.zeros_like(image)"),
        Slip("slip", "right / length", "right / (2 * length)"),
        Slip("swapped", "ddown = dlength * down", "ddown = dlength * right"),
    )),
    Case("spline energy", spline_energy, spline_energy_gradient, {"y": normal(12), "stiffness": 0.6}, (
        Slip("overwritten", "dvelocity[1:] += daccel", "dvelocity[1:] = daccel"),
        Slip("negated", "dvelocity[:-1] -= daccel", "dvelocity[:-1] += daccel"),
        Slip("term", "0.1 * velocity / np.sqrt(1 + velocity**2)", "np.zeros_like(velocity)"),
        Slip("slip", "0.1 * velocity / np.sqrt", "0.1 / np.sqrt"),
        Slip("broadcast", "dstiffness = np.sum", "dstiffness = np.mean"),
        Slip("swapped", "y - KNOTS", "KNOTS - y"),
    )),
    Case("Holt-Winters smoothing", holt_winters, holt_winters_gradient,
         {"alpha": 0.4, "beta": 0.3, "level0": 0.2, "trend0": -0.1}, (
        Slip("stale", "(levels[t + 1] - levels[t] - trends[t])", "(levels[t + 1] - levels[t] - trends[t + 1])"),
        Slip("stale", "forecast = levels[t] + trends[t]", "forecast = levels[t + 1] + trends[t + 1]"),
        Slip("stale", "dlevel = dlast + dforecast", "dlevel = dlevel + dforecast"),
        Slip("overwritten", "dlevel += dtrend", "dlevel = dtrend"),
        Slip("left-out", "    dlast = -dtrend * beta", "    dlast = 0.0"),
        Slip("negated", "dforecast -= 2", "dforecast += 2"),
        Slip("swapped", "dtrend * (1 - beta)", "dtrend * beta"),
        Slip("overwritten", "dalpha += dlevel", "dalpha = dlevel"),
    )),
    Case("fit of a filter", filter_fit, filter_fit_gradient, {"x": normal(18), "kernel": normal(5) / 2}, (
        Slip("slip", "kernel[::-1]", "kernel"),
        Slip("slip", "x[::-1], dsmooth", "x, dsmooth"),
        Slip("term", "    dkernel = dkernel + 2 * (gain - 1)\n", ""),
        Slip("swapped", "smooth - FILTERED", "FILTERED - smooth"),
        Slip("broadcast", "2 * (gain - 1)", "2 * (gain - 1) / len(kernel)"),
    )),
    Case("autocorrelation", autocorrelation, autocorrelation_gradient, {"x": SERIES + normal(15), "phi": 0.6}, (
        Slip("left-out", "dcentred - np.mean(dcentred)", "dcentred"),
        Slip("overwritten", "dcentred[1:] += dc1", "dcentred[1:] = dc1"),
        Slip("overwritten", "dc0 += 0.1", "dc0 = 0.1"),
        Slip("left-out", "    dcentred[:-2] += dc2 * centred[2:] / (n - 2)\n", ""),
        Slip("slip", "drho[1] * 2 * phi", "drho[1] * phi"),
        Slip("negated", "dc0 = -(drho", "dc0 = (drho"),
        Slip("term", "    dc0 += 0.1 / c0\n", ""),
    )),
)  # fmt: skip
