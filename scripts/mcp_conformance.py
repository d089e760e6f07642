#!/usr/bin/env python3
"""The conformance kit of the Model Context Protocol, unchanged, against /mcp/ of the binary.

usage: scripts/mcp_conformance.py

npm installs the kit, and the version of Node.js that it needs, below target/. Scenarios that ask for tools, prompts or
capabilities which the server does not offer are in tests/suites/mcp_conformance.yml: the kit fails if one of them
passes, or if another one fails. MILLRACE_BIN names another binary than target/release/millrace. The exit status is 0
if all is as expected, or if npm is not there, which is printed.
"""

import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from ports import free_port
from processes import MILLRACE, ROOT, end, get

KIT = "@modelcontextprotocol/conformance"
PACKAGES = [f"{KIT}@0.1.16", "node@22.23.3"]
DIRECTORY = ROOT / "target/mcp-conformance"
EXPECTED = ROOT / "tests/suites/mcp_conformance.yml"
HANDLER = """<search/>
    <component id="com.yahoo.search.mcp.McpSearchSpecProvider" bundle="container-search-and-docproc"/>
    <handler id="ai.vespa.mcp.McpRequestHandler" bundle="container-disc"><binding>http://*/mcp/*</binding></handler>"""


def installed() -> list[str] | None:
    """The command that runs the kit; none if it cannot be installed."""
    if not shutil.which("npm"):
        print("passed over: the conformance kit; install npm")
        return None
    DIRECTORY.mkdir(parents=True, exist_ok=True)
    install = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", str(DIRECTORY), *PACKAGES]
    if subprocess.run(install, check=False).returncode:
        print(f"passed over: the conformance kit; npm cannot install {' and '.join(PACKAGES)}")
        return None
    modules = DIRECTORY / "node_modules"
    return [str(modules / "node/bin/node"), str(modules / KIT / "dist/index.js"), "server"]


def application(directory: Path) -> Path:
    """The example of mails, with the handler for assistants."""
    package = directory / "mail"
    shutil.copytree(ROOT / "examples/mail", package)
    services = package / "services.xml"
    services.write_text(services.read_text(encoding="utf-8").replace("<search/>", HANDLER), encoding="utf-8")
    return package


def started(directory: Path) -> tuple[subprocess.Popen[bytes], str]:
    """A server with the application: its process and its address."""
    port = free_port()
    command = [MILLRACE, "serve", "--data-dir", str(directory / "data"), "--app", str(application(directory)),
               "--port", str(port), "--config-port", str(free_port())]
    log = directory / "log"
    with open(log, "wb") as output:
        server = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    url, deadline = f"http://127.0.0.1:{port}", time.monotonic() + 60
    while server.poll() is None and time.monotonic() < deadline:
        try:
            get(f"{url}/state/v1/health")
            return server, url
        except OSError:
            time.sleep(0.1)
    end([server])
    sys.exit(f"the server did not start: {log.read_text(encoding='utf-8')}")


def main() -> int:
    kit = installed()
    if kit is None:
        return 0
    with tempfile.TemporaryDirectory() as directory:
        server, url = started(Path(directory))
        try:
            given = ["--url", f"{url}/mcp/", "--suite", "all", "--expected-failures", str(EXPECTED)]
            ran = subprocess.run([*kit, *given], check=False, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        finally:
            end([server])
    # What each scenario did comes before.
    print(ran.stdout[max(ran.stdout.find("=== SUMMARY ==="), 0):])
    return ran.returncode


if __name__ == "__main__":
    sys.exit(main())
