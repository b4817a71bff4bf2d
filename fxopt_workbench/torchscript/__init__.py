"""TorchScript, deprecated upstream: for comparison only, never part of `auto`."""
