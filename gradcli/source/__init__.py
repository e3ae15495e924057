"""Where functions and their inputs come from: expressions, Python code, and the values of a point."""
