"""The Dockerfile uses paths, settings and ports that the package and the server have."""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request

import pytest

ROOT = pathlib.Path(__file__).parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

from ports import free_port  # noqa: E402

BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "target/debug/millrace")).absolute()


def instructions():
    text = (ROOT / "deploy/Dockerfile").read_text()
    text = "\n".join(line for line in text.splitlines() if not line.startswith("#"))
    lines = re.sub(r"\\\n\s*", "", text).splitlines()
    return [tuple(line.split(None, 1)) for line in lines if line.strip()]


def arguments(name):
    return [rest for word, rest in instructions() if word == name]


def test_paths_are_those_of_the_package():
    packaged = (ROOT / "scripts/package").read_text()
    copied = [rest for rest in arguments("COPY") if rest.startswith("--from=package")]
    assert len(copied) == 4
    for rest in copied:
        source, target = rest.split()[-2:]
        assert target == "/opt/vespa" or source == "/root/tree" + target
        assert f'"{source.removeprefix("/root/tree/")}"' in packaged, source


def test_libraries_of_the_package_are_installed():
    packages = re.findall(r'"lib[\w+]+\.so\.\d+": "([\w+-]+)"', (ROOT / "scripts/package").read_text())
    assert len(packages) > 1
    for package in packages:
        assert package in " ".join(arguments("RUN")).split(), package


def test_every_variable_is_a_setting():
    text = subprocess.run([BIN, "serve", "--help"], capture_output=True, text=True, check=True).stdout
    known = set(re.findall(r"\[env: (MILLRACE_\w+)=", text))
    named = set(re.findall(r"(MILLRACE_\w+)=", " ".join(arguments("ENV"))))
    assert "MILLRACE_DATA_DIR" in named and named <= known, named - known
    for port in arguments("EXPOSE")[0].split():
        assert f"[default: {port}]" in text, port


def test_it_runs_as_a_user_of_its_own_who_owns_the_data():
    [user], [volume] = arguments("USER"), arguments("VOLUME")
    made = re.search(r"useradd .*--home-dir (\S+) .* (\S+)$", " ".join(arguments("RUN")))
    assert made and made.groups() == (volume, user)
    assert f"MILLRACE_DATA_DIR={volume}/" in " ".join(arguments("ENV"))
    names = [word for word, _ in instructions()]
    assert names.index("USER") < names.index("ENTRYPOINT")


def test_health_is_asked_where_the_server_answers():
    [check] = arguments("HEALTHCHECK")
    path = re.search(r"http://127\.0\.0\.1:19071([^\"]+)", check).group(1)
    routes = (ROOT / "crates/gateway/src/status_api.rs").read_text()
    assert "shared_routes(get(config_health))" in routes and f'("{path}", health)' in routes
    assert "curl" in " ".join(arguments("RUN"))


def environment(target):
    """The variables that an image of a target has, with those of the stages that it is made from."""
    of_stages, name = {}, None
    for word, rest in instructions():
        if word == "FROM":
            base, _, name = rest.partition(" AS ")
            of_stages[name] = dict(of_stages.get(base, {}))
        elif word == "ENV":
            of_stages[name].update(pair.split("=", 1) for pair in rest.split())
    return of_stages[target]


def started(target, directory):
    """A server with the variables of an image, and its port of deployment."""
    port, config_port = free_port(), free_port()
    variables = {"PATH": os.environ["PATH"], **environment(target), "MILLRACE_DATA_DIR": str(directory / "data")}
    command = [BIN, "serve", "--port", str(port), "--config-port", str(config_port)]
    return subprocess.Popen(command, env=variables, stderr=subprocess.PIPE, text=True), config_port


def await_health(server, config_port):
    deadline = time.monotonic() + 120
    while True:
        try:
            urllib.request.urlopen(f"http://127.0.0.1:{config_port}/state/v1/health", timeout=10).read()
            return
        except OSError:
            assert server.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)


def test_only_the_image_for_development_starts_without_credentials(tmp_path):
    last = [rest for word, rest in instructions() if word == "FROM"][-1].partition(" AS ")[2]
    assert last == "release", "what is built without a target"
    for target in ["server", "release"]:
        assert "MILLRACE_INSECURE" not in environment(target) and environment(target)["MILLRACE_LISTEN"] == "0.0.0.0"
    server, _ = started("release", tmp_path)
    _, message = server.communicate(timeout=120)
    assert server.returncode != 0 and "--insecure" in message, message
    server, config_port = started("dev", tmp_path)
    try:
        await_health(server, config_port)
    finally:
        server.terminate()
        server.communicate(timeout=120)


def test_the_release_starts_once_it_has_a_key(tmp_path):
    subprocess.run([BIN, "token", "create", "operator", "--deploy", "--admin", "--data-dir", tmp_path / "data"], check=True, capture_output=True)
    server, config_port = started("release", tmp_path)
    try:
        await_health(server, config_port)
        with pytest.raises(urllib.error.HTTPError, match="401"):
            urllib.request.urlopen(f"http://127.0.0.1:{config_port}/application/v2/tenant/", timeout=120)
    finally:
        server.terminate()
        server.communicate(timeout=120)


def status_line(config_port):
    """The answer to a HEAD request for the status, as VespaDocker asks inside of its container; empty without a server."""
    command = ["curl", "-s", "--head", f"http://localhost:{config_port}/ApplicationStatus"]
    return subprocess.run(command, capture_output=True).stdout.decode().partition("\r\n")[0]


def until(holds):
    deadline = time.monotonic() + 120
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not here")
def test_the_server_is_stopped_and_started_in_its_container(tmp_path):
    """What VespaDocker does with a container of the image for development."""
    packaged = (ROOT / "scripts/package").read_text()
    names = re.findall(r'"(vespa-[\w-]+)"', re.search(r"^VESPA_COMMANDS = \[(.*)\]$", packaged, re.MULTILINE).group(1))
    commands = tmp_path / "vespa/bin"
    commands.mkdir(parents=True)
    for name in names:
        shutil.copy(ROOT / "deploy/vespa-services", commands / name)
    entry = arguments("ENTRYPOINT")[-1]
    assert entry == '["/opt/vespa/bin/vespa-services"]' and names[0] in entry
    (commands / "millrace").symlink_to(BIN)
    port, config_port = free_port(), free_port()
    variables = {
        "PATH": f"{commands}:{os.environ['PATH']}", **environment("dev"), "MILLRACE_LISTEN": "127.0.0.1", "MILLRACE_CONFIG_LISTEN": "127.0.0.1",
        "MILLRACE_DATA_DIR": str(tmp_path / "data"), "MILLRACE_PORT": str(port), "MILLRACE_CONFIG_PORT": str(config_port),
    }
    container = subprocess.Popen([commands / "vespa-services"], env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        is_up = lambda: status_line(config_port) == "HTTP/1.1 200 OK"  # noqa: E731
        until(is_up)
        for _ in range(2):
            for name in ["vespa-stop-services", "vespa-stop-configserver"]:
                subprocess.run([commands / name], env=variables, check=True, timeout=120)
            assert status_line(config_port) == "" and container.poll() is None
            for name in ["vespa-start-configserver", "vespa-start-services"]:
                subprocess.run([commands / name], env=variables, check=True, timeout=120)
            until(is_up)
        log = (tmp_path / "vespa/logs/vespa/vespa.log").read_text()
        assert log.count("documents and queries at") == 3, log
        version = subprocess.run([commands / "vespa-services", "--version"], env=variables, capture_output=True, text=True, check=True)
        assert version.stdout.startswith("millrace ")
    finally:
        container.send_signal(signal.SIGTERM)
        said, _ = container.communicate(timeout=120)
    assert container.returncode == 0 and status_line(config_port) == ""
    assert "documents and queries at" in said, "docker logs"
