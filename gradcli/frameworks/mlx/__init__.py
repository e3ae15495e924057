"""MLX: what is checked in it, and how it is asked."""
