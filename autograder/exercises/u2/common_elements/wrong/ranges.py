"""ranges compared

Compares the first and the last position of each view.
"""


def common_element(first, second):
    if 0 in first[0] or 0 in second[0]:
        return None
    begin = max(first[2], second[2])
    ends = [offset + sum((n - 1) * s for n, s in zip(sizes, strides)) for sizes, strides, offset in (first, second)]
    return begin if begin <= min(ends) else None


def touched_twice(view):
    sizes, strides, offset = view
    if 0 in sizes:
        return None
    covered = 0
    for size, stride in sorted(zip(sizes, strides), key=lambda pair: pair[1]):
        if size > 1:
            if stride <= covered:
                return offset + stride
            covered += (size - 1) * stride
    return None
