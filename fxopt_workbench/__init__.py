"""What is built on the core: the `fxopt` command, pictures, models to try, hardware, HuggingFace, benches."""
