"""What an exported program would lose on its way to a runtime, read off its graph and its signature."""
