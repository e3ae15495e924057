"""Components, which hold a function and its partials: `compute` with `compute_partials`, as those of OpenMDAO."""

import importlib
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any

import numpy as np

from gradcli.classes import dataclass
from gradcli.errors import BadClaim, BadPoint, BadTarget
from gradcli.targets.layers import instance_of, parameters_of, with_name_and_signature
from gradcli.targets.loading import run_user_code
from gradcli.targets.points import parse_value
from gradcli.tracing.shapes import shape
from gradcli.tracing.tracer import Tracer


@dataclass(frozen=True, slots=True)
class Component:
    """The function of an object, and the derivative that it claims: its kind, as an option names it, and the function of it.

    `declared` are the values of inputs that the object declares itself, used where a point gives none.
    """

    function: Callable[..., Any]
    kind: str
    claim: Callable[..., Any]
    declared: Mapping[str, Any] = field(default_factory=dict)

    def completed(self, point: Mapping[str, Any], whole: str, seed: int, number: int) -> dict[str, Any]:
        """Return a point with the declared inputs; `whole` is the key of a point that Python supplies as one object.

        Values in the shape that is declared; drawn where all that is declared are the ones that stand for no value.
        """
        if not self.declared:
            return dict(point)
        held = point.get(whole)
        given = {**(held if isinstance(held, dict) else {}), **{name: x for name, x in point.items() if name != whole}}
        found = {}
        for name, x in self.declared.items():
            if name in given:
                found[name] = _fit_declared_shape(name, given[name], shape(x))
            elif np.all(np.asarray(x) == 1.0):
                size = ", ".join(map(str, shape(x)))
                found[name] = parse_value(f"uniform(0.5, 1.5{', ' if size else ''}{size})", name, seed, number)
            else:
                found[name] = x
        return {**given, **found}


def component_of(found: Any, text: str) -> Component | None:
    """Return the function and the derivative of a class or an object with `compute` and `compute_partials`; None for others.

    Raises  BadTarget for a class that cannot be made without arguments.
    """
    if inspect.isfunction(found) or inspect.ismethod(found) or inspect.isbuiltin(found):
        return None
    if not all(callable(getattr(found, name, None)) for name in ("compute", "compute_partials")):
        return None
    instance = instance_of(found, text)
    if len(parameters_of(instance.compute)) != 2:
        raise BadTarget(f"{text}.compute takes discrete inputs too", do="write a component of the continuous ones")
    if any(kind.__module__.partition(".")[0] == "openmdao" for kind in type(instance).__mro__):
        return _openmdao_component(instance, text)

    def partials(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Mapping[tuple[str, str], Any]:
        found: dict[Any, Any] = {}
        instance.compute_partials(dict(inputs), found)
        return found

    return _make_component(instance, partials, {}, {})


def _openmdao_component(instance: Any, text: str) -> Component:
    """Return a component of OpenMDAO: set up alone in a problem, whose total derivatives are its partials."""
    om: Any = importlib.import_module("openmdao.api")
    problem = om.Problem(reports=False)
    problem.model.add_subsystem("component", instance, promotes=["*"])
    with run_user_code(f"{text}.setup"):
        problem.setup()
        problem.final_setup()
    keys = ("val", "shape")
    declared = {
        kind: {name: np.array(meta["val"]) for name, meta in instance.get_io_metadata((kind,), keys).items()}
        for kind in ("input", "output")
    }

    def partials(inputs: Mapping[str, Any], outputs: Mapping[str, Any]) -> Mapping[tuple[str, str], Any]:
        for name, x in inputs.items():
            problem.set_val(name, x)
        problem.run_model()
        found: Mapping[tuple[str, str], Any] = problem.compute_totals(of=list(outputs), wrt=list(inputs))
        return found

    return _make_component(instance, partials, declared["input"], declared["output"])


def _make_component(
    instance: Any, partials: Callable[..., Any], inputs: Mapping[str, Any], outputs: Mapping[str, Any]
) -> Component:
    def compute(**given: Any) -> Any:
        hold = next((x.hold for x in given.values() if isinstance(x, Tracer)), lambda zeros: zeros)
        written = {name: hold(np.zeros(np.shape(x))) for name, x in outputs.items()}
        instance.compute(dict(given), written)
        return written if len(written) > 1 else next(iter(written.values()), None)

    def jacobian(**given: Any) -> dict[str, Any]:
        y = compute(**given)
        names = dict(outputs)  # where none is declared, compute writes the only one
        if not isinstance(y, dict) and not names:
            instance.compute(dict(given), names)
        values = y if isinstance(y, dict) else {next(iter(names)): y}
        found = partials(given, values)
        return {name: _stack_partials(found, values, name, x) for name, x in given.items()}

    named = [inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY) for name in inputs]
    taken = named or [inspect.Parameter("inputs", inspect.Parameter.VAR_KEYWORD)]
    owner = type(instance).__name__
    claim = with_name_and_signature(jacobian, instance.compute_partials, taken, owner)
    return Component(with_name_and_signature(compute, instance.compute, taken, owner), "jac", claim, inputs)


def _stack_partials(found: Mapping[tuple[str, str], Any], values: Mapping[str, Any], name: str, x: Any) -> Any:
    """Return the partials of all outputs by one input; those that were not written are zero."""
    blocks = [_partial_as_matrix(found.get((of, name)), of, name, y, x) for of, y in values.items()]
    if len(blocks) == 1:
        return blocks[0].reshape(shape(next(iter(values.values()))) + shape(x))
    return np.concatenate([block.reshape((-1, *shape(x))) for block in blocks])


def _partial_as_matrix(partial: Any, of: str, name: str, y: Any, x: Any) -> Any:
    rows, columns = int(np.size(y)), int(np.size(x))
    if partial is None:
        return np.zeros((rows, columns))
    if hasattr(partial, "toarray"):
        partial = partial.toarray()
    given = np.asarray(partial, dtype=float)
    if given.size == rows * columns:
        return given.reshape((rows, columns))
    if given.size == 1:
        return np.full((rows, columns), float(given.reshape(-1)[0]))
    if rows == columns == given.size:
        return np.diag(given.reshape(-1))
    has = f"the output has {rows} entries, and the input {columns}"
    says = f"the partial of {of} by {name} has shape {given.shape}; {has}"
    raise BadClaim(says, do=f"write an array of shape ({rows}, {columns})")


def _fit_declared_shape(name: str, x: Any, wanted: Sequence[int]) -> Any:
    """Return a value in the shape that is declared: a number fills it. Raises BadPoint."""
    try:
        return np.array(np.broadcast_to(np.asarray(x, dtype=float), wanted))
    except ValueError:
        says = f"{name} has shape {shape(x)}; it is declared as {tuple(wanted)}"
        raise BadPoint(says, do="give it that shape") from None
