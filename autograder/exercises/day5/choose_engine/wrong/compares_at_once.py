"""overwritten result

Looks at each result before the next call, and never again.
"""

import statistics


def agrees(found, wanted):
    bound = 1e-4 * max(map(abs, wanted))
    return len(found) == len(wanted) and all(abs(a - b) <= bound for a, b in zip(found, wanted))


def choose_engine(engines, example, others, clock, rounds):
    inputs = [example, *others]
    wanted = [list(engines["eager"](one)) for one in inputs]

    def is_right(run):
        try:
            return all(agrees(run(one), expected) for one, expected in zip(inputs, wanted))
        except Exception:
            return False

    refused = [name for name, run in engines.items() if not is_right(run)]
    right = {name: run for name, run in engines.items() if name not in refused}
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
    return {"taken": taken, "refused": refused, "speed_up": speed_up}
