"""Why something has no closed form: the first line of the program that has none, rather than what came of it in the sweep."""

from collections.abc import Sequence

from gradcli.core.provenance import place
from gradcli.derivation.convert import Reader
from gradcli.derivation.record import Sweep
from gradcli.errors import NotSupported


def first_refused(sweeps: Sequence[Sweep], reader: Reader, error: NotSupported) -> NotSupported:
    """Return the refusal of the first line that has no formula, with its place; the one given where every line has one."""
    lines = [s.tape.lines for s in sweeps]
    for k, line in enumerate(lines[0]):
        if any(k >= len(others) or others[k][:2] != line[:2] for others in lines[1:]):
            says, longest = "the program is another one at another size", max(lines, key=len)
            return NotSupported(says, where=place(longest[k][5]), do="give sizes as numbers: --shapes x:3")
        if line[0] is not None:
            try:
                reader.read([others[k][3] for others in lines])
            except NotSupported as found:
                found.where = place(line[5])
                return found
    return error
