"""Error messages of frameworks that cannot compute a gradient, and the user's mistake behind each."""

from dataclasses import dataclass

from gradcli.errors import BadClaim, GradcliError
from gradcli.targets.python import message_of
from gradcli.tracing.provenance import raised_at


@dataclass(frozen=True, slots=True)
class Pitfall:
    """A known mistake: words of the framework's message, its name, what it means and what to do."""

    words: tuple[str, ...]
    kind: str
    says: str
    do: str


PITFALLS = (
    Pitfall(("modified by an inplace operation",), "in-place",
            "a tensor that the backward pass needs was changed in place after it was saved",
            "write y = y + 1 instead of y += 1, or save a clone"),
    Pitfall(("backward through the graph a second time",), "retain-graph",
            "the graph was freed by a first backward pass", "compute both gradients in one call, or pass retain_graph=True to the first"),
    Pitfall(("does not require grad and does not have a grad_fn",), "requires-grad",
            "the result does not depend on anything that requires a gradient",
            "set requires_grad_() on the inputs, and avoid detach(), .data, .item() and no_grad() in between"),
    Pitfall(("Only Tensors of floating point", "only Tensors of floating point", "grad requires real- or complex-valued"), "integers",
            "an integer tensor cannot have a gradient", "make it a tensor of floats: x.double()"),
    Pitfall(("returned an invalid gradient", "incorrect number of gradients", "shape mismatch", "must have the same shape", "bwd rule", "function expected to return"), "shape",
            "the backward pass returns gradients of the wrong number or shape", "return one gradient for each input of forward, in its shape"),
    Pitfall(("Custom VJP fwd rule", "Custom JVP rule"), "shape",
            "the rule returns the wrong values", "fwd returns the result and the residuals; jvp the result and its tangent"),
    Pitfall(("nondiff_argnums",), "nondiff", "an argument that nondiff_argnums excludes is differentiated",
            "name the others: --wrt x"),
    Pitfall(("unhashable", "Non-hashable static"), "static", "an array is given where jit takes a static argument",
            "remove it from static_argnums"),
    Pitfall(("TracerArrayConversionError",), "numpy", "numpy is given a value that JAX differentiates", "use jax.numpy: jnp.sin(x)"),
    Pitfall(("ConcretizationTypeError", "TracerBoolConversionError", "TracerIntegerConversionError", "NonConcreteBooleanIndexError"),
            "concrete", "Python needs a number, but JAX has only a traced value",
            "use jnp.where, lax.cond or lax.fori_loop, and no float() or jit in between"),
    Pitfall(("UnexpectedTracerError",), "leak", "a traced value of an earlier call is used: it was kept in a global, a list or an attribute",
            "return it instead"),
    Pitfall(("Leaf variable", "leaf Variable that requires grad"), "in-place",
            "an input is changed in place", "work on a copy: x = x.clone()"),
)  # fmt: skip


CUTS = {
    "detach": "detach() cuts the graph here",
    "item": "a number is taken out of a tensor here (.item(), float(), an if)",
    "data": ".data, or an array that shares the memory, bypasses the graph here",
    "stop": "a stopped gradient cuts the graph here",
}


MASKED = (
    "a choice such as where(...) hides a value that is not finite, but its gradient is 0 times an infinite slope: nan"
)


def known(error: BaseException) -> Pitfall | None:
    """Return the mistake behind a framework's error, or None if it is not a known one."""
    said = message_of(error)
    return next((pitfall for pitfall in PITFALLS if any(word in said for word in pitfall.words)), None)


def told(error: BaseException, pitfall: Pitfall, kind: type[GradcliError]) -> GradcliError:
    """Return an error of type `kind` that explains the mistake behind a framework's error."""
    said, where = (error.what, error.where) if isinstance(error, GradcliError) else (message_of(error), None)
    where = where or raised_at(error.__traceback__)
    return kind(f"{pitfall.says} ({pitfall.kind}): {said}", where=where, do=pitfall.do)


def explained(error: Exception, name: str, framework: str) -> tuple[str, GradcliError]:
    """Return the kind of mistake (empty if unknown) and an error that says why a framework could not differentiate."""
    pitfall = known(error)
    if pitfall is not None:
        return pitfall.kind, told(error, pitfall, BadClaim)
    where = raised_at(error.__traceback__)
    return "", BadClaim(f"{framework} cannot differentiate {name}: {message_of(error)}", where=where)
