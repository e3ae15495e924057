"""Low precision: every operation of a program, and of its reverse sweep, rounded to a narrow format, losses counted."""

from collections import Counter
from collections.abc import Sequence
from functools import cache
from typing import Any, ClassVar

import numpy as np

from gradcli.core.primitive import Params, Primitive, Value
from gradcli.core.tracer import Arithmetic, Tracer
from gradcli.lowering.floats import Format


class Low(Arithmetic):
    """A value in a narrow format, held in a wider one; rules run in their textbook form, as frameworks run them."""

    __slots__ = ("value",)
    level = 0
    form: ClassVar[Format]
    events: ClassVar[Counter[str]]

    def __init__(self, value: Any) -> None:
        self.value = value
        self.storage = None

    @classmethod
    def lift(cls, number: Value) -> Any:
        return cls(cls.rounded(np.asarray(number, dtype=np.float64)))

    @classmethod
    def rounded(cls, y: Any) -> Any:
        """Return a result in the format; entries that become zero or infinite by it are counted."""
        y = np.asarray(y)
        kept = np.asarray(cls.form.rounded(y), dtype=_working(cls.form))
        size = np.abs(kept)
        cls.events["underflow"] += int(np.count_nonzero((size == 0) & (y != 0)))
        cls.events["subnormal"] += int(np.count_nonzero((size < cls.form.tiny) & (size > 0)))
        cls.events["overflow"] += int(np.count_nonzero(~np.isfinite(kept) & np.isfinite(y)))
        return kept[()]

    def hold(self, x: Value) -> Tracer:
        return x if isinstance(x, Low) else self.lift(x)

    @property
    def primal(self) -> Value:
        return np.asarray(self.value, dtype=np.float64)[()]

    @property
    def shape(self) -> tuple[int, ...]:
        return np.shape(self.value)

    def process(self, primitive: Primitive, xs: Sequence[Value], params: Params) -> Value:
        values = [self._operand(x) for x in xs]
        y = np.asarray(primitive.fun(*values, **params))
        if y.dtype.kind != "f":
            return y[()]
        return type(self)(self.rounded(y))

    def _operand(self, x: Value) -> Any:
        if isinstance(x, Low):
            return x.value
        array = np.asarray(x)
        return np.asarray(self.form.rounded(array), dtype=_working(self.form)) if array.dtype.kind == "f" else x


def _working(form: Format) -> Any:
    """Return the type that operations are computed in: of a wider range than the format, so that what is lost is seen."""
    return np.float32 if form.tiny > np.finfo(np.float32).tiny else np.float64


@cache
def low(form: Format) -> type[Low]:
    """Return the arithmetic of a format."""
    return type("Low", (Low,), {"__slots__": (), "form": form, "events": Counter()})
