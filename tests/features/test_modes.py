"""Packages for an index, whose documents have no groups; and packages that ask for ranking as in Vespa's streaming search."""

import urllib.error
import urllib.request

import pytest

from node import Node, free_ports
from packages import QUERY_TIMEOUT, call, deploy, services

SCHEMA = """schema note {
    document note {
        field title type string {
            indexing: summary | index
            index: enable-bm25
        }
        field number type int { indexing: summary | attribute }
    }
    fieldset default { fields: title }
    rank-profile words { first-phase { expression: bm25(title) } }
    rank-profile phases {
        first-phase { expression: attribute(number) }
        second-phase {
            expression: 100 - attribute(number)
            rerank-count: 1
        }
    }
}"""

NOTES = {"a": {"title": "meeting", "number": 1}, "b": {"title": "long meetings about meetings", "number": 2},
         "d": {"title": "meeting one two three", "number": 0}}


def start(directory, files):
    """A node with a package, and the messages of the deployment."""
    node = Node(directory / "data", *free_ports(2))
    status, answer = deploy(node, files)
    assert status == 200, answer
    return node, [line["message"] for line in answer.get("log", [])]


def ask(node, condition, **parameters):
    """Names and scores of the hits, in order."""
    asked = {"yql": f"select * from sources * where {condition}", "timeout": QUERY_TIMEOUT}
    asked |= {name.replace("__", "."): value for name, value in parameters.items()}
    status, answer = call("POST", f"{node.data}/search/", asked)
    assert status == 200, answer
    return {hit["id"].rsplit(":", 1)[-1]: hit["relevance"] for hit in answer["root"].get("children", [])}


@pytest.fixture(scope="module")
def indexed(tmp_path_factory):
    files = {"services.xml": services("note").replace("streaming", "index"), "schemas/note.sd": SCHEMA}
    node, messages = start(tmp_path_factory.mktemp("indexed"), files)
    for name, fields in NOTES.items():
        assert call("POST", f"{node.data}/document/v1/n/note/docid/{name}", {"fields": fields})[0] == 200
    assert call("POST", f"{node.data}/document/v1/n/note/group/me/c", {"fields": {"title": "my meeting"}})[0] == 200
    yield node, messages
    node.stop()


REQUESTS = [
    ({}, "abcd"),
    ({"streaming.groupname": "me"}, "c"),
    ({"query": "meeting", "yql": "select * from note where userQuery()"}, "abcd"),
    ({"model.restrict": "note"}, "abcd"),
    ({"sources": "c"}, "abcd"),
    ({"ranking": "words"}, "abcd"),
]


@pytest.mark.parametrize("parameters, expected", REQUESTS)
def test_queries_without_a_group_search_everything(indexed, parameters, expected):
    parameters = {name.replace(".", "__"): value for name, value in parameters.items()}
    assert "".join(sorted(ask(indexed[0], "true", **parameters))) == expected


def test_a_deployment_tells_what_groups_would_bring(indexed):
    assert any("no index is kept" in message and "streaming.groupname" in message for message in indexed[1])


PATHS = [
    ("config", "/ApplicationStatus", "GET", 200),
    ("config", "/ApplicationStatus", "HEAD", 200),
    ("data", "/ApplicationStatus", "GET", 200),
    ("data", "/model-evaluation/v1/", "GET", 404),
    ("data", "/state/v1/health", "GET", 200),
]


@pytest.mark.parametrize("port, path, method, expected", PATHS)
def test_pages_of_a_container(indexed, port, path, method, expected):
    address = getattr(indexed[0], port) + path
    try:
        with urllib.request.urlopen(urllib.request.Request(address, method=method), timeout=10) as response:
            status = response.status
    except urllib.error.HTTPError as error:
        status = error.code
    assert status == expected


@pytest.fixture(scope="module", params=["documented", "vespa-streaming"])
def ranked(request, tmp_path_factory):
    files = {"services.xml": services("note"), "schemas/note.sd": SCHEMA,
             "millrace-package.toml": f'search-like = "{request.param}"\n'}
    node, _ = start(tmp_path_factory.mktemp("ranked"), files)
    for name, fields in NOTES.items():
        assert call("POST", f"{node.data}/document/v1/n/note/group/me/{name}", {"fields": fields})[0] == 200
    yield request.param, node
    node.stop()


# The condition, the profile, and the hits as documented and as streaming search elsewhere has them.
RANKED = [
    ('title contains "meetings"', "words", ["a", "b", "d"], ["b"]),
    ("true", "phases", ["b", "a", "d"], ["d", "a", "b"]),
]


@pytest.mark.parametrize("condition, profile, documented, streaming", RANKED)
def test_a_file_of_the_package_chooses(ranked, condition, profile, documented, streaming):
    like, node = ranked
    hits = ask(node, condition, ranking=profile, streaming__groupname="me")
    expected = {"documented": documented, "vespa-streaming": streaming}[like]
    assert sorted(hits) == sorted(expected)
    if profile == "phases":
        assert list(hits) == expected


def test_lengths_are_those_of_the_group_or_fixed(ranked):
    like, node = ranked
    # The titles have 1, 4 and 4 words, so that their average is 3.
    average = {"documented": 3, "vespa-streaming": 100}[like]
    hits = ask(node, 'title contains "meeting"', ranking="words", streaming__groupname="me")
    expected = (1 + 1.2 * (0.25 + 0.75 * 4 / average)) / (1 + 1.2 * (0.25 + 0.75 * 1 / average))
    assert hits["a"] / hits["d"] == pytest.approx(expected)
