"""Child processes: start, limit, cancel, crash; for user code, sympy, suites and repairs."""
