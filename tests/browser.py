"""A headless Chromium driven through the DevTools protocol, over its pipe: JSON messages that end with a NUL."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

FLAGS = (
    "--headless",
    "--no-sandbox",  # CI runs as root, where the sandbox refuses to start
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--no-first-run",
    "--hide-scrollbars",
    "--remote-debugging-pipe",
)


def chromium() -> str | None:
    return shutil.which("chromium")


class Browser:
    """One process with one page; `events` holds what the page said since it was last opened."""

    def __init__(self) -> None:
        self.home = tempfile.mkdtemp(prefix="chromium")
        # the browser reads from descriptor 3 and writes to 4: a shell turns its own 0 and 1 into them
        script = 'exec "$@" 3<&0 4>&1 </dev/null >/dev/null 2>&1'
        command = ["sh", "-c", script, "sh", str(chromium()), *FLAGS, f"--user-data-dir={self.home}", "about:blank"]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.last, self.rest, self.session = 0, b"", ""
        self.events: list[dict[str, Any]] = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        try:
            self.session = ""
            self.call("Browser.close")
            self.process.wait(10)
        finally:
            self.process.kill()
            self.process.communicate()
            shutil.rmtree(self.home, ignore_errors=True)

    def call(self, method: str, **params: Any) -> dict[str, Any]:
        """Ask for one thing and wait for its answer; events that arrive before it are kept."""
        self.last += 1
        message = {"id": self.last, "method": method, "params": params}
        if self.session:
            message["sessionId"] = self.session
        assert self.process.stdin is not None
        self.process.stdin.write(json.dumps(message).encode() + b"\0")
        self.process.stdin.flush()
        answer = self._until(lambda said: said.get("id") == self.last)
        if "error" in answer:
            raise RuntimeError(f"{method}: {answer['error']}")
        return answer["result"]

    def open(self, path: Path | str, *, width: int, dark: bool) -> None:
        """Load a file or an address in a window of so many pixels, in light or dark, and wait until it stands."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", features=[scheme])
        self.events.clear()
        self.call("Page.navigate", url=path if isinstance(path, str) else path.resolve().as_uri())
        loaded = lambda said: said.get("method") == "Page.loadEventFired"
        if not any(map(loaded, self.events)):
            self._until(loaded)

    def value(self, expression: str) -> Any:
        """What a JavaScript expression is on the page."""
        answer = self.call("Runtime.evaluate", expression=expression, returnByValue=True)
        if "exceptionDetails" in answer:
            raise RuntimeError(answer["exceptionDetails"])
        return answer["result"].get("value")

    def said(self, *methods: str) -> list[dict[str, Any]]:
        """Parameters of the events of these names."""
        return [event["params"] for event in self.events if event["method"] in methods]

    def screenshot(self, path: Path) -> None:
        """The whole page as a PNG."""
        path.parent.mkdir(parents=True, exist_ok=True)
        size = self.call("Page.getLayoutMetrics")["cssContentSize"]
        clip = {"x": 0, "y": 0, "width": size["width"], "height": size["height"], "scale": 1}
        shot = self.call("Page.captureScreenshot", format="png", captureBeyondViewport=True, clip=clip)
        path.write_bytes(base64.b64decode(shot["data"]))

    def _until(self, wanted, seconds: float = 30.0) -> dict[str, Any]:
        assert self.process.stdout is not None
        source, deadline = self.process.stdout.fileno(), time.monotonic() + seconds
        while True:
            *whole, self.rest = self.rest.split(b"\0")
            found = None
            for text in whole:
                said = json.loads(text)
                if "method" in said:
                    self.events.append(said)
                found = said if found is None and wanted(said) else found
            if found is not None:
                return found
            if not select.select([source], [], [], max(0.0, deadline - time.monotonic()))[0]:
                raise TimeoutError(f"Chromium did not answer within {seconds:.0f} s.")
            piece = os.read(source, 2**16)
            if not piece:
                raise RuntimeError("Chromium has ended; run it by hand with --headless to see why.")
            self.rest += piece
