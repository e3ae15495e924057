"""From what was seen at a point to a verdict: data, and pure functions of it."""
