"""A round trip through disk: saved here, loaded and run where the class of the model does not exist."""
