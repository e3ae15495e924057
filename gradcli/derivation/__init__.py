"""Closed forms of derivatives: a recorded reverse sweep as sums of indexed products, simplified, printed, and verified."""
