"""everything everywhere

Each rank sends its whole list to all others, and adds by itself.
"""


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    for other in range(world):
        if other != rank:
            send(other, numbers)
    lists = [numbers] + [receive(other) for other in range(world) if other != rank]
    return [sum(column) for column in zip(*lists)]
