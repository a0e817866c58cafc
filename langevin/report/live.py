"""The report on localhost while a fit is running: the same page, sent anew after every chunk by server-sent events.

It binds to the loopback address alone, serves one page and one stream, and stops with the run.
"""

from __future__ import annotations

import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from markupsafe import Markup

from langevin.report.data import ReportData
from langevin.report.markup import render
from langevin.report.page import body, document

SCRIPT = """
const source = new EventSource("stream"), place = document.getElementById("live");
source.onmessage = (event) => {
  const now = JSON.parse(event.data), at = window.scrollY;
  place.innerHTML = now.body;
  window.scrollTo(0, at);
  if (now.ended) source.close();
};
"""


class Live:
    """A page that follows a fit.

    name: of what is fitted.
    port: 0 for any that is free.
    """

    def __init__(self, name: str, port: int = 0):
        self.body = render("live.html", name=name)
        self.version, self.ended, self.changed = 0, False, threading.Condition()
        page = document(name, Markup('<div id="live">{}</div>').format(self.body), script=SCRIPT).encode()
        handler = type("Handler", (_Handler,), dict(live=self, page=page))
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def show(self, facts: ReportData) -> None:
        """The report as it stands."""
        self._tell(body(facts))

    def end(self) -> None:
        """Say that it is over, and stop."""
        self._tell(self.body, ended=True)
        time.sleep(0.2)  # the last event is to arrive
        self.server.shutdown()
        self.server.server_close()

    def _tell(self, inside: Markup, *, ended: bool = False) -> None:
        with self.changed:
            self.body, self.ended = inside, ended
            self.version += 1
            self.changed.notify_all()


class _Handler(BaseHTTPRequestHandler):
    live: Live
    page: bytes

    def do_GET(self) -> None:
        if self.path == "/":
            self._begin("text/html; charset=utf-8")
            self.wfile.write(self.page)
        elif self.path == "/stream":
            self._begin("text/event-stream")
            self._stream()
        else:
            self.send_error(404)

    def _begin(self, kind: str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        self.end_headers()

    def _stream(self) -> None:
        live, seen, ended = self.live, -1, False
        try:
            while not ended:
                with live.changed:
                    live.changed.wait_for(lambda: live.version != seen, timeout=15)
                    seen, ended = live.version, live.ended
                    news = json.dumps(dict(body=live.body, ended=ended))
                self.wfile.write(f"data: {news}\n\n".encode())
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the reader has gone

    def log_message(self, *_: Any) -> None:
        """Say nothing on the terminal."""
