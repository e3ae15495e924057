"""Chemistry and biology: rates, equations of state and molecular geometry."""

from collections import namedtuple
from math import exp, sqrt

import numpy as np
import scipy.special

R = 8.314462618
FARADAY = 96485.33212
Species = namedtuple("Species", "concentration charge")
rng = np.random.default_rng(9)


def arrhenius(log_a, activation_energy, temperature):
    """Rate constant."""
    return exp(log_a) * exp(-activation_energy / (R * temperature))


def michaelis_menten(vmax, km, substrate, observed):
    """Sum of squares of a fit."""
    predicted = vmax * substrate / (km + substrate)
    return ((predicted - observed) ** 2).sum()


def hill_residuals(theta, doses):
    """A vector of responses, one for each dose."""
    bottom, top, log_ec50, slope = theta
    return bottom + (top - bottom) / (1 + 10 ** ((log_ec50 - np.log10(doses)) * slope))


def van_der_waals(volume, temperature, a=0.364, b=4.27e-5):
    """Pressure in bar."""
    return (R * temperature / (volume - b) - a / volume**2) / 1e5


def compressibility(pressure, temperature):
    """Redlich-Kwong's cubic by Newton from the vapour side."""
    A, B = 0.42748 * pressure / temperature**2.5, 0.08664 * pressure / temperature
    Z = 1.0
    for _ in range(60):
        f = Z**3 - Z**2 + (A - B - B**2) * Z - A * B
        Z_new = Z - f / (3 * Z**2 - 2 * Z + A - B - B**2)
        if abs(Z_new - Z) < 1e-15:
            break
        Z = Z_new
    return Z


def dihedral(coordinates):
    """Torsion angle of four atoms."""
    b = np.diff(coordinates, axis=0)
    n1, n2 = np.cross(b[0], b[1]), np.cross(b[1], b[2])
    m = np.cross(n1, b[1] / np.linalg.norm(b[1]))
    return np.arctan2(m @ n2, n1 @ n2)


def bond_angle_energy(coordinates, k=1.3, theta0=1.9):
    """Harmonic angle term."""
    u, v = coordinates[0] - coordinates[1], coordinates[2] - coordinates[1]
    cosine = np.dot(u, v) / (np.linalg.norm(u) * np.linalg.norm(v))
    return 0.5 * k * (np.arccos(cosine) - theta0) ** 2


def morse(r, depth, a, r0):
    """Morse potential."""
    return depth * (1 - np.exp(-a * (r - r0))) ** 2


def kinetics(rates, dt=0.05, steps=8):
    """A reaction network A -> B -> C with a backward path, by explicit Euler in place."""
    k1, k2, k3 = rates
    c = np.array([1.0, 0.0, 0.0])
    for _ in range(steps):
        flux = np.array([k1 * c[0], k2 * c[1], k3 * c[2] * c[1]])
        c[0] += dt * (flux[2] - flux[0])
        c[1] += dt * (flux[0] - flux[1])
        c[2] += dt * (flux[1] - flux[2])
    return c[1] * 2 + c[2]


def lotka_volterra(y0, parameters, dt=0.02, steps=10):
    """Predators and prey by Heun's method; the path is kept in a list."""
    alpha, beta, gamma, delta = (parameters[k] for k in ("alpha", "beta", "gamma", "delta"))

    def rhs(y):
        x, z = y
        return np.asarray([alpha * x - beta * x * z, delta * x * z - gamma * z])

    path = [np.asarray(y0)]
    for _ in range(steps):
        y = path[-1]
        k = rhs(y)
        path.append(y + dt / 2 * (k + rhs(y + dt * k)))
    return np.array(path)[:, 1].mean()


def ionic_strength(salts):
    """Debye-Hueckel with a list of named tuples."""
    strength = 0.5 * sum(s.concentration * s.charge**2 for s in salts)
    return 10 ** (-0.509 * sqrt(strength) / (1 + sqrt(strength)))


def nernst(inside, outside, temperature=310.0, z=1):
    """Membrane potential in millivolts."""
    return 1e3 * R * temperature / (z * FARADAY) * np.log(outside / inside)


def partition_function(levels, degeneracies, temperature):
    """Mean energy and entropy of levels."""
    p = scipy.special.softmax(np.log(degeneracies) - levels / temperature)
    energy = p @ levels
    entropy = scipy.special.entr(p).sum()
    return energy - temperature * entropy


def titration_ph(added, pka=4.76, acid=0.1):
    """pH of a weak acid from the charge balance, by bisected bracket and Newton in log space."""
    ka, kw = 10**-pka, 1e-14
    ph = 5.0
    for _ in range(50):
        h = 10**-ph
        balance = h + added - kw / h - acid * ka / (ka + h)
        slope = -np.log(10) * (h + kw / h + acid * ka * h / (ka + h) ** 2)
        step = balance / slope
        ph = ph - step
        if -1e-12 < step < 1e-12:
            break
    return ph


def sir_epidemic(beta, gamma):
    """Deaths of an SIR model: tuples updated in a loop, maximum of a list."""
    s, i, r = 0.99, 0.01, 0.0
    infected = []
    for _day in range(12):
        new, recovered = beta * s * i, gamma * i
        s, i, r = s - new, i + new - recovered, r + recovered
        infected.append(i)
    return max(infected) + 0.1 * r


def needleman(similarity, gap):
    """Smooth global alignment score with logaddexp."""
    n, m = similarity.shape
    F = np.zeros((n + 1, m + 1))
    for i in range(n + 1):
        F[i, 0] = -gap * i
    F[0, 1:] = -gap * np.arange(1, m + 1)
    for i in range(n):
        for j in range(m):
            F[i + 1, j + 1] = np.logaddexp(F[i, j] + similarity[i, j], np.logaddexp(F[i, j + 1], F[i + 1, j]) - gap)
    return F[-1, -1]


POINTS = {
    arrhenius: (3.0, 12000.0, 350.0),
    michaelis_menten: {
        "vmax": 2.0, "km": 0.7, "substrate": np.array([0.1, 0.5, 1.0, 3.0]), "observed": np.array([0.3, 0.8, 1.2, 1.6])
    },
    hill_residuals: {"theta": np.array([0.1, 1.2, -0.3, 1.4]), "doses": np.array([0.1, 0.6, 3.0])},
    van_der_waals: {"volume": 1e-3, "temperature": 320.0},
    compressibility: {"pressure": 0.4, "temperature": 1.2},
    dihedral: {"coordinates": rng.normal(size=(4, 3))},
    bond_angle_energy: {"coordinates": rng.normal(size=(3, 3))},
    morse: {"r": 1.4, "depth": 4.5, "a": 1.9, "r0": 0.9},
    kinetics: {"rates": np.array([0.8, 0.5, 0.3])},
    lotka_volterra: {
        "y0": [1.0, 0.5], "parameters": {"alpha": 1.1, "beta": 0.4, "gamma": 0.4, "delta": 0.1}
    },
    ionic_strength: {"salts": [Species(0.1, 1), Species(0.05, -2), Species(0.02, 3)]},
    nernst: {"inside": 140.0, "outside": 5.0},
    partition_function: {
        "levels": np.array([0.0, 0.4, 1.1]), "degeneracies": np.array([1, 3, 5]), "temperature": 0.8
    },
    titration_ph: {"added": 0.04},
    sir_epidemic: {"beta": 0.9, "gamma": 0.2},
    needleman: {"similarity": rng.normal(size=(3, 2)), "gap": 0.4},
}  # fmt: skip
