"""The guide does what it says: its commands are run, and what they print is compared with what stands below them."""

import os
import pathlib
import re
import subprocess

import pytest
from node import ROOT, binary

GUIDE = ROOT / "docs" / "guide.md"


def steps(block: str) -> list[tuple[str, str]]:
    """The commands of a `console` block, each with what it prints; `…` stands for anything."""
    found = []
    for step in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        command, _, output = step.partition("\n")
        found.append((command, output))
    return found


def commands() -> list[tuple[str, str]]:
    """The commands of all `console` blocks."""
    blocks = re.findall(r"^```console\n(.*?)^```", GUIDE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    return [step for block in blocks for step in steps(block)]


def test_the_guide(node, tmp_path):
    (tmp_path / "millrace").symlink_to(pathlib.Path(binary()).resolve())
    environment = os.environ | {
        "PATH": f"{tmp_path}:{os.environ['PATH']}",
        "MILLRACE_URL": node.data,
        "MILLRACE_CONFIG_URL": node.config,
    }
    assert len(commands()) > 10
    for command, expected in commands():
        run = subprocess.run(command, shell=True, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=60)
        printed = run.stdout + run.stderr
        pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
        if not re.fullmatch(pattern, printed.strip(), re.DOTALL):
            pytest.fail(f"$ {command}\n{printed}\nbut the guide says\n{expected}")
