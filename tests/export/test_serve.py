"""One file, to one page, once."""

from __future__ import annotations

import contextlib
import http.client
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Queue

import pytest

from decodeprof.errors import InputError
from decodeprof.export.serve import ORIGIN, link, serve_once

DATA = bytes(range(256)) * 4_000
TIMEOUT_S = 10.0


class Served:
    """A file that is being served by a thread."""

    def __init__(self, path: Path) -> None:
        ports: Queue[int] = Queue()
        self._thread = threading.Thread(
            target=serve_once, args=[path], kwargs={"port": 0, "ready": ports.put}, daemon=True
        )
        self._thread.start()
        self.port = ports.get(timeout=TIMEOUT_S)

    def ask(
        self, path: str, *, method: str = "GET", host: str | None = None
    ) -> tuple[int, dict[str, str], bytes]:
        with contextlib.closing(
            http.client.HTTPConnection("127.0.0.1", self.port, timeout=TIMEOUT_S)
        ) as connection:
            headers = {"Origin": ORIGIN, **({"Host": host} if host else {})}
            connection.request(method, path, headers=headers)
            answer = connection.getresponse()
            return answer.status, dict(answer.headers), answer.read()

    def ended(self) -> bool:
        self._thread.join(timeout=TIMEOUT_S)
        return not self._thread.is_alive()

    @property
    def serving(self) -> bool:
        return self._thread.is_alive()


@pytest.fixture
def served(tmp_path: Path) -> Iterator[Served]:
    path = tmp_path / "my run.pftrace"
    path.write_bytes(DATA)
    server = Served(path)
    yield server
    with contextlib.suppress(OSError):  # It may be about to end.
        server.ask("/my%20run.pftrace")
    assert server.ended()


def test_the_file_is_given_to_the_page_and_the_server_ends(served: Served) -> None:
    status, headers, body = served.ask("/my%20run.pftrace")
    assert (status, body) == (200, DATA)
    assert headers["Access-Control-Allow-Origin"] == "https://ui.perfetto.dev"
    assert headers["Cache-Control"] == "no-cache"
    assert served.ended()


def test_nothing_else_is_given_and_the_server_goes_on(served: Served) -> None:
    for path in (
        "/",
        "/other",
        "/../my%20run.pftrace",
        "/x/my%20run.pftrace",
        "/%2e%2e/etc/passwd",
    ):
        assert served.ask(path)[0] == 404
    assert served.ask("/my%20run.pftrace", method="POST")[0] == 501
    assert served.serving


def test_a_name_that_only_leads_here_gets_nothing(served: Served) -> None:
    assert served.ask("/my%20run.pftrace", host="evil.example")[0] == 404
    assert served.serving
    assert served.ask("/my%20run.pftrace", host="localhost:9001")[0] == 200


def test_a_browser_may_ask_before_it_reads(served: Served) -> None:
    status, headers, _ = served.ask("/my%20run.pftrace", method="OPTIONS")
    assert status == 204
    assert headers["Access-Control-Allow-Private-Network"] == "true"
    status, headers, body = served.ask("/my%20run.pftrace", method="HEAD")
    assert (status, headers["Content-Length"], body) == (200, str(len(DATA)), b"")
    assert served.serving


def test_a_reader_that_goes_away_and_an_idle_one_do_not_end_it(served: Served) -> None:
    with socket.create_connection(("127.0.0.1", served.port)):
        with socket.create_connection(("127.0.0.1", served.port)) as reader:
            reader.sendall(b"GET /nothing HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert served.ask("/my%20run.pftrace")[2] == DATA
        assert served.ended()


def test_it_listens_on_loopback_alone(served: Served) -> None:
    own = socket.gethostbyname(socket.gethostname())
    if own.startswith("127."):
        pytest.skip("this machine has no other address")
    with pytest.raises(OSError, match="refused"):
        socket.create_connection((own, served.port), timeout=TIMEOUT_S)


def test_a_port_in_use_is_an_error_that_says_what_to_do(tmp_path: Path) -> None:
    path = tmp_path / "t.pftrace"
    path.write_bytes(b"")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(InputError, match=f"port {port} is in use") as raised:
            serve_once(path, port=port, ready=print)
    assert "`--port`" in raised.value.hint


def test_a_file_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot read"):
        serve_once(tmp_path / "t.pftrace", port=0, ready=print)


def test_the_link_is_the_one_that_the_page_understands() -> None:
    assert link("a b#c.pftrace") == (
        "https://ui.perfetto.dev/#!/?url=http://127.0.0.1:9001/a%20b%23c.pftrace"
    )
