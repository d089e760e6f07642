"""A running server, for every test that talks to one from outside."""

import json
import os
import pathlib
import subprocess
import sys
import time
import urllib.request
from typing import Any

import pytest

ROOT = pathlib.Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "scripts"))

from ports import free_port  # noqa: E402


def binary() -> str:
    """The binary under test: MILLRACE_BIN, or what cargo built last."""
    if path := os.environ.get("MILLRACE_BIN"):
        return path
    built = [ROOT / "target" / profile / "millrace" for profile in ("release", "debug")]
    built = [path for path in built if path.exists()]
    if not built:
        pytest.exit("no millrace binary: build it with `cargo build -p millrace-server`, or set MILLRACE_BIN", 2)
    return str(max(built, key=lambda path: path.stat().st_mtime))


def free_ports(count: int) -> list[int]:
    return [free_port() for _ in range(count)]


class Node:
    """A running server and the ways to talk to it."""

    def __init__(self, data_dir: pathlib.Path, port: int, config_port: int, *settings: str | pathlib.Path) -> None:
        self.data, self.config = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{config_port}"
        self.port, self.config_port = port, config_port
        self.log = open(data_dir.with_suffix(".log"), "w+", encoding="utf-8")
        self.process = subprocess.Popen(
            [binary(), "serve", "--data-dir", data_dir, "--port", str(port), "--config-port", str(config_port), *settings],
            stdout=self.log, stderr=subprocess.STDOUT,
        )
        deadline = time.monotonic() + 120
        while True:
            try:
                urllib.request.urlopen(f"{self.config}/state/v1/health", timeout=10).read()
                return
            except OSError:
                assert self.process.poll() is None, f"the server ended: {self.output()}"
                assert time.monotonic() < deadline, f"the server did not get ready: {self.output()}"
                time.sleep(0.05)

    def output(self) -> str:
        self.log.flush()
        self.log.seek(0)
        return self.log.read()

    def stop(self) -> None:
        self.process.terminate()
        assert self.process.wait(120) == 0, self.output()

    def get(self, path: str) -> Any:
        with urllib.request.urlopen(self.data + path, timeout=120) as response:
            return json.load(response)
