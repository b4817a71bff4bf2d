"""One function that extracts convolutional, attention and detection models alike, as core ATen."""
