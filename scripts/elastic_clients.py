#!/usr/bin/env python3
"""Clients and shippers of Elasticsearch, unchanged, against the binary.

usage: scripts/elastic_clients.py

Each version of tests/suites/elasticsearch.txt runs tests/clients/test_elasticsearch.py in an environment of its own
below target/. elasticdump is fetched by npm, and rsyslog with its Elasticsearch output is one of the system; what is
not at hand is passed over, and printed. MILLRACE_BIN names another binary than target/release/millrace. The exit
status is 0 if all that ran passed.
"""

import os
import shutil
import subprocess
import sys
import venv
from pathlib import Path

from processes import MILLRACE, ROOT

ENVIRONMENTS = ROOT / "target"
SUITES = ROOT / "tests/suites"
ELASTICDUMP = "elasticdump@6.125.1"


def pytest(python: Path, file: str, **environment: str) -> bool:
    """Runs the tests of a file. Returns true if all passed."""
    command = [python, "-m", "pytest", "-q", "-rs", "-p", "no:cacheprovider", "--disable-warnings", file]
    given = {**os.environ, "MILLRACE_BIN": str(Path(MILLRACE).resolve()), **environment}
    return subprocess.run(command, cwd=ROOT, check=False, env=given).returncode == 0


def environment_of(requirement: str) -> Path:
    """Interpreter of an environment with a package and pytest."""
    directory = ENVIRONMENTS / requirement.replace("==", "-")
    python = directory / "bin/python"
    if not python.exists():
        venv.create(directory, with_pip=True)
    subprocess.run([python, "-m", "pip", "install", "-q", "pytest>=8", requirement], check=True)
    return python


def elasticdump() -> dict[str, str]:
    """Settings by which the tests find elasticdump; none if it is not at hand."""
    if not shutil.which("npm"):
        print("passed over: elasticdump; install npm")
        return {}
    directory = ENVIRONMENTS / "elasticdump"
    directory.mkdir(parents=True, exist_ok=True)
    install = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(directory), ELASTICDUMP]
    if subprocess.run(install, check=False).returncode:
        print(f"passed over: elasticdump; npm cannot install {ELASTICDUMP}")
        return {}
    return {"ELASTICDUMP": str(directory / "node_modules/.bin/elasticdump")}


def main() -> int:
    lines = (SUITES / "elasticsearch.txt").read_text(encoding="utf-8").splitlines()
    all_passed, python = True, None
    for requirement in [line for line in lines if line and not line.startswith("#")]:
        print(f"{requirement}:", flush=True)
        python = environment_of(requirement)
        all_passed &= pytest(python, "tests/clients/test_elasticsearch.py")
    print("shippers:", flush=True)
    all_passed &= pytest(python, "tests/suites/shippers.py", **elasticdump())
    return 0 if all_passed else 1


if __name__ == "__main__":
    sys.exit(main())
