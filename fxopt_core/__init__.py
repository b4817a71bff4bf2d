"""Graph capture, analysis and optimisation for PyTorch 2: the software that the fxopt course grows."""
