"""Keeps (size, stride) pairs together, and asks `range` for everything about a slice."""


class Strided:
    def __init__(self, data, sizes, strides, offset=0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def _made(self, pairs, offset):
        return Strided(self.data, [size for size, _ in pairs], [stride for _, stride in pairs], offset)

    def _pairs(self):
        return list(zip(self.sizes, self.strides))

    def _dim(self, dim):
        return self._at(len(self.sizes), dim)

    @staticmethod
    def _at(size, index):
        try:
            return range(size)[index]
        except IndexError as error:
            raise ValueError(f"there is no {index} among {size}") from error

    def select(self, dim, index):
        pairs = self._pairs()
        size, stride = pairs.pop(self._dim(dim))
        return self._made(pairs, self.offset + self._at(size, index) * stride)

    def slice(self, dim, start, stop, step):
        if step <= 0:
            raise ValueError("steps go forward")
        pairs, dim = self._pairs(), self._dim(dim)
        size, stride = pairs[dim]
        chosen = range(size)[start:stop:step]
        pairs[dim] = (len(chosen), stride * step)
        return self._made(pairs, self.offset + stride * chosen.start)

    def transpose(self, first, second):
        pairs, first, second = self._pairs(), self._dim(first), self._dim(second)
        pairs[first], pairs[second] = pairs[second], pairs[first]
        return self._made(pairs, self.offset)

    def expand(self, sizes):
        added = len(sizes) - len(self.sizes)
        if added < 0 or any(size < 0 for size in sizes[:added]):
            raise ValueError("new dimensions need sizes")
        pairs = [(size, 0) for size in sizes[:added]]
        for wanted, (size, stride) in zip(sizes[added:], self._pairs()):
            if wanted in (-1, size):
                pairs.append((size, stride))
            elif size == 1 and wanted >= 0:
                pairs.append((wanted, 0))
            else:
                raise ValueError(f"{size} cannot become {wanted}")
        return self._made(pairs, self.offset)

    def is_contiguous(self):
        pairs = [pair for pair in self._pairs() if pair[0] != 1]
        if any(size == 0 for size, _ in pairs):
            return True
        following = [*(size * stride for size, stride in pairs[1:]), 1]
        return all(stride == wanted for (_, stride), wanted in zip(pairs, following))

    def element(self, index):
        if len(index) != len(self.sizes):
            raise ValueError("an index for each dimension")
        return self.data[self.offset + sum(self._at(n, i) * s for i, n, s in zip(index, self.sizes, self.strides))]
