"""Which one of many rewrites is to blame."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable


def bisect_rewrites(count: int, right: Callable[[int], bool]) -> int:
    """The number of a rewrite that makes the result wrong.

    Halves between a prefix of the rewrites that is right and a longer one that is wrong, until they differ by one
    rewrite: that one is guilty. At most log2(count) calls of `right`, rounded up. Where several are wrong together
    only, it is the last of them; where a later one repairs an earlier one, it is one that makes right wrong.

    Args:
        count: how many rewrites there are, in order.
        right: whether the result is right when exactly so many rewrites are made, the first ones. It must be right
            for none of them, and wrong for all.

    Raises:
        ValueError: there is no rewrite to blame.
    """
    if count < 1:
        raise ValueError(f"count is {count}; expected at least one rewrite to choose from.")
    return bisect_left(range(1, count), True, key=lambda made: not right(made))
