"""Hard points: where a claim that is right at the given point is wrong, or loses its digits."""
