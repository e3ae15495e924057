"""Why something has no closed form: the first line of the program that has none, rather than what came of it in the sweep."""

from collections.abc import Sequence

from gradcli.core.provenance import place
from gradcli.derivation.convert import Reader
from gradcli.derivation.record import Sweep
from gradcli.errors import NotSupported


def first_refused(sweeps: Sequence[Sweep], reader: Reader, error: NotSupported) -> NotSupported:
    """Return the refusal of the first line that has no formula, with its place; the one given where every line has one."""
    tapes = [s.tape for s in sweeps]
    for k, (primitive, slots, _, _, _, position) in enumerate(tapes[0].lines):
        same = (primitive, slots)
        if any(k >= len(t.lines) or (t.primitive(k), t.operands(k)) != same for t in tapes[1:]):
            says, longest = "the program is another one at another size", max(tapes, key=lambda t: len(t.lines))
            return NotSupported(says, where=place(longest.position(k)), do="give sizes as numbers: --shapes x:3")
        if primitive is not None:
            try:
                reader.read([t.value(k) for t in tapes])
            except NotSupported as found:
                found.where = place(position)
                return found
    return error
