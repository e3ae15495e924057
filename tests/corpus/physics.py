"""Physics: energies, and equations of motion stepped in time."""

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import erfc

G = 6.674e-2
rng = np.random.default_rng(1)


def gravitational_energy(positions, velocities, masses):
    """Kinetic and potential energy of n bodies, with the double loop everybody writes."""
    kinetic = 0.0
    potential = 0.0
    for i in range(len(masses)):
        kinetic += 0.5 * masses[i] * np.dot(velocities[i], velocities[i])
        for j in range(i + 1, len(masses)):
            r = np.linalg.norm(positions[i] - positions[j])
            potential -= G * masses[i] * masses[j] / r
    return kinetic + potential


def lennard_jones(coordinates, epsilon=1.0, sigma=0.8):
    """Lennard-Jones energy over all pairs."""
    i, j = np.triu_indices(len(coordinates), k=1)
    d = coordinates[i] - coordinates[j]
    r2 = (d * d).sum(axis=1)
    s6 = (sigma**2 / r2) ** 3
    return 4 * epsilon * np.sum(s6**2 - s6)


def pendulum_rk4(theta0, omega0, length=1.3, steps=10, dt=0.05):
    """The angle of a pendulum after some Runge-Kutta steps."""

    def rhs(state):
        theta, omega = state
        return np.array([omega, -9.81 / length * math.sin(theta)])

    y = np.array([theta0, omega0])
    for _ in range(steps):
        k1 = rhs(y)
        k2 = rhs(y + 0.5 * dt * k1)
        k3 = rhs(y + 0.5 * dt * k2)
        k4 = rhs(y + dt * k3)
        y = y + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    return y[0]


class Leapfrog:
    """Kick, drift, kick."""

    def __init__(self, force, dt):
        self.force = force
        self.dt = dt

    def step(self, q, p):
        """One step."""
        p = p + 0.5 * self.dt * self.force(q)
        q = q + self.dt * p
        return q, p + 0.5 * self.dt * self.force(q)

    def run(self, q, p, n):
        """Several steps; yields every state."""
        for _ in range(n):
            q, p = self.step(q, p)
            yield q, p


def anharmonic_oscillator(q, p, stiffness):
    """Energy at the end of a leapfrog trajectory in a quartic well."""
    integrator = Leapfrog(lambda x: -stiffness * x - 0.3 * x**3, dt=0.1)
    *_, (q, p) = integrator.run(q, p, 5)
    return np.sum(0.5 * p**2 + 0.5 * stiffness * q**2 + 0.075 * q**4)


def heat_equation(u0, diffusivity, steps=6):
    """Explicit steps on a rod with fixed ends, written into one array."""
    u = u0.copy()
    r = diffusivity * 0.1
    for _ in range(steps):
        new = u.copy()
        new[1:-1] = u[1:-1] + r * (u[2:] - 2 * u[1:-1] + u[:-2])
        u[:] = new
    return np.sum(u**2)


def heat_in_place(u, alpha=0.2):
    """The same with an in-place update; the right side is computed before anything is written."""
    u = np.array(u)
    for _ in range(4):
        u[1:-1] += alpha * (u[2:] - 2 * u[1:-1] + u[:-2])
    return u @ u


def spring_network(nodes, rest_lengths, k=2.0):
    """Elastic energy of springs along a list of edges."""
    edges = [(0, 1), (1, 2), (2, 3), (3, 0), (0, 2)]
    energy = 0.0
    for (a, b), rest in zip(edges, rest_lengths, strict=True):
        stretch = math.dist(nodes[a], nodes[b]) - rest
        energy += 0.5 * k * stretch**2
    return energy


def xy_model(angles, coupling, field=0.3):
    """Energy of classical spins on a torus."""
    right = np.roll(angles, -1, axis=1)
    down = np.roll(angles, -1, axis=0)
    bonds = np.cos(angles - right) + np.cos(angles - down)
    return -coupling * bonds.sum() - field * np.cos(angles).sum()


def mean_field_magnetisation(beta, h=0.2):
    """The fixed point m = tanh(beta (m + h)), iterated until it stands still."""
    m, previous = 0.5, 10.0
    while abs(m - previous) > 1e-14:
        previous = m
        m = np.tanh(beta * (m + h))
    return m


def normalize(v):
    """A unit vector."""
    return v / np.sqrt(np.sum(v * v))


def refract(direction, normal, eta):
    """Snell's law for vectors; total reflection if there is no refraction."""
    cos_i = -np.dot(normal, direction)
    sin2_t = eta**2 * (1.0 - cos_i**2)
    if sin2_t > 1.0:
        return direction + 2 * cos_i * normal
    return eta * direction + (eta * cos_i - np.sqrt(1.0 - sin2_t)) * normal


def ray_through_lens(origin, direction, radius, index):
    """Where a ray hits the screen behind a ball of glass."""
    direction = normalize(direction)
    for eta, inside in ((1.0 / index, False), (index, True)):
        b = np.dot(origin, direction)
        disc = b * b - (np.dot(origin, origin) - radius**2)
        assert disc > 0, "the ray misses the lens"
        t = -b + np.sqrt(disc) if inside else -b - np.sqrt(disc)
        origin = origin + t * direction
        normal = normalize(origin)
        direction = refract(direction, -normal if inside else normal, eta)
    t = (5.0 - origin[2]) / direction[2]
    hit = origin + t * direction
    return hit[0] ** 2 + hit[1]


def projectile_range(speed, angle, drag=0.05, dt=0.02):
    """How far a ball flies with drag; the last step is interpolated to the ground."""
    x, y = 0.0, 0.0
    vx, vy = speed * math.cos(angle), speed * math.sin(angle)
    while True:
        v = math.hypot(vx, vy)
        x_new, y_new = x + dt * vx, y + dt * vy
        if y_new < 0:
            f = y / (y - y_new)
            return x + f * (x_new - x)
        vx -= dt * drag * v * vx
        vy -= dt * (9.81 + drag * v * vy)
        x, y = x_new, y_new


@dataclass
class Rope:
    """A chain of masses."""

    positions: np.ndarray
    velocities: np.ndarray
    stiffness: float
    segments: int = 3

    def forces(self):
        """Spring forces along the chain, accumulated at both ends."""
        f = np.zeros_like(self.positions)
        f[:, 1] -= 1.0
        for i in range(self.segments):
            d = self.positions[i + 1] - self.positions[i]
            length = np.linalg.norm(d)
            pull = self.stiffness * (length - 1.0) * d / length
            f[i] += pull
            f[i + 1] -= pull
        f[0] = 0
        return f

    def advance(self, dt):
        """Semi-implicit Euler, in place."""
        self.velocities = self.velocities + dt * self.forces()
        self.positions = self.positions + dt * self.velocities


def rope_end(rope, steps=4):
    """Height of the end of a rope after some steps."""
    for _ in range(steps):
        rope.advance(0.05)
    return rope.positions[-1, 1] + 0.1 * (rope.velocities**2).sum()


def wave_equation(u, c):
    """Second-order wave equation with preallocated scratch arrays and out=."""
    previous = u.copy()
    current = u.copy()
    laplacian = np.empty_like(u)
    scratch = np.empty_like(u)
    for _ in range(5):
        np.add(np.roll(current, 1), np.roll(current, -1), out=laplacian)
        np.multiply(current, -2.0, out=scratch)
        laplacian += scratch
        np.multiply(laplacian, c**2, out=laplacian)
        laplacian += 2 * current
        laplacian -= previous
        previous[...] = current
        current[...] = laplacian
    return float_energy(current, previous)


def float_energy(current, previous):
    """Kinetic plus elastic energy of a string."""
    return np.sum((current - previous) ** 2) + np.sum(np.diff(current) ** 2)


def gauss_seidel(boundary, sweeps=4):
    """A Laplace problem relaxed in place, entry by entry."""
    phi = np.zeros((4, 4))
    phi[0, :] = boundary
    phi[:, -1] = boundary[::-1]
    for _ in range(sweeps):
        for i in range(1, 3):
            for j in range(1, 3):
                phi[i, j] = 0.25 * (phi[i - 1, j] + phi[i + 1, j] + phi[i, j - 1] + phi[i, j + 1])
    return phi[1:3, 1:3].sum() ** 2


def ewald_real_space(positions, charges, alpha=0.9):
    """Short-ranged part of an Ewald sum."""
    energy = 0
    for i, (ri, qi) in enumerate(zip(positions, charges, strict=True)):
        for rj, qj in list(zip(positions, charges, strict=True))[:i]:
            r = np.sqrt(((ri - rj) ** 2).sum())
            energy += qi * qj * erfc(alpha * r) / r
    return energy


def planck(wavelength_um, temperature):
    """Spectral radiance of a black body, in convenient units."""
    c1, c2 = 1.191042e8, 14387.77
    return c1 / wavelength_um**5 / np.expm1(c2 / (wavelength_um * temperature))


def double_pendulum_energy(state, m1=1.0, m2=0.7, l1=1.1, l2=0.9, g=9.81):
    """Hamiltonian of the double pendulum; state is a tuple of four numbers."""
    t1, t2, w1, w2 = state
    kinetic = 0.5 * m1 * (l1 * w1) ** 2
    kinetic += 0.5 * m2 * ((l1 * w1) ** 2 + (l2 * w2) ** 2 + 2 * l1 * l2 * w1 * w2 * np.cos(t1 - t2))
    potential = -(m1 + m2) * g * l1 * np.cos(t1) - m2 * g * l2 * np.cos(t2)
    return kinetic + potential


def relativistic_velocity_addition(velocities):
    """Collinear velocities added one after the other, in units of c."""
    total = 0.0
    for v in velocities:
        if not -1 < v < 1:
            raise ValueError(f"{v:.3f} is faster than light")
        total = (total + v) / (1 + total * v)
    return total


def kepler(mean_anomaly, eccentricity, tolerance=1e-13):
    """Eccentric anomaly by Newton's method."""
    E = mean_anomaly if eccentricity < 0.8 else np.pi
    for _ in range(50):
        step = (E - eccentricity * np.sin(E) - mean_anomaly) / (1 - eccentricity * np.cos(E))
        E -= step
        if abs(step) < tolerance:
            break
    else:
        raise RuntimeError(f"no convergence for {mean_anomaly:.3f}")
    return E


POINTS = {
    gravitational_energy: {
        "positions": rng.normal(size=(3, 3)),
        "velocities": rng.normal(size=(3, 3)),
        "masses": np.array([3.0, 1.0, 2.0]),
    },
    lennard_jones: {"coordinates": np.array([[0.0, 0, 0], [1.1, 0.2, 0], [0.3, 0.9, 0.4], [0.1, 0.3, 1.2]])},
    pendulum_rk4: {"theta0": 0.8, "omega0": -0.2},
    anharmonic_oscillator: {"q": np.array([0.4, -1.1]), "p": np.array([0.7, 0.2]), "stiffness": 1.3},
    heat_equation: {"u0": rng.normal(size=7), "diffusivity": 1.7},
    heat_in_place: {"u": rng.normal(size=6)},
    spring_network: {
        "nodes": np.array([[0.0, 0.1], [1.2, 0.0], [1.1, 0.9], [-0.1, 1.3]]),
        "rest_lengths": [1.0, 1.0, 1.0, 1.0, 1.4],
    },
    xy_model: {"angles": rng.normal(size=(3, 3)), "coupling": 0.8},
    mean_field_magnetisation: {"beta": 0.7},
    ray_through_lens: {
        "origin": np.array([0.2, 0.1, -4.0]),
        "direction": np.array([0.02, -0.01, 1.0]),
        "radius": 1.2,
        "index": 1.5,
    },
    projectile_range: {"speed": 3.0, "angle": 0.7},
    rope_end: {
        "rope": Rope(
            np.array([[0.0, 0.0], [1.1, 0.0], [2.0, 0.3], [3.1, 0.1]]),
            np.array([[0.0, 0.0], [0.1, 0.0], [0.0, 0.2], [0.3, 0.0]]),
            4.0,
        )
    },
    wave_equation: {"u": rng.normal(size=6), "c": 0.4},
    gauss_seidel: {"boundary": rng.normal(size=4)},
    ewald_real_space: {"positions": rng.normal(size=(3, 3)), "charges": np.array([1.0, -2.0, 1.0])},
    planck: {"wavelength_um": 0.5, "temperature": 5778.0},
    double_pendulum_energy: {"state": (0.3, -0.4, 1.1, 0.2)},
    relativistic_velocity_addition: {"velocities": np.array([0.5, -0.3, 0.6])},
    kepler: {"mean_anomaly": 1.2, "eccentricity": 0.3},
}
