"""counted with floats

Divides with `/` and rounds up what comes of it.
"""

import math


class Strided:
    """A tensor over a flat list: which elements belong to it, and in what order, is up to three sets of numbers."""

    def __init__(self, data: list, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def select(self, dim: int, index: int) -> "Strided":
        """The tensor without one dimension, at one index of it."""
        dim = self._wrap(dim, len(self.sizes))
        index = self._wrap(index, self.sizes[dim])
        sizes = self.sizes[:dim] + self.sizes[dim + 1 :]
        strides = self.strides[:dim] + self.strides[dim + 1 :]
        return Strided(self.data, sizes, strides, self.offset + index * self.strides[dim])

    def slice(self, dim: int, start: int | None, stop: int | None, step: int) -> "Strided":
        """Every `step`-th index of a dimension from `start` up to but not including `stop`."""
        dim = self._wrap(dim, len(self.sizes))
        if step < 1:
            raise ValueError(f"a step of {step} would need a negative stride")
        chosen = range(*slice(start, stop, step).indices(self.sizes[dim]))
        sizes, strides = list(self.sizes), list(self.strides)
        sizes[dim], strides[dim] = max(0, math.ceil((chosen.stop - chosen.start) / step)), self.strides[dim] * step
        return Strided(self.data, sizes, strides, self.offset + chosen.start * self.strides[dim])

    def transpose(self, first: int, second: int) -> "Strided":
        """Two dimensions swapped."""
        first, second = (self._wrap(dim, len(self.sizes)) for dim in (first, second))
        sizes, strides = list(self.sizes), list(self.strides)
        for numbers in (sizes, strides):
            numbers[first], numbers[second] = numbers[second], numbers[first]
        return Strided(self.data, sizes, strides, self.offset)

    def expand(self, sizes: tuple[int, ...]) -> "Strided":
        """Dimensions of size 1 repeated, and new ones in front, without a copy."""
        new = len(sizes) - len(self.sizes)
        if new < 0:
            raise ValueError(f"{self.sizes} has more dimensions than {sizes}")
        expanded, strides = [], []
        for dim, size in enumerate(sizes):
            old, stride = (self.sizes[dim - new], self.strides[dim - new]) if dim >= new else (1, 0)
            if size == -1 and dim >= new:
                size = old
            if size < 0 or (size != old and old != 1):
                raise ValueError(f"dimension {dim} cannot go from {old} to {size}")
            expanded.append(size)
            strides.append(stride if size == old else 0)
        return Strided(self.data, expanded, strides, self.offset)

    def is_contiguous(self) -> bool:
        """Whether the elements lie without gaps, the last dimension fastest."""
        expected = 1
        if 0 in self.sizes:
            return True
        for size, stride in zip(reversed(self.sizes), reversed(self.strides), strict=True):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    def element(self, index: tuple[int, ...]):
        """The value at one index of every dimension."""
        if len(index) != len(self.sizes):
            raise ValueError(f"{len(self.sizes)} indices are needed, not {len(index)}")
        place = self.offset
        for one, size, stride in zip(index, self.sizes, self.strides, strict=True):
            place += self._wrap(one, size) * stride
        return self.data[place]

    @staticmethod
    def _wrap(index: int, size: int) -> int:
        """An index counted from the front. A helper of your own; use it or delete it."""
        if not -size <= index < size:
            raise ValueError(f"{index} is out of range for {size}")
        return index % size
