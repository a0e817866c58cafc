"""The report on localhost while a fit is running: the same page, sent anew after every chunk by server-sent events.

It binds to the loopback address alone, answers requests that name it (a page of another site whose name was made to
point here sends its own name, and is refused), serves one page and one stream to few readers at a time, drops those
that do not read, and stops with the run.
"""

from __future__ import annotations

import contextlib
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from markupsafe import Markup

from langevin.report.data import ReportData
from langevin.report.markup import render
from langevin.report.page import body, document

CONNECTIONS, STREAMS = 32, 16  # open at a time; further ones are answered 503
PATIENCE = 10.0  # seconds that a reader may take to send its request, or to take what is sent
SILENCE = 15.0  # seconds after which a stream says that it is alive
SCRIPT = """
const source = new EventSource("stream"), place = document.getElementById("live");
const bar = document.getElementById("progress");
source.onmessage = (event) => {
  const now = JSON.parse(event.data), at = window.scrollY;
  place.innerHTML = now.body;
  window.scrollTo(0, at);
  if (now.ended) { source.close(); bar.hidden = true; }
};
source.addEventListener("progress", (event) => {
  const now = JSON.parse(event.data);
  bar.hidden = false;
  bar.querySelector("p").textContent = now.text;
  bar.querySelector("div").setAttribute("aria-valuenow", Math.round(100 * now.done));
  bar.querySelector("i").style.width = `${100 * now.done}%`;
});
"""
BAR = Markup(
    '<div id="progress" class="progress" hidden><p></p>'
    '<div role="progressbar" aria-label="Progress of the fit" aria-valuemin="0" aria-valuemax="100"><i></i></div></div>'
)


class Live:
    """A page that follows a fit.

    name: of what is fitted.
    port: 0 for any that is free.
    """

    def __init__(self, name: str, port: int = 0):
        self.body, self.news = render("live.html", name=name), ""
        self.version = dict(body=0, news=0)
        self.ended, self.changed = False, threading.Condition()
        page = document(name, BAR + Markup('<div id="live">{}</div>').format(self.body), script=SCRIPT).encode()
        handler = type("Handler", (_Handler,), dict(live=self, page=page))
        self.server = _Server(("127.0.0.1", port), handler)
        threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def show(self, facts: ReportData) -> None:
        """The report as it stands."""
        self._tell("body", body(facts))

    def progress(self, stage: str, done: float, text: str = "") -> None:
        """How far a stage is, as a bar above the report. done: from 0 to 1; text: what else to say, time left say."""
        done = min(max(float(done), 0.0), 1.0) if done == done else 0.0
        words = f"{stage}: {100 * done:.0f} %" + (f", {text}" if text else "")
        self._tell("news", json.dumps(dict(stage=stage, done=done, text=words)))

    def end(self) -> None:
        """Say that it is over, and stop."""
        self._tell("body", self.body, ended=True)
        time.sleep(0.2)  # the last event is to arrive
        self.server.shutdown()
        self.server.server_close()

    def _tell(self, what: str, value: Any, *, ended: bool = False) -> None:
        with self.changed:
            setattr(self, what, value)
            self.ended = ended
            self.version[what] += 1
            self.changed.notify_all()


class _Server(ThreadingHTTPServer):
    """A thread a connection, and few of them."""

    daemon_threads = True
    request_queue_size = CONNECTIONS
    block_on_close = False  # a reader that sleeps must not hold up the end

    def __init__(self, *args: Any):
        self.room, self.streams = threading.BoundedSemaphore(CONNECTIONS), threading.BoundedSemaphore(STREAMS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        if self.room.acquire(blocking=False):
            super().process_request(request, client_address)
            return
        request.settimeout(0.1)  # this is the thread that accepts: it must not wait
        with contextlib.suppress(OSError):
            request.sendall(b"HTTP/1.0 503 Service Unavailable\r\nContent-Length: 0\r\n\r\n")
        self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.room.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A reader that went away or was too slow is no fault of the fit: say nothing on the terminal."""


class _Handler(BaseHTTPRequestHandler):
    live: Live
    page: bytes
    server: _Server
    timeout = PATIENCE

    def do_GET(self) -> None:
        port = self.server.server_address[1]
        if self.headers.get("Host", "").lower() not in (f"127.0.0.1:{port}", f"localhost:{port}"):
            self.send_error(403)
        elif self.path == "/":
            self._begin("text/html; charset=utf-8")
            self.wfile.write(self.page)
        elif self.path == "/stream":
            self._streamed()
        else:
            self.send_error(404)

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def _streamed(self) -> None:
        if not self.server.streams.acquire(blocking=False):
            self.send_error(503)
            return
        try:
            self._begin("text/event-stream")
            self._stream()
        except OSError:
            pass  # the reader has gone, or does not read
        finally:
            self.server.streams.release()

    def _stream(self) -> None:
        live, seen, ended = self.live, dict(body=-1, news=0), False
        while not ended:
            with live.changed:
                live.changed.wait_for(lambda: live.version != seen, timeout=SILENCE)
                now, ended = dict(live.version), live.ended
                report = json.dumps(dict(body=live.body, ended=ended)) if now["body"] != seen["body"] else ""
                news = live.news if now["news"] != seen["news"] else ""
            seen = now
            said = f"data: {report}\n\n" if report else ""
            said += f"event: progress\ndata: {news}\n\n" if news else ""
            self.wfile.write((said or ": alive\n\n").encode())
            self.wfile.flush()

    def log_message(self, *_: Any) -> None:
        """Say nothing on the terminal."""
