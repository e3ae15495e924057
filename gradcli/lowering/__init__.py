"""One table for each other arithmetic or framework: the functions that implement the primitives there."""
