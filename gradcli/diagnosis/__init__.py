"""Find the mistake in a wrong gradient, by trying mistakes on the right gradient until the result equals the claim."""
