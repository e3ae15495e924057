"""Naming the mistake in a wrong gradient, by trying mistakes until one makes the claim of the right gradient."""
