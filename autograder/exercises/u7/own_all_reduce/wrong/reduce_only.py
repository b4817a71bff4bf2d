"""sums at one rank only

The others never get the sums.
"""


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    if rank != 0:
        send(0, numbers)
        return list(numbers)
    result = list(numbers)
    for other in range(1, world):
        result = [one + two for one, two in zip(result, receive(other))]
    return result
