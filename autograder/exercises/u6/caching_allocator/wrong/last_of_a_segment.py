"""tie broken otherwise

Of equals takes the lowest segment, and in it the last block.
"""

MIB = 2**20


class CachingAllocator:
    """Hands out memory of a device, and keeps what comes back."""

    def __init__(self, device):
        self.device = device
        self.segments = []

    def malloc(self, size: int, stream: int = 0) -> int:
        """The address of a block with at least `size` bytes."""
        size = -(-size // 512) * 512
        kind = "small" if size <= MIB else "large"
        free = [
            (block["size"], block["address"], segment, block)
            for segment in self.segments
            if (segment["stream"], segment["segment_type"]) == (stream, kind)
            for block in segment["blocks"]
            if block["state"] == "inactive" and block["size"] >= size
        ]
        if free:
            *_, segment, block = min(free, key=lambda one: (one[0], one[2]["address"], -one[1]))
        else:
            segment = self.new_segment(size, stream, kind)
            [block] = segment["blocks"]
        rest = block["size"] - size
        if rest >= 512 if kind == "small" else rest > MIB:
            block["size"] = size
            new = {"address": block["address"] + size, "size": rest, "state": "inactive"}
            segment["blocks"].insert(segment["blocks"].index(block) + 1, new)
        block["state"] = "active_allocated"
        return block["address"]

    def free(self, address: int) -> None:
        """Take a block back."""
        for segment in self.segments:
            for block in segment["blocks"]:
                if block["address"] == address and block["state"] == "active_allocated":
                    block["state"] = "inactive"
                    self.unite(segment)
                    return
        raise ValueError(f"{address} is not in use")

    def empty_cache(self) -> None:
        """Give back every segment that is entirely free."""
        for segment in list(self.segments):
            if all(block["state"] == "inactive" for block in segment["blocks"]):
                self.device.free(segment["address"])
                self.segments.remove(segment)

    def snapshot(self) -> list[dict]:
        """What the allocator holds."""
        return self.segments

    # Further methods of your own go here.
    def new_segment(self, size: int, stream: int, kind: str) -> dict:
        """A segment from the device: one free block."""
        total = 2 * MIB if kind == "small" else 20 * MIB if size < 10 * MIB else -(-size // (2 * MIB)) * 2 * MIB
        try:
            address = self.device.malloc(total)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(total)
        block = {"address": address, "size": total, "state": "inactive"}
        segment = {
            "address": address,
            "total_size": total,
            "stream": stream,
            "segment_type": kind,
            "blocks": [block],
        }
        self.segments.append(segment)
        return segment

    def unite(self, segment: dict) -> None:
        """Make one free block of those that lie side by side."""
        blocks = []
        for block in segment["blocks"]:
            if blocks and block["state"] == blocks[-1]["state"] == "inactive":
                blocks[-1]["size"] += block["size"]
            else:
                blocks.append(block)
        segment["blocks"] = blocks
