"""Suites: checks that a project declares, how they are selected, run, remembered, and put together again."""
