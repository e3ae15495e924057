"""Layouts of graphs: where boxes lie and how edges run, in pixels and without a form of output."""
