"""A channel between two processes that do not trust each other: JSON headers with a binary part.

Built on `multiprocessing.connection`, of which only the byte-wise half is used: nothing is pickled.
"""

from __future__ import annotations

import json
import tempfile
from multiprocessing.connection import Client, Connection, Listener
from pathlib import Path
from typing import Any, NamedTuple

MESSAGE_LIMIT = 64 * 1024 * 1024
"""Largest header or binary part that is accepted, in bytes."""


class ChannelClosedError(ConnectionError):
    """The other side is gone."""


class ChannelTimeoutError(TimeoutError):
    """The other side did not answer in time."""


class MalformedMessageError(ValueError):
    """The other side sent something that is no message."""


class Message(NamedTuple):
    """A JSON header and a binary part (empty when there is none)."""

    header: dict[str, Any]
    blob: bytes


class Channel:
    """One end of a connection."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection

    def send(self, header: dict[str, Any], blob: bytes = b"") -> None:
        """Send one message.

        Raises:
            ChannelClosedError: the other side is gone.
        """
        try:
            self._connection.send_bytes(json.dumps(header).encode())
            self._connection.send_bytes(blob)
        except OSError as error:
            raise ChannelClosedError("the other side closed the channel") from error

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for one message.

        Args:
            timeout: seconds to wait for the message to begin; `None` waits for ever.

        Raises:
            ChannelTimeoutError: nothing came in time.
            ChannelClosedError: the other side is gone, or sent more than `MESSAGE_LIMIT`.
            MalformedMessageError: what came is no JSON object.
        """
        try:
            if not self._connection.poll(timeout):
                raise ChannelTimeoutError(f"no answer within {timeout:g} seconds")
            raw = self._connection.recv_bytes(MESSAGE_LIMIT)
            if not self._connection.poll(timeout):
                raise ChannelTimeoutError(f"no complete answer within {timeout:g} seconds")
            blob = self._connection.recv_bytes(MESSAGE_LIMIT)
        except (EOFError, OSError) as error:
            if isinstance(error, TimeoutError):
                raise
            raise ChannelClosedError("the other side closed the channel") from error
        try:
            header = json.loads(raw)
        except (ValueError, RecursionError) as error:
            raise MalformedMessageError("a message that is not JSON") from error
        if not isinstance(header, dict):
            raise MalformedMessageError("a message that is not a JSON object")
        return Message(header, blob)

    def ready(self, timeout: float) -> bool:
        """Whether a message (or the end of the channel) can be read within `timeout` seconds."""
        try:
            return self._connection.poll(timeout)
        except OSError:
            return True

    def close(self) -> None:
        """Close this end."""
        self._connection.close()


class Rendezvous:
    """A place (a socket in a private folder) at which exactly one other process connects, once."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self._listener = Listener(str(self.path), family="AF_UNIX")

    def accept(self, timeout: float) -> Channel:
        """The channel to the process that connects.

        Raises:
            ChannelTimeoutError: nobody connected in time.
        """
        # multiprocessing.Listener offers no time limit of its own; its socket does.
        self._listener._listener._socket.settimeout(timeout)  # type: ignore[attr-defined]
        try:
            connection = self._listener.accept()
        except TimeoutError as error:
            raise ChannelTimeoutError(f"no process connected within {timeout:g} seconds") from error
        finally:
            self._listener.close()
        return Channel(connection)


def connect(path: str) -> Channel:
    """The channel to the process that waits at a `Rendezvous`."""
    return Channel(Client(path, family="AF_UNIX"))


def private_folder() -> tempfile.TemporaryDirectory[str]:
    """A folder for rendezvous sockets that only this user can enter. Socket paths must be short: about 100 bytes."""
    return tempfile.TemporaryDirectory(prefix="fxopt-", dir="/tmp")
