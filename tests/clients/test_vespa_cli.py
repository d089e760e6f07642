"""The unchanged Vespa CLI against Millrace: deploy, status, feed, query, document, visit."""

import json
import os
import socket
import subprocess

import pytest
import vespacli
from conftest import APP, Node

ID = "id:demo:note:g=ann:"


def note(name: str, title: str, stars: int = 0, group: str = "ann") -> dict:
    fields = {"title": title, "text": f"all about {title}", "stars": stars, "embedding": [1, 0, 0, stars]}
    return {"put": f"id:demo:note:g={group}:{name}", "fields": fields}


@pytest.fixture(scope="module")
def cli(tmp_path_factory):
    """Runs the CLI's binary (not PyPI's wrapper, which hides the exit status) with a home of its own."""
    home = tmp_path_factory.mktemp("cli")
    environment = {**os.environ, "VESPA_CLI_HOME": str(home), "HOME": str(home), "VESPA_CLI_CHECK_VERSION": "never"}

    def run(*arguments, status: int = 0, stdin: str | None = None) -> str:
        done = subprocess.run(
            [vespacli.get_binary_path(), *map(str, arguments)],
            env=environment, input=stdin, capture_output=True, text=True, timeout=120,
        )
        assert done.returncode == status, f"{arguments}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout + done.stderr

    return run


@pytest.fixture(scope="module")
def deployed(node, cli):
    assert "Success" in cli("deploy", "--wait", "60", "-t", node.config, APP)
    return node


def test_status_tells_that_both_services_are_there(deployed, cli):
    assert "is ready" in cli("status", "deploy", "-t", deployed.config)
    assert "is ready" in cli("status", "-t", deployed.data)


def test_a_package_that_cannot_work_is_refused_with_file_and_line(node, cli, tmp_path):
    (tmp_path / "schemas").mkdir()
    (tmp_path / "services.xml").write_text((APP / "services.xml").read_text())
    (tmp_path / "schemas" / "note.sd").write_text("schema note {\n  document note {\n    field x type strin { }\n  }\n}\n")
    output = cli("deploy", "-t", node.config, tmp_path, status=1)
    assert "note.sd:3" in output and "strin" in output


def test_feed_query_and_visit(deployed, cli, tmp_path):
    feed = tmp_path / "feed.jsonl"
    operations = [note(str(i), f"note {'even' if i % 2 == 0 else 'odd'} {i}", i) for i in range(200)]
    operations += [note("other", "note even of bob", 1, group="bob")]
    feed.write_text("".join(json.dumps(operation) + "\n" for operation in operations))
    report = json.loads(cli("feed", "-t", deployed.data, feed))
    assert report["feeder.ok.count"] == 201 and report["feeder.error.count"] == 0

    answer = json.loads(cli(
        "query", "-t", deployed.data, "select * from note where title contains 'even' order by stars desc",
        "streaming.groupname=ann", "hits=3",
    ))
    assert answer["root"]["fields"]["totalCount"] == 100
    assert [hit["fields"]["stars"] for hit in answer["root"]["children"]] == [198, 196, 194]

    visited = [json.loads(line) for line in cli("visit", "-t", deployed.data).splitlines()]
    assert len(visited) == 201
    assert {document["id"] for document in visited} == {operation["put"] for operation in operations}
    selected = cli("visit", "-t", deployed.data, "--selection", "id.group == 'bob'").splitlines()
    assert [json.loads(line)["id"] for line in selected] == ["id:demo:note:g=bob:other"]


def test_document_operations(deployed, cli):
    cli("document", "put", "-t", deployed.data, ID + "one", "-d", json.dumps({"fields": {"title": "one", "stars": 1}}))
    got = json.loads(cli("document", "get", "-t", deployed.data, ID + "one"))
    assert got["id"] == ID + "one" and got["fields"] == {"title": "one", "stars": 1}
    cli("document", "update", "-t", deployed.data, ID + "one", "-d", json.dumps({"fields": {"stars": {"increment": 4}}}))
    assert json.loads(cli("document", "get", "-t", deployed.data, ID + "one"))["fields"]["stars"] == 5
    cli("document", "remove", "-t", deployed.data, ID + "one")
    cli("document", "get", "-t", deployed.data, ID + "one", status=1)


def test_feed_names_the_document_that_is_wrong(deployed, cli, tmp_path):
    feed = tmp_path / "wrong.jsonl"
    wrong = note("wrong", "x")
    wrong["fields"]["stars"] = "many"
    feed.write_text(json.dumps(wrong) + "\n" + json.dumps(note("right", "y")) + "\n")
    # The CLI ends with 0 as long as it could go on.
    report = cli("feed", "-t", deployed.data, feed)
    assert "stars" in report
    assert '"feeder.ok.count": 1' in report and '"400": 1' in report


def ports_are_free(*ports: int) -> bool:
    for port in ports:
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True


@pytest.mark.skipif(not ports_are_free(8080, 19071), reason="the target 'local' needs ports 8080 and 19071")
def test_target_local(cli, tmp_path):
    node = Node(tmp_path / "data", 8080, 19071)
    try:
        cli("deploy", "--wait", "60", "-t", "local", APP)
        assert "is ready" in cli("status", "-t", "local", "--wait", "30")
        cli("document", "put", "-t", "local", ID + "one", "-d", json.dumps({"fields": {"title": "local"}}))
        answer = json.loads(cli("query", "-t", "local", "select * from note where true", "streaming.groupname=ann"))
        assert answer["root"]["fields"]["totalCount"] == 1
    finally:
        node.stop()
