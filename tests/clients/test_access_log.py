"""The access log has a line for each request, and survives rotation."""

import json
import time
import urllib.error
import urllib.request

from conftest import APP
from node import Node, free_ports


def lines(path, count: int) -> list[dict]:
    """The lines of the log, once there are so many."""
    deadline = time.monotonic() + 120
    while True:
        # The last line may be half written.
        found = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        if len(found) >= count:
            return [json.loads(line) for line in found]
        assert time.monotonic() < deadline, found
        time.sleep(0.05)


def test_the_access_log(tmp_path):
    log = tmp_path / "access.log"
    node = Node(tmp_path / "data", *free_ports(2), "--access-log", log, "--app", APP)
    body = urllib.request.urlopen(urllib.request.Request(f"{node.data}/?a=%20b", headers={"User-Agent": "test"})).read()
    asked = urllib.request.Request(f"{node.data}/nosuch", headers={"X-Forwarded-For": "192.0.2.7"})
    try:
        urllib.request.urlopen(asked)
    except urllib.error.HTTPError as error:
        error.read()
    first, second = lines(log, 2)
    assert first["duration"] >= 0 and abs(first["time"] - time.time()) < 60
    assert first["peerport"] > 0
    expected = {
        "ip": "127.0.0.1", "peeraddr": "127.0.0.1", "localport": int(node.data.rsplit(":", 1)[1]), "method": "GET",
        "uri": "/?a=%20b", "version": "HTTP/1.1", "agent": "test", "scheme": "http",
        "host": node.data.removeprefix("http://"), "code": 200, "responsesize": len(body),
    }
    assert {name: first[name] for name in expected} == expected
    assert (second["uri"], second["code"], second["remoteaddr"]) == ("/nosuch", 404, "192.0.2.7")

    log.rename(tmp_path / "access.log.1")
    # The server looks each second.
    count, deadline = 0, time.monotonic() + 120
    while not log.exists():
        assert time.monotonic() < deadline
        time.sleep(1.1)
        node.get("/?again")
        count += 1
    node.get("/search/?yql=select+*+from+sources+*+where+true&streaming.groupname=nobody&timeout=60s")
    node.stop()
    *again, last = lines(log, 2)
    assert {line["uri"] for line in again} == {"/?again"} and len(again) <= count
    search = {"totalhits": 0, "hits": 0, "coverage": {"coverage": 100, "documents": 0}}
    assert [line.get("search") for line in [*again, last]] == [None] * len(again) + [search]


def test_no_texts_of_queries(tmp_path):
    log = tmp_path / "access.log"
    settings = ["--access-log", log, "--access-log-queries", "false", "--trusted-proxies", "192.0.2.0/24", "--app", APP]
    node = Node(tmp_path / "data", *free_ports(2), *settings)
    urllib.request.urlopen(urllib.request.Request(f"{node.data}/?secret", headers={"X-Forwarded-For": "192.0.2.7"})).read()
    [line] = lines(log, 1)
    node.stop()
    assert line["uri"] == "/" and "secret" not in log.read_text()
    assert "remoteaddr" not in line, "this machine is not among the proxies"
    assert log.stat().st_mode & 0o077 == 0


def test_requests_of_shippers_are_logged_on_both_ports(tmp_path):
    log = tmp_path / "access.log"
    port, config, elastic = free_ports(3)
    node = Node(tmp_path / "data", port, config, "--access-log", log, "--elastic-port", str(elastic))
    for uri in (f":{port}/v1/logs", f":{elastic}/v1/logs", f":{port}/elastic/v1/logs"):
        request = urllib.request.Request(f"http://127.0.0.1{uri}", b"{}", {"content-type": "application/json"})
        assert urllib.request.urlopen(request).read() == b"{}"
    urllib.request.urlopen(f"http://127.0.0.1:{elastic}/_cat/indices").read()
    logged = lines(log, 4)
    node.stop()
    expected = [("POST", "/v1/logs"), ("POST", "/v1/logs"), ("POST", "/elastic/v1/logs"), ("GET", "/_cat/indices")]
    assert [(line["method"], line["uri"]) for line in logged] == expected
    assert {line["code"] for line in logged} == {200}
    assert [line["localport"] for line in logged] == [port, elastic, port, elastic]
