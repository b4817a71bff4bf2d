"""A channel between two processes that do not trust each other: JSON headers with a binary part.

A message is the two lengths (8 bytes each, big-endian), then the header, then the binary part. Nothing is pickled.
A time limit holds for a whole message: a side that begins one and never completes it, or that does not read what it
is sent, cannot hold the other one up.
"""

from __future__ import annotations

import json
import socket
import struct
import time
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, NamedTuple

MESSAGE_LIMIT = 64 * 1024 * 1024
"""Largest binary part that is sent or accepted, in bytes."""

HEADER_LIMIT = 8 * 1024 * 1024
"""Largest header that is sent or accepted, in bytes. Python needs about fifty times as much to hold one."""

_LENGTHS = struct.Struct(">QQ")


class ChannelClosedError(ConnectionError):
    """The other side is gone."""


class ChannelTimeoutError(TimeoutError):
    """The other side did not answer, or did not take what it was sent, in time."""


class MalformedMessageError(ValueError):
    """The other side sent something that is no message."""


class OversizeMessageError(MalformedMessageError):
    """A message is larger than `HEADER_LIMIT` or `MESSAGE_LIMIT` allow."""


class Message(NamedTuple):
    """A JSON header and a binary part (empty when there is none)."""

    header: dict[str, Any]
    blob: bytes


class Channel:
    """One end of a connection. After an error the channel is of no more use: close it."""

    def __init__(
        self, connection: socket.socket, header_limit: int = HEADER_LIMIT, blob_limit: int = MESSAGE_LIMIT
    ) -> None:
        """Use a connected socket.

        Args:
            connection: the socket.
            header_limit: largest header that is sent or accepted, in bytes.
            blob_limit: largest binary part that is sent or accepted, in bytes.
        """
        self._socket = connection
        self._limits = header_limit, blob_limit

    def send(self, header: dict[str, Any], blob: bytes = b"", timeout: float | None = None) -> None:
        """Send one message.

        Args:
            header: JSON values.
            blob: the binary part.
            timeout: seconds within which the other side must take all of it; `None` waits for ever.

        Raises:
            ChannelClosedError: the other side is gone.
            ChannelTimeoutError: the other side does not read.
            OversizeMessageError: the message is too large; nothing was sent.
            RecursionError, TypeError, ValueError: `header` is not JSON; nothing was sent.
        """
        text = json.dumps(header).encode()
        self._check_size(len(text), len(blob))
        try:
            self._socket.settimeout(timeout)
            # `sendall` counts its time limit over the whole of what it sends.
            self._socket.sendall(_LENGTHS.pack(len(text), len(blob)) + text + blob)
        except TimeoutError as error:
            raise ChannelTimeoutError("the other side does not read what it is sent") from error
        except OSError as error:
            raise ChannelClosedError("the other side closed the channel") from error

    def receive(self, timeout: float | None = None) -> Message:
        """Wait for one message.

        Args:
            timeout: seconds within which the whole message must be there; `None` waits for ever.

        Raises:
            ChannelTimeoutError: it was not.
            ChannelClosedError: the other side is gone.
            OversizeMessageError: the other side announced more than is accepted.
            MalformedMessageError: what came is no JSON object.
        """
        end = None if timeout is None else time.monotonic() + timeout
        text_length, blob_length = _LENGTHS.unpack(self._read(_LENGTHS.size, end))
        self._check_size(text_length, blob_length)
        text, blob = self._read(text_length, end), self._read(blob_length, end)
        try:
            header = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise MalformedMessageError("a message that is not JSON") from error
        if not isinstance(header, dict):
            raise MalformedMessageError("a message that is not a JSON object")
        return Message(header, bytes(blob))

    def _read(self, length: int, end: float | None) -> bytearray:
        content = bytearray()
        while len(content) < length:
            left = None if end is None else end - time.monotonic()
            if left is not None and left <= 0:
                raise ChannelTimeoutError("no complete answer in time")
            try:
                self._socket.settimeout(left)
                part = self._socket.recv(min(length - len(content), 1 << 20))
            except TimeoutError as error:
                raise ChannelTimeoutError("no complete answer in time") from error
            except OSError as error:
                raise ChannelClosedError("the other side closed the channel") from error
            if not part:
                raise ChannelClosedError("the other side closed the channel")
            content += part
        return content

    def hand_over(self, other: Channel) -> None:
        """Give one end of another connection to the other side, and close it here. There, `take_over` receives it.

        Raises:
            ChannelClosedError: the other side is gone.
        """
        try:
            socket.send_fds(self._socket, [b"+"], [other.fileno()])
        except OSError as error:
            raise ChannelClosedError("the other side closed the channel") from error
        finally:
            other.close()

    def take_over(self, timeout: float | None = None) -> Channel:
        """The end of a connection that the other side hands over.

        Raises:
            ChannelTimeoutError: it did not come in time.
            ChannelClosedError: the other side is gone, or sent something else.
        """
        try:
            self._socket.settimeout(timeout)
            _, descriptors, _, _ = socket.recv_fds(self._socket, 1, 1)
        except TimeoutError as error:
            raise ChannelTimeoutError("no connection was handed over in time") from error
        except OSError as error:
            raise ChannelClosedError("the other side closed the channel") from error
        if not descriptors:
            raise ChannelClosedError("the other side handed no connection over")
        taken = socket.socket(fileno=descriptors[0])
        taken.set_inheritable(False)
        return Channel(taken)

    def fileno(self) -> int:
        """The number of the open file behind this end, to wait for it or to let a new process inherit it."""
        return self._socket.fileno()

    def _check_size(self, text_length: int, blob_length: int) -> None:
        header_limit, blob_limit = self._limits
        if text_length > header_limit or blob_length > blob_limit:
            raise OversizeMessageError(
                f"a message of {text_length} + {blob_length} bytes; at most {header_limit} + {blob_limit} are accepted"
            )

    def ready(self, timeout: float) -> bool:
        """Whether a message begins (or the channel ends) within `timeout` seconds."""
        return bool(wait([self._socket], timeout))

    def close(self) -> None:
        """Close this end."""
        self._socket.close()


class Rendezvous:
    """A place (a socket in a private folder) at which exactly one other process connects, once."""

    def __init__(self, folder: Path, name: str) -> None:
        self.path = folder / name
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._socket.bind(str(self.path))
        self._socket.listen(1)

    def accept(self, timeout: float, **limits: int) -> Channel:
        """The channel to the process that connects. The place is gone afterwards, whatever came of it.

        Args:
            timeout: seconds to wait.
            limits: `header_limit` and `blob_limit` of the channel.

        Raises:
            ChannelTimeoutError: nobody connected in time.
        """
        try:
            self._socket.settimeout(timeout)
            connection, _ = self._socket.accept()
        except TimeoutError as error:
            raise ChannelTimeoutError(f"no process connected within {timeout:g} seconds") from error
        finally:
            self.close()
        return Channel(connection, **limits)

    def close(self) -> None:
        """Give the place up."""
        self._socket.close()
        self.path.unlink(missing_ok=True)


def channel_pair() -> tuple[Channel, Channel]:
    """Both ends of a new connection, which lies in no folder: only who is given an end can use it."""
    first, second = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(first), Channel(second)


def inherited_channel(number: int) -> Channel:
    """The channel whose open file this process inherited under `number`; its own children inherit it no more."""
    connection = socket.socket(fileno=number)
    connection.set_inheritable(False)
    return Channel(connection)


def connect(path: str, **limits: int) -> Channel:
    """The channel to the process that waits at a `Rendezvous`; `limits` are `header_limit` and `blob_limit`."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    connection.connect(path)
    return Channel(connection, **limits)
