"""torch: tensors, modules and custom functions."""
