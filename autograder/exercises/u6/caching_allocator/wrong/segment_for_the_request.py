"""10 MiB packed

Chooses the segment by what was asked for and not by the size that it was rounded up to: just below 10 MiB that's another one.
"""

from bisect import insort

MIB = 2**20


class CachingAllocator:
    """Free blocks are in one sorted list for each pool; segments know only their size."""

    def __init__(self, device):
        self.device = device
        self.segments = {}  # address -> [total size, stream, kind, {address: (size, used)}]
        self.free_blocks = {}  # (stream, kind) -> sorted list of (size, address, segment)
        self.used = {}  # address -> segment

    def malloc(self, size, stream=0):
        asked, size = size, -(-size // 512) * 512
        kind = "small" if size <= MIB else "large"
        pool = self.free_blocks.setdefault((stream, kind), [])
        found = next((entry for entry in pool if entry[0] >= size), None)
        if found is None:
            found = self.new_segment(size, stream, kind, asked)
        pool.remove(found)
        have, address, segment = found
        blocks = self.segments[segment][3]
        rest = have - size
        if rest >= 512 if kind == "small" else rest > MIB:
            blocks[address + size] = rest, False
            insort(pool, (rest, address + size, segment))
        else:
            size = have
        blocks[address] = size, True
        self.used[address] = segment
        return address

    def new_segment(self, size, stream, kind, asked):
        if kind == "small":
            total = 2 * MIB
        elif asked < 10 * MIB:
            total = 20 * MIB
        else:
            total = -(-size // (2 * MIB)) * 2 * MIB
        try:
            address = self.device.malloc(total)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(total)
        self.segments[address] = [total, stream, kind, {address: (total, False)}]
        entry = total, address, address
        insort(self.free_blocks.setdefault((stream, kind), []), entry)
        return entry

    def free(self, address):
        if address not in self.used:
            raise ValueError(f"{address} is not in use")
        segment = self.used.pop(address)
        total, stream, kind, blocks = self.segments[segment]
        pool = self.free_blocks[stream, kind]
        size = blocks[address][0]
        after = address + size
        if after in blocks and not blocks[after][1]:
            pool.remove((blocks[after][0], after, segment))
            size += blocks.pop(after)[0]
        for before, (length, used) in list(blocks.items()):
            if before + length == address and not used:
                pool.remove((length, before, segment))
                del blocks[address]
                address, size = before, size + length
                break
        blocks[address] = size, False
        insort(pool, (size, address, segment))

    def empty_cache(self):
        for segment, (total, stream, kind, blocks) in list(self.segments.items()):
            if blocks.get(segment) == (total, False):
                self.free_blocks[stream, kind].remove((total, segment, segment))
                del self.segments[segment]
                self.device.free(segment)

    def snapshot(self):
        return [
            {
                "address": segment,
                "total_size": total,
                "stream": stream,
                "segment_type": kind,
                "blocks": [
                    {"size": size, "state": "active_allocated" if used else "inactive"}
                    for _, (size, used) in sorted(blocks.items())
                ],
            }
            for segment, (total, stream, kind, blocks) in self.segments.items()
        ]
