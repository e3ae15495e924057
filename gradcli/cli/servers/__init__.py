"""Servers for agents and editors, and checks on every save; each loads what its extra installs when it begins."""
