"""The adapter for torch: its functions and modules as targets, and its operations replayed in numpy."""
