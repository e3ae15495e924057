"""The modes: each is one way to obtain a gradient, and all have one protocol."""
