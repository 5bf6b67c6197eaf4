"""A real Chromium without a window, driven through a pipe (`--remote-debugging-pipe`): no port, no other program.

with Browser(tmp_path) as browser:
    page = browser.open(path)
    assert page.run("document.title") == "talk"
"""

from __future__ import annotations

import json
import os
import select
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Self

CHROMIUM = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
_FLAGS = (
    *("--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-sync"),
    *("--disable-background-networking", "--disable-component-update", "--remote-debugging-pipe", "--hide-scrollbars"),
    *("--disable-dev-shm-usage", "--no-proxy-server", "--force-color-profile=srgb"),
)
_PATIENCE_SECONDS = 60.0
"""Only ever waited for when a test fails."""


class Browser:
    def __init__(self, folder: Path) -> None:
        """`folder`: gets its profile."""
        assert CHROMIUM is not None
        its_in, self._out = os.pipe()
        self._in, its_out = os.pipe()
        # It reads from 3 and writes to 4.
        words = [CHROMIUM, *_FLAGS, f"--user-data-dir={folder / 'profile'}", "about:blank"]
        self._process = subprocess.Popen(
            ["/bin/bash", "-c", f'exec "$@" 3<&{its_in} 4>&{its_out}', "bash", *words],
            pass_fds=(its_in, its_out),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env={"HOME": str(folder), "PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
            start_new_session=True,
        )
        os.close(its_in)
        os.close(its_out)
        self._data = b""
        self._number = 0
        self.events: list[dict[str, Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        try:
            self.send("Browser.close")
            self._process.wait(_PATIENCE_SECONDS)
        finally:
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            os.close(self._in)
            os.close(self._out)

    def send(self, method: str, session: str = "", **params: Any) -> dict[str, Any]:
        """The result of a command."""
        self._number += 1
        number = self._number
        command = {"id": number, "method": method, "params": params, **({"sessionId": session} if session else {})}
        os.write(self._out, json.dumps(command).encode() + b"\0")
        answer = self._read_until(lambda message: message.get("id") == number)
        assert "error" not in answer, f"{method}: {answer['error']}"
        result: dict[str, Any] = answer["result"]
        return result

    def wait_for(self, method: str, session: str) -> None:
        """Wait for an event that has not come yet."""
        self._read_until(lambda message: (message.get("method"), message.get("sessionId")) == (method, session))

    def _read_until(self, is_wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + _PATIENCE_SECONDS
        while True:
            while b"\0" not in self._data:
                ready, _, _ = select.select([self._in], [], [], max(0.0, deadline - time.monotonic()))
                assert ready, "the browser does not answer"
                piece = os.read(self._in, 1 << 20)
                assert piece, "the browser has ended"
                self._data += piece
            line, _zero, self._data = self._data.partition(b"\0")
            message: dict[str, Any] = json.loads(line)
            if "method" in message:
                self.events.append(message)
            if is_wanted(message):
                return message

    def open(self, path: Path, *, width: int = 1280, height: int = 900, wants_light: bool = False) -> Page:
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable", session)
        scheme = {"name": "prefers-color-scheme", "value": "light" if wants_light else "dark"}
        self.send("Emulation.setEmulatedMedia", session, features=[scheme])
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600}
        self.send("Emulation.setDeviceMetricsOverride", session, **size)
        self.send("Emulation.setTouchEmulationEnabled", session, enabled=width < 600)
        self.events.clear()
        self.send("Page.navigate", session, url=path.as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self.wait_for("Page.loadEventFired", session)
        return Page(self, session)


class Page:
    def __init__(self, browser: Browser, session: str) -> None:
        self._browser = browser
        self._session = session

    def send(self, method: str, **params: Any) -> dict[str, Any]:
        return self._browser.send(method, self._session, **params)

    def run(self, script: str) -> Any:
        """The value of an expression, of a promise once it has one."""
        answer = self.send(
            "Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True, userGesture=True
        )
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def until(self, condition: str) -> None:
        """Wait until an expression is true, looking at every frame."""
        look = f"const look = () => ({condition}) ? done() : requestAnimationFrame(look)"
        self.run(f"new Promise((done) => {{ {look}; look() }})")

    def press(self, key: str) -> None:
        text = {"text": key} if len(key) == 1 else {"text": "\r"} if key == "Enter" else {}
        self.send("Input.dispatchKeyEvent", type="keyDown", key=key, **text)
        self.send("Input.dispatchKeyEvent", type="keyUp", key=key)

    def type(self, text: str) -> None:
        self.send("Input.insertText", text=text)

    @property
    def requests(self) -> list[str]:
        """Addresses of everything that the page has asked for."""
        return [
            event["params"]["request"]["url"]
            for event in self._browser.events
            if event["method"] == "Network.requestWillBeSent"
        ]

    @property
    def complaints(self) -> list[str]:
        """What the browser would write to its console: errors, violations of the policy."""
        return [
            event["params"].get("entry", event["params"]).get("text", "an exception")
            for event in self._browser.events
            if event["method"] in ("Log.entryAdded", "Runtime.exceptionThrown")
        ]

    def picture(self, path: Path, *, whole: bool = False) -> None:
        from base64 import b64decode

        answer = self.send("Page.captureScreenshot", captureBeyondViewport=whole)
        path.write_bytes(b64decode(answer["data"]))
