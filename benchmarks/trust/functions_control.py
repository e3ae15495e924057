"""Loops and chains: control, epidemics, learning to learn, hidden Markov models, products and sums that accumulate."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(21)
DT = 0.2
INFECTED = np.array([0.02, 0.05, 0.09, 0.14, 0.18, 0.2, 0.19, 0.16])
DESIGN = rng.normal(size=(8, 3))
ANSWER = rng.normal(size=8)
RETURNS = 0.01 + 0.04 * rng.normal(size=(10, 4))
EMISSIONS = rng.dirichlet(np.ones(3), size=6)
MOVES = rng.dirichlet(np.ones(3), size=(2, 3))
SPEND = np.array([1.0, 1.2, 0.8, 1.5, 1.1])


def car_control(u, drag):
    p, v = 0.0, 0.5
    cost = 0.0
    for ut in u:
        accel = ut - drag * v**2
        p = p + DT * v
        v = v + DT * accel
        cost = cost + 0.05 * ut**2
        cost = cost + 0.1 * (v - 1) ** 2
    jerk = np.diff(u)
    return cost + (p - 1.5) ** 2 + 0.02 * np.sum(jerk**2)


def car_control_gradient(u, drag):
    ps, vs = [0.0], [0.5]
    for ut in u:
        ps.append(ps[-1] + DT * vs[-1])
        vs.append(vs[-1] + DT * (ut - drag * vs[-1] ** 2))
    du = 0.1 * u
    ddrag = 0.0
    dp = 2 * (ps[-1] - 1.5)
    dv = 0.0
    for t in reversed(range(len(u))):
        dv += 0.2 * (vs[t + 1] - 1)
        daccel = DT * dv
        dv += DT * dp
        du[t] += daccel
        ddrag -= daccel * vs[t] ** 2
        dv -= daccel * drag * 2 * vs[t]
    djerk = 0.04 * np.diff(u)
    du[1:] += djerk
    du[:-1] -= djerk
    return du, ddrag


def rosenbrock(x, a, b):
    valley = x[1:] - x[:-1] ** 2
    slope = a - x[:-1]
    terms = b * valley**2 + slope**2
    return np.sum(terms)


def rosenbrock_gradient(x, a, b):
    valley = x[1:] - x[:-1] ** 2
    slope = a - x[:-1]
    dvalley = 2 * b * valley
    dslope = 2 * slope
    dx = np.zeros_like(x)
    dx[1:] += dvalley
    dx[:-1] -= dvalley * 2 * x[:-1]
    dx[:-1] -= dslope
    da = np.sum(dslope)
    db = np.sum(valley**2)
    return dx, da, db


def epidemic(beta, gamma, i0):
    s, i = 1 - i0, i0
    misfit = 0.0
    for seen in INFECTED:
        new = beta * s * i
        cured = gamma * i
        s = s - new
        i = i + new - cured
        misfit = misfit + (np.log(i) - np.log(seen)) ** 2
    return misfit


def epidemic_gradient(beta, gamma, i0):
    ss, iz = [1 - i0], [i0]
    for _ in INFECTED:
        new = beta * ss[-1] * iz[-1]
        ss.append(ss[-1] - new)
        iz.append(iz[-1] + new - gamma * iz[-1])
    dbeta = dgamma = ds = di = 0.0
    for t in reversed(range(len(INFECTED))):
        di += 2 * (np.log(iz[t + 1]) - np.log(INFECTED[t])) / iz[t + 1]
        dnew = di - ds
        dcured = -di
        dgamma += dcured * iz[t]
        di += dcured * gamma
        dbeta += dnew * ss[t] * iz[t]
        ds += dnew * beta * iz[t]
        di += dnew * beta * ss[t]
    return dbeta, dgamma, di - ds


def unrolled_descent(w0, lograte, momentum):
    w, m = w0, np.zeros(3)
    rate = np.exp(lograte)
    for _ in range(5):
        slope = DESIGN[:4].T @ np.tanh(DESIGN[:4] @ w - ANSWER[:4])
        m = momentum * m + slope
        w = w - rate * m
    held = DESIGN[4:] @ w - ANSWER[4:]
    return 0.5 * np.sum(held**2)


def unrolled_descent_gradient(w0, lograte, momentum):
    A, y = DESIGN[:4], ANSWER[:4]
    rate = np.exp(lograte)
    ws, ms = [w0], [np.zeros(3)]
    for _ in range(5):
        slope = A.T @ np.tanh(A @ ws[-1] - y)
        ms.append(momentum * ms[-1] + slope)
        ws.append(ws[-1] - rate * ms[-1])
    dw = DESIGN[4:].T @ (DESIGN[4:] @ ws[-1] - ANSWER[4:])
    dm = np.zeros(3)
    drate = dmomentum = 0.0
    for t in reversed(range(5)):
        drate -= dw @ ms[t + 1]
        dm -= rate * dw
        dmomentum += dm @ ms[t]
        dslope = dm
        dtanh = A @ dslope
        derror = dtanh * (1 - np.tanh(A @ ws[t] - y) ** 2)
        dw = dw + A.T @ derror
        dm = dm * momentum
    return dw, drate * rate, dmomentum


def kepler(mean_anomaly, eccentricity):
    E = mean_anomaly
    for _ in range(3):
        error = E - eccentricity * np.sin(E) - mean_anomaly
        slope = 1 - eccentricity * np.cos(E)
        E = E - error / slope
    radius = 1 - eccentricity * np.cos(E)
    return np.sum(radius * np.sin(E))


def kepler_gradient(mean_anomaly, eccentricity):
    E, tape = mean_anomaly, []
    for _ in range(3):
        error = E - eccentricity * np.sin(E) - mean_anomaly
        slope = 1 - eccentricity * np.cos(E)
        tape.append((E, error, slope))
        E = E - error / slope
    radius = 1 - eccentricity * np.cos(E)
    dradius = np.sin(E)
    dE = radius * np.cos(E)
    dE += dradius * eccentricity * np.sin(E)
    deccentricity = -np.sum(dradius * np.cos(E))
    dmean = np.zeros_like(mean_anomaly)
    for before, error, slope in reversed(tape):
        derror = -dE / slope
        dslope = dE * error / slope**2
        deccentricity -= np.sum(dslope * np.cos(before))
        dE = dE + dslope * eccentricity * np.sin(before)
        dE = dE + derror * (1 - eccentricity * np.cos(before))
        deccentricity -= np.sum(derror * np.sin(before))
        dmean -= derror
    return dmean + dE, deccentricity


def hidden_markov(logits):
    e = np.exp(logits)
    trans = e / np.sum(e, axis=1, keepdims=True)
    belief = np.ones(3) / 3
    loglik = 0.0
    for likelihood in EMISSIONS:
        joint = (belief @ trans) * likelihood
        norm = np.sum(joint)
        belief = joint / norm
        loglik = loglik + np.log(norm)
    return -loglik


def hidden_markov_gradient(logits):
    e = np.exp(logits)
    total = np.sum(e, axis=1, keepdims=True)
    trans = e / total
    belief, tape = np.ones(3) / 3, []
    for likelihood in EMISSIONS:
        joint = (belief @ trans) * likelihood
        norm = np.sum(joint)
        tape.append((belief, joint, norm, likelihood))
        belief = joint / norm
    dbelief = np.zeros(3)
    dtrans = np.zeros_like(trans)
    for belief, joint, norm, likelihood in reversed(tape):
        djoint = dbelief / norm
        dnorm = -np.sum(dbelief * joint) / norm**2
        dnorm -= 1 / norm
        djoint += dnorm
        dahead = djoint * likelihood
        dtrans += np.outer(belief, dahead)
        dbelief = trans @ dahead
    de = dtrans / total
    dtotal = -np.sum(dtrans * e, axis=1, keepdims=True) / total**2
    de += dtotal
    return de * e


def soft_bellman(reward, logit_discount):
    discount = 1 / (1 + np.exp(-logit_discount))
    value = np.zeros(3)
    for _ in range(4):
        ahead = np.stack([MOVES[0] @ value, MOVES[1] @ value], axis=1)
        q = reward + discount * ahead
        value = np.log(np.sum(np.exp(q), axis=1))
    return value[0] + 0.1 * np.sum(reward**2)


def soft_bellman_gradient(reward, logit_discount):
    discount = 1 / (1 + np.exp(-logit_discount))
    value, tape = np.zeros(3), []
    for _ in range(4):
        ahead = np.stack([MOVES[0] @ value, MOVES[1] @ value], axis=1)
        q = reward + discount * ahead
        value = np.log(np.sum(np.exp(q), axis=1))
        tape.append((ahead, q, value))
    dvalue = np.array([1.0, 0.0, 0.0])
    dreward = 0.2 * reward
    ddiscount = 0.0
    for ahead, q, after in reversed(tape):
        dq = dvalue[:, None] * np.exp(q - after[:, None])
        dreward += dq
        ddiscount += np.sum(dq * ahead)
        dahead = discount * dq
        dvalue = MOVES[0].T @ dahead[:, 0]
        dvalue += MOVES[1].T @ dahead[:, 1]
    return dreward, ddiscount * discount * (1 - discount)


def wealth(weights, fee):
    gross = RETURNS @ weights - fee * np.sum(np.abs(weights))
    curve = np.cumprod(1 + gross)
    spread = np.std(gross, ddof=1)
    return -np.log(curve[-1]) - 0.1 * np.mean(curve) + 5 * spread


def wealth_gradient(weights, fee):
    gross = RETURNS @ weights - fee * np.sum(np.abs(weights))
    curve = np.cumprod(1 + gross)
    spread = np.std(gross, ddof=1)
    dcurve = np.full(len(curve), -0.1 / len(curve))
    dcurve[-1] -= 1 / curve[-1]
    dgross = np.cumsum((dcurve * curve)[::-1])[::-1] / (1 + gross)
    dgross += 5 * (gross - np.mean(gross)) / (spread * (len(gross) - 1))
    dweights = RETURNS.T @ dgross
    dcharge = -np.sum(dgross)
    dfee = dcharge * np.sum(np.abs(weights))
    dweights += dcharge * fee * np.sign(weights)
    return dweights, dfee


def inventory(orders, decay):
    steps = np.arange(len(orders))
    kept = orders * np.exp(-decay * steps)
    stock = 1 + np.cumsum(kept - SPEND)
    shortage = np.logaddexp(0, -4 * stock) / 4
    holding = 0.1 * stock**2
    return np.sum(shortage + holding) + 0.3 * np.sum(orders**2)


def inventory_gradient(orders, decay):
    steps = np.arange(len(orders))
    factor = np.exp(-decay * steps)
    stock = 1 + np.cumsum(orders * factor - SPEND)
    dstock = -1 / (1 + np.exp(4 * stock))
    dstock += 0.2 * stock
    dkept = np.cumsum(dstock[::-1])[::-1]
    dorders = dkept * factor
    dfactor = dkept * orders
    ddecay = -np.sum(dfactor * factor * steps)
    dorders += 0.6 * orders
    return dorders, ddecay


CASES = (
    Case("control of a car", car_control, car_control_gradient,
         {"u": np.array([0.8, 0.6, 0.9, 0.2, 0.1, -0.3]), "drag": 0.3}, (
        Slip("stale", "0.2 * (vs[t + 1] - 1)", "0.2 * (vs[t] - 1)"),
        Slip("stale", "drag * 2 * vs[t]", "drag * 2 * vs[t + 1]"),
        Slip("stale", "        daccel = DT * dv\n        dv += DT * dp\n", "        dv += DT * dp\n        daccel = DT * dv\n"),
        Slip("overwritten", "du[t] += daccel", "du[t] = daccel"),
        Slip("left-out", "        dv += DT * dp\n", ""),
        Slip("negated", "dv -= daccel", "dv += daccel"),
        Slip("slip", "drag * 2 * vs[t]", "drag * vs[t]"),
        Slip("term", "    du[1:] += djerk\n    du[:-1] -= djerk\n", ""),
    )),
    Case("Rosenbrock by slices", rosenbrock, rosenbrock_gradient,
         {"x": np.array([-1.2, 0.7, 0.4, 1.3, 0.9, -0.6]), "a": 1.1, "b": 90.0}, (
        Slip("overwritten", "dx[:-1] -= dvalley", "dx[:-1] = -dvalley"),
        Slip("slip", "dvalley * 2 * x[:-1]", "dvalley * x[:-1]"),
        Slip("negated", "dx[:-1] -= dslope", "dx[:-1] += dslope"),
        Slip("term", "    dx[:-1] -= dslope\n", ""),
        Slip("swapped", "slope = a - x[:-1]", "slope = x[:-1] - a"),
        Slip("broadcast", "da = np.sum(dslope)", "da = dslope[0]"),
    )),
    Case("epidemic", epidemic, epidemic_gradient, {"beta": 1.1, "gamma": 0.35, "i0": 0.012}, (
        Slip("stale", "/ iz[t + 1]", "/ iz[t]"),
        Slip("stale", "dnew * ss[t] * iz[t]", "dnew * ss[t + 1] * iz[t]"),
        Slip("overwritten", "dgamma += dcured", "dgamma = dcured"),
        Slip("left-out", "        ds += dnew * beta * iz[t]\n", ""),
        Slip("negated", "dnew = di - ds", "dnew = di + ds"),
        Slip("swapped", "ds += dnew * beta * iz[t]", "ds += dnew * beta * ss[t]"),
        Slip("slip", "dcured * gamma", "dcured"),
        Slip("left-out", "dgamma, di - ds", "dgamma, di"),
    )),
    Case("learning rate of a descent", unrolled_descent, unrolled_descent_gradient,
         {"w0": rng.normal(size=3), "lograte": -1.6, "momentum": 0.7}, (
        Slip("stale", "dw @ ms[t + 1]", "dw @ ms[t]"),
        Slip("stale", "np.tanh(A @ ws[t] - y)", "np.tanh(A @ ws[t + 1] - y)"),
        Slip("overwritten", "dm -= rate * dw", "dm = -rate * dw"),
        Slip("left-out", "        dw = dw + A.T @ derror\n", ""),
        Slip("slip", "drate * rate", "drate"),
        Slip("slip", "dtanh * (1 - np.tanh(A @ ws[t] - y) ** 2)", "dtanh * (1 - np.tanh(A @ ws[t] - y))"),
        Slip("stale", "dmomentum += dm @ ms[t]", "dmomentum += dm @ ms[t + 1]"),
    )),
    Case("Kepler's equation", kepler, kepler_gradient,
         {"mean_anomaly": np.array([0.4, 0.9, 1.7, 2.6, 4.0]), "eccentricity": 0.65}, (
        Slip("overwritten", "dE += dradius", "dE = dradius"),
        Slip("negated", "dmean -= derror", "dmean += derror"),
        Slip("slip", "dE = radius * np.cos(E)", "dE = radius * np.sin(E)"),
        Slip("left-out", "dmean + dE", "dmean"),
        Slip("left-out", "        deccentricity -= np.sum(derror * np.sin(before))\n", ""),
        Slip("stale", "derror * (1 - eccentricity * np.cos(before))", "derror * (1 - eccentricity * np.cos(E))"),
        Slip("broadcast", "-np.sum(dradius * np.cos(E))", "-np.mean(dradius * np.cos(E))"),
    )),
    Case("hidden Markov model", hidden_markov, hidden_markov_gradient, {"logits": rng.normal(size=(3, 3))}, (
        Slip("slip", "trans @ dahead", "trans.T @ dahead"),
        Slip("axis", "np.sum(dtrans * e, axis=1, keepdims=True)", "np.sum(dtrans * e, axis=0, keepdims=True)"),
        Slip("left-out", "    de += dtotal\n", ""),
        Slip("swapped", "np.outer(belief, dahead)", "np.outer(dahead, belief)"),
        Slip("stale", "np.outer(belief, dahead)", "np.outer(joint / norm, dahead)"),
        Slip("overwritten", "dtrans += np.outer", "dtrans = np.outer"),
        Slip("broadcast", "dnorm = -np.sum", "dnorm = -np.mean"),
        Slip("term", "        dnorm -= 1 / norm\n", ""),
        Slip("slip", "de * e", "de"),
    )),
    Case("soft Bellman backups", soft_bellman, soft_bellman_gradient,
         {"reward": rng.normal(size=(3, 2)), "logit_discount": 1.5}, (
        Slip("slip", "np.exp(q - after[:, None])", "np.exp(q)"),
        Slip("overwritten", "dreward += dq", "dreward = dq"),
        Slip("slip", "MOVES[0].T @ dahead", "MOVES[0] @ dahead"),
        Slip("swapped", "dahead[:, 0]", "dahead[:, 1]"),
        Slip("left-out", "        dvalue += MOVES[1].T @ dahead[:, 1]\n", ""),
        Slip("slip", "ddiscount * discount * (1 - discount)", "ddiscount * discount"),
        Slip("stale", "np.exp(q - after[:, None])", "np.exp(q - value[:, None])"),
    )),
    Case("wealth of a portfolio", wealth, wealth_gradient,
         {"weights": np.array([0.4, -0.2, 0.5, 0.3]), "fee": 0.002}, (
        Slip("slip", "np.cumsum((dcurve * curve)[::-1])[::-1]", "np.cumsum(dcurve * curve)"),
        Slip("left-out", " - np.mean(gross)", ""),
        Slip("slip", "(spread * (len(gross) - 1))", "(spread * len(gross))"),
        Slip("overwritten", "dcurve[-1] -= 1 / curve[-1]", "dcurve[-1] = -1 / curve[-1]"),
        Slip("negated", "dcharge = -np", "dcharge = np"),
        Slip("slip", "fee * np.sign(weights)", "fee * weights"),
        Slip("broadcast", "dcharge = -np.sum", "dcharge = -np.mean"),
    )),
    Case("inventory", inventory, inventory_gradient,
         {"orders": np.array([0.7, 1.4, 0.9, 1.3, 0.6]), "decay": 0.06}, (
        Slip("slip", "np.cumsum(dstock[::-1])[::-1]", "np.cumsum(dstock)"),
        Slip("left-out", "np.cumsum(dstock[::-1])[::-1]", "dstock"),
        Slip("negated", "dstock = -1", "dstock = 1"),
        Slip("overwritten", "dstock += 0.2", "dstock = 0.2"),
        Slip("term", "    dorders += 0.6 * orders\n", ""),
        Slip("slip", "dfactor * factor * steps", "dfactor * steps"),
        Slip("swapped", "dorders = dkept * factor", "dorders = dkept * orders"),
    )),
)  # fmt: skip
