"""Repair a wrong claim: the smallest edit of its own source that makes it right, shown as a patch."""
