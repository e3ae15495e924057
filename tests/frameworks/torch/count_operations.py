"""Count the operations of torch whose own samples are recorded with torch's value and gradient.

Run by hand: python -m tests.frameworks.torch.count_operations [--second] [part of a name ...] (needs torch, and expecttest, which its tests import).
"""

import signal
import sys
import warnings
from collections import Counter
from functools import partial
from typing import Any

import torch
from torch.testing._internal.common_methods_invocations import op_db

from gradcli.errors import GradcliError
from tests.frameworks.torch.recording import Differs, checked, floats

SECOND = "--second" in sys.argv  # record torch's own gradients, and differentiate those
MOST, SECONDS = 60, 40  # samples of an operation, and for all of them


def once(op: Any, sample: Any) -> Any:
    """Return what an operation makes of a sample, without what no two libraries agree on."""
    return sample.output_process_fn_grad(op(sample.input, *sample.args, **sample.kwargs))


def outcome(op: Any) -> tuple[str, str]:
    """Return how the samples of an operation fared: `passes`, or what went wrong first and where."""
    samples = list(op.sample_inputs("cpu", torch.float64, requires_grad=op.supports_autograd))[:MOST]
    for k, sample in enumerate(samples):
        xs = floats((sample.input, sample.args, sample.kwargs))
        moved = [x for x in xs if x.requires_grad] or xs
        run = partial(once, op, sample)
        if SECOND:
            run = partial(slopes, run, moved)
        try:
            checked(run, list({id(x): x for x in moved}.values()))
        except Differs as differs:
            return "differs", f"sample {k}: {differs}"
        except GradcliError as error:
            return "refused", f"sample {k}: {error}"
        except Exception as error:
            return "error", f"sample {k}: {type(error).__name__}: {error}"
    return "passes", ""


def slopes(f: Any, xs: list[Any]) -> Any:
    """Return torch's gradient of the sines of what f returns, as a function that can be differentiated in turn."""
    total = sum(y.sin().sum() for y in floats(f()) if y.requires_grad)
    wrt = [x for x in xs if x.requires_grad]
    if not wrt or not isinstance(total, torch.Tensor):
        return f()
    return torch.autograd.grad(total, wrt, create_graph=True, allow_unused=True, materialize_grads=True)


class TooLong(Exception):
    """The samples of an operation take too long."""


def _stop(*_: Any) -> None:
    raise TooLong


def main(parts: list[str]) -> None:
    """Print what does not pass, and the counts."""
    torch.manual_seed(0)
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    signal.signal(signal.SIGALRM, _stop)
    counts: Counter[str] = Counter()
    for op in op_db:
        name = op.name + ("." + op.variant_test_name if op.variant_test_name else "")
        if (parts and not any(part in name for part in parts)) or torch.float64 not in op.supported_dtypes("cpu"):
            continue
        signal.alarm(SECONDS)
        try:
            kind, said = outcome(op)
        except TooLong:
            kind, said = "slow", ""
        except Exception as error:
            kind, said = "torch", f"{type(error).__name__}: {error}"
        finally:
            signal.alarm(0)
        counts[kind] += 1
        if kind != "passes":
            print(f"{kind:8s} {name:45s} {' '.join(said.split())[:230]}", flush=True)
    print(dict(counts), "of", sum(counts.values()))


if __name__ == "__main__":
    main([part for part in sys.argv[1:] if part != "--second"])
