"""through one rank

Rank 0 collects all lists, adds them, and sends the sums to everybody.
"""


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    if rank != 0:
        send(0, numbers)
        return receive(0)
    result = list(numbers)
    for other in range(1, world):
        result = [one + two for one, two in zip(result, receive(other))]
    for other in range(1, world):
        send(other, result)
    return result
