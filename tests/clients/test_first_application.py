"""The page that makes an application from nothing: its commands are run in order, in an empty directory."""

import os
import pathlib
import re
import subprocess

import pytest
from node import ROOT, Node, binary, free_ports
from test_guide import steps

PAGE = ROOT / "docs" / "first-application.md"


def test_an_application_from_an_empty_directory(tmp_path):
    node = Node(tmp_path / "data", *free_ports(2))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "millrace").symlink_to(pathlib.Path(binary()).resolve())
    (tmp_path / "work").mkdir()
    environment = os.environ | {
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "MILLRACE_URL": node.data,
        "MILLRACE_CONFIG_URL": node.config,
    }
    try:
        blocks = re.findall(r"^```(sh|console)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
        assert [kind for kind, _ in blocks].count("console") > 5
        for kind, block in blocks:
            # The server is there already, and at other ports.
            block = "" if "millrace serve" in block else block.replace("http://localhost:8080", node.data)
            whole = [("set -e\n" + block, None)] if kind == "sh" else steps(block)
            for command, expected in whole:
                run = subprocess.run(command, shell=True, cwd=tmp_path / "work", env=environment, capture_output=True, text=True, timeout=60)
                printed = run.stdout + run.stderr
                if expected is None:
                    assert run.returncode == 0, f"{command}\n{printed}"
                    continue
                pattern = ".*".join(re.escape(part) for part in expected.strip().split("…"))
                if not re.fullmatch(pattern, printed.strip(), re.DOTALL):
                    pytest.fail(f"$ {command}\n{printed}\nbut the page says\n{expected}")
    finally:
        node.stop()
