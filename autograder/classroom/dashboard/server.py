"""The dashboard's server: on this machine only, for those who know the address. Imports no torch.

It listens at the loopback address; the address of the page holds a token that is drawn at each start; another name for
this machine in the request (DNS rebinding) is refused; nothing but reading is possible.
"""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from autograder.classroom.dashboard.data import Snapshot
from autograder.classroom.dashboard.page import FOLDER, POLICY, render, render_grading

FRESH_SECONDS = 1.5
"""For how long what was read is shown without reading it again."""

HEADERS = {
    "Content-Security-Policy": POLICY,
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
}

STATIC = {"style.css": "text/css; charset=utf-8", "live.js": "text/javascript; charset=utf-8"}


class DashboardServer(ThreadingHTTPServer):
    """Serves the page of a class. Use `address` for the browser, `serve_forever` to serve."""

    daemon_threads = True
    # A port that another process listens at is taken, whatever the system would allow.
    allow_reuse_address = True

    def __init__(self, snapshot: Callable[[], Snapshot], port: int = 0) -> None:
        """Listen at the loopback address.

        Args:
            snapshot: reads the class.
            port: the port; 0 takes a free one.

        Raises:
            OSError: the port is taken.
        """
        self.token = secrets.token_urlsafe(24)
        self._read = snapshot
        self._lock = threading.Lock()
        self._latest: tuple[float, Snapshot] | None = None
        super().__init__(("127.0.0.1", port), _Handler)

    @property
    def port(self) -> int:
        """Where it listens."""
        return int(self.server_address[1])

    @property
    def address(self) -> str:
        """The address of the page; whoever has it can read the page from this machine."""
        return f"http://127.0.0.1:{self.port}/{self.token}/"

    def snapshot(self) -> Snapshot:
        """The class as it is now, or was a moment ago."""
        with self._lock:
            if self._latest is None or time.monotonic() - self._latest[0] > FRESH_SECONDS:
                self._latest = time.monotonic(), self._read()
            return self._latest[1]


class _Handler(BaseHTTPRequestHandler):
    """Answers one connection."""

    server: DashboardServer
    server_version = "fxopt"
    sys_version = ""
    timeout = 30

    def do_GET(self) -> None:
        """Send a page, a part of it, or why not."""
        if self.headers.get("Host") not in {f"{name}:{self.server.port}" for name in ("127.0.0.1", "localhost")}:
            self._send(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"This is not the name of this server.\n")
            return
        empty, _, rest = self.path.partition("/")
        token, slash, name = rest.partition("/")
        known = not empty and slash and secrets.compare_digest(token.encode(), self.server.token.encode())
        if not known:
            text = b"The address is not complete: take the whole one that `fxopt dashboard` printed.\n"
            self._send(HTTPStatus.NOT_FOUND, "text/plain", text)
        elif name in STATIC:
            self._send(HTTPStatus.OK, STATIC[name], (FOLDER / name).read_bytes())
        elif name in ("", "grading.html"):
            self._send_page(render if name == "" else render_grading)
        else:
            self._send(HTTPStatus.NOT_FOUND, "text/plain", b"There is no such page.\n")

    def _send_page(self, make: Callable[[Snapshot], str]) -> None:
        try:
            page = make(self.server.snapshot())
        except Exception as error:  # a mistake in course.toml, a gradebook that is just being replaced: said, not fatal
            text = f"The class cannot be read just now: {type(error).__name__}: {error}\n"
            self._send(HTTPStatus.SERVICE_UNAVAILABLE, "text/plain; charset=utf-8", text.encode())
            return
        self._send(HTTPStatus.OK, "text/html; charset=utf-8", page.encode())

    def _send(self, status: HTTPStatus, kind: str, content: bytes) -> None:
        self.send_response(status)
        for name, value in {**HEADERS, "Content-Type": kind, "Content-Length": str(len(content))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the address holds the token."""
