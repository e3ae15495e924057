"""Floor 1: tracing. It knows that rules exist and knows no rule."""
