"""tie broken otherwise

Among equals, the block of the older segment.
"""

MIB = 2**20
UNUSED, USED = "inactive", "active_allocated"


class CachingAllocator:
    """Blocks as sorted [address, size, state] rows per segment."""

    def __init__(self, device):
        self.device = device
        self.segments = []

    def malloc(self, size: int, stream: int = 0) -> int:
        size = -(-size // 512) * 512
        kind = "small" if size <= MIB else "large"
        best = None
        for segment in self.segments:
            if (segment["stream"], segment["segment_type"]) != (stream, kind):
                continue
            for row in segment["rows"]:
                if row[2] == UNUSED and row[1] >= size and (best is None or row[1] < best[0][0]):
                    best = (row[1], row[0]), segment, row
        if best is None:
            segment = self.new_segment(size, stream, kind)
            row = segment["rows"][0]
        else:
            _, segment, row = best
        rest = row[1] - size
        if rest >= 512 if kind == "small" else rest > MIB:
            row[1] = size
            segment["rows"].insert(segment["rows"].index(row) + 1, [row[0] + size, rest, UNUSED])
        row[2] = USED
        return row[0]

    def free(self, address: int) -> None:
        for segment in self.segments:
            for row in segment["rows"]:
                if row[0] == address and row[2] == USED:
                    row[2] = UNUSED
                    self.unite(segment)
                    return
        raise ValueError(f"{address} is not in use")

    def empty_cache(self) -> None:
        kept = []
        for segment in self.segments:
            if all(row[2] == UNUSED for row in segment["rows"]):
                self.device.free(segment["address"])
            else:
                kept.append(segment)
        self.segments = kept

    def snapshot(self) -> list[dict]:
        return [
            {
                **{name: segment[name] for name in ("address", "total_size", "stream", "segment_type")},
                "blocks": [{"size": size, "state": state} for _, size, state in segment["rows"]],
            }
            for segment in self.segments
        ]

    def new_segment(self, size: int, stream: int, kind: str) -> dict:
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
        segment = {"address": address, "total_size": total, "stream": stream, "segment_type": kind}
        segment["rows"] = [[address, total, UNUSED]]
        self.segments.append(segment)
        return segment

    def unite(self, segment: dict) -> None:
        rows = segment["rows"]
        for at in range(len(rows) - 1, 0, -1):
            if rows[at][2] == rows[at - 1][2] == UNUSED:
                rows[at - 1][1] += rows.pop(at)[1]
