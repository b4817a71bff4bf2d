"""stopped too early

Tests suspects only: a commit on another branch, which contains some of them, would have told more where the suspects don't build.
"""


def first_bad(parents, good, bad, test):
    """Sets of commits are bits of whole numbers."""
    position, order = {}, []
    waiting = [(commit, False) for commit in parents]
    while waiting:
        commit, ready = waiting.pop()
        if commit in position:
            continue
        if ready:
            position[commit] = len(order)
            order.append(commit)
        else:
            waiting.append((commit, True))
            waiting.extend((one, False) for one in parents[commit])
    above = {}
    for commit in order:
        bits = 1 << position[commit]
        for one in parents[commit]:
            bits |= above[one]
        above[commit] = bits
    suspects = above[bad] & ~above[good]
    tested = {good, bad}
    while True:
        best, commit = 0, None
        many = suspects.bit_count()
        for one in order:
            if one in tested or not suspects >> position[one] & 1:
                continue
            part = (above[one] & suspects).bit_count()
            smaller = min(part, many - part)
            if smaller > best:
                best, commit = smaller, one
        if commit is None:
            return [one for one in order if suspects >> position[one] & 1]
        tested.add(commit)
        answer = test(commit)
        if answer == "bad":
            suspects &= above[commit]
        elif answer == "good":
            suspects &= ~above[commit]
