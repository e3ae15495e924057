"""Custom backward passes, right and subtly wrong: what gradcli says of them, and what the framework's own checker does.

    python benchmarks/frameworks_corpus.py --framework jax

Every tool is asked at its defaults. `caught` are wrong versions that it rejects, `named` those where it says which custom
function is wrong inside a program, `refused` versions that it cannot check at all, `false alarms` right ones that it
rejects. `jax.test_util.check_grads` has forward mode among its defaults, which no custom_vjp has: it is asked again without,
and in float64.
"""

import argparse
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))

import gradcli
from tests.frameworks.corpus.case import Case

Answer = str  # right, wrong, named, refused
Tool = Callable[[Case, Callable[..., Any]], Answer]


def by_gradcli(program: Callable[..., Any], at: Callable[[Case], dict[str, Any]], framework: str) -> Tool:
    """Return gradcli's check of a program with the custom function inside."""

    def asked(case: Case, custom: Callable[..., Any]) -> Answer:
        report = gradcli.check(program(custom), at(case), framework=framework, expect=case.expect)
        if report.exit_status == 0:
            return "right"
        if report.exit_status != 1:
            return "refused"
        return "named" if any(part.verdict == "fail" for part in report.native.parts) else "wrong"

    return asked


def by_check_grads(modes: tuple[str, ...], wide: bool) -> Tool:
    """Return JAX's own check of the custom function."""

    def asked(case: Case, custom: Callable[..., Any]) -> Answer:
        import jax
        import jax.numpy as jnp
        from jax.test_util import check_grads

        with jax.enable_x64(wide):
            given = [jnp.asarray(x) for x in case.inputs.values()]
            moving = [k for k, x in enumerate(given) if x.dtype.kind == "f"]

            def of_floats(*floats: Any) -> Any:
                xs = list(given)
                for k, x in zip(moving, floats, strict=True):
                    xs[k] = jnp.asarray(x)
                return 1.0 * custom(*xs)  # so that a backward pass gets an array of JAX's, not numpy's

            try:
                check_grads(of_floats, tuple(given[k] for k in moving), order=1, modes=modes)
            except AssertionError:
                return "wrong"
            except TypeError:
                return "refused"
        return "right"

    return asked


def by_gradcheck() -> Tool:
    """Return torch's own check of the custom function."""

    def asked(case: Case, custom: Callable[..., Any]) -> Answer:
        import torch
        from torch.autograd.gradcheck import GradcheckError, gradcheck

        xs = [torch.tensor(x) for x in case.inputs.values()]
        given = [x.requires_grad_() if x.is_floating_point() else x for x in xs]
        try:
            gradcheck(custom, given)
        except GradcheckError:
            return "wrong"
        except RuntimeError:
            return "refused"
        return "right"

    return asked


def tools(framework: str) -> tuple[tuple[Case, ...], dict[str, Tool]]:
    """Return the corpus of a framework and who is asked."""
    if framework == "jax":
        from tests.frameworks.corpus.jax_functions import CASES
        from tests.frameworks.corpus.programs import jax_program

        return CASES, {
            "gradcli": by_gradcli(jax_program, lambda case: dict(case.inputs), "jax"),
            "check_grads": by_check_grads(("fwd", "rev"), wide=False),
            "check_grads, reverse": by_check_grads(("rev",), wide=False),
            "check_grads, reverse, float64": by_check_grads(("rev",), wide=True),
        }
    from tests.frameworks.corpus.torch_functions import CASES as TORCH

    at = lambda case: {"xs": tuple(case.inputs.values())}
    return tuple(TORCH), {"gradcli": by_gradcli(lambda program: program, at, "torch"), "gradcheck": by_gradcheck()}


def versions(cases: tuple[Case, ...]) -> Iterator[tuple[Case, str | None, Callable[..., Any]]]:
    """Yield each version with what is wrong with it."""
    for case in cases:
        yield case, None, case.right
        for says, wrong in case.wrong.items():
            yield case, says, wrong


def main() -> None:
    """Print one table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--framework", choices=("torch", "jax"), required=True)
    parser.add_argument("--missed", action="store_true", help="list what each tool misses and rejects")
    options = parser.parse_args()
    cases, asked = tools(options.framework)
    answers = {name: [(case, says, tool(case, f)) for case, says, f in versions(cases)] for name, tool in asked.items()}
    print(
        f"{len(cases)} custom backward passes, {sum(len(case.wrong) for case in cases)} wrong versions, numpy {np.__version__}\n"
    )
    print("| tool | caught | missed | named | false alarms | refused |")
    print("| --- | ---: | ---: | ---: | ---: | ---: |")
    for name, found in answers.items():
        wrong, right = [a for _, says, a in found if says], [a for _, says, a in found if not says]
        caught = sum(a in ("wrong", "named") for a in wrong)
        row = [
            caught,
            wrong.count("right"),
            wrong.count("named"),
            right.count("wrong") + right.count("named"),
            right.count("refused"),
        ]
        print(f"| {name} | " + " | ".join(map(str, row)) + " |")
    for name, found in answers.items() if options.missed else ():
        for case, says, answer in found:
            if (answer == "right") == bool(says):
                print(f"{name}: {case.name}: {says or 'right'}: {answer}")


if __name__ == "__main__":
    main()
