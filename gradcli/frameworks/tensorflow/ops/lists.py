"""TensorFlow's lists of tensors, which loops fill; here they are never changed in place."""

from collections.abc import Callable
from typing import Any

import numpy as np

from gradcli.core.primitive import Value
from gradcli.core.shapes import shape

Entry = Callable[..., Any]


class Items(tuple[Value, ...]):
    """A list of tensors, None for items not yet set; a plain tuple would stand for several results."""

    __slots__ = ()


def _sizes(given: Any, items: Items) -> tuple[int, ...]:
    """Return the shape of the items: that of the first item that is set, or else the given one."""
    known = next((shape(x) for x in items if x is not None), None)
    return known if known is not None else tuple(max(int(n), 0) for n in np.ravel(given))


def set_item(
    items: Items, at: Any, x: Value, *, resize_if_index_out_of_bounds: bool = False, **attrs: Any
) -> tuple[Value, ...]:
    """Return the list with an item put at a position."""
    k = int(at)
    grown = items + (None,) * max(0, k + 1 - len(items))
    return (*grown[:k], x, *grown[k + 1 :])


def get_item(items: Items, at: Any, sizes: Any, **attrs: Any) -> Value:
    """Return the item at a position; zeros if it is not set."""
    found = items[int(at)]
    return np.zeros(_sizes(sizes, items)) if found is None else found


def stack(items: Items, sizes: Any, **attrs: Any) -> Value:
    """Return the items as one array."""
    inner = _sizes(sizes, items)
    return np.stack([np.zeros(inner) if x is None else x for x in items]) if items else np.zeros((0, *inner))


def concat(items: Items, sizes: Any = None, *_: Any, **attrs: Any) -> tuple[Value, Any]:
    """Return the items joined along their first axis, and the length of each."""
    return np.concatenate(items, axis=0), np.array([shape(x)[0] for x in items], dtype=np.int64)


def gather(items: Items, at: Any, sizes: Any, **attrs: Any) -> Value:
    """Return the items at positions as one array."""
    return stack(Items(items[int(k)] for k in np.ravel(at)), sizes)


def scatter(x: Value, at: Any, sizes: Any, count: Any = -1, **attrs: Any) -> tuple[Value, ...]:
    """Return a list with the rows of `x` at positions."""
    places = [int(k) for k in np.ravel(at)]
    items: list[Any] = [None] * max(int(count), max(places, default=-1) + 1)
    for k, place in enumerate(places):
        items[place] = x[k]
    return tuple(items)


def split(x: Value, sizes: Any, lengths: Any, **attrs: Any) -> tuple[Value, ...]:
    """Return blocks of rows as a list."""
    ends = np.cumsum(lengths).tolist()
    return tuple(x[end - int(n) : end] for end, n in zip(ends, np.ravel(lengths), strict=True))


def listed(function: Entry) -> Entry:
    """Return an entry whose result is a list of tensors."""
    return lambda *xs, **attrs: Items(function(*xs, **attrs))


TABLE: dict[str, Entry] = {
    "TensorListReserve": listed(lambda sizes, count, **attrs: (None,) * int(count)),
    "EmptyTensorList": listed(lambda *xs, **attrs: ()),
    "TensorListFromTensor": listed(lambda x, sizes, **attrs: tuple(x[k] for k in range(shape(x)[0]))),
    "TensorListSetItem": listed(set_item), "TensorListGetItem": get_item, "TensorListStack": stack,
    "TensorListPushBack": listed(lambda items, x, **attrs: (*items, x)),
    "TensorListPopBack": lambda items, sizes, **attrs: (Items(items[:-1]), get_item(items, -1, sizes)),
    "TensorListLength": lambda items, **attrs: np.int32(len(items)),
    "TensorListResize": listed(lambda items, n, **attrs: (*items, *(None,) * int(n))[: int(n)]),
    "TensorListConcatV2": concat, "TensorListConcat": concat, "TensorListGather": gather,
    "TensorListScatterV2": listed(scatter), "TensorListScatter": listed(scatter), "TensorListSplit": listed(split),
    "OptionalFromValue": listed(lambda *xs, **attrs: xs), "OptionalNone": listed(lambda **attrs: ()),
    "TensorListElementShape": lambda items, **attrs: np.array(_sizes((), items), dtype=np.int32),
}  # fmt: skip
