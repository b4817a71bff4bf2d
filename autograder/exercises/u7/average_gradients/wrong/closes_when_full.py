"""other buckets

Closes a bucket that is full before a parameter without numbers comes.
"""


def average_gradients(gradients: list, sizes: list[int], rows: int, most: int, all_reduce) -> list:
    count = len(sizes)
    told = all_reduce([rows] + [0 if one is None else 1 for one in gradients])
    total, used = told[0], [p for p in range(count - 1, -1, -1) if told[1 + p] > 0]
    buckets: list[list[int]] = []
    room = 0
    for p in used:
        if not buckets or room <= 0 or sizes[p] > room:
            buckets.append([])
            room = most
        buckets[-1].append(p)
        room -= sizes[p]
    result: list = [None] * count
    for bucket in buckets:
        flat: list = []
        for p in bucket:
            flat += [0.0] * sizes[p] if gradients[p] is None else [one * rows / total for one in gradients[p]]
        sums = all_reduce(flat)
        at = 0
        for p in bucket:
            result[p] = list(sums[at : at + sizes[p]])
            at += sizes[p]
    return result
