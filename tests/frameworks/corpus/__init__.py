"""Custom backward passes as people write them, right and subtly wrong."""
