"""One test, and then the same question with fewer suspects."""


def above(parents, commit):
    """The commit and its ancestors."""
    found, edge = set(), {commit}
    while edge:
        found |= edge
        edge = {one for name in edge for one in parents[name]} - found
    return found


def first_bad(parents: dict[str, list[str]], good: str, bad: str, test) -> list[str]:
    """The commits that may have brought the fault in."""
    reach = {commit: above(parents, commit) for commit in parents}

    def search(suspects, skipped):
        def worse(commit):
            inside = len(suspects & reach[commit])
            return max(inside, len(suspects) - inside)

        best = min((commit for commit in parents if commit not in skipped), key=worse)
        if worse(best) >= len(suspects):
            return list(suspects)
        answer = test(best)
        if answer == "skip":
            return search(suspects, skipped | {best})
        return search(suspects & reach[best] if answer == "bad" else suspects - reach[best], skipped)

    return search(reach[bad] - reach[good], set())
