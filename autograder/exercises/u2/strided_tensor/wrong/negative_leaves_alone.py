"""no size

Takes every negative size of `expand` for -1.
"""


class Strided:
    """A tensor over a flat list."""

    def __init__(self, data: list, sizes: tuple[int, ...], strides: tuple[int, ...], offset: int = 0):
        self.data, self.sizes, self.strides, self.offset = data, tuple(sizes), tuple(strides), offset

    def _dim(self, dim):
        n = len(self.sizes)
        if dim < -n or dim >= n:
            raise ValueError("dim")
        return dim + n if dim < 0 else dim

    def select(self, dim, index):
        dim = self._dim(dim)
        size = self.sizes[dim]
        if index < -size or index >= size:
            raise ValueError("index")
        if index < 0:
            index += size
        pairs = list(zip(self.sizes, self.strides))
        _, stride = pairs.pop(dim)
        return self._of(pairs, self.offset + index * stride)

    def _of(self, pairs, offset):
        return Strided(self.data, tuple(a for a, _ in pairs), tuple(b for _, b in pairs), offset)

    def slice(self, dim, start, stop, step):
        dim = self._dim(dim)
        if step < 1:
            raise ValueError("step")
        size, stride = self.sizes[dim], self.strides[dim]
        start = 0 if start is None else start
        stop = size if stop is None else stop
        if start < 0:
            start += size
        if stop < 0:
            stop += size
        start = min(max(start, 0), size)
        stop = min(max(stop, start), size)
        pairs = list(zip(self.sizes, self.strides))
        pairs[dim] = ((stop - start + step - 1) // step, stride * step)
        return self._of(pairs, self.offset + start * stride)

    def transpose(self, first, second):
        first, second = self._dim(first), self._dim(second)
        pairs = list(zip(self.sizes, self.strides))
        pairs[first], pairs[second] = pairs[second], pairs[first]
        return self._of(pairs, self.offset)

    def expand(self, sizes):
        sizes = tuple(sizes)
        extra = len(sizes) - len(self.sizes)
        if extra < 0:
            raise ValueError("fewer dimensions")
        pairs = []
        for d, want in enumerate(sizes):
            if d < extra:
                if want < 0:
                    raise ValueError("-1 for a new one")
                pairs.append((want, 0))
                continue
            have, stride = self.sizes[d - extra], self.strides[d - extra]
            if want < 0 or want == have:
                pairs.append((have, stride))
            elif have == 1 and want >= 0:
                pairs.append((want, 0))
            else:
                raise ValueError("size")
        return self._of(pairs, self.offset)

    def is_contiguous(self):
        if 0 in self.sizes:
            return True
        real = [(a, b) for a, b in zip(self.sizes, self.strides) if a != 1]
        for (a, b), (c, e) in zip(real, real[1:]):
            if b != c * e:
                return False
        return not real or real[-1][1] == 1

    def element(self, index):
        index = tuple(index)
        if len(index) != len(self.sizes):
            raise ValueError("count")
        here = self
        for one in index:
            here = here.select(0, one)
        return here.data[here.offset]
