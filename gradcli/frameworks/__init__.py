"""Adapters for torch, JAX, TensorFlow and MLX: run their functions on numpy arrays, and check their gradients as claims."""
