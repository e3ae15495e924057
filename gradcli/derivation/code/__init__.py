"""Code that computes a closed form: one writer, and for each language a table of its names."""
