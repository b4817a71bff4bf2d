"""Sets of commits are bits of a number."""


def first_bad(parents: dict[str, list[str]], good: str, bad: str, test) -> list[str]:
    """The commits that may have brought the fault in."""
    names = list(parents)
    masks: dict[str, int] = {}
    waiting = list(names)
    while waiting:
        name = waiting.pop(0)
        if all(parent in masks for parent in parents[name]):
            masks[name] = 1 << names.index(name)
            for parent in parents[name]:
                masks[name] |= masks[parent]
        else:
            waiting.append(name)
    left = masks[bad] & ~masks[good]
    asked = set()
    while True:
        total = left.bit_count()
        open_ones = [name for name in names if name not in asked and 0 < (left & masks[name]).bit_count() < total]
        if not open_ones:
            return [name for number, name in enumerate(names) if left >> number & 1]
        name = min(open_ones, key=lambda one: abs(total - 2 * (left & masks[one]).bit_count()))
        asked.add(name)
        answer = test(name)
        left = {"bad": left & masks[name], "good": left & ~masks[name], "skip": left}[answer]
