#!/usr/bin/env python3
"""The Rust tests of the workspace: all executables, two at a time, then the examples in doc comments.

usage: scripts/tests.py [JOBS]

Most executables wait for processes, clocks and disks for a part of their time, so `cargo test`, which runs one after
another, leaves the processor idle. The order is that of cargo, with the executables of the slowest crates first.
Prints a line for each executable, and the output of those that fail; it goes on after a failure, so that one run
names all of them. The exit status is 0 if all passed.
"""

import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TypeAlias

from processes import ROOT

CARGO = os.environ.get("CARGO", "cargo")
# Crates whose executables run longest, in this order.
SLOW = ["millrace-store", "millrace-server", "millrace-sim", "millrace-content", "millrace-gateway"]
# Time after which an executable hangs, in seconds.
EXECUTABLE_TIMEOUT_S = 900
# Directory of the crate, name of the target, path of the executable.
TestExecutable: TypeAlias = tuple[Path, str, str]


def built() -> list[TestExecutable]:
    """Builds all executables. Returns the crate, the target and the path of each, slow crates first."""
    command = [CARGO, "test", "--locked", "--workspace", "--quiet", "--no-run", "--message-format=json-render-diagnostics"]
    build = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, check=False)
    if build.returncode:
        sys.exit(build.returncode)
    found = []
    for line in build.stdout.splitlines():
        message = json.loads(line)
        if message.get("reason") == "compiler-artifact" and message["profile"]["test"] and message["executable"]:
            crate = Path(message["manifest_path"]).parent
            found.append((crate, message["target"]["name"], message["executable"]))
    names = [name.removeprefix("millrace-") for name in SLOW]
    return sorted(found, key=lambda test: names.index(test[0].name) if test[0].name in names else len(names))


# Executables that run now, with the processes that they started.
running: set[subprocess.Popen[str]] = set()


def run(test: TestExecutable) -> bool:
    """Runs an executable as cargo does. Returns true if it passed."""
    crate, name, executable = test
    began = time.monotonic()
    process = subprocess.Popen(
        [executable, "--quiet"],
        cwd=crate,
        env={**os.environ, "CARGO_MANIFEST_DIR": str(crate)},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        # Servers that a test has started hold its output open: they end with it.
        start_new_session=True,
    )
    running.add(process)
    try:
        output, _ = process.communicate(timeout=EXECUTABLE_TIMEOUT_S)
        passed = process.returncode == 0
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        output, _ = process.communicate()
        passed, output = False, f"{output}\nno end after {EXECUTABLE_TIMEOUT_S} s"
    running.discard(process)
    seconds = time.monotonic() - began
    shown = "" if passed else f"\n{output.strip()}"
    print(f"{'ok' if passed else 'FAILED':6} {seconds:6.1f} s  {crate.name}/{name}{shown}", flush=True)
    return passed


def main() -> None:
    jobs = int(sys.argv[1]) if len(sys.argv) > 1 else 2
    tests: queue.SimpleQueue[TestExecutable] = queue.SimpleQueue()
    executables = built()
    for test in executables:
        tests.put(test)
    failed: list[str] = []

    def work() -> None:
        while True:
            try:
                test = tests.get_nowait()
            except queue.Empty:
                return
            if not run(test):
                failed.append(f"{test[0].name}/{test[1]}")

    workers = [threading.Thread(target=work, daemon=True) for _ in range(jobs)]
    for worker in workers:
        worker.start()
    try:
        for worker in workers:
            worker.join()
    except KeyboardInterrupt:
        for process in list(running):
            os.killpg(process.pid, signal.SIGKILL)
        sys.exit(130)
    examples = [CARGO, "test", "--locked", "--workspace", "--quiet", "--doc"]
    if subprocess.run(examples, cwd=ROOT, check=False).returncode:
        failed.append("examples in doc comments")
    print(f"{len(executables)} executables, failed: {', '.join(failed) or 'none'}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
