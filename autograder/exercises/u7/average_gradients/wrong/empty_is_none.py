"""zeros are unused

Takes a gradient without numbers for none.
"""


def average_gradients(gradients: list, sizes: list[int], rows: int, most: int, all_reduce) -> list:
    """The gradients of the mean loss over the rows of all ranks."""
    total, *users = all_reduce([rows, *(int(bool(one)) for one in gradients)])
    buckets = []
    for parameter in reversed(range(len(sizes))):
        if not users[parameter]:
            continue
        if not buckets or sum(sizes[one] for one in buckets[-1]) + sizes[parameter] > most:
            buckets.append([])
        buckets[-1].append(parameter)
    result = [None] * len(sizes)
    for bucket in buckets:
        flat = []
        for parameter in bucket:
            own = gradients[parameter] or [0.0] * sizes[parameter]
            flat += [number * rows / total for number in own]
        sums = all_reduce(flat)
        for parameter in bucket:
            result[parameter], sums = sums[: sizes[parameter]], sums[sizes[parameter] :]
    return result
