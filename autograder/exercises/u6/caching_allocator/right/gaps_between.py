"""Keeps only what is in use; what is free are the gaps between."""


class CachingAllocator:
    SMALL = 1048576

    def __init__(self, device):
        self.device = device
        self.segments = {}

    @staticmethod
    def gaps(total, used):
        end = 0
        for start in sorted(used):
            if start > end:
                yield end, start - end
            end = start + used[start]
        if end < total:
            yield end, total - end

    def malloc(self, size, stream=0):
        size += -size % 512
        pool = "large" if size > self.SMALL else "small"
        best = None
        for address, (total, owner, used) in self.segments.items():
            if owner != (stream, pool):
                continue
            for start, length in self.gaps(total, used):
                if length >= size and (best is None or (length, address + start) < best[:2]):
                    best = length, address + start, address
        if best is None:
            address = self.segment(size, stream, pool)
            best = self.segments[address][0], address, address
        length, place, address = best
        rest = length - size
        whole = rest < 512 if pool == "small" else rest <= self.SMALL
        self.segments[address][2][place - address] = length if whole else size
        return place

    def segment(self, size, stream, pool):
        if pool == "small":
            total = 2 * self.SMALL
        elif size < 10 * self.SMALL:
            total = 20 * self.SMALL
        else:
            total = size + -size % (2 * self.SMALL)
        try:
            address = self.device.malloc(total)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(total)
        self.segments[address] = (total, (stream, pool), {})
        return address

    def free(self, address):
        for start, (_, _, used) in self.segments.items():
            if address - start in used:
                del used[address - start]
                return
        raise ValueError("no block that is in use begins at this address")

    def empty_cache(self):
        for address in [address for address, (_, _, used) in self.segments.items() if not used]:
            del self.segments[address]
            self.device.free(address)

    def snapshot(self):
        found = []
        for address, (total, (stream, pool), used) in self.segments.items():
            pieces = [(start, size, "active_allocated") for start, size in used.items()]
            pieces += [(start, size, "inactive") for start, size in self.gaps(total, used)]
            found.append(
                {
                    "address": address,
                    "total_size": total,
                    "stream": stream,
                    "segment_type": pool,
                    "blocks": [{"size": size, "state": state} for _, size, state in sorted(pieces)],
                }
            )
        return found
