"""Chemistry and electronics in their own units, and functions that float64 can only just compute."""

import numpy as np
from cases import Case, Slip

rng = np.random.default_rng(20)
GAS = 8.314462618
KELVIN = np.array([290.0, 310.0, 330.0, 350.0, 380.0])
RATES = np.array([2e-5, 1.4e-4, 7e-4, 3.1e-3, 2.4e-2])
VOLUMES = np.array([0.0, 2e-3, 5e-3, 8e-3])
PH_SEEN = np.array([3.1, 3.9, 4.8, 5.6])
DOSES = np.array([0.1, 0.5, 1.0, 2.0, 5.0, 10.0])
SPEEDS = np.array([0.2, 0.9, 1.4, 2.0, 2.6, 2.9])
SECONDS = np.array([0.3, 0.9, 2.0, 4.0])
VOLTS = np.array([0.9, 2.2, 3.4, 4.6])
EPOCH = 1.7e9
SPEED = 3.0
RANGES = np.array([4.1, 6.2, 2.9])
HILBERT = 1 / (1 + np.add.outer(np.arange(5), np.arange(5)))
THERMAL = 0.02585
OHMS = 220.0


def arrhenius_fit(logA, energy):
    exponent = -energy / (GAS * KELVIN)
    k = np.exp(logA) * np.exp(exponent)
    error = np.log10(k) - np.log10(RATES)
    halflife = np.log(2) / k[0]
    return np.sum(error**2) + 1e-12 * halflife**2


def arrhenius_fit_gradient(logA, energy):
    exponent = -energy / (GAS * KELVIN)
    k = np.exp(logA) * np.exp(exponent)
    error = np.log10(k) - np.log10(RATES)
    halflife = np.log(2) / k[0]
    dhalflife = 2e-12 * halflife
    derror = 2 * error
    dk = derror / (k * np.log(10))
    dk[0] -= dhalflife * np.log(2) / k[0] ** 2
    dlogA = np.sum(dk * k)
    dexponent = dk * k
    denergy = -np.sum(dexponent / (GAS * KELVIN))
    return dlogA, denergy


def buffer_ph(ka, acid, salt):
    total = salt + 0.1 * VOLUMES / 0.05
    q = ka + total
    proton = 0.5 * (-q + np.sqrt(q**2 + 4 * ka * acid))
    ph = -np.log10(proton)
    error = ph - PH_SEEN
    return np.sum(error**2)


def buffer_ph_gradient(ka, acid, salt):
    total = salt + 0.1 * VOLUMES / 0.05
    q = ka + total
    root = np.sqrt(q**2 + 4 * ka * acid)
    proton = 0.5 * (-q + root)
    ph = -np.log10(proton)
    dph = 2 * (ph - PH_SEEN)
    dproton = -dph / (proton * np.log(10))
    dq = -0.5 * dproton
    droot = 0.5 * dproton
    dsquare = droot / (2 * root)
    dq += dsquare * 2 * q
    dka = np.sum(dsquare) * 4 * acid
    dacid = np.sum(dsquare) * 4 * ka
    dka += np.sum(dq)
    dsalt = np.sum(dq)
    return dka, dacid, dsalt


def enzyme_inhibition(vmax, km, inhibitor):
    effective = km * (1 + inhibitor / 2.5)
    bottom = effective + DOSES + DOSES**2 / 40
    rate = vmax * DOSES / bottom
    error = rate - SPEEDS
    weights = 1 / (1 + error**2)
    return np.sum(error**2 * weights)


def enzyme_inhibition_gradient(vmax, km, inhibitor):
    effective = km * (1 + inhibitor / 2.5)
    bottom = effective + DOSES + DOSES**2 / 40
    rate = vmax * DOSES / bottom
    error = rate - SPEEDS
    weights = 1 / (1 + error**2)
    derror = 2 * error * weights
    dweights = error**2
    derror -= dweights * weights**2 * 2 * error
    drate = derror
    dvmax = np.sum(drate * DOSES / bottom)
    dbottom = -drate * vmax * DOSES / bottom**2
    deffective = np.sum(dbottom)
    dkm = deffective * (1 + inhibitor / 2.5)
    dinhibitor = deffective * km / 2.5
    return dvmax, dkm, dinhibitor


def charging(parts, supply):
    resistance, capacitance = parts[0], parts[1]
    tau = resistance * capacitance
    volts = supply * (1 - np.exp(-SECONDS / tau))
    error = volts - VOLTS
    energy = 0.5 * capacitance * supply**2
    return np.sum(error**2) + 1e3 * energy


def charging_gradient(parts, supply):
    resistance, capacitance = parts[0], parts[1]
    tau = resistance * capacitance
    decay = np.exp(-SECONDS / tau)
    volts = supply * (1 - decay)
    derror = 2 * (volts - VOLTS)
    dsupply = np.sum(derror * (1 - decay))
    ddecay = -derror * supply
    dtau = np.sum(ddecay * decay * SECONDS) / tau**2
    denergy = 1e3
    dcapacitance = denergy * 0.5 * supply**2
    dsupply += denergy * capacitance * supply
    dresistance = dtau * capacitance
    dcapacitance += dtau * resistance
    return np.array([dresistance, dcapacitance]), dsupply


def diode_current(saturation, supply):
    v = 0.68
    for _ in range(3):
        e = np.exp(v / THERMAL)
        current = saturation * (e - 1)
        excess = current - (supply - v) / OHMS
        slope = saturation * e / THERMAL + 1 / OHMS
        v = v - excess / slope
    return (supply - v) / OHMS


def diode_current_gradient(saturation, supply):
    v, visited = 0.68, []
    for _ in range(3):
        e = np.exp(v / THERMAL)
        excess = saturation * (e - 1) - (supply - v) / OHMS
        slope = saturation * e / THERMAL + 1 / OHMS
        visited.append((v, e, excess, slope))
        v = v - excess / slope
    dsupply = 1 / OHMS
    dv = -1 / OHMS
    dsaturation = 0.0
    for _, e, excess, slope in reversed(visited):
        dexcess = -dv / slope
        dslope = dv * excess / slope**2
        dsaturation += dslope * e / THERMAL
        de = dslope * saturation / THERMAL
        dsaturation += dexcess * (e - 1)
        de += dexcess * saturation
        dsupply -= dexcess / OHMS
        dv += dexcess / OHMS
        dv += de * e / THERMAL
    return dsaturation, dsupply


def beam_deflection(modulus, inertia, load, span):
    tip = load * span**3 / (3 * modulus * inertia)
    moment = load * span
    stress = moment * 0.05 / inertia
    ratio = stress / 2.5e8
    return 1e4 * tip**2 + ratio**4


def beam_deflection_gradient(modulus, inertia, load, span):
    stiffness = 3 * modulus * inertia
    tip = load * span**3 / stiffness
    moment = load * span
    stress = moment * 0.05 / inertia
    ratio = stress / 2.5e8
    dtip = 2e4 * tip
    dratio = 4 * ratio**3
    dstress = dratio / 2.5e8
    dmoment = dstress * 0.05 / inertia
    dinertia = -dstress * moment * 0.05 / inertia**2
    dload = dmoment * span
    dspan = dmoment * load
    dload += dtip * span**3 / stiffness
    dspan += dtip * load * 3 * span**2 / stiffness
    dstiffness = -dtip * tip / stiffness
    dmodulus = dstiffness * 3 * inertia
    dinertia += dstiffness * 3 * modulus
    return dmodulus, dinertia, dload, dspan


def clock_ranging(sent, received):
    start = EPOCH + sent
    stop = EPOCH + received
    elapsed = stop - start
    distance = SPEED * elapsed
    error = distance - RANGES
    return np.sum(error**2) + 0.1 * np.sum(elapsed)


def clock_ranging_gradient(sent, received):
    start = EPOCH + sent
    stop = EPOCH + received
    elapsed = stop - start
    distance = SPEED * elapsed
    ddistance = 2 * (distance - RANGES)
    delapsed = ddistance * SPEED
    delapsed += 0.1 * np.ones(3)
    dstop = delapsed
    dstart = -delapsed
    return dstart, dstop


def one_pass_variance(x):
    mean = np.mean(x)
    square = np.mean(x**2)
    var = square - mean**2
    return 0.5 * np.log(var) + 1e-3 * mean


def one_pass_variance_gradient(x):
    mean = np.mean(x)
    square = np.mean(x**2)
    var = square - mean**2
    dvar = 0.5 / var
    dsquare = dvar
    dmean = -dvar * 2 * mean
    dmean += 1e-3
    dx = np.full(len(x), dmean / len(x))
    dx += dsquare * 2 * x / len(x)
    return dx


def hilbert_solve(b, shift):
    A = HILBERT + shift * np.eye(5)
    x = np.linalg.solve(A, b)
    return 0.5 * np.sum((x - 1) ** 2)


def hilbert_solve_gradient(b, shift):
    A = HILBERT + shift * np.eye(5)
    x = np.linalg.solve(A, b)
    dx = x - 1
    db = np.linalg.solve(A.T, dx)
    dA = -np.outer(db, x)
    dshift = np.trace(dA)
    return db, dshift


CASES = (
    Case("Arrhenius", arrhenius_fit, arrhenius_fit_gradient, {"logA": 19.0, "energy": 7.2e4}, (
        Slip("slip", "(k * np.log(10))", "k"),
        Slip("negated", "denergy = -np", "denergy = np"),
        Slip("slip", "np.log(2) / k[0] ** 2", "np.log(2) / k[0]"),
        Slip("overwritten", "dk[0] -= dhalflife", "dk[0] = -dhalflife"),
        Slip("broadcast", "denergy = -np.sum", "denergy = -np.mean"),
        Slip("left-out", "dexponent / (GAS * KELVIN)", "dexponent / GAS"),
    )),
    Case("pH of a buffer", buffer_ph, buffer_ph_gradient, {"ka": 1.8e-5, "acid": 0.05, "salt": 1e-3}, (
        Slip("slip", "(proton * np.log(10))", "proton"),
        Slip("slip", "droot / (2 * root)", "droot / root"),
        Slip("left-out", "    dq += dsquare * 2 * q\n", ""),
        Slip("overwritten", "dka += np", "dka = np"),
        Slip("swapped", "dka = np.sum(dsquare) * 4 * acid", "dka = np.sum(dsquare) * 4 * ka"),
        Slip("negated", "dq = -0.5", "dq = 0.5"),
    )),
    Case("inhibited enzyme", enzyme_inhibition, enzyme_inhibition_gradient,
         {"vmax": 3.4, "km": 0.8, "inhibitor": 1.1}, (
        Slip("left-out", "    derror -= dweights * weights**2 * 2 * error\n", ""),
        Slip("slip", "DOSES / bottom**2", "DOSES / bottom"),
        Slip("slip", "dweights * weights**2 * 2 * error", "dweights * weights**2"),
        Slip("broadcast", "np.sum(dbottom)", "dbottom[0]"),
        Slip("overwritten", "derror -= dweights", "derror = -dweights"),
        Slip("swapped", "deffective * km / 2.5", "deffective * inhibitor / 2.5"),
    )),
    Case("charging a capacitor", charging, charging_gradient,
         {"parts": np.array([1e6, 1.7e-6]), "supply": 5.0}, (
        Slip("swapped", "[dresistance, dcapacitance]", "[dcapacitance, dresistance]"),
        Slip("slip", "/ tau**2", "/ tau"),
        Slip("overwritten", "dcapacitance += dtau", "dcapacitance = dtau"),
        Slip("negated", "ddecay = -derror", "ddecay = derror"),
        Slip("term", "denergy = 1e3", "denergy = 0.0"),
        Slip("broadcast", "np.sum(derror * (1 - decay))", "np.mean(derror * (1 - decay))"),
    )),
    Case("diode by Newton's method", diode_current, diode_current_gradient,
         {"saturation": 1e-12, "supply": 5.0}, (
        Slip("stale", "dexcess * (e - 1)", "dexcess * (np.exp(v / THERMAL) - 1)"),
        Slip("stale", "de * e / THERMAL", "de * np.exp(v / THERMAL) / THERMAL"),
        Slip("overwritten", "dsaturation += dexcess", "dsaturation = dexcess"),
        Slip("left-out", "        dslope = dv * excess / slope**2", "        dslope = 0.0"),
        Slip("negated", "dsupply -= dexcess", "dsupply += dexcess"),
        Slip("slip", "de * e / THERMAL", "de * e"),
    )),
    Case("deflection of a beam", beam_deflection, beam_deflection_gradient,
         {"modulus": 2.1e11, "inertia": 1e-6, "load": 1.2e3, "span": 2.5}, (
        Slip("slip", "inertia**2", "inertia"),
        Slip("overwritten", "dinertia += dstiffness", "dinertia = dstiffness"),
        Slip("slip", "3 * span**2 / stiffness", "span**2 / stiffness"),
        Slip("slip", "4 * ratio**3", "ratio**3"),
        Slip("negated", "dstiffness = -dtip", "dstiffness = dtip"),
        Slip("left-out", "    dspan += dtip * load * 3 * span**2 / stiffness\n", ""),
        Slip("swapped", "dmodulus = dstiffness * 3 * inertia", "dmodulus = dstiffness * 3 * modulus"),
    )),
    # seconds since the epoch are rounded by 1.2e-7, twice: times 2 * SPEED**2, that is 4e-6 of entries of 5 to 7
    Case("ranging by two clocks", clock_ranging, clock_ranging_gradient,
         {"sent": np.array([10.25, 20.6, 31.1]), "received": np.array([11.9, 22.3, 32.45])}, (
        Slip("swapped", "stop - start", "start - stop"),
        Slip("term", "    delapsed += 0.1 * np.ones(3)\n", ""),
        Slip("slip", "ddistance * SPEED", "ddistance"),
        Slip("negated", "dstart = -delapsed", "dstart = delapsed"),
        Slip("overwritten", "delapsed += 0.1", "delapsed = 0.1"),
    ), resolves=1e-6),
    # the squares are 1e8 and their difference is about one, so it has 1e8 times the rounding of one operation
    Case("variance in one pass", one_pass_variance, one_pass_variance_gradient,
         {"x": 1e4 + rng.normal(size=12)}, (
        Slip("left-out", "dmean = -dvar * 2 * mean", "dmean = 0.0"),
        Slip("slip", "dvar * 2 * mean", "dvar * mean"),
        Slip("overwritten", "dx += dsquare", "dx = dsquare"),
        Slip("broadcast", "np.full(len(x), dmean / len(x))", "np.full(len(x), dmean)"),
        Slip("slip", "0.5 / var", "1 / var"),
        Slip("negated", "dmean = -dvar", "dmean = dvar"),
    ), resolves=1e-6),
    # the condition number of the matrix is 1.5e4, and two solves have that many times the rounding of one operation
    Case("nearly singular system", hilbert_solve, hilbert_solve_gradient,
         {"b": np.array([2.28, 1.45, 1.09, 0.88, 0.75]), "shift": 1e-4}, (
        Slip("negated", "dA = -np", "dA = np"),
        Slip("broadcast", "np.trace(dA)", "np.sum(dA)"),
        Slip("slip", "np.linalg.solve(A.T, dx)", "A.T @ dx"),
        Slip("swapped", "dx = x - 1", "dx = 1 - x"),
        Slip("left-out", "np.outer(db, x)", "np.outer(dx, x)"),
    ), resolves=1e-11),
)  # fmt: skip
