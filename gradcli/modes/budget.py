"""The budget of one gradient: scalar operations and evaluations, which are counted, and the user's time limit."""

from dataclasses import dataclass, replace

from gradcli.errors import GradcliError
from gradcli.modes.work import Effort


class NotRun(GradcliError):
    """A mode was not run, because it was predicted to cost too much."""

    kind = "not run"


class OverBudget(NotRun):
    """A mode was not run, because it would take more evaluations than the user allows."""


@dataclass(frozen=True, slots=True)
class Budget:
    """What a mode may take: scalar operations, limited by its effort, and seconds, limited only if the user says so."""

    effort: Effort = Effort.NAMED
    mode_timeout: float | None = None

    def at_least(self, effort: Effort) -> "Budget":
        """Return the same budget with this effort, or its own effort if that is greater."""
        return replace(self, effort=max(self.effort, effort, key=lambda e: e.value))

    def admit(self, work: float, what: str, *, essential: bool = False) -> None:
        """Check that a mode may make `work` scalar operations, which `what` describes in the message.

        `essential` work gets at least the limit of `--modes all`.

        Raises  NotRun if the work is over the limit.
        """
        allowed = max(self.effort.value, Effort.ALL.value) if essential else self.effort.value
        if work <= allowed:
            return
        asked = "--modes all" if work <= Effort.ALL.value else "request the mode by name: --modes"
        raise NotRun(f"it takes {what}, about {work:.0e} operations in all, over the limit of {allowed:.0e}", do=asked)


WITHOUT_LIMITS = Budget()
