"""How far a rewrite may be off: not at all, or within a tolerance that it states."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Tolerance:
    """How far a tensor may be off: `absolute + relative * (largest finite magnitude of the expected tensor)`.

    Relative to the tensor and not to each element, because sums of products lose digits where they cancel.

    Attributes:
        relative: share of the largest expected magnitude.
        absolute: in units of the values.
    """

    relative: float = 0.0
    absolute: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether every bit counts."""
        return self.relative == 0 and self.absolute == 0

    def __str__(self) -> str:
        return "bitwise" if self.exact else f"within {self.relative:g} of the largest value + {self.absolute:g}"


EXACT = Tolerance()
"""Every bit counts, so that 0.0 and -0.0 differ; only the payload of a NaN does not."""
