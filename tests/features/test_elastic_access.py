"""The interfaces of Elasticsearch for a caller of one group: no request shows or changes documents of others.

The matrix is made of all routes, parameters and members that the sources list (crates/elastic/src), in all places where
a request names an index, a routing value, an id, an alias or a scroll.
"""

import itertools
import json
import re
import subprocess
import time
import urllib.error
import urllib.parse
import urllib.request

import pytest

from node import ROOT, Node, binary, free_ports
from packages import call, deploy, services

SCHEMA = """schema note {
    document note {
        field title type string { indexing: summary | index }
        field stars type int { indexing: summary | attribute }
    }
    fieldset default { fields: title }
}"""
SOURCES = ROOT / "crates/elastic/src"
OWN, OTHERS = "annsword", "bobsword"
# The value of a field of others, and how many documents the group of one of them has: no answer has either number.
STARS, COUNT = 7777, 613
SHOWN_STARS = re.compile(rb"(?<![\d.])%d(?:\.0+)?(?![\d.])" % STARS)
# Numbers of documents in answers of all forms.
COUNTED = re.compile(rb'\b(?:count|doc_count|value|total)"?\s*:\s*(\d+)')
# What a request can name: indexes (a type, one of the door, an alias, a data stream, all), and routing values.
INDEXES = ["note", "kept", "kept-alias", "note-alias", "logs-x-default", "*", "_all", "note,kept", "-note,*", "nosuch", "<kept>"]
VALUES = ["bob", "ann,bob", "7", "", "kept", "*", "true", "1"]
# Parts of the names of parameters that could choose documents; the others get two values.
CHOOSING = ["rout", "scroll", "source", "pipeline", "pref", "type", "wild", "field", "index", "alias", "group"]
LIST = re.compile(r"const [A-Z_]+: &\[&str\] =\s*&\[(.*?)\];", re.S)


def routes() -> list[tuple[str, str]]:
    """Methods and paths of the table of routes."""
    text = (SOURCES / "routes.rs").read_text(encoding="utf-8")
    found = re.findall(r'^    route\("([A-Z ]+)", "([^"]*)",', text, re.M)
    assert len(found) > 90
    return [(method, path) for methods, path in found for method in methods.split()]


def parameters() -> list[str]:
    """Names of all parameters."""
    text = (SOURCES / "parameters.rs").read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    of_lists = [*LIST.findall(text), *re.findall(r"&\[(\"[^\]]*)\]", text)]
    names = {name for group in of_lists for name in re.findall(r'"([a-z_]+)"', group)}
    assert len(names) > 90 and {"routing", "scroll_id", "q", "filter_path", "source", "pipeline"} <= names
    return sorted(names)


def queries() -> list[str]:
    """Names of all kinds of queries, those that are refused too."""
    text = (SOURCES / "query_members.rs").read_text(encoding="utf-8").split("#[cfg(test)]")[0]
    names = set(re.findall(r'\(\s*"([a-z_]+)",\s*&\[', text)) | {"terms", "more_like_this", "percolate", "geo_shape", "has_parent"}
    assert len(names) > 20 and {"match", "query_string", "nested"} <= names
    return sorted(names)


def shows_numbers(answer: bytes) -> bool:
    """True if an answer has the field of others, or counts as many documents as one of them has."""
    return bool(SHOWN_STARS.search(answer)) or any(int(count) >= COUNT for count in COUNTED.findall(answer))


class Door:
    """A server that requires credentials, and its door."""

    def __init__(self, node: Node, data_dir):
        self.node, self.data_dir, self.count = node, data_dir, 0

    def key(self, name: str, *arguments: str) -> str:
        command = [binary(), "token", "create", "--data-dir", self.data_dir, name, *arguments]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    def ask(self, token: str, method: str, path: str, body=None) -> tuple[int, bytes]:
        """The status and the body of an answer."""
        self.count += 1
        kind = "application/x-ndjson" if isinstance(body, bytes) else "application/json"
        data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
        headers = {"content-type": kind, "authorization": f"Bearer {token}"}
        request = urllib.request.Request(f"{self.node.data}/{path}", data, headers, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, response.read()
        except urllib.error.HTTPError as error:
            return error.code, error.read()

    def as_ann(self, method: str, path: str, body=None) -> tuple[int, bytes]:
        """The answer to the caller of one group, which shows nothing of others."""
        status, answer = self.ask(self.ann, method, f"elastic/{path}", body)
        assert OTHERS.encode() not in answer, (method, path, body, answer)
        assert not shows_numbers(answer), (method, path, body, answer)
        assert status < 500, (method, path, body, answer)
        return status, answer


@pytest.fixture(scope="module")
def door(tmp_path_factory):
    data_dir = tmp_path_factory.mktemp("elastic-access") / "data"
    node = Node(data_dir, *free_ports(2))
    assert deploy(node, {"services.xml": services("note"), "schemas/note.sd": SCHEMA})[0] == 200
    for place, title in {"group/ann": OWN, "group/bob": OTHERS, "number/7": OTHERS, "group/Ann": OTHERS}.items():
        fields = {"title": title, "stars": 1 if title == OWN else STARS}
        assert call("POST", f"{node.data}/document/v1/note/note/{place}/1", {"fields": fields})[0] == 200
    door = Door(node, data_dir)
    door.all = door.key("all", "--read", "--write", "--deploy", "--admin")
    door.ann = door.key("ann", "--read", "--write", "--group", "ann")
    # The server looks at the file each second.
    deadline = time.monotonic() + 120
    while door.ask("", "GET", "elastic/")[0] != 401 or door.ask(door.ann, "GET", "elastic/")[0] != 200:
        assert time.monotonic() < deadline
        time.sleep(0.05)
    source = json.dumps({"title": OTHERS, "stars": STARS})
    more = "".join(f'{{"index":{{"_id":"more-{number}"}}}}\n{source}\n' for number in range(1, COUNT))
    for method, path, body in [
        ("PUT", "kept/_doc/1", {"title": OTHERS, "stars": STARS}),
        ("PUT", "kept/_doc/bob?routing=bob", {"title": OTHERS}),
        ("PUT", "kept/_alias/kept-alias", None),
        ("PUT", "_index_template/logs", {"index_patterns": ["logs-*"], "data_stream": {},
                                         "template": {"settings": {"index.mode": "logsdb"}}}),
        ("POST", "logs-x-default/_doc", {"@timestamp": "2026-01-01T00:00:00Z", "title": OTHERS, "stars": STARS}),
        ("POST", "note/_bulk?routing=bob", more.encode()),
    ]:
        status, answer = door.ask(door.all, method, f"elastic/{path}", body)
        assert status in (200, 201) and b'"errors":true' not in answer, (path, answer)
    yield door
    node.stop()


@pytest.fixture(autouse=True)
def unchanged(door):
    """Checks after each test that the documents of others are as they were."""
    yield
    for place in ["group/bob", "number/7", "group/Ann"]:
        status, answer = door.ask(door.all, "GET", f"document/v1/note/note/{place}/1")
        assert status == 200 and OTHERS.encode() in answer, place
    for path in ["kept/_doc/1", "kept/_doc/bob?routing=bob", "_alias/kept-alias", "_data_stream/logs-x-default"]:
        status, answer = door.ask(door.all, "GET", f"elastic/{path}")
        assert status == 200, (path, answer)
    status, answer = door.ask(door.all, "POST", "elastic/logs-x-default,kept/_count")
    assert json.loads(answer)["count"] == 3
    others, page = [], {"continuation": ""}
    while "continuation" in page:
        place = urllib.parse.urlencode({"cluster": "c", "wantedDocumentCount": 1024} | ({"continuation": page["continuation"]} if page["continuation"] else {}))
        status, answer = door.ask(door.all, "GET", f"document/v1/?{place}")
        page = json.loads(answer)
        others += [document for document in page["documents"] if "g=ann" not in document["id"]]
    assert len(others) == COUNT + 2, others
    assert all(document["fields"] == {"title": OTHERS, "stars": STARS} for document in others), others


def path_of(path: str, index: str, name: str) -> str:
    return path.replace("INDEX", urllib.parse.quote(index, safe="")).replace("NAME", name).replace("...", "stats")


def test_all_routes_and_names(door):
    began, seen = door.count, {}
    for (method, path), index in itertools.product(routes(), INDEXES):
        if "INDEX" not in path and index != INDEXES[0]:
            continue
        for name in ["1", "bob", "kept", "kept-alias", "logs-x-default"]:
            if "NAME" not in path and name != "1":
                continue
            for body in [None, {"title": "taken"}, {"doc": {"title": "taken"}}]:
                status, _ = door.as_ann(method, path_of(path, index, name), body if method in ("POST", "PUT") else None)
                seen[status] = seen.get(status, 0) + 1
                if method not in ("POST", "PUT"):
                    break
    print(f"{door.count - began} requests, by status: {seen}")
    assert seen[403] > 200 and seen[200] > 50, "the requests do not reach documents"


def test_all_parameters(door):
    """Each parameter with each value, where documents are read and written, in the path of each index."""
    began, shown = door.count, 0
    targets = [("GET", "_search"), ("GET", "_count"), ("GET", "_doc/1"), ("GET", "_source/1"), ("POST", "_mget"),
               ("POST", "_msearch"), ("POST", "_bulk"), ("POST", "_update/1"), ("PUT", "_doc/bob"), ("GET", "_mapping"),
               ("GET", "_field_caps")]
    bodies = {"_mget": {"ids": ["1"]}, "_msearch": b"{}\n{}\n", "_bulk": b'{"index":{"_id":"1"}}\n{"title":"taken"}\n',
              "_update/1": {"doc": {"title": OWN}, "_source": True}, "_doc/bob": {"title": "taken"}}
    for name, value, index in itertools.product(parameters(), VALUES, ["note", "kept", "*"]):
        if value not in VALUES[:2] and name not in ("q", "df") and not any(part in name for part in CHOOSING):
            continue
        for method, operation in targets:
            body = bodies.get(operation)
            query = urllib.parse.urlencode({name: value})
            if operation == "_bulk" or operation == "_doc/bob":
                query += "&routing=ann" if name != "routing" else ""
            _, answer = door.as_ann(method, f"{path_of('INDEX', index, '')}/{operation}?{query}", body)
            shown += OWN.encode() in answer
    print(f"{door.count - began} requests: {shown} show documents of the group")
    assert shown > 100, "the requests do not reach documents"


def clauses() -> list[dict]:
    """Queries of all kinds that name others by their groups, ids, indexes and words."""
    found = [{"match_all": {}}]
    for kind, field, value in itertools.product(queries(), ["_routing", "_id", "_index", "title"], ["bob", "1", "kept", OTHERS]):
        found += [{kind: {field: value}}, {kind: {field: [value]}}, {kind: {"query": value, "fields": [field]}},
                  {kind: {field: {"value": value}}}, {kind: {"values": [value]}}]
    for index, routing in itertools.product(["note", "kept", "kept-alias"], [None, "bob", "7"]):
        place = {"index": index, "id": "1", "path": "title"} | ({"routing": routing} if routing else {})
        found += [{"terms": {"title": place}}, {"percolate": {"field": "q", "document_type": "note", **place}},
                  {"geo_shape": {"title": {"indexed_shape": place}}},
                  {"more_like_this": {"fields": ["title"], "like": [{"_index": index, "_id": "1", "routing": routing}]}}]
    return found


def test_all_queries(door):
    began, shown = door.count, 0
    for clause, path in itertools.product(clauses(), ["note/_search", "_search"]):
        for body in [{"query": clause}, {"post_filter": clause}, {"aggs": {"a": {"filter": clause, "aggs": {"h": {"top_hits": {}}}}}}]:
            _, answer = door.as_ann("POST", path, body)
            shown += OWN.encode() in answer
    print(f"{door.count - began} requests: {shown} show documents of the group")
    assert shown > 10, "the requests do not reach documents"


def test_all_aggregations(door):
    """Numbers computed from the documents in reach."""
    kinds = ["avg", "cardinality", "extended_stats", "max", "min", "missing", "percentiles", "stats", "sum", "terms",
             "value_count", "histogram", "range", "global", "top_hits", "rare_terms", "adjacency_matrix"]
    members = {"histogram": {"interval": 1}, "range": {"ranges": [{"from": 0}]}}
    filters = {"adjacency_matrix": {"filters": {"a": {"match_all": {}}}}, "global": {}, "top_hits": {}}
    shown = 0
    for kind, path in itertools.product(kinds, ["note", "*", "kept", "note,kept", "logs-x-default"]):
        for routing in ["", "?routing=bob", "?routing=ann,bob", "?routing=ann"]:
            aggregation = {kind: filters.get(kind, {"field": "stars"} | members.get(kind, {}))}
            status, _ = door.as_ann("POST", f"{path}/_search{routing}", {"size": 0, "aggs": {"a": aggregation}})
            shown += status == 200
    assert shown > 20, "the requests do not reach documents"


def test_all_members_that_name_something(door):
    """Lines of bulks and of many searches, entries of many reads, and members of searches."""
    names = ["index", "_index", "indices", "routing", "_routing", "_id", "id", "alias", "pit", "scroll", "scroll_id", "pipeline",
             "preference", "_parent", "parent", "_type", "type", "group", "require_alias", "_source", "slice", "indices_boost",
             "runtime_mappings", "stored_fields", "docvalue_fields", "search_after", "collapse", "rescore", "suggest", "knn"]
    began = door.count
    values = ["bob", "kept", "*", ["bob"], ["kept", "note"], {"id": "kept"}, None]
    for name, value in itertools.product(names, values):
        named = {name: value}
        for index in [{}, {"_index": "note"}, {"_index": "kept"}]:
            for action in ["index", "create", "update", "delete"]:
                line = json.dumps({action: {"_id": "1", "routing": "ann"} | index | named})
                source = "" if action == "delete" else ('{"doc":{"title":"taken"}}' if action == "update" else '{"title":"annsword"}')
                door.as_ann("POST", "_bulk", f"{line}\n{source}\n".encode())
                door.as_ann("POST", "note/_bulk?_source=true", f"{line}\n{source}\n".encode())
            header = {("index" if key == "_index" else key): given for key, given in index.items()} | named
            door.as_ann("POST", "_msearch", f"{json.dumps(header)}\n{{}}\n".encode())
            door.as_ann("POST", "note/_msearch", f"{json.dumps(header)}\n{json.dumps(named)}\n".encode())
            for path in ["_mget", "note/_mget", "kept/_mget"]:
                door.as_ann("POST", path, {"docs": [{"_id": "1"} | index | named]})
        for path in ["_search", "note/_search", "kept/_search", "note/_count", "note/_update/1", "note/_search?scroll=1m"]:
            door.as_ann("POST", path, named)
    print(f"{door.count - began} requests")


def test_scrolls_of_others(door):
    status, answer = door.ask(door.all, "POST", "elastic/note,kept/_search?scroll=1m&size=1&routing=bob", {})
    assert status == 200, answer
    scroll = json.loads(answer)["_scroll_id"]
    quoted = urllib.parse.quote(scroll, safe="")
    for method, path, body in [
        ("POST", "_search/scroll", {"scroll_id": scroll}), ("GET", f"_search/scroll?scroll_id={quoted}", None),
        ("GET", f"_search/scroll/{quoted}", None), ("POST", "_search/scroll", {"scroll_id": [scroll]}),
        ("DELETE", "_search/scroll", {"scroll_id": scroll}), ("DELETE", f"_search/scroll/{quoted}", None),
        ("DELETE", "_search/scroll/_all", None), ("DELETE", "_search/scroll", {"scroll_id": "_all"}),
    ]:
        door.as_ann(method, path, body)
    status, answer = door.ask(door.all, "POST", "elastic/_search/scroll", {"scroll_id": scroll})
    assert status == 200, "others neither read nor end it"


def test_the_same_requests_show_others_to_their_caller(door):
    for method, path, body in [
        ("POST", "note/_search?routing=bob", {}), ("POST", "kept/_search", {"query": {"match_all": {}}}),
        ("GET", "note/_doc/1?routing=bob", None), ("POST", "_mget", {"docs": [{"_index": "kept", "_id": "1"}]}),
        ("POST", "logs-x-default/_search", {}),
    ]:
        _, answer = door.ask(door.all, method, f"elastic/{path}", body)
        assert OTHERS.encode() in answer, (path, answer)


def test_the_same_requests_show_numbers_of_others_to_their_caller(door):
    aggs = {"aggs": {"a": {"max": {"field": "stars"}}}}
    for method, path, body in [
        ("GET", "note/_count?routing=bob", None), ("POST", "note/_search?routing=bob&size=0&track_total_hits=true", {}),
        ("POST", "note/_search?routing=bob&size=0", aggs), ("POST", "note/_search?routing=n%3D7&size=0", aggs),
        ("GET", "note/_doc/1?routing=bob", None), ("POST", "kept/_search", {}), ("POST", "logs-x-default/_search", {}),
    ]:
        status, answer = door.ask(door.all, method, f"elastic/{path}", body)
        assert status == 200 and shows_numbers(answer), (path, answer)
