"""The same checks and gradients from Python: a report that is true or false, and functions that return derivatives."""

import numpy as np
from losses import focal, focal_grad, focal_grad_without_the_weight

import gradcli

at = {"z": np.array([0.5, -1.0, 2.0]), "y": np.array([1.0, 0.0, 1.0])}
for claim in (focal_grad, focal_grad_without_the_weight):
    report = gradcli.check(focal, at, grad=claim)
    print(claim.__name__, "is right:", bool(report))

print("gradient", gradcli.grad(focal)(**at))
print("Hessian times v", gradcli.hvp(lambda z: focal(z, at["y"]), at["z"], np.array([1.0, 0.0, 0.0])))
