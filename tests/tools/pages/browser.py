"""A headless Chromium, driven over a pipe by the DevTools protocol: no package is needed for that."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import tempfile
import time

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
MISSING = "no Chromium here; scripts/install_dependencies.sh ci installs it"
PATIENCE_S = 60


class Browser:
    """One tab. `faults` collects what went wrong in pages; `requests` what they loaded."""

    def __init__(self):
        self.folder = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self.write_end = os.pipe()
        self.read_end, from_browser = os.pipe()

        def take_ends():  # the protocol's pipes are descriptors 3 and 4; neither may be overwritten before it is copied
            ends = [os.dup2(end, high) for end, high in ((to_browser, 30), (from_browser, 31))]
            for end, place in zip(ends, (3, 4), strict=True):
                os.dup2(end, place)

        self.process = subprocess.Popen(
            [
                CHROMIUM,
                "--headless",
                "--remote-debugging-pipe",
                "--disable-gpu",
                "--disable-dev-shm-usage",
                "--hide-scrollbars",
                "--no-first-run",
                f"--user-data-dir={self.folder.name}",
                *(["--no-sandbox"] if os.geteuid() == 0 else []),
            ],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            close_fds=False,
            preexec_fn=take_ends,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.received = b""
        self.last_id = 0
        self.session = None
        self.faults = []
        self.requests = []
        self.events = set()
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        os.close(self.write_end)  # the browser leaves when its pipe is closed
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        os.close(self.read_end)
        self.folder.cleanup()

    def receive(self):
        while b"\0" not in self.received:
            piece = os.read(self.read_end, 1 << 20)
            if not piece:
                raise RuntimeError("Chromium has left")
            self.received += piece
        message, _, self.received = self.received.partition(b"\0")
        return json.loads(message)

    def handle(self, message):
        method, values = message.get("method"), message.get("params", {})
        self.events.add(method)
        if method == "Runtime.exceptionThrown":
            self.faults.append(values["exceptionDetails"].get("exception", values["exceptionDetails"]))
        elif method == "Runtime.consoleAPICalled" and values["type"] in ("error", "warning"):
            self.faults.append(values["args"])
        elif method == "Log.entryAdded" and values["entry"]["level"] in ("error", "warning"):
            self.faults.append(values["entry"]["text"])
        elif method == "Network.requestWillBeSent":
            self.requests.append(values["request"]["url"])

    def call(self, method, **parameters):
        self.last_id += 1
        message = {"id": self.last_id, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        os.write(self.write_end, json.dumps(message).encode() + b"\0")
        while True:
            answer = self.receive()
            if answer.get("id") == self.last_id:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']}")
                return answer["result"]
            self.handle(answer)

    def evaluate(self, expression):
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(f"{expression}: {result['exceptionDetails']}")
        return result["result"].get("value")

    def wait_for(self, expression):
        end = time.monotonic() + PATIENCE_S
        while not self.evaluate(expression):
            if time.monotonic() > end:
                raise RuntimeError(f"in vain waited for {expression}; {self.faults}")
            time.sleep(0.02)

    def show(self, width, dark=False, media="screen"):
        """How the next page, or the one that is open, is seen; phones are 360 to 430 wide."""
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=900, deviceScaleFactor=1, mobile=width < 600
        )
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.call("Emulation.setEmulatedMedia", media=media, features=[scheme])

    def open(self, path, fragment="", drawn="document.documentElement.dataset.drawn === 'yes'"):
        """Loads a page and waits until it says that it is drawn. Forgets what earlier pages did."""
        self.call("Page.navigate", url="about:blank")
        self.faults.clear()
        self.requests.clear()
        self.call("Page.navigate", url=pathlib.Path(path).resolve().as_uri() + (f"#{fragment}" if fragment else ""))
        self.wait_for(f"document.readyState === 'complete' && {drawn}")
        self.frame()

    def frame(self):
        """Waits until what was changed is laid out and painted."""
        self.evaluate("new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(() => done(true))))")

    def press(self, key):
        codes = {"Tab": 9, "Escape": 27, "End": 35, "Home": 36, "ArrowLeft": 37, "ArrowRight": 39}
        for kind in ("rawKeyDown", "keyUp"):
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=codes[key])

    def point(self, x, y):
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y)

    def picture(self, path, selector="body"):
        """An element as an image, as its file's ending says."""
        self.frame()
        area = self.evaluate(
            f"((box) => ({{ x: box.x, y: box.y + scrollY, width: box.width, height: box.height }}))"
            f"(document.querySelector('{selector}').getBoundingClientRect())"
        )
        kind = pathlib.Path(path).suffix[1:]
        quality = {"quality": 62} if kind == "webp" else {}
        image = self.call(
            "Page.captureScreenshot", format=kind, clip={**area, "scale": 1}, captureBeyondViewport=True, **quality
        )
        pathlib.Path(path).write_bytes(base64.b64decode(image["data"]))
