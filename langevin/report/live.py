"""A page on localhost that follows a run: draws done, R̂ and ESS so far, and a trace, by server-sent events.

It binds to the loopback address alone, serves one page and one stream, and stops with the run.
"""

from __future__ import annotations

import html
import json
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import resources
from typing import Any

import numpy as np

from langevin.core.visits import Watch

SHOWN = 200  # draws of a trace

PAGE = """<!doctype html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>langevin: {name}</title><style>{style}</style></head><body><main>
<header><p class="brand">langevin, live</p><h1>{name}</h1><p id="words">training and tuning …</p></header>
<section id="live"><h2>Log density</h2><p>Every line is a chain; they should come to lie over one another.</p>
<svg id="trace" viewBox="0 0 520 260" role="img" aria-label="log density of every chain" style="width:100%"></svg>
</section>
</main><script>
const colours = ["#2a6fc9", "#b8641a", "#2f8f76", "#8d55c4", "#c24a7a", "#6b7785"];
const source = new EventSource("stream");
source.onmessage = (event) => {{
  const now = JSON.parse(event.data);
  document.getElementById("words").textContent = now.words;
  const all = now.traces.flat(), low = Math.min(...all), high = Math.max(...all), span = (high - low) || 1;
  document.getElementById("trace").innerHTML = now.traces.map((trace, i) => {{
    const points = trace.map((v, j) => (j * 520 / Math.max(trace.length - 1, 1)).toFixed(1) + "," +
      (250 - 240 * (v - low) / span).toFixed(1)).join(" ");
    return `<polyline fill="none" stroke="${{colours[i % colours.length]}}" points="${{points}}"/>`;
  }}).join("");
  if (now.ended) source.close();
}};
</script></body></html>
"""


class Live:
    """A visit that shows a run on a page.

    name: of what is fitted.
    port: 0 for any that is free.
    """

    def __init__(self, name: str, port: int = 0):
        self.watch, self.changed = Watch(), threading.Condition()
        self.traces: np.ndarray | None = None
        self.now: dict[str, Any] = dict(words="training and tuning …", traces=[], ended=False)
        self.version, self.began = 0, time.perf_counter()
        style = (resources.files("langevin.report") / "style.css").read_text(encoding="utf-8")
        page = PAGE.format(name=html.escape(name), style=style).encode()
        handler = type("Handler", (_Handler,), dict(live=self, page=page))
        self.server = ThreadingHTTPServer(("127.0.0.1", port), handler)
        self.server.daemon_threads = True
        threading.Thread(target=self.server.serve_forever, args=(0.1,), daemon=True).start()

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/"

    def __call__(self, done, kernel, target, states, chunk):
        if done > 0:
            self.watch.add(chunk)
            new = np.asarray(chunk.info.log_density, float)
            self.traces = new if self.traces is None else np.concatenate([self.traces, new], axis=1)
            seconds = time.perf_counter() - self.began
            words = f"{done} draws of {len(new)} chains in {seconds:.0f} s"
            words += f"; R̂ {self.watch.rhat:.3f}, ESS {self.watch.ess:.0f}"
            self._tell(words=words, traces=_thinned(self.traces))
        return kernel, target, states

    def end(self) -> None:
        """Say that it is over, and stop."""
        self._tell(ended=True)
        time.sleep(0.2)  # the last event is to arrive
        self.server.shutdown()
        self.server.server_close()

    def _tell(self, **news: Any) -> None:
        with self.changed:
            self.now |= news
            self.version += 1
            self.changed.notify_all()


def _thinned(traces: np.ndarray) -> list[list[float]]:
    at = np.linspace(0, traces.shape[1] - 1, min(SHOWN, traces.shape[1])).round().astype(int)
    kept = traces[np.isfinite(traces).all(axis=1)][:, at]
    return np.round(kept, 3).tolist()


class _Handler(BaseHTTPRequestHandler):
    live: Live
    page: bytes

    def do_GET(self) -> None:
        if self.path == "/":
            self._send("text/html; charset=utf-8", self.page)
        elif self.path == "/stream":
            self._stream()
        else:
            self.send_error(404)

    def _send(self, kind: str, body: bytes | None) -> None:
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Cache-Control", "no-store")
        if body is not None:
            self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if body is not None:
            self.wfile.write(body)

    def _stream(self) -> None:
        self._send("text/event-stream", None)
        seen = -1
        try:
            while not (seen >= 0 and self.live.now["ended"]):
                with self.live.changed:
                    self.live.changed.wait_for(lambda: self.live.version != seen, timeout=15)
                    seen, body = self.live.version, json.dumps(self.live.now)
                self.wfile.write(f"data: {body}\n\n".encode())
                self.wfile.flush()
        except (BrokenPipeError, ConnectionResetError):
            pass  # the reader has gone

    def log_message(self, *_: Any) -> None:
        """Say nothing on the terminal."""
