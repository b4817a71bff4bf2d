"""What models of transformers need to be captured, and how many are."""
