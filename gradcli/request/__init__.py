"""What was asked: the options and their table, points, and the command that repeats a check."""
