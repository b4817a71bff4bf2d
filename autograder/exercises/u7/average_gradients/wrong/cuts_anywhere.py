"""cut through

Cuts the flat list of everything into pieces of `most` numbers.
"""


def average_gradients(gradients: list, sizes: list[int], rows: int, most: int, all_reduce) -> list:
    """The gradients of the mean loss over the rows of all ranks."""
    total, *users = all_reduce([rows, *(int(one is not None) for one in gradients)])
    used = [parameter for parameter in reversed(range(len(sizes))) if users[parameter]]
    flat = []
    for parameter in used:
        flat += [number * rows / total for number in gradients[parameter] or [0.0] * sizes[parameter]]
    sums = []
    for start in range(0, len(flat), most):
        sums += all_reduce(flat[start : start + most])
    result = [None] * len(sizes)
    for parameter in used:
        result[parameter], sums = sums[: sizes[parameter]], sums[sizes[parameter] :]
    return result
