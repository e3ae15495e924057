"""What stands for a field that a document leaves out."""

from typing import Literal


class Absent:
    """The default of a field that is left out of the document when there is nothing to say."""

    def __bool__(self) -> Literal[False]:
        return False


ABSENT = Absent()
