"""0 is no address

Keeps the segment of each block in use, and takes the number 0 for none.
"""

MIB = 2**20


class CachingAllocator:
    def __init__(self, device):
        self.device = device
        self.segments = {}  # address -> (size, stream, kind)
        self.home = {}  # address of a block in use -> address of its segment
        self.sizes = {}  # address of a block -> size, of all blocks
        self.open = {}  # segment -> addresses of its free blocks

    def malloc(self, size: int, stream: int = 0) -> int:
        size = -(-size // 512) * 512
        kind = "small" if size <= MIB else "large"
        best = None
        for segment, (_, its_stream, its_kind) in self.segments.items():
            if (its_stream, its_kind) != (stream, kind):
                continue
            for address in self.open[segment]:
                if self.sizes[address] >= size and (best is None or (self.sizes[address], address) < best[:2]):
                    best = self.sizes[address], address, segment
        if best is None:
            if kind == "small":
                total = 2 * MIB
            elif size < 10 * MIB:
                total = 20 * MIB
            else:
                total = -(-size // (2 * MIB)) * 2 * MIB
            try:
                segment = self.device.malloc(total)
            except MemoryError:
                self.empty_cache()
                segment = self.device.malloc(total)
            self.segments[segment] = total, stream, kind
            self.sizes[segment], self.open[segment] = total, {segment}
            best = total, segment, segment
        whole, address, segment = best
        self.open[segment].discard(address)
        rest = whole - size
        if rest >= 512 if kind == "small" else rest > MIB:
            self.sizes[address], self.sizes[address + size] = size, rest
            self.open[segment].add(address + size)
        self.home[address] = segment
        return address

    def free(self, address: int) -> None:
        if not self.home.get(address):
            raise ValueError(f"{address} is not in use")
        segment = self.home.pop(address)
        free = self.open[segment]
        free.add(address)
        for left in sorted(free, reverse=True):
            right = left + self.sizes[left]
            if right in free:
                self.sizes[left] += self.sizes.pop(right)
                free.discard(right)

    def empty_cache(self) -> None:
        for segment in list(self.segments):
            if self.open[segment] == {segment} and self.sizes[segment] == self.segments[segment][0]:
                self.device.free(segment)
                del self.segments[segment], self.open[segment], self.sizes[segment]

    def snapshot(self) -> list[dict]:
        rows = []
        for segment, (total, stream, kind) in self.segments.items():
            blocks, address = [], segment
            while address < segment + total:
                state = "inactive" if address in self.open[segment] else "active_allocated"
                blocks.append({"size": self.sizes[address], "state": state})
                address += self.sizes[address]
            rows.append(
                {"address": segment, "total_size": total, "stream": stream, "segment_type": kind, "blocks": blocks}
            )
        return rows
