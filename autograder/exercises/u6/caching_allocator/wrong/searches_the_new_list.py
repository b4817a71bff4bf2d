"""lost after the second try

Looks for the new segment in a list that `empty_cache` has replaced in the meantime.
"""

MIB = 2**20


class CachingAllocator:
    """For each segment the list of what is in use; free blocks are the holes."""

    def __init__(self, device):
        self.device = device
        # Each is [address, end, stream, kind, {start: end of each block in use}].
        self.segments = []

    @staticmethod
    def pieces(segment):
        """Triples (start, end, in use), by address."""
        start, end, _, _, taken = segment
        found = []
        for one in sorted(taken):
            if start < one:
                found.append((start, one, False))
            found.append((one, taken[one], True))
            start = taken[one]
        if start < end:
            found.append((start, end, False))
        return found

    def malloc(self, size: int, stream: int = 0) -> int:
        wanted = (size + 511) // 512 * 512
        kind = "large" if wanted > MIB else "small"
        candidates = self._holes(wanted, stream, kind)
        if not candidates:
            self.segments.append(self._ask(wanted, stream, kind))
            candidates = self._holes(wanted, stream, kind)
        length, start, segment = min(candidates, key=lambda one: one[:2])
        rest = length - wanted
        whole = rest < 512 if kind == "small" else rest <= MIB
        segment[4][start] = start + (length if whole else wanted)
        return start

    def _holes(self, wanted, stream, kind):
        return [
            (end - start, start, segment)
            for segment in self.segments
            if (segment[2], segment[3]) == (stream, kind)
            for start, end, used in self.pieces(segment)
            if not used and end - start >= wanted
        ]

    def _ask(self, wanted, stream, kind):
        if kind == "small":
            total = 2 * MIB
        else:
            total = 20 * MIB if wanted < 10 * MIB else (wanted + 2 * MIB - 1) // (2 * MIB) * (2 * MIB)
        try:
            address = self.device.malloc(total)
        except MemoryError:
            self.empty_cache()
            address = self.device.malloc(total)
        return [address, address + total, stream, kind, {}]

    def free(self, address: int) -> None:
        for segment in self.segments:
            if address in segment[4]:
                del segment[4][address]
                return
        raise ValueError(f"no block in use begins at {address}")

    def empty_cache(self) -> None:
        free = [segment for segment in self.segments if not segment[4]]
        self.segments = [segment for segment in self.segments if segment[4]]
        for segment in free:
            self.device.free(segment[0])

    def snapshot(self) -> list[dict]:
        found = []
        for segment in self.segments:
            address, end, stream, kind, _ = segment
            blocks = [
                dict(size=stop - start, state="active_allocated" if used else "inactive")
                for start, stop, used in self.pieces(segment)
            ]
            found.append(
                dict(address=address, total_size=end - address, stream=stream, segment_type=kind, blocks=blocks)
            )
        return found
