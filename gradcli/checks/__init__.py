"""Evidence, verdict, findings and diagnosis."""
