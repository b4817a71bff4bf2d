"""tolerance of another input

Measures each error by the largest value of all inputs together.
"""


def choose_engine(
    engines: dict[str, Callable[[list[float]], list[float]]],
    example: list[float],
    others: list[list[float]],
    clock: Callable[[], float],
    rounds: int,
) -> dict[str, Any]:
    """Which engine to take, which were refused, and how fast each of the others is beside `eager`."""
    inputs = [example, *others]
    wanted = [list(engines["eager"](one)) for one in inputs]
    largest = max(abs(value) for one in wanted for value in one)

    def is_right(run: Callable[[list[float]], list[float]]) -> bool:
        try:
            results = [run(one) for one in inputs]
        except Exception:
            return False
        return all(
            len(found) == len(one) and all(abs(a - b) <= 1e-4 * largest for a, b in zip(found, one, strict=True))
            for found, one in zip(results, wanted, strict=True)
        )

    refused = [name for name, run in engines.items() if not is_right(run)]
    right = {name: run for name, run in engines.items() if name not in refused}
    seconds: dict[str, list[float]] = {name: [] for name in right}
    for _ in range(rounds):
        for name, run in right.items():
            start = clock()
            run(example)
            seconds[name].append(clock() - start)
    ratios = {name: [a / b for a, b in zip(seconds["eager"], own, strict=True)] for name, own in seconds.items()}
    speed_up = {name: statistics.median(own) for name, own in ratios.items()}
    worth = [name for name, own in ratios.items() if 4 * sum(one > 1 for one in own) >= 3 * rounds]
    taken = max(worth, key=lambda name: speed_up[name], default="eager")
    return {"taken": taken, "refused": refused, "speed_up": speed_up}
