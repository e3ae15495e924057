"""Decide the verdict on a point: the evidence as data, and pure functions of it."""
