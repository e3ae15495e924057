"""torchdiffeq: solutions of differential equations whose gradients are those of the adjoint equation."""

import numpy as np
import torch
from torchdiffeq import odeint_adjoint

from tests.packages.cases import Case

TIMES = torch.linspace(0, 0.1, 2, dtype=torch.float64)
Y = np.array([0.4, -0.7])


class Field(torch.nn.Module):
    """A linear vector field, damped by the cube."""

    def __init__(self):
        super().__init__()
        self.A = torch.nn.Parameter(torch.tensor([[-0.1, 2.0], [-2.0, -0.1]], dtype=torch.float64))

    def forward(self, t, y):
        return self.A @ y - y**3


class Flow(torch.nn.Module):
    """The state at the end."""

    def __init__(self, adjoint_params=None):
        super().__init__()
        self.field = Field()
        self.known = adjoint_params

    def forward(self, y):
        return odeint_adjoint(self.field, y, TIMES, method="dopri8", rtol=1e-11, atol=1e-12, adjoint_params=self.known)[
            -1
        ]


# The mistake is to name no parameters of the adjoint equation: their gradient is lost.
CASES = [Case("odeint_adjoint", Flow(), (Y,), None, Flow(adjoint_params=()), "framework", glue=9, decided_by="reverse")]
