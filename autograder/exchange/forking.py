"""What a process must give up before it forks for people who do not trust each other.

A lock in memory that all forks share is a way from one submission to the next: whoever is killed while holding it, by
a time limit or on purpose, stops everybody after it.
"""

from __future__ import annotations

import threading


def share_no_lock() -> None:
    """Take from tqdm, in this process, the lock that its forks would share, and the thread that watches over bars.

    `torch.fx.Interpreter` makes a progress bar for each run, shown or not, and tqdm makes each bar under a lock of
    `multiprocessing`, a semaphore in shared memory. A runner that its time limit ended at that moment left the
    semaphore taken, and every graph of every later submission waited until its own time was over.
    """
    from tqdm import tqdm

    tqdm.monitor_interval = 0
    tqdm.set_lock(threading.RLock())
