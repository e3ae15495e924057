"""The documents: their blocks are run, and what is generated from the code is as the code says."""
