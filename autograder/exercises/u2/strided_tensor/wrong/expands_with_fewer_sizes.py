"""fewer sizes

expand with too few sizes goes by the sizes from the end and forgets the others."""


class Strided:
    """Every operation is a list of (size, stride) pairs and an offset."""

    def __init__(self, data, sizes, strides, offset=0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def _made(self, pairs, offset=None):
        pairs = list(pairs)
        return Strided(
            self.data,
            [size for size, _ in pairs],
            [stride for _, stride in pairs],
            self.offset if offset is None else offset,
        )

    def _pairs(self):
        return list(zip(self.sizes, self.strides))

    def select(self, dim, index):
        dim = self._wrap(dim, len(self.sizes))
        index = self._wrap(index, self.sizes[dim])
        pairs = self._pairs()
        _, stride = pairs.pop(dim)
        return self._made(pairs, self.offset + index * stride)

    def slice(self, dim, start, stop, step):
        dim = self._wrap(dim, len(self.sizes))
        if step < 1:
            raise ValueError("step")
        pairs = self._pairs()
        size, stride = pairs[dim]
        indices = range(size)[start:stop:step]
        pairs[dim] = len(indices), stride * step
        return self._made(pairs, self.offset + indices.start * stride)

    def transpose(self, first, second):
        first, second = self._wrap(first, len(self.sizes)), self._wrap(second, len(self.sizes))
        pairs = self._pairs()
        pairs[first], pairs[second] = pairs[second], pairs[first]
        return self._made(pairs)

    def expand(self, sizes):
        new = len(sizes) - len(self.sizes)
        if new < 0:
            return Strided(self.data, self.sizes[-new:], self.strides[-new:], self.offset).expand(sizes)
        pairs = []
        for dim, wanted in enumerate(sizes):
            if dim < new:
                if wanted < 0:
                    raise ValueError("a new dimension needs a size")
                pairs.append((wanted, 0))
                continue
            size, stride = self.sizes[dim - new], self.strides[dim - new]
            if wanted in (-1, size):
                pairs.append((size, stride))
            elif size == 1 and wanted >= 0:
                pairs.append((wanted, 0))
            else:
                raise ValueError("cannot grow or shrink")
        return self._made(pairs)

    def is_contiguous(self):
        if 0 in self.sizes:
            return True
        pairs = [pair for pair in self._pairs() if pair[0] != 1]
        return all(
            stride == (pairs[k + 1][0] * pairs[k + 1][1] if k + 1 < len(pairs) else 1)
            for k, (_, stride) in enumerate(pairs)
        )

    def element(self, index):
        if len(index) != len(self.sizes):
            raise ValueError("one index for each dimension")
        return self.data[
            self.offset + sum(self._wrap(one, size) * stride for one, (size, stride) in zip(index, self._pairs()))
        ]

    @staticmethod
    def _wrap(index, size):
        if not -size <= index < size:
            raise ValueError("out of range")
        return index + size if index < 0 else index
