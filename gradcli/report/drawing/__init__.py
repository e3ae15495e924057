"""Drawings as SVG: layouts of graphs, the graph of a computation, charts, bars and matrices."""
