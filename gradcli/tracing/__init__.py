"""Primitives, tracers, storage and provenance."""
