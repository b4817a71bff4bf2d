"""Samples, a reference and errors for the tests of an operator, which must find the kernels that are wrong."""
