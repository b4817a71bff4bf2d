"""rest of the request

Takes the rest of a large block from the size that was asked for, not from the rounded one.
"""

MIB = 2**20


class CachingAllocator:
    """Hands out memory of a device, and keeps what comes back."""

    def __init__(self, device):
        self.device = device
        self.segments = []

    def malloc(self, size: int, stream: int = 0) -> int:
        """The address of a block with at least `size` bytes."""
        requested = size
        size = -(-size // 512) * 512
        kind = "small" if size <= MIB else "large"
        fitting = [
            (block["size"], block["address"], segment, number)
            for segment in self.segments
            if segment["stream"] == stream and segment["segment_type"] == kind
            for number, block in enumerate(segment["blocks"])
            if block["state"] == "inactive" and block["size"] >= size
        ]
        if fitting:
            _, _, segment, number = min(fitting, key=lambda found: found[:2])
        else:
            segment, number = self.new_segment(size, stream, kind), 0
        block = segment["blocks"][number]
        rest = block["size"] - size
        if (rest >= 512) if kind == "small" else (block["size"] - requested > MIB):
            after = {"address": block["address"] + size, "size": rest, "state": "inactive"}
            segment["blocks"].insert(number + 1, after)
            block["size"] = size
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
        raise ValueError(f"no block in use begins at {address}")

    def empty_cache(self) -> None:
        """Give back every segment that is entirely free."""
        kept = []
        for segment in self.segments:
            if all(block["state"] == "inactive" for block in segment["blocks"]):
                self.device.free(segment["address"])
            else:
                kept.append(segment)
        self.segments = kept

    def snapshot(self) -> list[dict]:
        """What the allocator holds."""
        return [{**segment, "blocks": [dict(block) for block in segment["blocks"]]} for segment in self.segments]

    def new_segment(self, size: int, stream: int, kind: str) -> dict:
        """A segment from the device: one free block."""
        if kind == "small":
            total = 2 * MIB
        elif size < 10 * MIB:
            total = 20 * MIB
        else:
            total = -(-size // (2 * MIB)) * 2 * MIB
        try:
            address = self.device.malloc(total)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(total)
        segment = {
            "address": address,
            "total_size": total,
            "stream": stream,
            "segment_type": kind,
            "blocks": [{"address": address, "size": total, "state": "inactive"}],
        }
        self.segments.append(segment)
        return segment

    def unite(self, segment: dict) -> None:
        """Make one free block of those that lie side by side."""
        united = []
        for block in segment["blocks"]:
            if united and block["state"] == united[-1]["state"] == "inactive":
                united[-1]["size"] += block["size"]
            else:
                united.append(block)
        segment["blocks"] = united
