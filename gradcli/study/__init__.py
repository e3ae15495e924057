"""Sweep, compare-modes, cost and the walkthrough."""
