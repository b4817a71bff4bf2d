"""The ring turns the other way, and the parts are lists of their own; the first ones are longer."""


def all_reduce(numbers: list[int], rank: int, world: int, send, receive) -> list[int]:
    """The sums over all ranks, as seen by one of them."""
    size, rest = divmod(len(numbers), world)
    waiting = iter(numbers)
    parts = [[next(waiting) for _ in range(size + (part < rest))] for part in range(world)]
    left, right = (rank - 1) % world, (rank + 1) % world
    for step in range(world - 1):
        send(left, parts[(rank + step) % world])
        place = (rank + step + 1) % world
        parts[place] = [one + two for one, two in zip(parts[place], receive(right))]
    for step in range(world - 1):
        send(left, parts[(rank + step - 1) % world])
        parts[(rank + step) % world] = receive(right)
    return sum(parts, [])
