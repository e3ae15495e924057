"""Check a gradient: build the request, run the modes, gather evidence at each point and report the verdict."""
