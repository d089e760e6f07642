#!/usr/bin/env python3
"""The commands in the READMEs of Vespa's sample applications, run against the binary.

usage: SAMPLES=DIRECTORY scripts/samples.py [--pages] [README …]

SAMPLES is a checkout of github.com/vespa-engine/sample-apps, or with --pages of vespa-engine/documentation, whose pages
have commands too. The commands are those that its own tests run: blocks
with `data-test`. Where one starts a container, a node is started at the same ports; what fetches the checkout,
installs tools or looks after containers is left out. Without names, all READMEs run whose commands need neither Java
nor models of the internet; others are listed with the reason. MILLRACE_BIN names another binary than
target/release/millrace; `vespa` is that of the PATH. The exit status is 0 if every command gave what its README says.
"""

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterable, Iterator
from html.parser import HTMLParser
from pathlib import Path

from processes import MILLRACE

# Tools whose commands have nothing to do here: the checkout is there, and a node runs.
IDLE_TOOLS = ["git", "brew", "docker", "podman"]
# Commands and answers that show what an application needs and is not there.
NEEDS = [
    ("needs Java", re.compile(r"mvn builds Java|Java components do not run here")),
    ("needs a file of the internet", re.compile(r"cannot be fetched|Could not resolve host|URLError|test-docs-offset")),
    ("needs several machines", re.compile(r"docker-compose|docker compose|gcloud|kubectl|docker network")),
    ("needs a language model", re.compile(r"no secret '|language models do not run inside")),
]


class Blocks(HTMLParser):
    """Blocks of a README with `data-test`, in order: attributes and text."""

    def __init__(self) -> None:
        super().__init__()
        self.blocks: list[tuple[dict[str, str], list[str]]] = []
        # Tag of the block that is being read.
        self.inside: str | None = None

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        given = {name: value or "" for name, value in attributes}
        if "data-test" in given:
            self.inside = tag
            self.blocks.append((given, []))

    def handle_data(self, data: str) -> None:
        if self.inside:
            self.blocks[-1][1].append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag == self.inside:
            self.inside = None


def commands(readme: Path) -> Iterator[tuple[str, dict[str, str]]]:
    """Pairs of a command and its attributes."""
    text = readme.read_text(encoding="utf-8")
    if "docker compose" in text or "docker-compose" in text:
        yield "docker compose", {}
    parser = Blocks()
    parser.feed(re.sub(r"(?<!`)`[^`\n]+`(?!`)", "", text))
    for attributes, parts in parser.blocks:
        # The macro of the tests that prepares an application.
        if attributes["data-test"].startswith("run-macro init-deploy "):
            application = attributes["data-test"].split()[-1]
            yield f"cd sample-apps/{application}", {}
            yield "vespa deploy --wait 300 $(dirname $(find . -name services.xml | head -1))", {}
        if attributes["data-test"] == "file":
            path, end = attributes["data-path"], "END-OF-FILE"
            yield f"mkdir -p $(dirname {path}) && cat > {path} <<'{end}'\n{''.join(parts).lstrip()}\n{end}", {}
        if attributes["data-test"] not in ("exec", "before"):
            continue
        for line in re.sub(r"\\\n\s*", " ", "".join(parts)).splitlines():
            command = line.strip().removeprefix("$").strip()
            if command and not command.startswith(("#", "{%")):
                yield command, attributes


def reason_against(texts: Iterable[str]) -> str:
    """Reasons for which an application cannot run here, if there are any, from its commands and their answers."""
    return ", ".join(reason for reason, pattern in NEEDS if any(pattern.search(text) for text in texts))


class Shell:
    """Runs commands one after the other; keeps the directory and the variables."""

    def __init__(self, root: Path, home: Path) -> None:
        tools = home / "bin"
        tools.mkdir(parents=True)
        scripts = {name: "exit 0" for name in IDLE_TOOLS}
        scripts["mvn"] = "echo mvn builds Java; exit 1"
        scripts["vespa"] = f'[ "$1" != clone ] || exec cp -rT "{root}/sample-apps/$2" "$3"\nexec {shutil.which("vespa")} "$@"'
        for name, script in scripts.items():
            (tools / name).write_text(f"#!/bin/sh\n{script}\n", encoding="utf-8")
            (tools / name).chmod(0o755)
        self.state = home / "state"
        self.state.write_text(f"cd {root}\nexport HOME={home} VESPA_CLI_HOME={home}/.vespa PATH={tools}:$PATH\n", encoding="utf-8")

    def run(self, command: str, timeout: int) -> tuple[int, str]:
        """Runs a command. Returns its exit status and its output."""
        script = f"source {self.state}\n{command}\nresult=$?\n{{ export -p; echo \"cd '$PWD'\"; }} > {self.state}\nexit $result"
        try:
            done = subprocess.run(["bash", "-c", script], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                                  timeout=timeout, check=False)
            return done.returncode, done.stdout
        except subprocess.TimeoutExpired as late:
            return 124, (late.stdout or b"").decode(errors="replace") + f"\nmore than {timeout} s"


def start_node(data: Path) -> subprocess.Popen[bytes]:
    log = open(f"{data}.log", "ab")
    process = subprocess.Popen([MILLRACE, "serve", "--data-dir", str(data)], stdout=log, stderr=log)
    deadline = time.monotonic() + 30
    while process.poll() is None and time.monotonic() < deadline:
        try:
            urllib.request.urlopen("http://127.0.0.1:19071/state/v1/health", timeout=1).close()
            return process
        except OSError:
            time.sleep(0.05)
    process.kill()
    sys.exit(f"the node did not start: {Path(f'{data}.log').read_text(encoding='utf-8')}")


def run(samples: Path, name: Path, steps: list[tuple[str, dict[str, str]]]) -> tuple[list[str], str]:
    """Runs the commands of a README on a node of its own. Returns descriptions of those that failed, and why others
    cannot be run here."""
    with tempfile.TemporaryDirectory(prefix="millrace-samples-") as directory:
        directory = Path(directory)
        shutil.copytree(samples, directory / "sample-apps", symlinks=True, ignore=shutil.ignore_patterns(".git"))
        shell = Shell(directory, directory / "home")
        if not any("sample-apps" in command or "vespa clone" in command for command, _ in steps):
            shell.run(f"cd sample-apps/{Path(name).parent}", 10)
        node = start_node(directory / "data")
        failures, answers = [], []
        try:
            for command, attributes in steps:
                status, output = shell.run(command, int(attributes.get("data-test-timeout", 120)))
                answers.append(output)
                wanted = attributes.get("data-test-assert-contains") or attributes.get("data-test-wait-for")
                good = wanted in output if wanted else status == 0
                if not good:
                    failures.append(f"{command}\n    wanted: {wanted or 'success'}\n    output: {output.strip()[-600:]}")
        finally:
            node.terminate()
            node.wait()
        return failures, reason_against(answers)


def main() -> None:
    if not os.environ.get("SAMPLES"):
        sys.exit(__doc__)
    samples = Path(os.environ["SAMPLES"])
    is_pages = sys.argv[1:2] == ["--pages"]
    patterns = ["*.md", "*.html"] if is_pages else ["README.md"]
    readmes = [samples / name for name in sys.argv[1 + is_pages:]]
    readmes = readmes or sorted(page for pattern in patterns for page in samples.rglob(pattern))
    failed = 0
    for readme in readmes:
        steps = list(commands(readme))
        if not steps or readme.parent == samples / "test":
            continue
        name = readme.relative_to(samples)
        reason = reason_against([command for command, _ in steps])
        if not any("deploy" in command or "prepareandactivate" in command for command, _ in steps):
            reason = "its commands deploy nothing"
        failures = []
        if not reason:
            failures, reason = run(samples, name, steps)
        if reason:
            print(f"{name}: left out: {reason}", flush=True)
            continue
        failed += bool(failures)
        print(f"{name}: {len(steps) - len(failures)} of {len(steps)} commands", flush=True)
        for failure in failures:
            print(f"  {failure}")
    sys.exit(bool(failed))


if __name__ == "__main__":
    main()
