"""Nodes of a cluster and its etcd as processes of this machine: what the scripts beside this one share."""

import http.client
import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from ports import free_port

ROOT = Path(__file__).resolve().parent.parent
MILLRACE = os.environ.get("MILLRACE_BIN", str(ROOT / "target/release/millrace"))


def get(url: str, timeout: float = 5.0) -> Any:
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return json.load(answer)


class Place:
    """Where a process runs: on this machine as it is, or in a network of its own (`inside`: what its command is run by)."""

    def __init__(self, host: str = "127.0.0.1", inside: Sequence[str] = ()) -> None:
        self.host, self.inside = host, list(inside)


class Etcd:
    def __init__(self, directory: Path, place: Place | None = None) -> None:
        self.directory, self.place = directory, place or Place()
        self.process: subprocess.Popen[bytes] | None = None
        self.client = f"http://{self.place.host}:{free_port()}"
        self.peer = f"http://{self.place.host}:{free_port()}"
        self.url = self.client.replace("http", "etcd")

    def start(self) -> None:
        self.process = subprocess.Popen(
            [*self.place.inside, "etcd", "--data-dir", str(self.directory), "--listen-client-urls", self.client,
             "--advertise-client-urls", self.client, "--listen-peer-urls", self.peer,
             "--initial-advertise-peer-urls", self.peer, "--initial-cluster", f"default={self.peer}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Node:
    def __init__(self, directory: Path, etcd: str, name: str, place: Place | None = None) -> None:
        self.name, self.directory, self.place = name, directory / name, place or Place()
        self.port, self.config, self.peer = free_port(), free_port(), free_port()
        self.etcd = etcd
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        log = open(f"{self.directory}.log", "ab")
        host = self.place.host
        self.process = subprocess.Popen(
            [*self.place.inside, MILLRACE, "serve", "--data-dir", str(self.directory), "--cluster", self.etcd,
             "--name", self.name, "--listen", host, "--config-listen", host, "--insecure", "--advertise", host,
             "--port", str(self.port), "--config-port", str(self.config), "--peer-port", str(self.peer)],
            stdout=log, stderr=log)

    def url(self, path: str = "") -> str:
        return f"http://{self.place.host}:{self.port}{path}"

    def config_url(self) -> str:
        return f"http://{self.place.host}:{self.config}"

    def figures(self) -> Any:
        try:
            return get(self.url("/state/v1/cluster"), 2)
        except (OSError, ValueError):
            return None

    def runs(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def is_ready(self) -> bool:
        """True if it answers clients: it has the application."""
        try:
            return get(self.url("/state/v1/health"), 2)["status"]["code"] == "up"
        except (OSError, ValueError):
            return False

    def is_settled(self, figures: Any = None) -> bool:
        """True if its cluster state is confirmed, and it has nothing left to do."""
        figures = figures or (self.figures() if self.runs() else None)
        if figures is None:
            return False
        ideal = figures["ideal"]
        return ideal["distance"] == 0 and ideal["unknown"] == 0 and figures["confirmed"]


def exchange(
        node: Node, port: int, method: str, path: str, body: str | None = None, timeout: float = 10, headers: Mapping[str, str] | None = None
) -> tuple[int, bytes]:
    """Sends a request to a port of a node over a connection of its own. Returns the status and the body of the answer.

    An OSError or an HTTPException: there is no whole answer. A ConnectionRefusedError: nothing listens."""
    connection = http.client.HTTPConnection(node.place.host, port, timeout=timeout)
    try:
        connection.request(method, path, body=body, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def deploy(node: Node, application: Path, timeout: int = 60) -> str | None:
    """Deploys as soon as the node takes it. Returns its last error if it does not within these seconds."""
    said = ""
    for _ in range(timeout):
        time.sleep(1)
        deployed = subprocess.run(
            [MILLRACE, "--config-url", node.config_url(), "deploy", str(application)], capture_output=True, text=True)
        if deployed.returncode == 0:
            return None
        said = deployed.stderr
    return said or "it does not answer"


def with_replicas(application: Path, directory: Path, replicas: int) -> Path:
    """A copy of an application package with so many replicas."""
    shutil.copytree(application, directory)
    services = directory / "services.xml"
    text = services.read_text()
    services.write_text(text.replace("<min-redundancy>1<", f"<min-redundancy>{replicas}<"))
    return directory


def request_state(node: Node, command: str, name: str) -> subprocess.CompletedProcess[str]:
    """Runs `millrace node COMMAND NAME` against a node: `retire`, `up`, `maintenance` and others."""
    return subprocess.run([MILLRACE, "--config-url", node.config_url(), "--url", node.url(), "node", command, name],
                          capture_output=True, text=True, timeout=60)


def end(processes: Iterable[subprocess.Popen[bytes] | None]) -> None:
    for process in processes:
        if process is not None:
            process.kill()
            process.wait()
