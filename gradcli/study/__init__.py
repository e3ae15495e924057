"""Studies of gradients: step sizes, costs, accuracy, and the computation itself, step by step."""
