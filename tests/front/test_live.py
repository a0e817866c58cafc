"""The live page answers its own address alone, few readers at a time, and none for ever."""

import http.client
import json
import socket
import time

import pages
import pytest

from langevin.report import live as module
from langevin.report.live import CONNECTIONS, STREAMS, Live


@pytest.fixture
def live():
    served = Live("t")
    yield served
    served.end()


def port(live: Live) -> int:
    return live.server.server_address[1]


def status(live: Live, path: str = "/", host: str | None = None) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port(live), timeout=5)
    connection.request("GET", path, headers={} if host is None else {"Host": host})
    code = connection.getresponse().status
    connection.close()
    return code


def until(true, seconds: float = 5.0) -> bool:
    end = time.monotonic() + seconds
    while not true() and time.monotonic() < end:
        time.sleep(0.02)
    return true()


def stream(live: Live) -> socket.socket:
    """A reader that has asked for the stream, and reads nothing by itself."""
    reader = socket.create_connection(("127.0.0.1", port(live)), timeout=5)
    reader.sendall(f"GET /stream HTTP/1.1\r\nHost: 127.0.0.1:{port(live)}\r\n\r\n".encode())
    return reader


def test_other_names_of_this_machine_are_refused(live):
    assert status(live) == 200
    assert status(live, host=f"localhost:{port(live)}") == 200
    for host in ("evil.example", f"evil.example:{port(live)}", "127.0.0.1", f"127.0.0.1:{port(live) + 1}", ""):
        assert status(live, host=host) == 403
        assert status(live, "/stream", host=host) == 403
    assert status(live, "/etc/passwd") == 404


def test_streams_are_bounded(live):
    readers = [stream(live) for _ in range(STREAMS)]
    assert all(r.recv(12) == b"HTTP/1.0 200" for r in readers)
    assert status(live, "/stream") == 503
    assert status(live) == 200  # the page is still there
    for reader in readers:
        reader.close()
    live.show(pages.undiagnosed())  # to notice that they have gone
    live.show(pages.undiagnosed())
    assert until(lambda: live.server.streams._value == STREAMS)


def test_connections_are_bounded_and_silent_ones_are_dropped(monkeypatch):
    monkeypatch.setattr(module._Handler, "timeout", 1.0)
    live = Live("t")
    try:
        silent = [socket.create_connection(("127.0.0.1", port(live))) for _ in range(CONNECTIONS)]
        assert until(lambda: live.server.room._value == 0)
        assert status(live) == 503
        assert until(lambda: live.server.room._value == CONNECTIONS)  # those that say nothing are dropped
        assert status(live) == 200
        for reader in silent:
            reader.close()
    finally:
        live.end()


def test_a_reader_that_does_not_read_is_dropped(monkeypatch):
    monkeypatch.setattr(module._Handler, "timeout", 0.3)
    live = Live("t")
    try:
        reader = stream(live)
        assert until(lambda: live.server.streams._value == STREAMS - 1)
        for _ in range(100):  # more than the buffers of a socket hold
            live._tell("body", "x" * 2**20)
            if live.server.streams._value == STREAMS:
                break
            time.sleep(0.02)
        assert until(lambda: live.server.streams._value == STREAMS)
        reader.close()
    finally:
        live.end()


def test_progress_is_an_event_of_its_own(live):
    reader = stream(live)
    lines = reader.makefile("rb")
    while lines.readline().strip():
        pass  # the head
    assert lines.readline().startswith(b'data: {"body"')
    assert lines.readline() == b"\n"
    live.progress("tune", 0.25, "40 s left")
    assert lines.readline() == b"event: progress\n"
    said = json.loads(lines.readline().removeprefix(b"data: "))
    assert said == dict(stage="tune", done=0.25, text="tune: 25 %, 40 s left")
    live.progress("sample", float("nan"))
    assert [lines.readline() for _ in range(3)][2].startswith(b'data: {"stage": "sample", "done": 0.0')
    lines.close()
    reader.close()
