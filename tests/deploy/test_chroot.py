"""The package in a Debian of its own: it installs, takes the first key, starts, is installed again, and goes.

The Debian is made by debootstrap, from packages of the mirror of this machine, or copied from MILLRACE_CHROOT.
"""

import os
import pathlib
import shutil
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
STATE, CONFIG = "/var/lib/millrace", "/etc/millrace/millrace.toml"
AS_SERVER = ["--userspec=millrace:millrace"]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="only the superuser changes the root of a program"),
    pytest.mark.skipif(
        not all(map(shutil.which, ["dpkg-deb", "objcopy", "objdump", "chroot"])), reason="dpkg-deb or binutils are not here"
    ),
]


@pytest.fixture(scope="module")
def debian(tmp_path_factory):
    """The root of a minimal Debian 12."""
    root = tmp_path_factory.mktemp("debian") / "root"
    if given := os.environ.get("MILLRACE_CHROOT"):
        subprocess.run(["cp", "--archive", "--", given, root], check=True)
    elif shutil.which("debootstrap"):
        command = ["debootstrap", "--variant=minbase", "bookworm", root]
        made = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        if made.returncode != 0:
            pytest.skip(f"debootstrap makes no Debian here: {made.stdout.strip().splitlines()[-1]}")
    else:
        pytest.skip("debootstrap is not here: apt-get install debootstrap, or name the root of a Debian 12 in MILLRACE_CHROOT")
    root.chmod(0o755)
    yield root
    shutil.rmtree(root)


@pytest.fixture(scope="module")
def package(debian, tmp_path_factory):
    """The package, as the Debian sees it."""
    out = tmp_path_factory.mktemp("package") / "out"
    subprocess.run([ROOT / "scripts/onnxruntime"], check=True)
    command = [ROOT / "scripts/package", "--binary", BIN, "--out", out, "--no-sbom", "--fast"]
    result = subprocess.run(command, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    [deb] = out.glob("*.deb")
    shutil.copy(deb, debian / "tmp")
    return f"/tmp/{deb.name}"


def within(root, *command, options=()):
    """What a command says in a root, where it has to succeed."""
    env = {"PATH": "/usr/sbin:/usr/bin:/sbin:/bin", "DEBIAN_FRONTEND": "noninteractive", "LC_ALL": "C.UTF-8"}
    result = subprocess.run(["chroot", *options, root, *command], env=env, capture_output=True, text=True)
    assert result.returncode == 0, (command, result.stdout, result.stderr)
    return result.stdout


def owner(root, path):
    return within(root, "stat", "--format=%U:%G %a", path).strip()


def status(url):
    try:
        with urllib.request.urlopen(url, timeout=2) as answer:
            return answer.status
    except urllib.error.HTTPError as error:
        return error.code
    except OSError:
        return None


def test_it_is_installed_used_and_removed(debian, package):
    within(debian, "dpkg", "--install", package)
    assert "install ok installed" in within(debian, "dpkg", "--status", "millrace")
    assert within(debian, "dpkg", "--verify", "millrace") == "", "a file differs from the package"
    assert owner(debian, STATE) == "millrace:millrace 700"

    # The first key before the first start, as the file of settings says, and another one by the superuser.
    create = ["millrace", "token", "create", "--data-dir", f"{STATE}/data", "--deploy", "--admin"]
    within(debian, *create, "operator", options=AS_SERVER)
    within(debian, *create, "other")
    assert owner(debian, f"{STATE}/data/access.toml") == "millrace:millrace 600"

    # What the unit starts, as its user.
    unit = (debian / "usr/lib/systemd/system/millrace.service").read_text()
    [start] = [line.removeprefix("ExecStart=") for line in unit.splitlines() if line.startswith("ExecStart=")]
    port, config_port = str(free_port()), str(free_port())
    command = ["chroot", *AS_SERVER, debian, *start.split(), "--port", port, "--config-port", config_port]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        config = f"http://127.0.0.1:{config_port}"
        deadline = time.monotonic() + 120
        while status(f"{config}/state/v1/health") != 200:
            assert server.poll() is None and time.monotonic() < deadline, server.communicate(timeout=5)
            time.sleep(0.05)
        assert status(f"{config}/application/v2/tenant/") == 401, "it is closed"
    finally:
        server.terminate()
        said, _ = server.communicate(timeout=60)
    assert server.returncode == 0, said

    # Settings of the operator stay when the package is installed again, and the data when it goes.
    with open(debian / CONFIG.lstrip("/"), "a") as settings:
        settings.write("# mine\n")
    within(debian, "dpkg", "--install", package)
    assert within(debian, "tail", "-1", CONFIG) == "# mine\n"
    within(debian, "dpkg", "--purge", "millrace")
    assert not (debian / CONFIG.lstrip("/")).exists() and not (debian / "usr/bin/millrace").exists()
    assert owner(debian, f"{STATE}/data/access.toml") == "millrace:millrace 600"
