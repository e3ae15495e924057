"""Simulations: pendulum by Euler and by Runge and Kutta, bodies, springs, heat, molecules."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(16)
BODIES = np.array([1.0, 2.0, 0.5, 1.5])
SOFT = 0.05
REST = np.array([0.9, 1.1, 1.0, 0.8])
WANTED = np.sin(np.linspace(0, np.pi, 20))
FINAL = rng.normal(size=302)
GRAVITY = 9.81
STEPS = 8
DT = 0.05


def pendulum_euler(theta0, omega0, length, damping):
    theta, omega = theta0, omega0
    cost = 0.0
    for _ in range(STEPS):
        accel = -GRAVITY / length * np.sin(theta) - damping * omega
        omega = omega + DT * accel
        theta = theta + DT * omega
        cost = cost + DT * theta**2
    return cost + 0.5 * omega**2


def pendulum_euler_gradient(theta0, omega0, length, damping):
    thetas, omegas = [theta0], [omega0]
    for _ in range(STEPS):
        accel = -GRAVITY / length * np.sin(thetas[-1]) - damping * omegas[-1]
        omegas.append(omegas[-1] + DT * accel)
        thetas.append(thetas[-1] + DT * omegas[-1])
    dtheta, domega = 0.0, omegas[-1]
    dlength = ddamping = 0.0
    for t in reversed(range(STEPS)):
        dtheta += 2 * DT * thetas[t + 1]
        domega += DT * dtheta
        daccel = DT * domega
        dlength += daccel * GRAVITY / length**2 * np.sin(thetas[t])
        ddamping -= daccel * omegas[t]
        dtheta -= daccel * GRAVITY / length * np.cos(thetas[t])
        domega -= daccel * damping
    return dtheta, domega, dlength, ddamping


def swing(s, length):
    return np.stack([s[1], -GRAVITY / length * np.sin(s[0])])


def pendulum_rk4(s0, length, dt):
    s = s0
    for _ in range(4):
        k1 = swing(s, length)
        k2 = swing(s + dt / 2 * k1, length)
        k3 = swing(s + dt / 2 * k2, length)
        k4 = swing(s + dt * k3, length)
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    energy = 0.5 * (length * s[1]) ** 2 + GRAVITY * length * (1 - np.cos(s[0]))
    return energy + s[0] ** 2


def pull_swing(s, length, dk):
    ds = np.array([-GRAVITY / length * np.cos(s[0]) * dk[1], dk[0]])
    return ds, GRAVITY / length**2 * np.sin(s[0]) * dk[1]


def pendulum_rk4_gradient(s0, length, dt):
    s, tape = s0, []
    for _ in range(4):
        k1 = swing(s, length)
        k2 = swing(s + dt / 2 * k1, length)
        k3 = swing(s + dt / 2 * k2, length)
        k4 = swing(s + dt * k3, length)
        tape.append((s, k1, k2, k3, k4))
        s = s + dt / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
    ds = np.array([GRAVITY * length * np.sin(s[0]) + 2 * s[0], length**2 * s[1]])
    dlength = length * s[1] ** 2 + GRAVITY * (1 - np.cos(s[0]))
    ddt = 0.0
    for s, k1, k2, k3, k4 in reversed(tape):
        ddt += ds @ (k1 + 2 * k2 + 2 * k3 + k4) / 6
        dk1, dk2, dk3, dk4 = dt / 6 * ds, dt / 3 * ds, dt / 3 * ds, dt / 6 * ds
        ds4, dlength4 = pull_swing(s + dt * k3, length, dk4)
        dk3 = dk3 + dt * ds4
        ddt += ds4 @ k3
        ds3, dlength3 = pull_swing(s + dt / 2 * k2, length, dk3)
        dk2 = dk2 + dt / 2 * ds3
        ddt += ds3 @ k2 / 2
        ds2, dlength2 = pull_swing(s + dt / 2 * k1, length, dk2)
        dk1 = dk1 + dt / 2 * ds2
        ddt += ds2 @ k1 / 2
        ds1, dlength1 = pull_swing(s, length, dk1)
        ds = ds + ds1 + ds2 + ds3 + ds4
        dlength += dlength1 + dlength2 + dlength3 + dlength4
    return ds, dlength, ddt


def gravity_potential(positions, strength):
    energy = 0.0
    for i in range(len(BODIES)):
        for j in range(i):
            d = positions[i] - positions[j]
            r2 = np.sum(d**2) + SOFT
            energy = energy - strength * BODIES[i] * BODIES[j] / np.sqrt(r2)
    centre = BODIES @ positions / np.sum(BODIES)
    return energy + 0.5 * np.sum(centre**2)


def gravity_potential_gradient(positions, strength):
    dpositions = np.zeros_like(positions)
    dstrength = 0.0
    for i in range(len(BODIES)):
        for j in range(i):
            d = positions[i] - positions[j]
            r2 = np.sum(d**2) + SOFT
            pair = BODIES[i] * BODIES[j]
            dstrength -= pair / np.sqrt(r2)
            dr2 = 0.5 * strength * pair / r2**1.5
            dd = 2 * dr2 * d
            dpositions[i] += dd
            dpositions[j] -= dd
    centre = BODIES @ positions / np.sum(BODIES)
    dpositions += np.outer(BODIES, centre) / np.sum(BODIES)
    return dpositions, dstrength


def springs(points, stiffness):
    segments = points[1:] - points[:-1]
    lengths = np.sqrt(np.sum(segments**2, axis=1))
    stretch = lengths - REST
    elastic = 0.5 * np.sum(stiffness * stretch**2)
    weight = GRAVITY * np.sum(points[:, 1])
    return elastic + 0.1 * weight


def springs_gradient(points, stiffness):
    segments = points[1:] - points[:-1]
    lengths = np.sqrt(np.sum(segments**2, axis=1))
    stretch = lengths - REST
    dstiffness = 0.5 * stretch**2
    dstretch = stiffness * stretch
    dlengths = dstretch
    dsegments = (dlengths / lengths)[:, None] * segments
    dpoints = np.zeros_like(points)
    dpoints[1:] += dsegments
    dpoints[:-1] -= dsegments
    dpoints[:, 1] += 0.1 * GRAVITY
    return dpoints, dstiffness


def heat(u0, conductivity):
    u = u0
    for _ in range(5):
        flux = conductivity * (u[1:] - u[:-1])
        source = np.concatenate([[0.0], flux[1:] - flux[:-1], [0.0]])
        u = u + 0.2 * source
    misfit = u - WANTED
    return 0.5 * np.sum(misfit**2)


def heat_gradient(u0, conductivity):
    u, states = u0, []
    for _ in range(5):
        states.append(u)
        flux = conductivity * (u[1:] - u[:-1])
        u = u + 0.2 * np.concatenate([[0.0], flux[1:] - flux[:-1], [0.0]])
    du = u - WANTED
    dconductivity = np.zeros_like(conductivity)
    for before in reversed(states):
        dsource = 0.2 * du
        dflux = np.zeros_like(conductivity)
        dflux[1:] += dsource[1:-1]
        dflux[:-1] -= dsource[1:-1]
        dconductivity += dflux * (before[1:] - before[:-1])
        du = du.copy()
        du[1:] += dflux * conductivity
        du[:-1] -= dflux * conductivity
    return du, dconductivity


def lennard_jones(x, sigma, depth):
    i, j = np.triu_indices(len(x), 1)
    d = x[i] - x[j]
    r = np.sqrt(np.sum(d**2, axis=1))
    s6 = (sigma / r) ** 6
    pair = 4 * depth * (s6**2 - s6)
    return np.sum(pair)


def lennard_jones_gradient(x, sigma, depth):
    i, j = np.triu_indices(len(x), 1)
    d = x[i] - x[j]
    r = np.sqrt(np.sum(d**2, axis=1))
    s6 = (sigma / r) ** 6
    ddepth = np.sum(4 * (s6**2 - s6))
    ds6 = 4 * depth * (2 * s6 - 1)
    dratio = ds6 * 6 * (sigma / r) ** 5
    dsigma = np.sum(dratio / r)
    dr = -dratio * sigma / r**2
    dd = (dr / r)[:, None] * d
    dx = np.zeros_like(x)
    np.add.at(dx, i, dd)
    np.subtract.at(dx, j, dd)
    return dx, dsigma, ddepth


def burgers(u):
    for _ in range(3):
        right = np.roll(u, -1)
        left = np.roll(u, 1)
        slope = 0.5 * (right - left)
        bend = right - 2 * u + left
        u = u - 0.1 * u * slope + 0.1 * bend
    return np.sum(u * FINAL)


def burgers_gradient(u):
    states = []
    for _ in range(3):
        states.append(u)
        slope = 0.5 * (np.roll(u, -1) - np.roll(u, 1))
        u = u - 0.1 * u * slope + 0.1 * (np.roll(u, -1) - 2 * u + np.roll(u, 1))
    du = FINAL
    for u in reversed(states):
        slope = 0.5 * (np.roll(u, -1) - np.roll(u, 1))
        dslope = -0.1 * u * du
        dbend = 0.1 * du
        dright = 0.5 * dslope + dbend
        dleft = -0.5 * dslope + dbend
        du = du - 0.1 * slope * du
        du -= 2 * dbend
        du += np.roll(dright, 1)
        du += np.roll(dleft, -1)
    return du


def normal(*shape):
    return rng.normal(size=shape)


CASES = (
    Case("pendulum by Euler", pendulum_euler, pendulum_euler_gradient,
         {"theta0": 0.9, "omega0": -0.4, "length": 1.3, "damping": 0.2}, (
        Slip("stale", "2 * DT * thetas[t + 1]", "2 * DT * thetas[t]"),
        Slip("stale", "np.cos(thetas[t])", "np.cos(thetas[t + 1])"),
        Slip("stale", "daccel * omegas[t]", "daccel * omegas[t + 1]"),
        Slip("slip", "GRAVITY / length**2", "GRAVITY / length"),
        Slip("negated", "dtheta -= daccel", "dtheta += daccel"),
        Slip("overwritten", "dlength += daccel", "dlength = daccel"),
        Slip("left-out", "        domega -= daccel * damping\n", ""),
        Slip("slip", "np.cos(thetas[t])", "np.sin(thetas[t])"),
    )),
    Case("pendulum by RK4", pendulum_rk4, pendulum_rk4_gradient,
         {"s0": np.array([0.8, 0.3]), "length": 1.1, "dt": 0.12}, (
        Slip("left-out", "        ddt += ds3 @ k2 / 2\n", ""),
        Slip("left-out", "ds + ds1 + ds2 + ds3 + ds4", "ds + ds1 + ds2 + ds3"),
        Slip("stale", "pull_swing(s + dt / 2 * k2, length, dk3)", "pull_swing(s + dt / 2 * k1, length, dk3)"),
        Slip("stale", "pull_swing(s + dt * k3, length, dk4)", "pull_swing(s, length, dk4)"),
        Slip("overwritten", "dk2 = dk2 + dt / 2 * ds3", "dk2 = dt / 2 * ds3"),
        Slip("slip", "ds2 @ k1 / 2", "ds2 @ k1"),
        Slip("slip", "length**2 * s[1]", "length * s[1]"),
    )),
    Case("N-body potential", gravity_potential, gravity_potential_gradient,
         {"positions": normal(4, 3), "strength": 0.7}, (
        Slip("slip", "r2**1.5", "r2**0.5"),
        Slip("overwritten", "dpositions[i] += dd", "dpositions[i] = dd"),
        Slip("negated", "dpositions[j] -= dd", "dpositions[j] += dd"),
        Slip("term", "    dpositions += np.outer(BODIES, centre) / np.sum(BODIES)\n", ""),
        Slip("slip", "0.5 * strength * pair", "strength * pair"),
        Slip("swapped", "positions[i] - positions[j]", "positions[j] - positions[i]"),
        Slip("left-out", "            dpositions[j] -= dd\n", ""),
    )),
    Case("chain of springs", springs, springs_gradient,
         {"points": np.cumsum(np.abs(normal(5, 2)) + 0.2, axis=0), "stiffness": np.array([3.0, 1.0, 2.0, 4.0])}, (
        Slip("slip", "(dlengths / lengths)", "dlengths"),
        Slip("overwritten", "dpoints[:-1] -= dsegments", "dpoints[:-1] = -dsegments"),
        Slip("term", "    dpoints[:, 1] += 0.1 * GRAVITY\n", ""),
        Slip("axis", "dpoints[:, 1] += 0.1", "dpoints[1, :] += 0.1"),
        Slip("broadcast", "dpoints[:, 1] += 0.1", "dpoints[:, :] += 0.1"),
        Slip("swapped", "points[1:] - points[:-1]", "points[:-1] - points[1:]"),
        Slip("negated", "dpoints[:-1] -= dsegments", "dpoints[:-1] += dsegments"),
    )),
    Case("heat equation", heat, heat_gradient,
         {"u0": normal(20), "conductivity": rng.uniform(0.5, 1.5, size=19)}, (
        Slip("stale", "dflux * (before[1:] - before[:-1])", "dflux * (u[1:] - u[:-1])"),
        Slip("overwritten", "dconductivity += dflux", "dconductivity = dflux"),
        Slip("negated", "dflux[:-1] -= dsource[1:-1]", "dflux[:-1] += dsource[1:-1]"),
        Slip("overwritten", "du[1:] += dflux", "du[1:] = dflux"),
        Slip("left-out", "        du[:-1] -= dflux * conductivity\n", ""),
        Slip("slip", "dsource = 0.2 * du", "dsource = du"),
    )),
    Case("Lennard-Jones", lennard_jones, lennard_jones_gradient,
         {"x": np.array([[0, 0, 0], [1.1, 0, 0.1], [0.2, 1.2, 0], [0.1, 0.3, 1.15], [1.2, 1.1, 0.9]]),
          "sigma": 1.02, "depth": 0.8}, (
        Slip("slip", "(2 * s6 - 1)", "(s6 - 1)"),
        Slip("slip", "ds6 * 6 * (sigma / r) ** 5", "ds6 * (sigma / r) ** 5"),
        Slip("negated", "dr = -dratio", "dr = dratio"),
        Slip("overwritten", "np.add.at(dx, i, dd)", "dx[i] += dd"),
        Slip("swapped", "d = x[i] - x[j]", "d = x[j] - x[i]"),
        Slip("slip", "(dr / r)[:, None]", "dr[:, None]"),
        Slip("broadcast", "np.sum(dratio / r)", "np.mean(dratio / r)"),
    )),
    Case("Burgers' equation in 302 points", burgers, burgers_gradient, {"u": normal(302)}, (
        Slip("swapped", "np.roll(dright, 1)", "np.roll(dleft, 1)"),
        Slip("left-out", "        du -= 2 * dbend\n", ""),
        Slip("overwritten", "du += np.roll(dleft, -1)", "du = np.roll(dleft, -1)"),
        Slip("negated", "dslope = -0.1", "dslope = 0.1"),
        Slip("stale", "    for u in reversed(states):", "    for _ in reversed(states):"),
    )),
)  # fmt: skip
