"""The process in which engines are tried: it imports torch once, and forks one process for each engine.

    python -m fxopt_workbench.engines.worker '{"folder": …, "threads": …, "path": …, "engines": {"eager": [where, 3]}}'

Each fork answers its own end of a socket, message by message, in JSON. The first process waits for its standard input
to end, and then ends them all, so that nobody outlives the caller.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

PROGRAM = "program.pt"
"""The file with the program that the engines run."""


def main() -> None:
    """Fork a process for each engine, and wait for the caller's end."""
    request = json.loads(sys.argv[1])
    sys.path[:] = request["path"]
    # What every engine needs is imported once, before any thread has begun.
    import torch
    import torch._dynamo
    import torch._inductor.compile_fx  # noqa: F401

    from fxopt_workbench.engines.registry import load  # noqa: F401
    from fxopt_workbench.engines.trying import Tried  # noqa: F401

    for name, (reference, descriptor) in request["engines"].items():
        if os.fork() == 0:
            try:
                others = [other for _, other in request["engines"].values() if other != descriptor]
                for other in others:
                    os.close(other)
                _serve(Connection(descriptor), name, reference, Path(request["folder"]), request["threads"])
            finally:
                os._exit(0)
    for _, descriptor in request["engines"].values():
        os.close(descriptor)
    sys.stdin.buffer.read()
    os.killpg(0, signal.SIGKILL)


def _serve(connection: Connection, name: str, reference: str, folder: Path, threads: int) -> None:
    """Answer until the caller has no more questions."""
    own = folder / name
    own.mkdir(exist_ok=True)
    log = os.open(own / "log.txt", os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for descriptor, target in ((nothing, 0), (log, 1), (log, 2)):
        os.dup2(descriptor, target)
    _send(connection, {"process": os.getpid()})
    tried: Any = None
    while True:
        try:
            message = json.loads(connection.recv_bytes())
        except EOFError:
            return
        try:
            if tried is None:
                import torch

                from fxopt_workbench.engines.program import Program
                from fxopt_workbench.engines.registry import load
                from fxopt_workbench.engines.trying import Tried

                torch.set_num_threads(threads)
                tried = Tried(load(reference), Program.load(folder / PROGRAM), own, threads)
            _send(connection, getattr(tried, message.pop("do"))(**message))
        except BaseException as error:  # an engine may raise anything, and the caller is told
            first = next(iter(str(error).strip().splitlines()), "")
            _send(connection, {"failure": f"{type(error).__name__}: {first}"[:400]})


def _send(connection: Connection, message: dict[str, Any]) -> None:
    connection.send_bytes(json.dumps(message).encode())


if __name__ == "__main__":
    main()
