"""Every answer to what is wrong, as people read it: tables of inputs in `errors/`, each with its message below it.

With BLESS=1 the messages are written into the tables instead of being compared: read the difference.
"""

import json
import os
import pathlib

import pytest

from node import Node, free_ports
from packages import call, deploy, services

HERE = pathlib.Path(__file__).parent / "errors"
SERVICES = services("s")
CONTAINER = SERVICES.replace("<search/><document-api/>", "{}")
CONTENT = SERVICES.replace('<redundancy>1</redundancy><documents><document type="s" mode="streaming"/></documents>', "{}")
SCHEMA = """schema s {
document s {
struct person { field name type string {}
field age type int {} }
field title type string { indexing: summary | index }
field stored type string { indexing: summary }
field folder type string { indexing: summary | attribute }
field year type int { indexing: summary | attribute }
field price type double { indexing: summary | attribute }
field seen type bool { indexing: summary | attribute }
field years type array<int> { indexing: summary | attribute }
field tags type weightedset<string> { indexing: summary | attribute }
field prefs type map<string, string> { indexing: summary
struct-field key { indexing: attribute }
struct-field value { indexing: attribute }
}
field people type array<person> { indexing: summary
struct-field name { indexing: attribute }
struct-field age { indexing: attribute }
}
field place type position { indexing: summary | attribute }
field blob type raw { indexing: summary }
field vec type tensor<float>(x[2]) { indexing: summary | attribute }
field bits type tensor<int8>(x[2]) { indexing: summary | attribute }
field sparse type tensor<float>(tag{}) { indexing: summary | attribute }
field mixed type tensor<float>(k{},x[2]) { indexing: summary | attribute }
DOCUMENT
}
STATEMENT
BESIDE
fieldset default { fields: title }
rank-profile p {
inputs { query(q) tensor<float>(x[2])
query(v) tensor<float>(x[2]) }
first-phase { expression: SCORE }
}
}
"""


def schema(**parts: str) -> str:
    """The schema of the tables, with what is wrong put in its place."""
    text = SCHEMA
    for name in ("DOCUMENT", "STATEMENT", "BESIDE"):
        text = text.replace(name, parts.get(name.lower(), ""))
    return text.replace("SCORE", parts.get("score", "1"))


def package(kind: str, text: str) -> dict[str, str]:
    """The files of a package with one thing wrong."""
    files = {"services.xml": SERVICES, "schemas/s.sd": schema()}
    text = text.replace(" ⏎ ", "\n")
    if kind.startswith("file "):
        return files | {kind.removeprefix("file "): text}
    if kind in ("forest", "boosting"):
        call_of = {"forest": "xgboost", "boosting": "lightgbm"}[kind]
        return files | {"schemas/s.sd": schema(score=f'{call_of}("trees.json")'), "models/trees.json": text}
    if kind == "statement":
        return files | {"schemas/s.sd": schema(statement=f"field made type string {{ indexing {{ {text} }} }}")}
    if kind in ("document", "beside", "score"):
        return files | {"schemas/s.sd": schema(**{kind: text})}
    return files | {"services.xml": {"services": "{}", "container": CONTAINER, "content": CONTENT}[kind].format(text)}


class Table:
    """A file of cases: a line that is an input, and below it `! ` and the message; after a status other than 400, what there is."""

    def __init__(self, path: pathlib.Path):
        self.path = path
        self.lines = path.read_text(encoding="utf-8").splitlines()

    def check(self, answer):
        """Compares all messages, `answer` telling that of an input; all differences are told at once."""
        told, differences = [], []
        for line, below in zip(self.lines, self.lines[1:] + [""]):
            if line.startswith("! "):
                continue
            told.append(line)
            if line and not line.startswith("#"):
                message = "! " + answer(line).replace("\n", " ⏎ ")
                told.append(message)
                if message != below:
                    differences.append(f"{line}\n  expected {below}\n  answered {message}")
        if os.environ.get("BLESS"):
            self.path.write_text("\n".join(told) + "\n", encoding="utf-8")
        else:
            assert not differences, "\n".join(differences)


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("errors") / "data", *free_ports(2))
    status, answer = deploy(node, {"services.xml": SERVICES, "schemas/s.sd": schema()})
    assert status == 200, answer
    yield node
    node.stop()


def test_packages(server):
    def answer(line: str) -> str:
        status, answer = deploy(server, package(*line.split(": ", 1)))
        return answer["message"] if status == 400 else f"{status} {'; '.join(entry['message'] for entry in answer.get('log', []))}"

    Table(HERE / "packages.txt").check(answer)


def test_queries(server):
    def answer(line: str) -> str:
        asked = {"streaming.groupname": "a"}
        if line.startswith("where:"):
            asked |= {"yql": f"select * from s where {line.removeprefix('where:').strip()}"}
        elif line.startswith("yql: "):
            asked |= {"yql": line.removeprefix("yql: ")}
        else:
            given = json.loads(line)
            asked |= {"yql": "select * from s where true"} if not {"query", "select", "wand.field"} & given.keys() else {}
            asked = {name: value for name, value in (asked | given).items() if value is not None}
        status, found = call("POST", f"{server.data}/search/", asked)
        errors = found["root"].get("errors")
        return f"{errors[0]['message']}" if status == 400 else f"{status} {errors}"

    Table(HERE / "queries.txt").check(answer)


def test_documents(server):
    def answer(line: str) -> str:
        method, path, body = (line.split(" ", 2) + ["", ""])[:3]
        status, answer = call(method, f"{server.data}/document/v1/{path}", body.encode() or None)
        return f"{status} {answer.get('message')}" if status != 400 else answer["message"]

    Table(HERE / "documents.txt").check(answer)


@pytest.mark.parametrize("asked, parts", [
    ({"streaming.groupname": None, "streaming.selection": f"s.title == '{'x' * 100_000}"}, ["selection 's.title == 'xxx", "the quotes are not closed"]),
    ({"hits": "9" * 100_000}, ["parameter 'hits': expected a whole number from 0", '999"']),
    ({"yql": f"select * from s where title contains phrase({'a ' * 50_000})"}, ["YQL: line 1, column 47: "]),
])
def test_long_requests_are_not_repeated(server, asked, parts):
    asked = {"streaming.groupname": "a", "query": "word"} | asked
    status, found = call("POST", f"{server.data}/search/", {name: value for name, value in asked.items() if value is not None})
    message = found["root"]["errors"][0]["message"]
    assert status == 400 and len(message) < 1000
    assert all(part in message for part in parts), message
