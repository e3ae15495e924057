"""How much may be done for one gradient: scalar operations and evaluations, counted, and the user's seconds."""

from dataclasses import dataclass, replace

from gradcli.errors import GradcliError
from gradcli.modes.work import Effort


class NotRun(GradcliError):
    """A mode was not run, because it was predicted to cost too much."""

    kind = "not run"


class OverBudget(NotRun):
    """The same, because it would take more evaluations than the user allows."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a mode may take: scalar operations by its effort, and seconds only where the user sets them."""

    effort: Effort = Effort.NAMED
    mode_timeout: float | None = None

    def at_least(self, effort: Effort) -> "Budget":
        """Return the same budget, with more effort where less was asked for."""
        return replace(self, effort=max(self.effort, effort, key=lambda e: e.value))

    def admit(self, work: float, what: str, *, essential: bool = False) -> None:
        """Let a mode make so many scalar operations, which `what` names. Raises NotRun where they are more than it may take."""
        allowed = max(self.effort.value, Effort.ALL.value) if essential else self.effort.value
        if work <= allowed:
            return
        asked = "--modes all" if work <= Effort.ALL.value else "request the mode by name: --modes"
        raise NotRun(f"it takes {what}, about {work:.0e} operations in all, over the limit of {allowed:.0e}", do=asked)


WITHOUT_LIMITS = Budget()
