"""Export with dynamic batch and length, and promise what the model keeps."""
