"""All traps."""

from __future__ import annotations

from traps import (
    cases_algebra,
    cases_attention,
    cases_batchnorm,
    cases_dead_code,
    cases_folding,
    cases_layout,
    cases_linear_activation,
    cases_patterns,
    cases_subexpressions,
)
from traps.trap import Trap

TRAPS: tuple[Trap, ...] = (
    *cases_subexpressions.TRAPS,
    *cases_dead_code.TRAPS,
    *cases_folding.TRAPS,
    *cases_batchnorm.TRAPS,
    *cases_patterns.TRAPS,
    *cases_algebra.TRAPS,
    *cases_layout.TRAPS,
    *cases_attention.TRAPS,
    *cases_linear_activation.TRAPS,
)
