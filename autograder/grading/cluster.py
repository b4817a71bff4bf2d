"""Grades many notebooks at once on a cluster of dask.distributed. Imports no torch.

The work is the same as in any process: bytes go out, plain data comes back, only the process that asked writes. A work
whose worker is lost goes to another one; done twice, it comes to the same. Whoever can reach the scheduler can run code
on the workers, so it belongs on a network of trusted machines (or behind TLS, `tls://`, with dask's own configuration).
"""

from __future__ import annotations

import re
from concurrent.futures import CancelledError, Future
from types import TracebackType
from typing import Any, Self

from autograder.exchange.scratch import scratch_folder
from autograder.exchange.verdict import one_line
from autograder.grading.grading import NotebookOutcome
from autograder.grading.work import InfrastructureError, Work, do, outcome_of, reason_of

START_SECONDS = 60
"""How long a scheduler and its first worker may take to answer."""

AHEAD = 3
"""How many notebooks wait for each worker at most."""


class ClusterError(RuntimeError):
    """There is no cluster to grade on; the message is one line that says why."""


class Cluster:
    """The workers of a cluster. Use it as a context manager.

    Attributes:
        workers: how many there were when it was entered.
    """

    def __init__(self, address: str) -> None:
        """Prepare to grade on a cluster.

        Args:
            address: of its scheduler (`tcp://HOST:PORT`), or `local:N` for N processes on this machine.

        Raises:
            ClusterError: it is no such address, or dask.distributed is not installed.
        """
        local = re.fullmatch(r"local:([1-9]\d{0,3})", address)
        if local is None and not re.fullmatch(r"(tcp|tls)://\S+:\d+", address):
            raise ClusterError(
                f"--cluster {one_line(address, 60)}: expected tcp://HOST:PORT of a scheduler, or local:N (N processes)"
            )
        try:
            import distributed
        except ModuleNotFoundError as error:
            raise ClusterError(f"--cluster: {error.name} is not here: pip install 'fxopt[cluster]'") from None
        self._distributed = distributed
        self._address = address
        self._local = int(local[1]) if local else 0
        self.workers = self.ahead = 0

    def __enter__(self) -> Self:
        import dask

        # Its log goes to the terminal: of each lost worker, in lines that are no person's.
        dask.config.set({"distributed.comm.timeouts.connect": f"{START_SECONDS}s"})
        self._files = scratch_folder("fxopt-dask-")
        self._cluster = None
        try:
            if self._local:
                self._cluster = self._distributed.LocalCluster(
                    n_workers=self._local,
                    # A process grades one notebook at a time.
                    threads_per_worker=1,
                    processes=True,
                    # Learners' processes have limits of their own, and are no memory of the worker's.
                    memory_limit=0,
                    dashboard_address=None,
                    local_directory=self._files.name,
                    silence_logs=50,
                )
            self._client = self._distributed.Client(self._cluster or self._address, timeout=START_SECONDS)
            self._client.wait_for_workers(1, timeout=START_SECONDS)
        except (OSError, TimeoutError, self._distributed.comm.core.CommClosedError) as error:
            self.__exit__(None, None, None)
            what = one_line(error, 200) or type(error).__name__
            raise ClusterError(
                f"--cluster {self._address}: no scheduler with a worker answers there ({what}); start `dask scheduler` "
                "and `dask worker`, or grade with --jobs"
            ) from None
        self.workers = len(self._client.scheduler_info(n_workers=-1)["workers"])
        self.ahead = AHEAD * self.workers
        # Work is never the same as an earlier one to the scheduler: what was lost must be done again.
        self._executor = self._client.get_executor(pure=False)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for closing in (getattr(self, "_client", None), self._cluster):
            if closing is not None:
                closing.close()
        self._files.cleanup()

    def submit(self, work: Work) -> Future[dict[str, Any]]:
        """Have a notebook graded by the next worker that is free."""
        future: Future[dict[str, Any]] = self._executor.submit(do, work)
        return future

    def outcome(self, work: Work, future: Future[dict[str, Any]]) -> NotebookOutcome:
        """Wait for the outcome; the scheduler has what a worker was lost with done again, a few times.

        Raises:
            InfrastructureError: grading itself failed, or every worker that had this work was lost.
        """
        try:
            return outcome_of(future.result())
        except InfrastructureError:
            raise
        except (Exception, CancelledError) as error:
            raise InfrastructureError(f"the cluster lost this work: {reason_of(error)}") from error
