"""Goes through the old dimensions from the last, as `computeStride` in PyTorch does."""

from math import prod


def view(sizes, strides, wanted):
    wanted, count = list(wanted), prod(sizes)
    unknown = [place for place, size in enumerate(wanted) if size == -1]
    known = prod(size for size in wanted if size != -1)
    if unknown and not known:
        raise ValueError("what should -1 be?")
    if unknown:
        wanted[unknown[0]] = count // known
    if prod(wanted) != count or min(wanted, default=0) < 0:
        raise ValueError("the number of elements differs")
    new = [0] * len(wanted)
    if not count:
        return tuple(wanted), tuple(new)
    place = len(wanted) - 1
    inner, stride_of_block, viewed = 1, strides[-1] if sizes else 1, 1
    for dim in range(len(sizes) - 1, -1, -1):
        inner *= sizes[dim]
        ends = dim == 0 or (sizes[dim - 1] != 1 and strides[dim - 1] != inner * stride_of_block)
        if not ends:
            continue
        while place >= 0 and (viewed < inner or wanted[place] == 1):
            new[place] = viewed * stride_of_block
            viewed *= wanted[place]
            place -= 1
        if viewed != inner:
            raise ValueError("it would reach across a gap")
        if dim:
            inner = viewed = 1
            stride_of_block = strides[dim - 1]
    return tuple(wanted), tuple(new)
