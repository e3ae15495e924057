"""Floor 1: tracing. This package defines what a derivative rule is, and contains no rule."""
