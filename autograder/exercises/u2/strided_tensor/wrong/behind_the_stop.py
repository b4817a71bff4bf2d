"""size below 0

Rounds up what lies between start and stop, also where that is less than nothing.
"""


class Strided:
    def __init__(self, data: list, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def _pairs(self):
        return list(zip(self.sizes, self.strides))

    def _of(self, pairs, offset):
        return Strided(self.data, tuple(s for s, _ in pairs), tuple(t for _, t in pairs), offset)

    @staticmethod
    def _wrap(index: int, size: int) -> int:
        if not -size <= index < size:
            raise ValueError(f"{index} is out of range for {size}")
        return index % size

    def select(self, dim: int, index: int) -> "Strided":
        pairs = self._pairs()
        size, stride = pairs.pop(self._wrap(dim, len(pairs)))
        return self._of(pairs, self.offset + self._wrap(index, size) * stride)

    def slice(self, dim: int, start: int | None, stop: int | None, step: int) -> "Strided":
        if step < 1:
            raise ValueError("step below 1")
        pairs = self._pairs()
        dim = self._wrap(dim, len(pairs))
        size, stride = pairs[dim]
        ends = []
        for end, default in ((start, 0), (stop, size)):
            end = default if end is None else end
            end = end + size if end < 0 else end
            ends.append(min(max(end, 0), size))
        first, last = ends
        pairs[dim] = -((first - last) // step), stride * step
        return self._of(pairs, self.offset + first * stride)

    def transpose(self, first: int, second: int) -> "Strided":
        pairs = self._pairs()
        a, b = self._wrap(first, len(pairs)), self._wrap(second, len(pairs))
        pairs[a], pairs[b] = pairs[b], pairs[a]
        return self._of(pairs, self.offset)

    def expand(self, sizes: tuple[int, ...]) -> "Strided":
        new = len(sizes) - len(self.sizes)
        if new < 0:
            raise ValueError("too few sizes")
        pairs = []
        for wanted, (size, stride) in zip(sizes, [(None, 0)] * new + self._pairs()):
            if size is None:
                if wanted < 0:
                    raise ValueError("a new dimension needs a size")
                pairs.append((wanted, 0))
            elif wanted in (-1, size):
                pairs.append((size, stride))
            elif size == 1 and wanted >= 0:
                pairs.append((wanted, 0))
            else:
                raise ValueError(f"{size} cannot become {wanted}")
        return self._of(pairs, self.offset)

    def is_contiguous(self) -> bool:
        if 0 in self.sizes:
            return True
        expected = 1
        for size, stride in reversed(self._pairs()):
            if size != 1 and stride != expected:
                return False
            expected *= size
        return True

    def element(self, index: tuple[int, ...]):
        if len(index) != len(self.sizes):
            raise ValueError("as many indices as dimensions")
        at = self.offset
        for one, (size, stride) in zip(index, self._pairs()):
            at += self._wrap(one, size) * stride
        return self.data[at]
