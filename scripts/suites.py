#!/usr/bin/env python3
"""Tests of others, unchanged, against the binary: of Vespa's clients, and of Elasticsearch's interfaces.

usage: PYVESPA=DIRECTORY HAYSTACK=DIRECTORY OPENSEARCHPY=DIRECTORY QUICKWIT=DIRECTORY
       scripts/suites.py [pyvespa] [haystack] [opensearchpy] [quickwit]

PYVESPA is a checkout of github.com/vespa-engine/pyvespa, HAYSTACK one of
github.com/deepset-ai/haystack-core-integrations, OPENSEARCHPY one of github.com/opensearch-project/opensearch-py (its
tests of bulk, scan and reindex), QUICKWIT one of github.com/quickwit-oss/quickwit (its scenarios of bulk). Without
names, the suites whose checkout is given run. MILLRACE_BIN names another binary than target/release/millrace. The exit
status is 0 if every test passes but those that tests/suites/NAME.txt leaves out, each with a reason; these are printed.
"""

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from processes import MILLRACE, ROOT

PYTEST = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--disable-warnings"]
SUITES = ROOT / "tests/suites"


def left_out(name: str) -> dict[str, str]:
    """Tests that are left out, and the reason of each."""
    tests, reason = {}, ""
    path = SUITES / f"{name}.txt"
    for line in path.read_text(encoding="utf-8").splitlines() if path.exists() else []:
        if line.startswith("#"):
            reason = line[1:].strip()
        elif line:
            tests[line] = reason
    return tests


def run(name: str, directory: Path, arguments: list[str], within: str = "tests/integration", **environment: str) -> bool:
    """Runs pytest in a directory. Returns true if all passed that is not left out; `within` is where those are."""
    omitted = left_out(name)
    for test, reason in omitted.items():
        print(f"{name}: without {test}: {reason}")
    print(f"{name}:", flush=True)
    deselected = [f"--deselect={within}/{test}" for test in omitted]
    return subprocess.run([*PYTEST, *arguments, *deselected], cwd=directory, check=False,
                          env={**os.environ, "MILLRACE_BIN": str(Path(MILLRACE).resolve()), **environment}).returncode == 0


def pyvespa(checkout: Path, directory: Path) -> bool:
    # The tests read files of the package beside them.
    for part in ["tests", "vespa"]:
        shutil.copytree(checkout / part, directory / part)
    shutil.copy(checkout / "pytest.ini", directory)
    files = [f"tests/integration/test_integration_{part}.py" for part in ["docker", "queries", "grouping"]]
    return run("pyvespa", directory, ["-p", "docker_stand_in", *files], PYTHONPATH=str(SUITES))


def haystack(checkout: Path, directory: Path) -> bool:
    shutil.copytree(checkout / "integrations/vespa/tests", directory / "tests")
    with node(directory / "data"):
        # Its own Docker file deploys this application before the tests begin.
        subprocess.run([MILLRACE, "deploy", str(directory / "tests/fixtures/vespa_app")], check=True)
        return run("haystack", directory, ["tests"])


def opensearchpy(checkout: Path, directory: Path) -> bool:
    # The client is the one of tests/suites/requirements.txt.
    shutil.copytree(checkout / "test_opensearchpy", directory / "test_opensearchpy")
    helpers = "test_opensearchpy/test_server/test_helpers"
    with node(directory / "data", *ELASTIC):
        # The fixtures of other tests beside it need other packages.
        arguments = ["--noconftest", f"{helpers}/test_actions.py"]
        return run("opensearchpy", directory, arguments, within=helpers,
                   OPENSEARCH_URL="http://127.0.0.1:9200", OPENSEARCH_VERSION="2.19.0")


def quickwit(checkout: Path, directory: Path) -> bool:
    shutil.copytree(checkout / "quickwit/rest-api-tests", directory / "tests")
    print("quickwit:", flush=True)
    command = [sys.executable, "run_tests.py", "--engine", "elasticsearch", "--test", "scenarii/es_compatibility/bulk"]
    with node(directory / "data", *ELASTIC):
        return subprocess.run(command, cwd=directory / "tests", check=False).returncode == 0


# The port that suites of Elasticsearch's interfaces take for granted.
ELASTIC = ["--elastic-port", "9200"]


@contextmanager
def node(data: Path, *options: str) -> Iterator[None]:
    """A node at the ports that the suites take for granted."""
    with open(f"{data}.log", "ab") as log:
        process = subprocess.Popen([MILLRACE, "serve", "--data-dir", str(data), *options], stdout=log, stderr=log)
    try:
        while not all(answers(port) for port in ([19071, 9200] if options else [19071])):
            if process.poll() is not None:
                sys.exit(Path(f"{data}.log").read_text(encoding="utf-8"))
            time.sleep(0.05)
        yield
    finally:
        process.terminate()
        process.wait()


def answers(port: int) -> bool:
    """True if something listens at a port of this machine."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
        return True
    except OSError:
        return False


RUNNERS = {"pyvespa": pyvespa, "haystack": haystack, "opensearchpy": opensearchpy, "quickwit": quickwit}


def main() -> None:
    names = sys.argv[1:] or [name for name in RUNNERS if os.environ.get(name.upper())]
    unknown = [name for name in names if name not in RUNNERS or not os.environ.get(name.upper())]
    if unknown or not names:
        sys.exit(__doc__)
    failed = []
    for name in names:
        with tempfile.TemporaryDirectory(prefix="millrace-suite-") as directory:
            if not RUNNERS[name](Path(os.environ[name.upper()]), Path(directory)):
                failed.append(name)
    for name in names:
        print(f"{name}: {'failed' if name in failed else 'passed'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
