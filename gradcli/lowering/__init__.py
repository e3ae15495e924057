"""One table per other arithmetic: what stands there for a primitive of ours."""
