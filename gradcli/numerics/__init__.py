"""Numerical tools: noise, steps, kinks, rounding."""
