"""The board and the alerts use metrics that a server prints, and the documentation has them all."""

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
        with urllib.request.urlopen("http://" + url.group(1) + "/metrics") as answer:
            text = answer.read().decode()
    finally:
        process.terminate()
        process.wait(timeout=120)
    return {re.split(r"[{ ]", line)[0] for line in text.splitlines() if not line.startswith("#")}


def expressions():
    rules = yaml.safe_load((ROOT / "deploy/monitoring/alerts.yaml").read_text())
    for rule in rules["groups"][0]["rules"]:
        yield rule["alert"], rule["expr"]
    board = json.loads((ROOT / "deploy/monitoring/grafana.json").read_text())
    for panel in board["panels"]:
        for target in panel["targets"]:
            yield panel["title"], target["expr"]


def of_clusters():
    """Names of the metrics that only nodes of a cluster have."""
    source = "".join((ROOT / "crates/content/src" / file).read_text() for file in ("gauges.rs", "member.rs"))
    return set(re.findall(r'"((?:vds|millrace|cluster-controller)\.[\w.-]+)"', source))


def documented():
    page = (ROOT / "docs/monitoring.md").read_text()
    rows = re.findall(r"^\| (`[^|]*`) \|", page, re.MULTILINE)
    return {name for row in rows for name in re.findall(r"`([\w.-]+)`", row)}


def in_prometheus(name):
    return re.sub(r"[.-]", "_", name)


def without_end(name):
    """The name without the end that a counter, a summary or a histogram has."""
    return re.sub(r"_(count|sum|max|bucket)$", "", name)


def test_every_name_is_printed(printed):
    ends = ("", "_count")
    printed = printed | {in_prometheus(name) + end for name in of_clusters() for end in ends}
    found = list(expressions())
    assert len(found) > 30
    for title, expression in found:
        expression = re.sub(r"\{[^}]*\}", "", expression)
        names = set(re.findall(r"[a-z]\w*_\w+", expression)) - {"histogram_quantile"}
        assert names or expression.startswith("up "), title
        assert names <= printed, (title, names - printed)


def test_every_metric_is_documented(printed):
    names = {in_prometheus(name) for name in documented()}
    assert len(of_clusters()) > 25
    missing = {name for name in printed if not {name, without_end(name)} & names}
    assert not missing | (of_clusters() - documented())
