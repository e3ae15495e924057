"""Where functions come from: expressions, Python, layers, values and draws, scipy's solvers as equations."""
