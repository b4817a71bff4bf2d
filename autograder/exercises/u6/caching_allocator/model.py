"""The published rules of PyTorch's caching allocator for CUDA, and an allocator that may break one of them.

The rules are those of the comment at the head of `c10/cuda/CUDACachingAllocator.cpp`, with the sizes of
`c10/core/AllocatorConfig.h` (a test compares them with the installed header) and default settings: no expandable
segments, no rounding to powers of two, every block may be split.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

MIN_BLOCK = 512
SMALL_SIZE = 2**20
SMALL_BUFFER = 2 * 2**20
LARGE_SEGMENT = 20 * 2**20
MIN_LARGE_ALLOC = 10 * 2**20
ROUND_LARGE = 2 * 2**20


class HandsOut(Protocol):
    """What an allocator stands on."""

    def malloc(self, size: int) -> int:
        """A new segment."""
        ...

    def free(self, address: int) -> None:
        """Take a segment back."""
        ...


@dataclass
class Block:
    """A piece of a segment.

    Attributes:
        address: where it begins.
        size: in bytes.
        segment: number of its segment.
        stream: of the request for which the segment came.
        small: which pool its segment belongs to.
        used: whether somebody has it.
    """

    address: int
    size: int
    segment: int
    stream: int
    small: bool
    used: bool = False


class Model:
    """A caching allocator with one flaw, or none.

    Attributes:
        FLAWS: names of the flaws; of two that may lead to the same, the narrower one stands first.
    """

    FLAWS = (
        "not rounded",
        "limit of the small pool",
        "one pool",
        "first fit",
        "tie broken otherwise",
        "streams share",
        "small rest kept",
        "never split",
        "rest of the request",
        "split at the limit",
        "split too much",
        "10 MiB packed",
        "always 20 MiB",
        "not rounded to 2 MiB",
        "segments of any size",
        "never merged",
        "merged with the next only",
        "merged with the previous only",
        "given back at once",
        "no second try",
        "only one pool flushed",
        "one segment flushed",
        "cache kept",
        "small segments kept",
        "freed twice",
        "freed from within",
        "0 is no address",
    )

    def __init__(self, device: HandsOut, flaw: str = "") -> None:
        self.device = device
        self.flaw = flaw
        self.blocks: list[Block] = []
        self.sizes: dict[int, int] = {}

    def malloc(self, size: int, stream: int = 0) -> int:
        """The address of a block."""
        requested = size
        if self.flaw != "not rounded":
            size = -(-size // MIN_BLOCK) * MIN_BLOCK
        small = size < SMALL_SIZE if self.flaw == "limit of the small pool" else size <= SMALL_SIZE
        block = self._cached(size, stream, small) or self._new(size, stream, small)
        rest = block.size - size
        beyond = block.size - requested if self.flaw == "rest of the request" else rest
        if self._splits(beyond, block.small):
            place = self.blocks.index(block)
            new = Block(block.address + size, rest, block.segment, block.stream, block.small)
            self.blocks.insert(place + 1, new)
            block.size = size
        block.used = True
        return block.address

    def _cached(self, size: int, stream: int, small: bool) -> Block | None:
        fit = [
            block
            for block in self.blocks
            if not block.used
            and block.size >= size
            and (block.stream == stream or self.flaw == "streams share")
            and (block.small == small or self.flaw == "one pool")
        ]
        if self.flaw == "first fit":
            return min(fit, key=lambda block: block.address, default=None)
        if self.flaw == "tie broken otherwise":
            return min(fit, key=lambda block: (block.size, -block.address), default=None)
        return min(fit, key=lambda block: (block.size, block.address), default=None)

    def _splits(self, rest: int, small: bool) -> bool:
        if self.flaw == "never split":
            return False
        if self.flaw == "split too much":
            return rest >= MIN_BLOCK
        if self.flaw == "split at the limit" and not small:
            return rest >= SMALL_SIZE
        if self.flaw == "small rest kept":
            return rest > SMALL_SIZE
        return rest >= MIN_BLOCK if small else rest > SMALL_SIZE

    def _segment_size(self, size: int, small: bool) -> int:
        if self.flaw == "segments of any size":
            return size
        if small:
            return SMALL_BUFFER
        if size < MIN_LARGE_ALLOC + (self.flaw == "10 MiB packed") or (
            self.flaw == "always 20 MiB" and size <= LARGE_SEGMENT
        ):
            return LARGE_SEGMENT
        return size if self.flaw == "not rounded to 2 MiB" else -(-size // ROUND_LARGE) * ROUND_LARGE

    def _new(self, size: int, stream: int, small: bool) -> Block:
        wanted = self._segment_size(size, small)
        try:
            address = self.device.malloc(wanted)
        except MemoryError:
            if self.flaw == "no second try":
                raise
            self._flush(stream, small)
            address = self.device.malloc(wanted)
        block = Block(address, wanted, address, stream, small)
        self.sizes[address] = wanted
        self.blocks.append(block)
        self.blocks.sort(key=lambda one: one.address)
        return block

    def _flush(self, stream: int, small: bool) -> None:
        whole = [block for block in self.blocks if not block.used and block.size == self.sizes[block.segment]]
        if self.flaw == "only one pool flushed":
            whole = [block for block in whole if (block.stream, block.small) == (stream, small)]
        if self.flaw == "one segment flushed":
            whole = whole[:1]
        self._give_back(whole)

    def _give_back(self, whole: list[Block]) -> None:
        for block in whole:
            self.device.free(block.segment)
            del self.sizes[block.segment]
            self.blocks.remove(block)

    def free(self, address: int) -> None:
        """Take a block back.

        Raises:
            ValueError: no block that is in use begins there.
        """
        inside = self.flaw == "freed from within"
        block = next(
            (
                one
                for one in self.blocks
                if one.used and one.address <= address < one.address + (one.size if inside else 1)
            ),
            None,
        )
        if block is None or (self.flaw == "0 is no address" and not block.segment):
            if self.flaw == "freed twice":
                return
            raise ValueError(f"{address} is not in use")
        block.used = False
        block = self._merged(block)
        if self.flaw == "given back at once" and block.size == self.sizes[block.segment]:
            self._give_back([block])

    def _merged(self, block: Block) -> Block:
        if self.flaw == "never merged":
            return block
        for step in (1, -1):
            if self.flaw == ("merged with the previous only" if step == 1 else "merged with the next only"):
                continue
            place = self.blocks.index(block)
            if not 0 <= place + step < len(self.blocks):
                continue
            other = self.blocks[place + step]
            if other.used or other.segment != block.segment:
                continue
            first, second = (block, other) if step == 1 else (other, block)
            first.size += second.size
            self.blocks.remove(second)
            block = first
        return block

    def empty_cache(self) -> None:
        """Give back what nobody uses any part of."""
        if self.flaw == "cache kept":
            return
        whole = [block for block in self.blocks if not block.used and block.size == self.sizes[block.segment]]
        self._give_back([block for block in whole if not block.small or self.flaw != "small segments kept"])

    def snapshot(self) -> list[dict[str, Any]]:
        """The segments, in the form of `torch.cuda.memory_snapshot()`."""
        found = []
        for address, total in sorted(self.sizes.items()):
            blocks = [block for block in self.blocks if block.segment == address]
            found.append(
                {
                    "address": address,
                    "total_size": total,
                    "stream": blocks[0].stream,
                    "segment_type": "small" if blocks[0].small else "large",
                    "blocks": [
                        {"size": block.size, "state": "active_allocated" if block.used else "inactive"}
                        for block in blocks
                    ],
                }
            )
        return found
