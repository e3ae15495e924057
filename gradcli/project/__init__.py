"""Suites, find, init and run."""
