"""Floor 3: where functions and values come from."""
