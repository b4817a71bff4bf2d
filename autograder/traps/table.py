"""All traps."""

from __future__ import annotations

from autograder.traps.cases import (
    algebra,
    attention,
    batchnorm,
    dead_code,
    folding,
    layout,
    linear_activation,
    patterns,
    subexpressions,
)
from autograder.traps.trap import Trap

TRAPS: tuple[Trap, ...] = (
    *subexpressions.TRAPS,
    *dead_code.TRAPS,
    *folding.TRAPS,
    *batchnorm.TRAPS,
    *patterns.TRAPS,
    *algebra.TRAPS,
    *layout.TRAPS,
    *attention.TRAPS,
    *linear_activation.TRAPS,
)
