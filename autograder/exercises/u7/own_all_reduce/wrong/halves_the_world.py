"""more than its share

Recursive halving and doubling. Where the world is no power of two, ranks hand their whole list to a partner.
"""


def all_reduce(numbers, rank, world, send, receive):
    core = 1
    while core * 2 <= world:
        core *= 2
    if rank >= core:
        send(rank - core, list(numbers))
        return receive(rank - core)
    numbers = list(numbers)
    if rank + core < world:
        numbers = [a + b for a, b in zip(numbers, receive(rank + core))]
    low, high, trail = 0, len(numbers), []
    half = core // 2
    while half:
        partner, middle = rank ^ half, (low + high) // 2
        keep, give = ((low, middle), (middle, high)) if not rank & half else ((middle, high), (low, middle))
        send(partner, numbers[give[0] : give[1]])
        got = receive(partner)
        numbers[keep[0] : keep[1]] = [a + b for a, b in zip(numbers[keep[0] : keep[1]], got)]
        trail.append((partner, keep, give))
        low, high = keep
        half //= 2
    for partner, keep, give in reversed(trail):
        send(partner, numbers[keep[0] : keep[1]])
        numbers[give[0] : give[1]] = receive(partner)
    if rank + core < world:
        send(rank + core, list(numbers))
    return numbers
