"""Edits and hard points: what a check may add, within one budget."""
