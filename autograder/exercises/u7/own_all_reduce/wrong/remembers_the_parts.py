"""kept from an earlier call

Works out the parts once for each number of ranks.
"""

BOUNDS = {}


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    # One model, one way to cut it: worked out once.
    if world not in BOUNDS:
        BOUNDS[world] = [len(numbers) * part // world for part in range(world + 1)]
    bounds = BOUNDS[world]
    for step in range(2 * (world - 1)):
        out, into = (rank - step) % world, (rank - step - 1) % world
        send((rank + 1) % world, numbers[bounds[out] : bounds[out + 1]])
        came = receive((rank - 1) % world)
        if step < world - 1:
            came = [a + b for a, b in zip(numbers[bounds[into] : bounds[into + 1]], came, strict=True)]
        numbers[bounds[into] : bounds[into + 1]] = came
    return numbers
