"""Functions as people write them, none of which has heard of gradcli, and where to check each."""
