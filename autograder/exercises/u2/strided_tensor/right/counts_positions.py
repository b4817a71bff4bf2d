"""Finds strides and offset of every result by asking where its first elements lie."""

from math import prod


class Strided:
    def __init__(self, data, sizes, strides, offset=0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def _place(self, index):
        return self.offset + sum(i * s for i, s in zip(index, self.strides))

    def _made(self, sizes, old_index):
        """A view whose element at an index is the old one at `old_index(index)`."""
        zero = [0] * len(sizes)
        offset = self._place(old_index(zero))
        strides = []
        for dim in range(len(sizes)):
            one = list(zero)
            one[dim] = 1
            strides.append(self._place(old_index(one)) - offset)
        return Strided(self.data, sizes, strides, offset)

    def _checked(self, dim):
        rank = len(self.sizes)
        if dim < -rank or dim >= rank:
            raise ValueError(f"there is no dimension {dim}")
        return dim + rank if dim < 0 else dim

    def select(self, dim, index):
        dim = self._checked(dim)
        size = self.sizes[dim]
        if index < -size or index >= size:
            raise ValueError(f"there is no index {index}")
        if index < 0:
            index += size
        sizes = [one for number, one in enumerate(self.sizes) if number != dim]
        return self._made(sizes, lambda at: [*at[:dim], index, *at[dim:]])

    def slice(self, dim, start, stop, step):
        dim = self._checked(dim)
        if step < 1:
            raise ValueError("a step goes forward")
        size = self.sizes[dim]
        start, stop = (0 if start is None else start), (size if stop is None else stop)
        start, stop = (max(0, min(size, at + size if at < 0 else at)) for at in (start, stop))
        count = max(0, -((start - stop) // step))
        sizes = [*self.sizes[:dim], count, *self.sizes[dim + 1 :]]
        return self._made(sizes, lambda at: [*at[:dim], start + step * at[dim], *at[dim + 1 :]])

    def transpose(self, first, second):
        first, second = self._checked(first), self._checked(second)
        order = list(range(len(self.sizes)))
        order[first], order[second] = second, first
        return self._made([self.sizes[dim] for dim in order], lambda at: [at[dim] for dim in order])

    def expand(self, sizes):
        added = len(sizes) - len(self.sizes)
        if added < 0:
            raise ValueError("too few sizes")
        old = [1] * added + list(self.sizes)
        sizes = [was if dim >= added and size == -1 else size for dim, (size, was) in enumerate(zip(sizes, old))]
        for size, was in zip(sizes, old):
            if size < 0 or (size != was and was != 1):
                raise ValueError(f"{was} cannot become {size}")
        stays = [dim for dim in range(added, len(sizes))]
        return self._made(sizes, lambda at: [0 if old[dim] != sizes[dim] else at[dim] for dim in stays])

    def is_contiguous(self):
        if 0 in self.sizes:
            return True
        # Contiguous means: one step in any dimension leads as far as there are elements behind it.
        behind = [prod(self.sizes[dim + 1 :]) for dim in range(len(self.sizes))]
        return all(size == 1 or stride == far for size, stride, far in zip(self.sizes, self.strides, behind))

    def element(self, index):
        if len(index) != len(self.sizes):
            raise ValueError("too many or too few indices")
        for i, size in zip(index, self.sizes):
            if i < -size or i >= size:
                raise ValueError(f"there is no index {i}")
        return self.data[self._place([i + size if i < 0 else i for i, size in zip(index, self.sizes)])]
