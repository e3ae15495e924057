"""Floor 5: studying: step sizes, costs, accuracy, and the computation itself."""
