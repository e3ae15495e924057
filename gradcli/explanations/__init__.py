"""What each kind of finding and diagnosis means: one table of rows, from which `gradcli explain` and documents are made.

Only `gradcli explain` loads this package. A row is an `Explanation`; its example is a command that shows the kind.
"""

from gradcli.explanations import frameworks, inform, mistakes, prevent

UNKNOWN = mistakes.ROWS[-1]
ALL = (
    *prevent.ROWS,
    *frameworks.PREVENT,
    *inform.ROWS,
    *frameworks.INFORM,
    *mistakes.ROWS[:-1],
    *frameworks.MISTAKES,
    UNKNOWN,
)
