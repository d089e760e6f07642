"""A stand-in for Docker's Python client: a container is a Millrace process with its data directory.

pyvespa's `VespaDocker` starts Vespa in a container and asks it for its status by commands inside. With this
plugin (`pytest -p docker_stand_in`) its integration tests run unchanged: `docker.from_env()` gives a client whose
containers are processes of MILLRACE_BIN.
"""

import itertools
import os
import pathlib
import shutil
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from types import SimpleNamespace

import docker

# pyvespa asks for the last two parts of the image's name.
IMAGE = "vespaengine/vespa"
IDS = itertools.count(1)


class Container:
    """A Millrace process; a restart keeps its data."""

    def __init__(self, client, name, ports, image, memory):
        self.client, self.name, self.id = client, name, f"millrace-{next(IDS)}"
        self.ports = {8080: ports[8080], 19071: ports[19071]}
        self.image = SimpleNamespace(tags=[f"{image}:latest"])
        bindings = {f"{inside}/tcp": [{"HostPort": str(outside)}] for inside, outside in self.ports.items()}
        self.attrs = {"HostConfig": {"PortBindings": bindings, "Memory": memory or 0}}
        self.data = pathlib.Path(tempfile.mkdtemp(prefix="millrace-suite-"))
        self.process = None
        self.start()

    def start(self):
        if self.process and self.process.poll() is None:
            return
        log = open(self.data / "log", "a", encoding="utf-8")
        command = [os.environ["MILLRACE_BIN"], "serve", "--data-dir", str(self.data / "data")]
        command += ["--port", str(self.ports[8080]), "--config-port", str(self.ports[19071])]
        self.process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        deadline = time.monotonic() + 30
        while not self.status_line():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"the server did not start: {(self.data / 'log').read_text()}")
            time.sleep(0.05)

    def stop(self, timeout=10):
        if self.process.poll() is None:
            self.process.terminate()
            try:
                self.process.wait(timeout)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()

    def restart(self):
        self.stop()
        self.start()

    def remove(self, **_):
        self.stop()
        self.client.all.pop(self.name, None)
        shutil.rmtree(self.data, ignore_errors=True)

    def status_line(self) -> str:
        """The answer to a HEAD request for the status at the config port; empty where nobody answers."""
        url = f"http://127.0.0.1:{self.ports[19071]}/ApplicationStatus"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=5) as response:
                return f"HTTP/1.1 {response.status} {response.reason}\r\n"
        except (urllib.error.URLError, OSError):
            return ""

    def exec_run(self, command):
        """Does what the scripts of Vespa's image do."""
        output = ""
        if "ApplicationStatus" in command:
            output = self.status_line()
        elif "vespa-stop-services" in command or "vespa-stop-configserver" in command:
            self.stop()
        elif "vespa-start-services" in command or "vespa-start-configserver" in command:
            self.start()
        elif "vespa.log" in command:
            output = (self.data / "log").read_text()
        else:
            raise NotImplementedError(f"the stand-in does not know {command!r}")
        return SimpleNamespace(output=output.encode(), exit_code=0)


class Containers:
    all: dict = {}

    def get(self, name):
        for container in self.all.values():
            if name in (container.name, container.id):
                return container
        raise docker.errors.NotFound(f"no container {name}")

    def run(self, image, *, name, ports, mem_limit=0, **_):
        # A test that failed early leaves its container behind; Docker would refuse the port to all tests after it.
        for other in list(self.all.values()):
            if set(other.ports.values()) & set(ports.values()):
                other.remove()
        container = Container(self, name, ports, image, mem_limit)
        self.all[name] = container
        return container


class Client:
    containers = Containers()

    def info(self):
        return {"MemTotal": 16 << 30}


docker.from_env = lambda **_: Client()


def pytest_unconfigure():
    for container in list(Containers.all.values()):
        container.remove()
