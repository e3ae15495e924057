"""Floor 0: reports, one frozen dataclass per command, and what they are made of."""
