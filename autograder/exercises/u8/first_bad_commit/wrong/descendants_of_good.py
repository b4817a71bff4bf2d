"""missing

Suspects only what descends from the good commit: a branch that began before it is cleared.
"""


def first_bad(parents, good, bad, test):
    above = {}

    def ancestors(commit):
        stack = [commit]
        while stack:
            at = stack[-1]
            missing = [p for p in parents[at] if p not in above]
            if missing:
                stack += missing
            else:
                above[at] = {at}.union(*(above[p] for p in parents[at]))
                stack.pop()
        return above[commit]

    for commit in parents:
        ancestors(commit)
    suspects = {c for c in above[bad] - above[good] if good in above[c]}
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
