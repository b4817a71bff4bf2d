"""Capture, passes, verification, measurement and report in one function, on models that are not seen before."""
