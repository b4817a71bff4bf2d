"""kept from an earlier call

Works out the parts once for each length, however many ranks there are.
"""

BOUNDS = {}


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    bounds = BOUNDS.setdefault(len(numbers), [len(numbers) * part // world for part in range(world + 1)])
    result = list(numbers)
    for step in range(2 * (world - 1)):
        leaving, coming = (rank - step) % world, (rank - step - 1) % world
        send((rank + 1) % world, result[bounds[leaving] : bounds[leaving + 1]])
        for place, number in enumerate(receive((rank - 1) % world), bounds[coming]):
            result[place] = result[place] + number if step < world - 1 else number
    return result
