"""Floor 7: one thin file per command."""
