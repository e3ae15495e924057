"""Floor 5: deciding."""
