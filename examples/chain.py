"""A chain of springs above a floor: the gradient is right until a link touches the floor."""

import numpy as np
from scipy.optimize import minimize

FLOOR, STIFFNESS = -1.0, 50.0


def energy(y):
    stretched = np.diff(y, prepend=0.0, append=0.0)
    below = np.maximum(FLOOR - y, 0.0)
    return 3.0 * np.sum(stretched**2) + np.sum(y) + STIFFNESS * np.sum(below**2)


def energy_grad(y):
    stretched = np.diff(y, prepend=0.0, append=0.0)
    below = np.maximum(FLOOR - y, 0.0)
    return 6.0 * (stretched[:-1] - stretched[1:]) + 1.0 - STIFFNESS * below  # a factor 2 is missing


if __name__ == "__main__":
    rest = minimize(energy, np.zeros(7), jac=energy_grad, method="BFGS", options={"maxiter": 5})
    print(f"the lowest link hangs at {rest.x.min():.2f}")
