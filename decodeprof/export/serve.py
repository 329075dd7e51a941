"""How does ui.perfetto.dev get a timeline that lies on this machine?

Its page may read from one port of the reader's own machine, and nothing is uploaded: a small server
on loopback gives out one file, to that page, once. This is how Perfetto's own helper does it.
"""

from __future__ import annotations

import errno
import http.server
import shutil
import threading
from collections.abc import Callable
from http import HTTPStatus
from pathlib import Path
from urllib.parse import quote, unquote, urlsplit

from decodeprof.errors import InputError

ORIGIN = "https://ui.perfetto.dev"
PORT = 9001
"""The page's own policy lets it read from this port of 127.0.0.1, and from no other."""
_LOOPBACK = "127.0.0.1"
# A name that some page made point here is not one of these, whatever address it leads to.
_HOSTS = frozenset({_LOOPBACK, "localhost"})


def link(name: str) -> str:
    """The link that makes ui.perfetto.dev load a file of this name from this machine."""
    return f"{ORIGIN}/#!/?url=http://{_LOOPBACK}:{PORT}/{quote(name)}"


def serve_once(path: Path, *, port: int = PORT, ready: Callable[[int], None]) -> None:
    """Serve a file on loopback until it was fetched, whole, once.

    Args:
        path: the file.
        port: where to listen; 0: any that is free.
        ready: called with the port once it can be fetched.

    Raises:
        InputError: the file cannot be read, or the port cannot be listened on.
    """
    try:
        path.open("rb").close()
    except OSError as error:
        raise InputError(f"cannot read `{path}`", why=str(error.strerror)) from None
    fetched = threading.Event()
    try:
        server = _Server(path, port, fetched)
    except OSError as error:
        raise _cannot_listen(port, error) from None
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        ready(server.server_address[1])
        fetched.wait()
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def _cannot_listen(port: int, error: OSError) -> InputError:
    if error.errno != errno.EADDRINUSE:
        return InputError(f"cannot listen on port {port}", why=str(error.strerror))
    return InputError(
        f"port {port} is in use",
        why=f"ui.perfetto.dev reads from port {PORT} of this machine alone",
        hint="end what uses it, perhaps another `decodeprof open`; `--port` takes another one, "
        f"which must then be forwarded to port {PORT} of the machine that runs the browser",
    )


class _Server(http.server.ThreadingHTTPServer):
    """A thread for each connection, since browsers open some that they do not use."""

    def __init__(self, path: Path, port: int, fetched: threading.Event) -> None:
        super().__init__((_LOOPBACK, port), _Handler)
        self.path = path
        self.fetched = fetched


class _Handler(http.server.BaseHTTPRequestHandler):
    server: _Server

    def do_GET(self) -> None:
        """Send the file."""
        if not self._asks_for_the_file():
            return
        with self.server.path.open("rb") as file:
            self._answer(HTTPStatus.OK, length=self.server.path.stat().st_size)
            try:
                shutil.copyfileobj(file, self.wfile)
                self.wfile.flush()
            except ConnectionError:
                return  # The page was closed, or loaded anew: it may ask again.
        self.server.fetched.set()

    def do_HEAD(self) -> None:
        """Say how long the file is."""
        if self._asks_for_the_file():
            self._answer(HTTPStatus.OK, length=self.server.path.stat().st_size)

    def do_OPTIONS(self) -> None:
        """Let the page, which is not of this machine, read from it."""
        if self._asks_for_the_file():
            self._answer(HTTPStatus.NO_CONTENT, length=0)

    def _asks_for_the_file(self) -> bool:
        host = urlsplit(f"//{self.headers.get('Host', '')}").hostname
        name = unquote(urlsplit(self.path).path).removeprefix("/")
        if host in _HOSTS and name == self.server.path.name:
            return True
        self._answer(HTTPStatus.NOT_FOUND, length=0)
        return False

    def _answer(self, status: HTTPStatus, *, length: int) -> None:
        self.send_response(status)
        self.send_header("Access-Control-Allow-Origin", ORIGIN)
        self.send_header("Access-Control-Allow-Methods", "GET, HEAD")
        self.send_header("Access-Control-Allow-Private-Network", "true")
        self.send_header("Cache-Control", "no-cache")
        self.send_header("Content-Type", "application/octet-stream")
        self.send_header("Content-Length", str(length))
        self.end_headers()

    def log_message(self, *_: object) -> None:
        """Say nothing: stderr is for the person."""
