"""The adapter for TensorFlow: its functions as targets, and its graphs replayed in numpy."""
