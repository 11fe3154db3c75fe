"""A real Chromium without a window, driven over its DevTools protocol."""

import base64
import http.client
import itertools
import json
import os
import shutil
import subprocess
import time
from contextlib import contextmanager
from pathlib import Path

from websockets.sync.client import connect

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SECONDS = 60
FLAGS = (
    "--headless=new --no-sandbox --disable-gpu --disable-quic --disable-dev-shm-usage "
    "--no-first-run --disable-background-networking --disable-component-update --disable-sync "
    "--disable-extensions --force-color-profile=srgb --remote-debugging-port=0"
)


def find():
    """The browser that ONESTYLE_CHROMIUM names, else one that is installed, else None."""
    named = os.environ.get("ONESTYLE_CHROMIUM")
    if named and not shutil.which(named):
        raise FileNotFoundError(f"ONESTYLE_CHROMIUM names {named}, which cannot be run")
    return next(filter(None, map(shutil.which, [named, *NAMES] if named else NAMES)), None)


@contextmanager
def browser(program, folder):
    """Start it with a profile in `folder`; gives a function that opens a tab."""
    command = [program, *FLAGS.split(), f"--user-data-dir={folder}", "about:blank"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    process = subprocess.Popen(command, **quiet, env={**os.environ, "TMPDIR": str(folder)})
    try:
        port = _port(process, Path(folder) / "DevToolsActivePort")
        with connect(_tab(port), max_size=None, proxy=None, compression=None) as socket:
            yield Tab(socket)
    finally:
        process.terminate()
        process.wait(SECONDS)


def _port(process, file):
    for _ in range(SECONDS * 50):
        if file.is_file() and "\n" in (text := file.read_text()):
            return int(text.splitlines()[0])
        if process.poll() is not None:
            raise RuntimeError(f"{process.args[0]} ended with {process.returncode}")
        time.sleep(0.02)
    raise TimeoutError(f"{process.args[0]} said nothing in {SECONDS} s")


def _tab(port):
    asked = http.client.HTTPConnection("127.0.0.1", port, timeout=SECONDS)
    asked.request("GET", "/json/list")
    tabs = json.loads(asked.getresponse().read())
    asked.close()
    return next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")


class Tab:
    """One tab; `requests` and `complaints` are what it asked the network for, and said."""

    def __init__(self, socket):
        self.socket, self.numbers = socket, itertools.count(1)
        self.events = []
        for room in ("Page", "Runtime", "Log", "Network"):
            self.send(f"{room}.enable")

    def send(self, method, **params):
        number = next(self.numbers)
        self.socket.send(json.dumps({"id": number, "method": method, "params": params}))
        while (said := self._next()).get("id") != number:
            self.events.append(said)
        if "error" in said:
            raise RuntimeError(f"{method}: {said['error']['message']}")
        return said["result"]

    def _next(self):
        return json.loads(self.socket.recv(timeout=SECONDS))

    def open(self, path, width=1200, height=900, *, dark=False, phone=False):
        metrics = {"width": width, "height": height, "mobile": phone}
        metrics["deviceScaleFactor"] = 2 if phone else 1
        self.send("Emulation.setDeviceMetricsOverride", **metrics)
        self.send("Emulation.setTouchEmulationEnabled", enabled=phone)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", media="", features=[scheme])
        self.events.clear()
        self.send("Page.navigate", url=Path(path).resolve().as_uri())
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._next())

    def ask(self, script):
        """The value of an expression, as JSON can hold it."""
        said = self.send("Runtime.evaluate", expression=script, returnByValue=True)
        if "exceptionDetails" in said:
            raise RuntimeError(said["exceptionDetails"]["exception"]["description"])
        return said["result"].get("value")

    def _of(self, *methods):
        return [event["params"] for event in self.events if event.get("method") in methods]

    @property
    def requests(self):
        return [one["request"]["url"] for one in self._of("Network.requestWillBeSent")]

    @property
    def complaints(self):
        methods = ("Log.entryAdded", "Runtime.exceptionThrown", "Runtime.consoleAPICalled")
        return self._of(*methods)

    def click(self, selector):
        self.ask(f"document.querySelector({json.dumps(selector)}).click()")

    def place(self, selector):
        """The middle of an element, scrolled into view."""
        return self.ask(
            f"(e => {{ e.scrollIntoView({{block: 'center'}}); const r = e.getBoundingClientRect();"
            " return [r.x + r.width / 2, r.y + r.height / 2]; })"
            f"(document.querySelector({json.dumps(selector)}))"
        )

    def point(self, x, y):
        self.send("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def tap(self, x, y):
        self.send("Input.dispatchTouchEvent", type="touchStart", touchPoints=[{"x": x, "y": y}])
        self.send("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def screenshot(self, path, *, whole=True):
        shot = self.send("Page.captureScreenshot", captureBeyondViewport=whole, **self._clip(whole))
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def _clip(self, whole):
        if not whole:
            return {}
        size = self.send("Page.getLayoutMetrics")["cssContentSize"]
        return {"clip": {**size, "scale": 1}}

    def print(self, path):
        made = self.send("Page.printToPDF", printBackground=False, preferCSSPageSize=False)
        Path(path).write_bytes(base64.b64decode(made["data"]))
