"""Random programs with hand-written gradients: loops on values, writes in place, branches, classes; and a mistake planted in each."""

import random
from dataclasses import dataclass

# Each step computes {new} from {old}, vectors of one length, and pulls the gradient g of {new} back to that of {old}.
STEPS = {
    "tanh": (["{new} = np.tanh({old})"], ["g = g * (1 - {new} ** 2)"]),
    "in place": (["{new} = np.sin({old})", "{new} += 1.0"], ["g = g * np.cos({old})"]),
    "item": (["{new} = {old}.copy()", "{new}[0] *= 2.0"], ["g = g.copy()", "g[0] *= 2.0"]),
    "masked": (["{new} = {old}.copy()", "{new}[{new} < 0] *= 0.1"], ["g = g * np.where({old} < 0, 0.1, 1.0)"]),
    "loop to a tolerance": (
        ["{new} = np.ones_like({old})", "while np.max(np.abs({new} ** 2 - 1 - {old} ** 2)) > 1e-13:",
         "    {new} = 0.5 * ({new} + (1 + {old} ** 2) / {new})"],
        ["g = g * {old} / {new}"],
    ),
    "branch": (
        ["if {old}.sum() > 0.5:", "    {new} = {old} ** 3 / 3", "else:", "    {new} = np.exp(0.5 * {old})"],
        ["if {old}.sum() > 0.5:", "    g = g * {old} ** 2", "else:", "    g = g * 0.5 * np.exp(0.5 * {old})"],
    ),
    "matrix": (["{new} = self.W @ {old}"], ["g = self.W.T @ g"]),
    "recurrence": (
        ["{new} = {old}.copy()", "for i in range(1, len({new})):", "    {new}[i] += 0.5 * {new}[i - 1]"],
        ["g = g.copy()", "for i in range(len(g) - 1, 0, -1):", "    g[i - 1] += 0.5 * g[i]"],
    ),
    "shared": (["{new} = {old} * {old}[::-1]"], ["g = g * {old}[::-1] + (g * {old})[::-1]"]),
}  # fmt: skip
MISTAKES = (  # (what stands in the gradient's code, what stands there instead)
    (" ** 2)", ")"), ("np.cos(", "np.sin("), ("self.W.T", "self.W"), ("+= 0.5", "= 0.5"), ("+= 0.5", "-= 0.5"), ("* 2.0", "* 3.0"),
    ("0.1", "0.2"), ("g * 0.5 *", "g *"), (" + (g", " - (g"), ("2 * {last}", "{last}"), ("[::-1] + (g * {old})[::-1]", "[::-1]"),
    ("1 - {new}", "1 + {new}"), ("{old} / {new}", "{new} / {old}"), ("{old} ** 2", "{old}"), ("2 * {last}", "-2 * {last}"),
    ("*= 2.0", "*= -2.0"), ("range(len(g) - 1, 0, -1)", "range(1, len(g))"), ("2 * {last}", "2 * {old}"),
)  # fmt: skip


@dataclass(frozen=True)
class Program:
    """A module with `loss`, its right gradient `right` and a wrong one `wrong`, of one vector `x`; and a point."""

    text: str
    point: str
    steps: tuple[str, ...]


def program(seed: int) -> Program | None:
    """Return a random program with a planted mistake; None where no mistake of the table fits its gradient."""
    rng = random.Random(seed)
    n = rng.randint(2, 5)
    steps = [rng.choice(list(STEPS)) for _ in range(rng.randint(1, 5))]
    names = [f"a{k}" for k in range(len(steps) + 1)]
    forward, pieces = ["a0 = x"], []
    for step, old, new in zip(steps, names, names[1:], strict=False):
        made, pulled = STEPS[step]
        forward += [line.format(old=old, new=new) for line in made]
        pieces.append((pulled, {"old": old, "new": new}))
    last = names[-1]
    backward = [(["g = 2 * {last}"], {"last": last, "old": names[-2]}), *reversed(pieces)]
    right = [line.format(**where) for lines, where in backward for line in lines]
    choices = [
        (k, line.format(**where), line.replace(old, new).format(**where))
        for k, (line, where) in enumerate((line, where) for lines, where in backward for line in lines)
        for old, new in MISTAKES
        if old in line and ("{old}" not in new or "old" in where)
    ]
    if not choices:
        return None
    number, _, slip = rng.choice(choices)
    wrong = [slip if k == number else line for k, line in enumerate(right)]
    rows = [[round(rng.uniform(-1, 1), 2) for _ in range(n)] for _ in range(n)]
    text = ["import numpy as np", "", "", "class Model:", f"    W = np.array({rows})", ""]
    for name, back in (("loss", None), ("right", right), ("wrong", wrong)):
        text += [f"    def {name}(self, x):", *(f"        {line}" for line in forward)]
        text += [
            f"        return np.sum({last} ** 2)" if back is None else "",
            *(f"        {line}" for line in back or ()),
        ]
        text += [] if back is None else ["        return g"]
        text += [""]
    text += ["", "model = Model()", "loss, right, wrong = model.loss, model.right, model.wrong", ""]
    point = ", ".join(str(round(rng.uniform(-1.5, 1.5), 3)) for _ in range(n))
    return Program("\n".join(text), f"x=[{point}]", tuple(steps))
