"""Functions written in torch, JAX, TensorFlow or MLX: as functions of numpy arrays, and their own gradients as claims."""
