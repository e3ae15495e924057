"""The ways to obtain a gradient, each with its bound, and the numerics they rest on."""
