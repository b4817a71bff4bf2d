"""zeros are unused

Takes a gradient that is all zeros for one that nobody computed.
"""


def average_gradients(gradients, sizes, rows, most, all_reduce):
    told = all_reduce([rows, *(int(g is not None and bool(any(g) or not g)) for g in gradients)])
    total, used = told[0], told[1:]
    buckets, held = [], 0
    for p in reversed(range(len(sizes))):
        if not used[p]:
            continue
        if not buckets or held + sizes[p] > most:
            buckets.append([])
            held = 0
        buckets[-1].append(p)
        held += sizes[p]
    answer = [None] * len(sizes)
    for bucket in buckets:
        flat = []
        for p in bucket:
            own = gradients[p] if gradients[p] is not None else [0.0] * sizes[p]
            flat += [g * rows / total for g in own]
        sums = all_reduce(flat)
        for p in bucket:
            answer[p], sums = sums[: sizes[p]], sums[sizes[p] :]
    return answer
