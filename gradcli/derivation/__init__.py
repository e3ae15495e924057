"""Floor 5: closed forms: a recorded reverse sweep as sums of products with indices, simplified, printed, and verified."""
