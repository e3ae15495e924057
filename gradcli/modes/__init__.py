"""Floor 4: the modes, each one way to obtain a gradient, all behind one protocol."""
