"""The adapter for MLX: its functions as targets, and its graphs replayed in numpy."""
