"""0 taken for None

A stop of 0 is taken for one that was not given (`stop or size`).
"""


class Strided:
    """The new size of a slice is counted by hand, and elements are found by adding up."""

    def __init__(self, data, sizes, strides, offset=0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def _dim(self, dim):
        rank = len(self.sizes)
        if dim < -rank or dim >= rank:
            raise ValueError(f"no dimension {dim}")
        return dim if dim >= 0 else dim + rank

    def _with(self, sizes, strides, offset=None):
        return Strided(self.data, sizes, strides, self.offset if offset is None else offset)

    def select(self, dim, index):
        dim = self._dim(dim)
        size = self.sizes[dim]
        if index < -size or index >= size:
            raise ValueError(f"no index {index}")
        index = index if index >= 0 else index + size
        keep = [d for d in range(len(self.sizes)) if d != dim]
        return self._with(
            [self.sizes[d] for d in keep], [self.strides[d] for d in keep], self.offset + index * self.strides[dim]
        )

    def slice(self, dim, start, stop, step):
        dim = self._dim(dim)
        if step < 1:
            raise ValueError("steps go forward")
        size = self.sizes[dim]
        start = 0 if start is None else start
        stop = stop or size
        start = max(start + size, 0) if start < 0 else min(start, size)
        stop = max(stop + size, 0) if stop < 0 else min(stop, size)
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[dim] = max(0, -((start - stop) // step))
        strides[dim] *= step
        return self._with(sizes, strides, self.offset + start * self.strides[dim])

    def transpose(self, first, second):
        first, second = self._dim(first), self._dim(second)
        order = list(range(len(self.sizes)))
        order[first], order[second] = order[second], order[first]
        return self._with([self.sizes[d] for d in order], [self.strides[d] for d in order])

    def expand(self, sizes):
        new = len(sizes) - len(self.sizes)
        if new < 0 or any(size < 0 for size in sizes[:new]):
            raise ValueError("cannot be expanded to that")
        out, strides = list(sizes[:new]), [0] * new
        for wanted, size, stride in zip(sizes[new:], self.sizes, self.strides):
            if wanted in (-1, size):
                out.append(size)
                strides.append(stride)
            elif size == 1 and wanted >= 0:
                out.append(wanted)
                strides.append(0)
            else:
                raise ValueError(f"{size} cannot become {wanted}")
        return self._with(out, strides)

    def is_contiguous(self):
        if 0 in self.sizes:
            return True
        expected = 1
        for size, stride in zip(self.sizes[::-1], self.strides[::-1]):
            if size != 1:
                if stride != expected:
                    return False
                expected *= size
        return True

    def element(self, index):
        if len(index) != len(self.sizes):
            raise ValueError("one index for each dimension")
        place = self.offset
        for one, size, stride in zip(index, self.sizes, self.strides):
            if one < -size or one >= size:
                raise ValueError(f"no index {one}")
            place += (one + size if one < 0 else one) * stride
        return self.data[place]
