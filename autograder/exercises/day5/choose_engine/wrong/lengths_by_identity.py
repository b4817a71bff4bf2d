"""right one refused

Compares lengths with `is`, which holds for small numbers only.
"""

import statistics


def choose_engine(engines, example, others, clock, rounds):
    inputs = [example, *others]
    wanted = [list(engines["eager"](one)) for one in inputs]

    def agrees(found, one):
        return len(found) is len(one) and all(abs(a - b) <= 1e-4 * max(map(abs, one)) for a, b in zip(found, one))

    def is_right(name, run):
        if name == "eager":
            return True
        try:
            results = [run(one) for one in inputs]
        except Exception:
            return False
        return all(agrees(found, one) for found, one in zip(results, wanted))

    right = {name: run for name, run in engines.items() if is_right(name, run)}
    seconds = {name: [] for name in right}
    for _ in range(rounds):
        for name, run in right.items():
            start = clock()
            run(example)
            seconds[name].append(clock() - start)
    ratios = {name: [a / b for a, b in zip(seconds["eager"], own)] for name, own in seconds.items()}
    speed_up = {name: statistics.median(own) for name, own in ratios.items()}
    worth = [name for name, own in ratios.items() if 4 * sum(one > 1 for one in own) >= 3 * rounds]
    taken = max(worth, key=speed_up.get, default="eager")
    return {"taken": taken, "refused": sorted(set(engines) - set(right)), "speed_up": speed_up}
