"""Buckets are made while they are sent; who used what is told as rows."""


def average_gradients(gradients: list, sizes: list[int], rows: int, most: int, all_reduce) -> list:
    """The gradients of the mean loss over the rows of all ranks."""
    told = all_reduce([0 if one is None else 1 for one in gradients] + [rows])
    total, used = told.pop(), told
    result: list = [None for _ in sizes]
    open_bucket: list[int] = []

    def send() -> None:
        if not open_bucket:
            return
        numbers = []
        for parameter in reversed(open_bucket):
            for place in range(sizes[parameter]):
                own = gradients[parameter]
                numbers.append(0.0 if own is None else own[place] * (rows / total))
        answer = iter(all_reduce(numbers))
        for parameter in reversed(open_bucket):
            result[parameter] = [next(answer) for _ in range(sizes[parameter])]
        open_bucket.clear()

    for parameter in range(len(sizes) - 1, -1, -1):
        if used[parameter]:
            if sum(sizes[one] for one in open_bucket) + sizes[parameter] > most:
                send()
            open_bucket.append(parameter)
    send()
    return result
