"""The board and the alerts use metrics that a server prints."""

import json
import os
import pathlib
import re
import subprocess
import urllib.request

import pytest
import yaml

ROOT = pathlib.Path(__file__).parents[2]
BIN = pathlib.Path(os.environ.get("MILLRACE_BIN", ROOT / "target/debug/millrace")).absolute()


@pytest.fixture(scope="module")
def printed(tmp_path_factory):
    """Names of the metrics that a new server prints."""
    data = tmp_path_factory.mktemp("data")
    command = [BIN, "serve", "--data-dir", data, "--port", "0", "--config-port", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        url = re.search(r"documents and queries at (?:http://)?(\S+:\d+)", line)
        assert url, line
        with urllib.request.urlopen("http://" + url.group(1) + "/prometheus/v1/values") as answer:
            text = answer.read().decode()
    finally:
        process.terminate()
        process.wait(timeout=30)
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


def expressions():
    rules = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]
    board = json.loads((ROOT / "deploy/monitoring/grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def test_every_name_is_printed(printed):
    found = list(expressions())
    assert len(found) > 15
    for title, expression in found:
        names = set(re.findall(r"[a-z]\w*_\w+", expression))
        assert names and names <= printed, (title, names - printed)
