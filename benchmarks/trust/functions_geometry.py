"""Angles, rotations and distances on the sphere; prices of options, companies and bonds."""

import numpy as np
from cases import Case, Slip
from scipy.special import erf, ndtr

rng = np.random.default_rng(17)
RADIUS = 6371.0
CLOUD = rng.normal(size=(6, 3))
SEEN = rng.normal(size=(6, 3))
BEACONS = np.array([[0.0, 0.0], [5.0, 1.0], [2.0, 6.0], [-3.0, 4.0]])
BEARINGS = np.array([-2.2, -0.4, 1.3, 2.5])
TARGET = np.array([1.2, 0.9])
STRIKES = np.array([80.0, 95.0, 100.0, 110.0, 130.0])
QUOTES = np.array([24.0, 13.0, 9.5, 5.0, 1.5])
MATURITIES = np.array([0.5, 1.0, 2.0, 3.0, 5.0, 7.0, 10.0])
YIELDS = np.array([0.021, 0.023, 0.026, 0.028, 0.031, 0.033, 0.034])


def route_length(lat, lon):
    phi = np.radians(lat)
    lam = np.radians(lon)
    dphi = phi[1:] - phi[:-1]
    dlam = lam[1:] - lam[:-1]
    a = np.sin(dphi / 2) ** 2 + np.cos(phi[:-1]) * np.cos(phi[1:]) * np.sin(dlam / 2) ** 2
    legs = 2 * RADIUS * np.arcsin(np.sqrt(a))
    return np.sum(legs)


def route_length_gradient(lat, lon):
    phi = np.radians(lat)
    lam = np.radians(lon)
    half = (phi[1:] - phi[:-1]) / 2
    turn = (lam[1:] - lam[:-1]) / 2
    c0, c1 = np.cos(phi[:-1]), np.cos(phi[1:])
    a = np.sin(half) ** 2 + c0 * c1 * np.sin(turn) ** 2
    root = np.sqrt(a)
    droot = 2 * RADIUS / np.sqrt(1 - root**2)
    da = droot / (2 * root)
    dhalf = da * 2 * np.sin(half) * np.cos(half)
    dturn = da * c0 * c1 * 2 * np.sin(turn) * np.cos(turn)
    dphi = np.zeros_like(phi)
    dphi[1:] += dhalf / 2
    dphi[:-1] -= dhalf / 2
    dphi[:-1] -= da * c1 * np.sin(turn) ** 2 * np.sin(phi[:-1])
    dphi[1:] -= da * c0 * np.sin(turn) ** 2 * np.sin(phi[1:])
    dlam = np.zeros_like(lam)
    dlam[1:] += dturn / 2
    dlam[:-1] -= dturn / 2
    return dphi * np.pi / 180, dlam * np.pi / 180


def rotation_fit(yaw, pitch, shift):
    cy, sy = np.cos(yaw), np.sin(yaw)
    cp, sp = np.cos(pitch), np.sin(pitch)
    Rz = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    Ry = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    R = Rz @ Ry
    moved = CLOUD @ R.T + shift
    error = moved - SEEN
    return np.mean(np.sum(error**2, axis=1))


def rotation_fit_gradient(yaw, pitch, shift):
    cy, sy = np.cos(yaw), np.sin(yaw)
    cp, sp = np.cos(pitch), np.sin(pitch)
    Rz = np.array([[cy, -sy, 0.0], [sy, cy, 0.0], [0.0, 0.0, 1.0]])
    Ry = np.array([[cp, 0.0, sp], [0.0, 1.0, 0.0], [-sp, 0.0, cp]])
    R = Rz @ Ry
    moved = CLOUD @ R.T + shift
    error = moved - SEEN
    derror = 2 * error / len(CLOUD)
    dshift = np.sum(derror, axis=0)
    dR = derror.T @ CLOUD
    dRz = dR @ Ry.T
    dRy = Rz.T @ dR
    dcy = dRz[0, 0] + dRz[1, 1]
    dsy = dRz[1, 0] - dRz[0, 1]
    dcp = dRy[0, 0] + dRy[2, 2]
    dsp = dRy[0, 2] - dRy[2, 0]
    dyaw = -dcy * sy
    dyaw += dsy * cy
    dpitch = -dcp * sp
    dpitch += dsp * cp
    return dyaw, dpitch, dshift


def bearing_fit(position, heading):
    offset = BEACONS - position
    angle = np.arctan2(offset[:, 1], offset[:, 0]) - heading
    error = angle - BEARINGS
    return np.sum(1 - np.cos(error))


def bearing_fit_gradient(position, heading):
    offset = BEACONS - position
    angle = np.arctan2(offset[:, 1], offset[:, 0]) - heading
    error = angle - BEARINGS
    derror = np.sin(error)
    dheading = -np.sum(derror)
    r2 = np.sum(offset**2, axis=1)
    doffset = np.empty_like(offset)
    doffset[:, 0] = -derror * offset[:, 1] / r2
    doffset[:, 1] = derror * offset[:, 0] / r2
    dposition = -np.sum(doffset, axis=0)
    return dposition, dheading


def robot_arm(joints, links):
    angles = np.cumsum(joints)
    x = np.sum(links * np.cos(angles))
    y = np.sum(links * np.sin(angles))
    miss = (x - TARGET[0]) ** 2 + (y - TARGET[1]) ** 2
    effort = 0.05 * np.sum(np.abs(joints) ** 3)
    return miss + effort


def robot_arm_gradient(joints, links):
    angles = np.cumsum(joints)
    x = np.sum(links * np.cos(angles))
    y = np.sum(links * np.sin(angles))
    dx = 2 * (x - TARGET[0])
    dy = 2 * (y - TARGET[1])
    dlinks = dx * np.cos(angles)
    dlinks += dy * np.sin(angles)
    dangles = -dx * links * np.sin(angles)
    dangles += dy * links * np.cos(angles)
    djoints = np.cumsum(dangles[::-1])[::-1]
    djoints = djoints + 0.15 * joints**2 * np.sign(joints)
    return djoints, dlinks


def road_length(height, width):
    rise = np.diff(height)
    run = width / len(rise)
    slope = rise / run
    pieces = run * np.sqrt(1 + slope**2)
    bends = np.diff(np.arctan(slope))
    return np.sum(pieces) + 0.5 * np.sum(bends**2)


def road_length_gradient(height, width):
    rise = np.diff(height)
    run = width / len(rise)
    slope = rise / run
    root = np.sqrt(1 + slope**2)
    bends = np.diff(np.arctan(slope))
    drun = np.sum(root)
    droot = run
    dslope = droot * slope / root
    dangle = np.zeros_like(slope)
    dangle[1:] += bends
    dangle[:-1] -= bends
    dslope += dangle / (1 + slope**2)
    drise = dslope / run
    drun -= np.sum(dslope * rise) / run**2
    dwidth = drun / len(rise)
    dheight = np.zeros_like(height)
    dheight[1:] += drise
    dheight[:-1] -= drise
    return dheight, dwidth


def option_misfit(spot, vol, rate):
    expiry = 0.75
    sd = vol * np.sqrt(expiry)
    d1 = (np.log(spot / STRIKES) + (rate + 0.5 * vol**2) * expiry) / sd
    d2 = d1 - sd
    price = spot * ndtr(d1) - STRIKES * np.exp(-rate * expiry) * ndtr(d2)
    error = price - QUOTES
    return 0.5 * np.sum(error**2)


def option_misfit_gradient(spot, vol, rate):
    expiry = 0.75
    sd = vol * np.sqrt(expiry)
    top = np.log(spot / STRIKES) + (rate + 0.5 * vol**2) * expiry
    d1 = top / sd
    d2 = d1 - sd
    discount = np.exp(-rate * expiry)
    dprice = spot * ndtr(d1) - STRIKES * discount * ndtr(d2) - QUOTES
    dspot = np.sum(dprice * ndtr(d1))
    dd1 = dprice * spot * np.exp(-0.5 * d1**2) / np.sqrt(2 * np.pi)
    dd2 = -dprice * STRIKES * discount * np.exp(-0.5 * d2**2) / np.sqrt(2 * np.pi)
    ddiscount = -np.sum(dprice * STRIKES * ndtr(d2))
    dd1 += dd2
    dsd = -np.sum(dd2)
    dtop = dd1 / sd
    dsd -= np.sum(dd1 * top) / sd**2
    dspot += np.sum(dtop) / spot
    dvol = np.sum(dtop) * vol * expiry
    dvol += dsd * np.sqrt(expiry)
    drate = np.sum(dtop) * expiry
    drate -= ddiscount * expiry * discount
    return dspot, dvol, drate


def company_value(cash0, growth, wacc, terminal):
    cash = cash0 * np.cumprod(1 + growth)
    years = np.arange(1, len(growth) + 1)
    discount = (1 + wacc) ** years
    present = np.sum(cash / discount)
    horizon = cash[-1] * (1 + terminal) / (wacc - terminal)
    return present + horizon / discount[-1]


def company_value_gradient(cash0, growth, wacc, terminal):
    factors = np.cumprod(1 + growth)
    cash = cash0 * factors
    years = np.arange(1, len(growth) + 1)
    discount = (1 + wacc) ** years
    spread = wacc - terminal
    horizon = cash[-1] * (1 + terminal) / spread
    dcash = 1 / discount
    ddiscount = -cash / discount**2
    dhorizon = 1 / discount[-1]
    ddiscount[-1] -= horizon / discount[-1] ** 2
    dcash[-1] += dhorizon * (1 + terminal) / spread
    dterminal = dhorizon * cash[-1] / spread
    dspread = -dhorizon * horizon / spread
    dwacc = dspread
    dterminal -= dspread
    dwacc += np.sum(ddiscount * years * (1 + wacc) ** (years - 1))
    dcash0 = np.sum(dcash * factors)
    dgrowth = np.cumsum((dcash * cash)[::-1])[::-1] / (1 + growth)
    return dcash0, dgrowth, dwacc, dterminal


def yield_curve(betas, tau):
    x = MATURITIES / tau
    decay = np.exp(-x)
    hump = (1 - decay) / x
    fitted = betas[0] + betas[1] * hump + betas[2] * (hump - decay)
    error = 100 * (fitted - YIELDS)
    return np.sum(error**2)


def yield_curve_gradient(betas, tau):
    x = MATURITIES / tau
    decay = np.exp(-x)
    hump = (1 - decay) / x
    fitted = betas[0] + betas[1] * hump + betas[2] * (hump - decay)
    derror = 2 * 100 * (fitted - YIELDS)
    dfitted = 100 * derror
    dbetas = np.array([np.sum(dfitted), np.sum(dfitted * hump), np.sum(dfitted * (hump - decay))])
    dhump = dfitted * betas[1]
    dhump += dfitted * betas[2]
    ddecay = -dfitted * betas[2]
    ddecay -= dhump / x
    dx = -dhump * (1 - decay) / x**2
    dx -= ddecay * decay
    dtau = -np.sum(dx * MATURITIES) / tau**2
    return dbetas, dtau


def insured_loss(mu, sigma, retention):
    z = (retention - mu) / sigma
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    above = 0.5 * (1 - erf(z / np.sqrt(2)))
    excess = sigma * density - (retention - mu) * above
    return np.sum(excess**2) + 0.1 * np.sum(sigma)


def insured_loss_gradient(mu, sigma, retention):
    gap = retention - mu
    z = gap / sigma
    density = np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)
    above = 0.5 * (1 - erf(z / np.sqrt(2)))
    excess = sigma * density - gap * above
    dexcess = 2 * excess
    dsigma = dexcess * density
    ddensity = dexcess * sigma
    dgap = -dexcess * above
    dabove = -dexcess * gap
    dz = -dabove * density
    dz -= ddensity * z * density
    dgap += dz / sigma
    dsigma -= dz * gap / sigma**2
    dsigma += 0.1
    dretention = np.sum(dgap)
    dmu = -dgap
    return dmu, dsigma, dretention


CASES = (
    Case("route by haversines", route_length, route_length_gradient,
         {"lat": np.array([52.5, 48.1, 45.4, 41.9, 47.5]), "lon": np.array([13.4, 11.6, 9.2, 12.5, 19.0])}, (
        Slip("slip", "dphi * np.pi / 180, dlam", "dphi, dlam"),
        Slip("left-out", "    dphi[1:] -= da * c0 * np.sin(turn) ** 2 * np.sin(phi[1:])\n", ""),
        Slip("negated", "dphi[:-1] -= da * c1", "dphi[:-1] += da * c1"),
        Slip("slip", "droot / (2 * root)", "droot / root"),
        Slip("overwritten", "dphi[:-1] -= dhalf / 2", "dphi[:-1] = -dhalf / 2"),
        Slip("swapped", "da * c1 * np", "da * c0 * np"),
    )),
    Case("fit of a rotation", rotation_fit, rotation_fit_gradient,
         {"yaw": 0.7, "pitch": -0.4, "shift": np.array([0.3, -0.2, 0.5])}, (
        Slip("negated", "dyaw = -dcy", "dyaw = dcy"),
        Slip("slip", "dR @ Ry.T", "dR @ Ry"),
        Slip("swapped", "derror.T @ CLOUD", "CLOUD.T @ derror"),
        Slip("overwritten", "dpitch += dsp", "dpitch = dsp"),
        Slip("left-out", "dRy[0, 0] + dRy[2, 2]", "dRy[0, 0]"),
        Slip("broadcast", "np.sum(derror, axis=0)", "np.mean(derror, axis=0)"),
        Slip("negated", "dRy[0, 2] - dRy[2, 0]", "dRy[0, 2] + dRy[2, 0]"),
    )),
    Case("position by bearings", bearing_fit, bearing_fit_gradient,
         {"position": np.array([1.1, 1.7]), "heading": 0.2}, (
        Slip("swapped", "-derror * offset[:, 1]", "-derror * offset[:, 0]"),
        Slip("negated", "= -derror * offset[:, 1]", "= derror * offset[:, 1]"),
        Slip("slip", "derror * offset[:, 0] / r2", "derror * offset[:, 0] / np.sqrt(r2)"),
        Slip("broadcast", "dheading = -np.sum", "dheading = -np.mean"),
        Slip("slip", "derror = np.sin(error)", "derror = 1 - np.sin(error)"),
    )),
    Case("robot arm", robot_arm, robot_arm_gradient,
         {"joints": np.array([0.4, -0.7, 0.9, 0.3]), "links": np.array([1.0, 0.8, 0.6, 0.3])}, (
        Slip("slip", "np.cumsum(dangles[::-1])[::-1]", "np.cumsum(dangles)"),
        Slip("left-out", "np.cumsum(dangles[::-1])[::-1]", "dangles"),
        Slip("negated", "dangles = -dx", "dangles = dx"),
        Slip("overwritten", "dangles += dy", "dangles = dy"),
        Slip("swapped", "dlinks = dx * np.cos(angles)", "dlinks = dy * np.cos(angles)"),
        Slip("slip", "joints**2 * np.sign(joints)", "joints**2"),
        Slip("term", "    djoints = djoints + 0.15 * joints**2 * np.sign(joints)\n", ""),
    )),
    Case("length and bends of a road", road_length, road_length_gradient,
         {"height": np.array([0.1, 0.5, 0.4, 1.2, 1.0, 1.7, 1.1]), "width": 4.0}, (
        Slip("slip", "dangle / (1 + slope**2)", "dangle / (1 + slope)"),
        Slip("left-out", "    drun -= np.sum(dslope * rise) / run**2\n", ""),
        Slip("overwritten", "dslope += dangle", "dslope = dangle"),
        Slip("slip", "droot * slope / root", "droot / (2 * root)"),
        Slip("negated", "dheight[:-1] -= drise", "dheight[:-1] += drise"),
        Slip("broadcast", "drun = np.sum(root)", "drun = np.mean(root)"),
    )),
    Case("option prices against quotes", option_misfit, option_misfit_gradient,
         {"spot": 101.0, "vol": 0.23, "rate": 0.03}, (
        Slip("left-out", "dsd = -np.sum(dd2)", "dsd = 0.0"),
        Slip("overwritten", "dd1 += dd2", "dd1 = dd2"),
        Slip("negated", "drate -= ddiscount", "drate += ddiscount"),
        Slip("slip", "dsd * np.sqrt(expiry)", "dsd"),
        Slip("swapped", "np.exp(-0.5 * d2**2)", "np.exp(-0.5 * d1**2)"),
        Slip("slip", "ddiscount * expiry * discount", "ddiscount * discount"),
        Slip("slip", "np.exp(-0.5 * d1**2) / np.sqrt(2 * np.pi)", "np.exp(-0.5 * d1**2)"),
    )),
    Case("discounted cash flow", company_value, company_value_gradient,
         {"cash0": 12.0, "growth": np.array([0.12, 0.1, 0.08, 0.05, 0.03]), "wacc": 0.09, "terminal": 0.02}, (
        Slip("left-out", "    dcash[-1] += dhorizon * (1 + terminal) / spread\n", ""),
        Slip("overwritten", "dwacc += np", "dwacc = np"),
        Slip("slip", "years * (1 + wacc) ** (years - 1)", "(1 + wacc) ** (years - 1)"),
        Slip("slip", "(years - 1)", "years"),
        Slip("negated", "dterminal -= dspread", "dterminal += dspread"),
        Slip("slip", "-cash / discount**2", "-cash / discount"),
        Slip("left-out", "np.cumsum((dcash * cash)[::-1])[::-1]", "(dcash * cash)"),
        Slip("broadcast", "np.sum(dcash * factors)", "dcash[-1] * factors[-1]"),
    )),
    Case("yield curve", yield_curve, yield_curve_gradient,
         {"betas": np.array([0.035, -0.017, 0.004]), "tau": 1.8}, (
        Slip("overwritten", "dhump += dfitted", "dhump = dfitted"),
        Slip("slip", "(1 - decay) / x**2", "(1 - decay) / x"),
        Slip("negated", "dx -= ddecay", "dx += ddecay"),
        Slip("slip", "    dfitted = 100 * derror", "    dfitted = derror"),
        Slip("left-out", "    ddecay -= dhump / x\n", ""),
        Slip("swapped", "(hump - decay))])", "(decay - hump))])"),
    )),
    Case("insurance above a retention", insured_loss, insured_loss_gradient,
         {"mu": np.array([1.0, 1.4, 0.7]), "sigma": np.array([0.5, 0.9, 0.7]), "retention": 1.2}, (
        Slip("slip", "dabove * density", "dabove * density * np.sqrt(2)"),
        Slip("slip", "ddensity * z * density", "ddensity * density"),
        Slip("overwritten", "dgap += dz", "dgap = dz"),
        Slip("term", "    dsigma += 0.1\n", ""),
        Slip("negated", "dmu = -dgap", "dmu = dgap"),
        Slip("broadcast", "np.sum(dgap)", "np.mean(dgap)"),
        Slip("left-out", "    dz -= ddensity * z * density\n", ""),
    )),
)  # fmt: skip
