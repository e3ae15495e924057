"""Functions of torch, JAX, TensorFlow and MLX as functions of numpy arrays."""
