"""Shippers for Elasticsearch, unchanged, against a node: elasticdump, and rsyslog's output.

ELASTICDUMP names the program elasticdump, RSYSLOGD the program rsyslogd, and RSYSLOG_MODULES the directory of its
modules; without them those of the system are taken. What is not there is passed over.
"""

import json
import os
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))

from node import Node, free_ports  # noqa: E402

ELASTICDUMP = os.environ.get("ELASTICDUMP") or shutil.which("elasticdump")
RSYSLOGD = os.environ.get("RSYSLOGD") or shutil.which("rsyslogd")
MODULES = [
    Path(directory)
    for directory in [os.environ.get("RSYSLOG_MODULES"), "/usr/lib/x86_64-linux-gnu/rsyslog", "/usr/lib64/rsyslog", "/usr/lib/rsyslog"]
    if directory and (Path(directory) / "omelasticsearch.so").exists()
]
COUNT = 2_500
SECONDS = 60


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    port, config, elastic = free_ports(3)
    node = Node(tmp_path_factory.mktemp("shippers") / "data", port, config, "--elastic-port", str(elastic))
    yield f"http://127.0.0.1:{elastic}"
    node.stop()


def ask(url, method, path, body=None, media_type="application/json"):
    data = body if isinstance(body, (bytes, type(None))) else json.dumps(body).encode()
    request = urllib.request.Request(url + path, data, {"content-type": media_type}, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return json.load(answer)


def sources(url, index):
    """The documents of an index by their ids."""
    found = ask(url, "POST", f"/{index}/_search", {"size": 10_000})["hits"]["hits"]
    return {hit["_id"]: hit["_source"] for hit in found}


@pytest.mark.skipif(not ELASTICDUMP, reason="elasticdump is not installed")
def test_elasticdump_copies_an_index_by_a_file(url, tmp_path):
    lines = "".join(
        f'{{"index":{{"_id":"{number}"}}}}\n{{"n":{number},"text":"document {number} of many","o":{{"a":[1,null],"b":"ä"}}}}\n'
        for number in range(COUNT)
    )
    answer = ask(url, "POST", "/dumped/_bulk", lines.encode(), "application/x-ndjson")
    assert not answer["errors"], answer["items"][0]
    file = tmp_path / "dumped.json"
    for source, target in [(f"{url}/dumped", file), (file, f"{url}/restored"), (f"{url}/dumped", f"{url}/copied")]:
        done = subprocess.run(
            [ELASTICDUMP, f"--input={source}", f"--output={target}", "--type=data", "--limit=700"],
            capture_output=True, text=True, timeout=SECONDS,
        )
        assert done.returncode == 0, done.stdout + done.stderr
    expected = sources(url, "dumped")
    assert len(expected) == COUNT
    assert sources(url, "restored") == expected
    assert sources(url, "copied") == expected
    mapping = subprocess.run(
        [ELASTICDUMP, f"--input={url}/dumped", f"--output={url}/empty", "--type=mapping"],
        capture_output=True, text=True, timeout=SECONDS,
    )
    assert mapping.returncode == 0, mapping.stdout + mapping.stderr
    fields = [ask(url, "GET", f"/{index}/_mapping")[index]["mappings"]["properties"] for index in ["dumped", "empty"]]
    assert fields[0] == fields[1]


@pytest.mark.skipif(not (RSYSLOGD and MODULES), reason="rsyslog and its Elasticsearch output are not installed")
def test_rsyslog_ships_lines_to_a_data_stream(url, tmp_path):
    template = {"index_patterns": ["logs-syslog-*"], "data_stream": {}, "template": {"settings": {"index.mode": "logsdb"}}}
    ask(url, "PUT", "/_index_template/syslog", template)
    port = int(url.rsplit(":", 1)[1])
    (udp,) = free_ports(1)
    settings = tmp_path / "rsyslog.conf"
    settings.write_text(f"""
module(load="imudp")
module(load="omelasticsearch")
global(workDirectory="{tmp_path}")
template(name="event" type="list" option.jsonf="on") {{
  property(outname="@timestamp" name="timereported" dateFormat="rfc3339" format="jsonf")
  property(outname="host" name="hostname" format="jsonf")
  property(outname="message" name="msg" format="jsonf")
}}
template(name="id" type="string" string="%uuid%")
input(type="imudp" address="127.0.0.1" port="{udp}" ruleset="ship")
ruleset(name="ship" queue.type="LinkedList" queue.size="100000") {{
  action(type="omelasticsearch" server="127.0.0.1" serverport="{port}" template="event" searchIndex="logs-syslog-default"
         bulkmode="on" writeoperation="create" bulkid="id" dynbulkid="on" searchType="" errorfile="{tmp_path}/errors.json"
         action.resumeretrycount="-1" queue.dequeuebatchsize="100")
}}
""", encoding="utf-8")
    process = subprocess.Popen(
        [RSYSLOGD, "-n", "-f", settings, "-i", tmp_path / "pid", "-M", MODULES[0]],
        stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )
    try:
        count, deadline = 0, time.monotonic() + SECONDS
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            number = 0
            while count < COUNT:
                assert process.poll() is None, "rsyslogd ended"
                assert time.monotonic() < deadline, f"{count} lines of {number} have arrived"
                # Datagrams may be lost, those before the port is open too: more are sent until enough have arrived.
                for _ in range(100):
                    sender.sendto(f"<13>Oct 11 22:14:15 host app: line {number} of many".encode(), ("127.0.0.1", udp))
                    number += 1
                time.sleep(0.1)
                try:
                    count = ask(url, "GET", "/logs-syslog-default/_count")["count"]
                except urllib.error.HTTPError as error:
                    assert error.code == 404, error
    finally:
        process.terminate()
        process.wait(SECONDS)
    errors = tmp_path / "errors.json"
    assert not errors.exists() or not errors.read_text(encoding="utf-8")
    found = ask(url, "POST", "/logs-syslog-default/_search", {"size": 10_000, "query": {"match": {"message": "line"}}})
    lines = [hit["_source"]["message"].strip() for hit in found["hits"]["hits"]]
    assert len(lines) == len(set(lines)) >= COUNT
