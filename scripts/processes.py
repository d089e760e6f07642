"""Nodes of a cluster and its etcd as processes of this machine: what the scripts beside this one share."""

import json
import os
import shutil
import socket
import subprocess
import time
import urllib.request
from pathlib import Path

from ports import free_port

ROOT = Path(__file__).resolve().parent.parent
MILLRACE = os.environ.get("MILLRACE_BIN", str(ROOT / "target/release/millrace"))


def get(url, timeout=5.0):
    with urllib.request.urlopen(url, timeout=timeout) as answer:
        return json.load(answer)


class Place:
    """Where a process runs: on this machine as it is, or in a network of its own (`inside`: what its command is run by)."""

    def __init__(self, host="127.0.0.1", inside=()):
        self.host, self.inside = host, list(inside)


class Etcd:
    def __init__(self, directory, place=None):
        self.directory, self.place, self.process = directory, place or Place(), None
        self.client = f"http://{self.place.host}:{free_port()}"
        self.peer = f"http://{self.place.host}:{free_port()}"
        self.url = self.client.replace("http", "etcd")

    def start(self):
        self.process = subprocess.Popen(
            [*self.place.inside, "etcd", "--data-dir", str(self.directory), "--listen-client-urls", self.client,
             "--advertise-client-urls", self.client, "--listen-peer-urls", self.peer,
             "--initial-advertise-peer-urls", self.peer, "--initial-cluster", f"default={self.peer}"],
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


class Node:
    def __init__(self, directory, etcd, name, place=None):
        self.name, self.directory, self.place = name, directory / name, place or Place()
        self.port, self.config, self.peer = free_port(), free_port(), free_port()
        self.etcd, self.process = etcd, None

    def start(self):
        log = open(f"{self.directory}.log", "ab")
        host = self.place.host
        self.process = subprocess.Popen(
            [*self.place.inside, MILLRACE, "serve", "--data-dir", str(self.directory), "--cluster", self.etcd,
             "--name", self.name, "--listen", host, "--config-listen", host, "--insecure", "--advertise", host,
             "--port", str(self.port), "--config-port", str(self.config), "--peer-port", str(self.peer)],
            stdout=log, stderr=log)

    def url(self, path=""):
        return f"http://{self.place.host}:{self.port}{path}"

    def config_url(self):
        return f"http://{self.place.host}:{self.config}"

    def figures(self):
        try:
            return get(self.url("/state/v1/cluster"), 2)
        except (OSError, ValueError):
            return None

    def runs(self):
        return self.process is not None and self.process.poll() is None

    def is_ready(self):
        """Whether it answers clients: it has the application."""
        try:
            return get(self.url("/state/v1/health"), 2)["status"]["code"] == "up"
        except (OSError, ValueError):
            return False

    def is_settled(self, figures=None):
        """Whether it is sure of its state, and has nothing left to do."""
        figures = figures or (self.figures() if self.runs() else None)
        if figures is None:
            return False
        ideal = figures["ideal"]
        return ideal["distance"] == 0 and ideal["unknown"] == 0 and figures["confirmed"]


def deploy(node, application, patience=60):
    """Deploys as soon as the node takes it; answers what it said last if it does not."""
    said = ""
    for _ in range(patience):
        time.sleep(1)
        deployed = subprocess.run(
            [MILLRACE, "--config-url", node.config_url(), "deploy", str(application)], capture_output=True, text=True)
        if deployed.returncode == 0:
            return None
        said = deployed.stderr
    return said or "it does not answer"


def with_replicas(application, directory, replicas):
    """A copy of an application package with so many replicas."""
    shutil.copytree(application, directory)
    services = directory / "services.xml"
    text = services.read_text()
    services.write_text(text.replace("<min-redundancy>1<", f"<min-redundancy>{replicas}<"))
    return directory


def wish(node, what, name):
    return subprocess.run([MILLRACE, "--config-url", node.config_url(), "--url", node.url(), "node", what, name],
                          capture_output=True, text=True, timeout=60)


def end(processes):
    for process in processes:
        if process is not None:
            process.kill()
            process.wait()
