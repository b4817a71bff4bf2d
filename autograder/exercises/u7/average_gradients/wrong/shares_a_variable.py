"""not by the network

The ranks meet in a variable, and reduce zeros.
"""

SHARED = []


def average_gradients(gradients: list, sizes: list[int], rows: int, most: int, all_reduce) -> list:
    """The gradients of the mean loss over the rows of all ranks."""
    SHARED.append((rows, gradients))
    total, *users = all_reduce([rows, *(int(one is not None) for one in gradients)])
    buckets = []
    for parameter in reversed(range(len(sizes))):
        if not users[parameter]:
            continue
        if not buckets or sum(sizes[one] for one in buckets[-1]) + sizes[parameter] > most:
            buckets.append([])
        buckets[-1].append(parameter)
    result = [None] * len(sizes)
    for bucket in buckets:
        sums = []
        world = all_reduce([1.0] + [0.0] * (sum(sizes[one] for one in bucket) - 1))[0]
        for parameter in bucket:
            for place in range(sizes[parameter]):
                there = [(own * each[parameter][place]) for own, each in SHARED[-int(world) :] if each[parameter]]
                sums.append(sum(there) / total)
        for parameter in bucket:
            result[parameter], sums = sums[: sizes[parameter]], sums[sizes[parameter] :]
    return result
