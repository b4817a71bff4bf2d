"""Runs a learner's cells as IPython would, and keeps a bounded record of what they put out."""

from __future__ import annotations

import json
import os
import subprocess
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from io import TextIOBase
from typing import Any

from IPython.core.displayhook import CapturingDisplayHook
from IPython.core.displaypub import CapturingDisplayPublisher
from IPython.core.interactiveshell import InteractiveShell
from traitlets.config import Config

OUTPUT_LIMIT = 100_000
"""Most characters that one cell may put out; the rest is cut and said to be cut."""

CELL_LIMIT = 2_000_000
"""Most bytes of JSON that the outputs of one cell may come to; the rest is left out and said to be left out."""


class BoundedStream(TextIOBase):
    """A text stream that keeps at most `OUTPUT_LIMIT` characters, so that endless printing fills no memory."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._left = OUTPUT_LIMIT
        self.cut = False

    def writable(self) -> bool:
        """Always."""
        return True

    def write(self, text: str) -> int:
        """Keep what still fits."""
        if text and self._left > 0:
            self._parts.append(text[: self._left])
        self.cut = self.cut or len(text) > self._left
        self._left = max(0, self._left - len(text))
        return len(text)

    def text(self) -> str:
        """What was kept, with a note when something was cut."""
        note = f"\n… output cut after {OUTPUT_LIMIT} characters\n" if self.cut else ""
        return "".join(self._parts) + note


def _run_command(shell: InteractiveShell, command: str) -> None:
    """`!ls`, without a terminal of its own: a sandbox has none to give."""
    done = subprocess.run(
        shell.var_expand(command, depth=1),
        shell=True,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    print(done.stdout, end="")
    shell.user_ns["_exit_code"] = done.returncode


class LearnerShell:
    """An IPython shell without history, terminal or front end."""

    def __init__(self) -> None:
        config = Config()
        config.HistoryManager.enabled = False
        config.InteractiveShell.colors = "nocolor"
        # As in a notebook: figures become outputs of the cell that made them.
        os.environ.setdefault("MPLBACKEND", "module://matplotlib_inline.backend_inline")
        # A class of its own: IPython keeps one instance per class, and a parent process may have one already.
        without_windows: dict[str, Any] = {
            "enable_gui": lambda self, gui=None: None,
            "system": _run_command,
        }
        self._shell = type("_Shell", (InteractiveShell,), without_windows)(config=config)
        self._shell._showtraceback = lambda *arguments, **options: None
        # ipykernel defines both, and notebooks use them without importing.
        from IPython.display import display

        self._shell.user_ns["display"] = display

    @property
    def namespace(self) -> dict[str, Any]:
        """The variables of the cells."""
        return self._shell.user_ns

    @contextmanager
    def _current(self) -> Iterator[None]:
        """Make this the shell that `display` and libraries find."""
        before = InteractiveShell._instance
        InteractiveShell._instance = self._shell
        try:
            yield
        finally:
            InteractiveShell._instance = before

    @contextmanager
    def muted(self) -> Iterator[None]:
        """Drop everything that is printed or displayed: what is printed while hidden inputs are about goes nowhere."""
        null = BoundedStream()
        shell = self._shell
        publisher = shell.display_pub
        shell.display_pub = CapturingDisplayPublisher()
        try:
            with self._current(), redirect_stdout(null), redirect_stderr(null):
                yield
        finally:
            shell.display_pub = publisher

    def run_cell(self, source: str) -> list[dict[str, Any]]:
        """Run one cell; its outputs in notebook format. Exceptions become an `error` output."""
        shell = self._shell
        out, err = BoundedStream(), BoundedStream()
        publisher, hook = shell.display_pub, shell.display_trap.hook
        results: list[dict[str, Any]] = []
        capturing = CapturingDisplayPublisher()
        shell.display_pub = capturing
        shell.display_trap.hook = CapturingDisplayHook(shell=shell, outputs=results)
        try:
            with self._current(), redirect_stdout(out), redirect_stderr(err):
                result = shell.run_cell(source, store_history=False)
        finally:
            shell.display_pub, shell.display_trap.hook = publisher, hook
        shown = capturing.outputs + results
        outputs: list[dict[str, Any]] = []
        for name, stream in (("stdout", out), ("stderr", err)):
            if stream.text():
                outputs.append({"output_type": "stream", "name": name, "text": stream.text()})
        outputs += [_display_output(item) for item in shown]
        error = result.error_before_exec or result.error_in_exec
        if error is not None:
            outputs.append(_error_output(shell, error))
        return _within_limit(outputs)


def _within_limit(outputs: list[dict[str, Any]]) -> list[dict[str, Any]]:
    left = CELL_LIMIT
    for index, output in enumerate(outputs):
        left -= len(json.dumps(output))
        if left < 0:
            note = f"… {len(outputs) - index} more outputs were left out\n"
            return [*outputs[:index], {"output_type": "stream", "name": "stderr", "text": note}]
    return outputs


def _display_output(item: dict[str, Any]) -> dict[str, Any]:
    # Notebooks hold pictures as base64 text. Anything but text is for front ends that are not there.
    plain = {
        str(kind): b64encode(value).decode() if isinstance(value, bytes) else str(value)
        for kind, value in item["data"].items()
        if isinstance(value, bytes | str)
    }
    data = {kind: value for kind, value in plain.items() if len(value) <= OUTPUT_LIMIT}
    dropped = sorted(set(plain) - set(data))
    if dropped and "text/plain" not in data:
        data["text/plain"] = f"… {', '.join(dropped)} cut: larger than {OUTPUT_LIMIT} characters"
    return {"output_type": "display_data", "data": data, "metadata": {}}


def text_of(error: BaseException) -> str:
    """What an error says; a learner's own may fail even at that."""
    try:
        return str(error)
    except BaseException as further:  # nothing that it raises may end the process
        return f"(its text cannot be had: {type(further).__name__})"


def _error_output(shell: InteractiveShell, error: BaseException) -> dict[str, Any]:
    traceback = shell.InteractiveTB.structured_traceback(type(error), error, error.__traceback__)
    lines = [str(line)[:OUTPUT_LIMIT] for line in traceback][:200]
    return {
        "output_type": "error",
        "ename": type(error).__name__,
        "evalue": text_of(error)[:2000],
        "traceback": lines,
    }
