"""skip taken for good

A bad merge is never to blame itself: one of its parents must be."""


def first_bad(parents, good, bad, test):
    order, done, waiting = [], set(), [bad, good]
    while waiting:
        commit = waiting[-1]
        missing = [one for one in parents[commit] if one not in done]
        if missing:
            waiting.extend(missing)
            continue
        waiting.pop()
        if commit not in done:
            done.add(commit)
            order.append(commit)
    bit = {commit: 1 << k for k, commit in enumerate(order)}
    above = {}
    for commit in order:
        above[commit] = bit[commit]
        for one in parents[commit]:
            above[commit] |= above[one]
    suspects, asked = above[bad] & ~above[good], {good, bad}
    while True:
        amount = suspects.bit_count()
        best, choice = 0, None
        for commit in order:
            part = (above[commit] & suspects).bit_count()
            if commit not in asked and min(part, amount - part) > best:
                best, choice = min(part, amount - part), commit
        if choice is None:
            found = [commit for commit in order if bit[commit] & suspects]
            return [one for one in found if len(parents[one]) < 2] or found
        asked.add(choice)
        answer = test(choice)
        if answer == "bad":
            suspects &= above[choice]
        elif answer == "good":
            suspects &= ~above[choice]
