"""failed on a hidden case

Finds ancestors by recursion: a history of a thousand commits is deeper than Python's stack.
"""

import functools


def first_bad(parents, good, bad, test):
    @functools.lru_cache(None)
    def ancestors(commit):
        return frozenset({commit}).union(*(ancestors(p) for p in parents[commit]))

    above = {bad: ancestors(bad)}
    above |= {commit: ancestors(commit) for commit in parents}
    suspects = above[bad] - above[good]
    skipped = set()
    while True:
        choices = [c for c in parents if c not in skipped and 0 < len(above[c] & suspects) < len(suspects)]
        if not choices:
            return sorted(suspects)
        best = max(choices, key=lambda c: min(len(above[c] & suspects), len(suspects) - len(above[c] & suspects)))
        answer = test(best)
        if answer == "skip":
            skipped.add(best)
        elif answer == "bad":
            suspects &= above[best]
        else:
            suspects -= above[best]
