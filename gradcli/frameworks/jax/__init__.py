"""The adapter for JAX: its functions as targets, and its programs replayed in numpy."""
