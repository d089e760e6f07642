"""A headless Chromium, driven by its own protocol over a pipe: no library, and no driver to install."""

import base64
import json
import os
import pathlib
import shutil
import subprocess
import time
from typing import Any

NAMES = ["chromium", "chromium-browser", "google-chrome", "chrome"]


def executable() -> str | None:
    """The browser that MILLRACE_BROWSER names, or the first one on the path."""
    return os.environ.get("MILLRACE_BROWSER") or next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    """One tab. Faults of the page, of its console and of its requests are kept in `faults`."""

    def __init__(self, path: str, profile: pathlib.Path) -> None:
        to_browser, from_us = os.pipe()
        to_us, from_browser = os.pipe()

        def pipes() -> None:
            # The browser reads at descriptor 3 and writes at 4. Copies above both survive the first call.
            reads, writes = os.dup2(to_browser, 10), os.dup2(from_browser, 11)
            os.dup2(reads, 3)
            os.dup2(writes, 4)

        self.process = subprocess.Popen(
            [
                path, "--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run",
                "--disable-dev-shm-usage", "--hide-scrollbars", f"--user-data-dir={profile}", "about:blank",
            ],
            preexec_fn=pipes, close_fds=False, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )
        os.close(to_browser)
        os.close(from_browser)
        self.writes, self.reads = os.fdopen(from_us, "wb", buffering=0), os.fdopen(to_us, "rb")
        self.last, self.session, self.faults, self.rest = 0, None, [], b""
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self.session = self.call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ["Page", "Runtime", "Log", "Accessibility"]:
            self.call(f"{domain}.enable")

    def call(self, method: str, **parameters: Any) -> Any:
        self.last += 1
        message = {"id": self.last, "method": method, "params": parameters}
        if self.session:
            message["sessionId"] = self.session
        self.writes.write(json.dumps(message).encode() + b"\0")
        while True:
            answer = self.read()
            if answer.get("id") == self.last:
                assert "error" not in answer, f"{method}: {answer['error']}"
                return answer["result"]
            self.note(answer)

    def read(self) -> dict[str, Any]:
        while b"\0" not in self.rest:
            some = self.reads.read1(1 << 20)
            assert some, "the browser ended"
            self.rest += some
        message, _, self.rest = self.rest.partition(b"\0")
        return json.loads(message)

    def note(self, event: dict[str, Any]) -> None:
        parameters = event.get("params", {})
        if event.get("method") == "Runtime.exceptionThrown":
            self.faults.append(json.dumps(parameters["exceptionDetails"].get("exception", parameters)))
        if event.get("method") == "Log.entryAdded" and parameters["entry"]["level"] == "error":
            self.faults.append(f"{parameters['entry']['text']} {parameters['entry'].get('url', '')}")

    def evaluate(self, expression: str) -> Any:
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in result, f"{expression}: {result['exceptionDetails']}"
        return result["result"].get("value")

    def open(self, url: str) -> None:
        self.call("Page.navigate", url=url)
        self.until("document.readyState === 'complete'")

    def until(self, condition: str, timeout: float = 120) -> Any:
        """Waits until an expression is true, and returns its value. While a page loads, it may fail."""
        deadline = time.monotonic() + timeout
        while True:
            if value := self.evaluate(f"(() => {{ try {{ return {condition}; }} catch {{ return null; }} }})()"):
                return value
            assert time.monotonic() < deadline, f"never: {condition}; faults: {self.faults}; {self.text()[:2000]}"
            time.sleep(0.05)

    def text(self, selector: str = "body") -> str:
        return self.evaluate(f"document.querySelector({json.dumps(selector)})?.innerText ?? ''")

    def click(self, selector: str) -> None:
        """Clicks the middle of an element, as a person does: what lies over it would get the click."""
        point = self.evaluate(
            f"(() => {{ const one = document.querySelector({json.dumps(selector)}); one.scrollIntoView({{block: 'center'}});"
            " const box = one.getBoundingClientRect(); return [box.x + box.width / 2, box.y + box.height / 2]; })()"
        )
        for kind in ["mousePressed", "mouseReleased"]:
            self.call("Input.dispatchMouseEvent", type=kind, x=point[0], y=point[1], button="left", clickCount=1)

    def type(self, text: str) -> None:
        self.call("Input.insertText", text=text)

    def press(self, key: str, code: int) -> None:
        text = {"text": "\r"} if key == "Enter" else {"text": key} if len(key) == 1 else {}
        for kind in ["keyDown", "keyUp"]:
            extra = text if kind == "keyDown" else {}
            self.call("Input.dispatchKeyEvent", type=kind, key=key, code=key, windowsVirtualKeyCode=code, **extra)

    def size(self, width: int, height: int) -> None:
        self.call(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    def scheme(self, name: str) -> None:
        """Sets the preferred colour scheme: `light` or `dark`."""
        self.call("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def screenshot(self, path: pathlib.Path) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        picture = self.call("Page.captureScreenshot", format="webp", quality=80)
        path.write_bytes(base64.b64decode(picture["data"]))

    def unnamed(self) -> list[str]:
        """Controls that a screen reader cannot name."""
        tree = self.call("Accessibility.getFullAXTree")["nodes"]
        roles = {"button", "textbox", "searchbox", "combobox", "checkbox", "tab", "link"}
        return [
            json.dumps(node.get("properties", []))[:200]
            for node in tree
            if node.get("role", {}).get("value") in roles and not node.get("ignored") and not node.get("name", {}).get("value")
        ]

    def stop(self) -> None:
        self.process.kill()
        self.process.wait()
