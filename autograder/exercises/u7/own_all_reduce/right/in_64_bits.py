"""Calculates in whole numbers of 64 bits, as a real library does; no sum here needs more."""

import numpy


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    result = numpy.array(numbers, dtype=numpy.int64)
    parts = numpy.array_split(numpy.arange(len(numbers)), world)
    for step in range(2 * (world - 1)):
        leaving, coming = parts[(rank - step) % world], parts[(rank - step - 1) % world]
        send((rank + 1) % world, result[leaving].tolist())
        came = numpy.array(receive((rank - 1) % world), dtype=numpy.int64)
        result[coming] = result[coming] + came if step < world - 1 else came
    return result.tolist()
