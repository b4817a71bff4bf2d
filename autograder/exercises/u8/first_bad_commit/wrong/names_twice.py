"""named twice

Lists every commit twice.
"""


def first_bad(parents: dict[str, list[str]], good: str, bad: str, test) -> list[str]:
    """The commits that may have brought the fault in."""
    above = {}

    def ancestors(commit):
        if commit not in above:
            above[commit], waiting = {commit}, [*parents[commit]]
            while waiting:
                one = waiting.pop()
                if one not in above[commit]:
                    above[commit].add(one)
                    waiting += parents[one]
        return above[commit]

    suspects = ancestors(bad) - ancestors(good)
    tested = set()
    while True:
        halves = {}
        for commit in sorted(set(parents) - tested):
            inside = len(ancestors(commit) & suspects)
            halves[commit] = min(inside, len(suspects) - inside)
        if not any(halves.values()):  # No test would tell the rest apart.
            return sorted(suspects) * 2
        commit = max(halves, key=halves.get)
        tested.add(commit)
        answer = test(commit)
        if answer == "bad":
            suspects = suspects & ancestors(commit)
        elif answer == "good":
            suspects = suspects - ancestors(commit)
