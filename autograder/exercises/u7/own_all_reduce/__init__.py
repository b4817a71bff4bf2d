"""The sums over all ranks, out of send and receive."""
