"""Several ranks in one process, one of which runs at a time: what the distributed tasks of unit 7 are tried on.

Each rank is a thread that holds the turn until it waits for something, so that a program goes the same way every time,
and ranks that all wait for one another are seen at once. Imports no torch.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any


class StuckError(RuntimeError):
    """No rank can go on: each of those that have not ended waits.

    Args:
        waiting: for each rank that waits, what it waits for, in words.
    """

    def __init__(self, waiting: dict[int, str]) -> None:
        super().__init__("; ".join(f"rank {rank} waits {what}" for rank, what in sorted(waiting.items())))
        self.waiting = waiting


class _StoppedError(BaseException):
    """Ends a rank that waits, when the whole run comes to an end. No `Exception`: a learner's code may catch those."""


class Ranks:
    """Runs the ranks of one program in turn.

    Args:
        world: how many there are.
    """

    def __init__(self, world: int) -> None:
        self.world = world
        self._turns = [threading.Semaphore(0) for _ in range(world)]
        self._back = threading.Semaphore(0)
        self._waiting: dict[int, tuple[Callable[[], bool], str]] = {}
        self._ended: set[int] = set()
        self._stopping = False

    def run(self, programs: Sequence[Callable[[], Any]]) -> list[Any]:
        """What each rank's program returns.

        Args:
            programs: one for each rank.

        Raises:
            StuckError: no rank could go on.
            BaseException: whatever a program raised first.
        """
        results: list[Any] = [None] * self.world
        raised: list[BaseException] = []

        def live(rank: int) -> None:
            self._turns[rank].acquire()
            try:
                if not self._stopping:
                    results[rank] = programs[rank]()
            except _StoppedError:
                pass
            except BaseException as error:  # handed to whoever runs the ranks
                raised.append(error)
            finally:
                self._ended.add(rank)
                self._back.release()

        threads = [threading.Thread(target=live, args=(rank,), daemon=True) for rank in range(self.world)]
        for thread in threads:
            thread.start()
        stuck: StuckError | None = None
        while len(self._ended) < self.world and not raised and stuck is None:
            ready = [rank for rank in range(self.world) if rank not in self._ended and self._can_go_on(rank)]
            for rank in ready:
                self._give_turn(rank)
            if not ready:
                stuck = StuckError({rank: what for rank, (_, what) in self._waiting.items()})
        self._stopping = True
        for rank in range(self.world):
            while rank not in self._ended:
                self._give_turn(rank)
        for thread in threads:
            thread.join()
        if raised:
            raise raised[0]
        if stuck is not None:
            raise stuck
        return results

    def wait(self, rank: int, until: Callable[[], bool], what: str) -> None:
        """Let the others go on until something is there. Called by the rank that has the turn.

        Args:
            rank: who waits.
            until: whether it can go on.
            what: what it waits for, in words.
        """
        while not until():
            self._waiting[rank] = (until, what)
            self._back.release()
            self._turns[rank].acquire()
            del self._waiting[rank]
            if self._stopping:
                raise _StoppedError

    def _can_go_on(self, rank: int) -> bool:
        return rank not in self._waiting or self._waiting[rank][0]()

    def _give_turn(self, rank: int) -> None:
        self._turns[rank].release()
        self._back.acquire()


def whole_numbers(found: Any) -> list[int] | None:
    """`found` as a list of Python's whole numbers, which 64 bits hold; `None` for anything else."""
    if not isinstance(found, (list, tuple)):
        return None
    numbers = [one for one in found if type(one) is int and one.bit_length() < 64]
    return numbers if len(numbers) == len(found) else None


def plain_numbers(found: Any) -> list[float] | None:
    """`found` as a list of numbers; `None` for anything else."""
    if not isinstance(found, (list, tuple)):
        return None
    numbers = [float(one) for one in found if type(one) in (int, float)]
    return numbers if len(numbers) == len(found) else None
