"""rounded

Adds in floating point, and turns the sums into whole numbers again.
"""

import numpy


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    bounds = [len(numbers) * part // world for part in range(world + 1)]
    result = numpy.array(numbers, dtype=float)
    for step in range(2 * (world - 1)):
        leaving, coming = (rank - step) % world, (rank - step - 1) % world
        send((rank + 1) % world, [int(one) for one in result[bounds[leaving] : bounds[leaving + 1]]])
        came = numpy.array(receive((rank - 1) % world), dtype=float)
        part = slice(bounds[coming], bounds[coming + 1])
        result[part] = result[part] + came if step < world - 1 else came
    return [int(one) for one in result]
