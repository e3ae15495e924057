"""Code that computes a closed form: one writer, and a table for each language of what it calls things."""
