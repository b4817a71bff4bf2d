"""wrong allocation

Unites a block with the next one, and the one behind that still takes the next one for its neighbour.
"""

from bisect import bisect_left, insort


class Block:
    def __init__(self, address, size, pool, before=None, after=None):
        self.address, self.size, self.pool = address, size, pool
        self.before, self.after, self.used = before, after, False

    @property
    def key(self):
        return self.size, self.address


class CachingAllocator:
    def __init__(self, device):
        self.device = device
        self.pools = {}
        self.heads = {}
        self.used = {}

    def malloc(self, size, stream=0):
        size = max(1, (size + 511) // 512) * 512
        small = size <= 1 << 20
        pool = self.pools.setdefault((stream, small), [])
        place = bisect_left(pool, (size, -1), key=lambda block: block.key)
        if place >= len(pool):
            self.grow(size, stream, small)
            place = bisect_left(pool, (size, -1), key=lambda block: block.key)
        block = pool.pop(place)
        if block.size - size >= (512 if small else (1 << 20) + 1):
            rest = Block(block.address + size, block.size - size, pool, block, block.after)
            if rest.after:
                rest.after.before = rest
            block.after, block.size = rest, size
            insort(pool, rest, key=lambda block: block.key)
        block.used = True
        self.used[block.address] = block
        return block.address

    def grow(self, size, stream, small):
        if small:
            total = 2 << 20
        elif size < 10 << 20:
            total = 20 << 20
        else:
            total = ((size + (2 << 20) - 1) >> 21) << 21
        for last in (False, True):
            try:
                address = self.device.malloc(total)
                break
            except MemoryError:
                if last:
                    raise
                self.empty_cache()
        pool = self.pools[stream, small]
        block = Block(address, total, pool)
        self.heads[address] = (block, total, stream, small)
        insort(pool, block, key=lambda block: block.key)

    def free(self, address):
        if address not in self.used:
            raise ValueError(f"nobody has {address}")
        block = self.used.pop(address)
        block.used = False
        before, after = block.before, block.after
        if after and not after.used:
            block.pool.remove(after)
            block.size += after.size
            block.after = after.after
        if before and not before.used:
            block.pool.remove(before)
            before.size += block.size
            before.after = block.after
            if before.after:
                before.after.before = before
            block = before
        insort(block.pool, block, key=lambda block: block.key)

    def empty_cache(self):
        for address, (head, _, _, _) in list(self.heads.items()):
            if not head.used and head.after is None:
                head.pool.remove(head)
                del self.heads[address]
                self.device.free(address)

    def snapshot(self):
        found = []
        for address, (head, total, stream, small) in self.heads.items():
            blocks, block = [], head
            while block:
                blocks.append({"size": block.size, "state": "active_allocated" if block.used else "inactive"})
                block = block.after
            found.append(
                {
                    "address": address,
                    "total_size": total,
                    "stream": stream,
                    "segment_type": "small" if small else "large",
                    "blocks": blocks,
                }
            )
        return found
