"""Every answer to what is wrong, as people read it: tables of inputs in `errors/`, each with its message below it.

With BLESS=1 the messages are written into the tables instead of being compared: read the difference.
"""

import json
import os
import pathlib
import subprocess

import pytest

from node import Node, binary, free_ports
from packages import archive, call, deploy, services

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
    # Some of the packages are accepted: the next tests are about the first one.
    status, told = deploy(server, {"services.xml": SERVICES, "schemas/s.sd": schema()})
    assert status == 200, told


PARTS = {"services.xml": SERVICES, "schemas/s.sd": schema()}
EMBEDDER = '<component id="e" type="hugging-face-embedder"><transformer-model path="m.onnx"/><tokenizer-model path="t.json"/></component>'


@pytest.mark.parametrize("files, told", [
    # Files beside each other: of each the first that is wrong, in their order.
    ({
        "rules/a.sr": "a - b;",
        "rules/b.sr": "[c] -> d;",
        "schemas/s.sd": schema(score="nosuch"),
        "schemas/t.sd": "schema t { document t { field x typ int {} } }",
        "search/query-profiles/a.xml": "<query-profile id='a' inherits='b'/>",
        "services.xml": CONTAINER.format("<handler id='h'/>").replace("<redundancy>1", "<redundancy>one"),
    }, [
        "rules/a.sr:1:3: Could not parse rule 'a': expected a condition, '->' or '+>', found '-'",
        "rules/b.sr:1:1: no condition [c]: define it with '[c] :- …;' here or in an included rule base",
        "schemas/s.sd:35:27: rank profile p: no rank feature, function or constant 'nosuch'",
        "schemas/t.sd:1:33: expected 'type' and the type of the field: field x type string { … }, found 'typ'",
        "search/query-profiles/a.xml:1:1: query profile 'a' uses 'b', which is not declared (did you mean 'a'?)",
        "services.xml:2:39: handler 'h': Java components do not run here: remove it, and do its work in the client",
        "services.xml:3:31: 'one' in <redundancy> is not a number that it can hold",
    ]),
    # Fields, statements and rank profiles of a schema, but not those that name the field that is broken.
    ({"schemas/s.sd": schema(
        document="field x type nosuch { indexing: attribute }",
        statement="field a type string { indexing: input x | index }\nfield b type string { indexing: input y | index }\n"
                  "field c type int { indexing: input title | attribute }",
        score="attribute(x) + nosuch",
        beside="""rank-profile q { function f() { expression: attribute(y) }
function g() { expression: 1 + }
first-phase { expression: f }
second-phase { expression: g + nosuch }
match-features: attribute(z) f }
rank-profile r inherits q { match-features: f }
rank-profile s { rank-properties { bm25(title).k1: big }
first-phase { expression: bm25(title) }
second-phase { expression: 1 + bm25(title) } }""",
    )}, [
        "schemas/s.sd:27:14: unknown type 'nosuch': use a type such as string, int, long, double, tensor(…), array<…>, or declare 'struct nosuch' in the document",
        "schemas/s.sd:30:33: field 'b': indexing: schema 's' has no field 'y'",
        "schemas/s.sd:31:44: field 'c': indexing: a string cannot be written to 'c', which is a int; convert it with to_int",
        "schemas/s.sd:32:45: rank profile q: attribute(y): schema s has no field 'y'",
        "schemas/s.sd:33:31: rank profile q: expected a number, a name, a quoted string or '(', found the end",
        "schemas/s.sd:36:17: rank profile q: attribute(z): schema s has no field 'z'",
        "schemas/s.sd:39:27: rank profile s: rank property bm25(title).k1 must be a number, found 'big'",
    ]),
    # How a field is searched, where its statements do not say it.
    ({"schemas/s.sd": schema(statement="field a type string { indexing: input title | indx }", score="bm25(a)")},
     ["schemas/s.sd:29:47: field 'a': indexing: unknown expression 'indx'; "]),
    # Constants' data and models, each once, however many use them.
    ({
        "constants/c.json": "[1, 2, 3]",
        "models/m.onnx": "no model",
        "models/t.json": "no trees",
        "schemas/s.sd": schema(score="sum(constant(c))", beside="""constant c { type: tensor(x[2])
file: constants/c.json }
onnx-model m { file: models/m.onnx }
rank-profile q { first-phase { expression: sum(onnx(m)) } second-phase { expression: xgboost("t.json") } }
rank-profile r { first-phase { expression: xgboost("t.json") } second-phase { expression: sum(onnx(m)) } }"""),
        "services.xml": CONTAINER.format("<search/><document-api/><model-evaluation/>" + EMBEDDER),
    }, [
        "constants/c.json:1:1: constant(c) tensor(x[2]): tensor value for tensor(x[2]): expected 2 cells, got 3 (at character 10)",
        "schemas/s.sd:33:48: rank profile q: onnx(m): models/m.onnx: ",
        "schemas/s.sd:33:86: rank profile q: models/t.json: it is not JSON: ",
        "services.xml:2:82: embedder 'e': the package has no file 'm.onnx'",
    ]),
    # What calls an embedder that is not known, for its own mistake or for another in its place.
    ({
        "schemas/s.sd": schema(statement="field a type tensor<float>(x[2]) { indexing: input title | embed e | attribute }"),
        "services.xml": CONTAINER.format(EMBEDDER.replace("hugging-face-embedder", "nosuch")),
    }, ["services.xml:2:39: unknown component type 'nosuch': expected 'hugging-face-embedder',"]),
    ({
        "schemas/s.sd": schema(statement="field a type tensor<float>(x[2]) { indexing: input title | embed e | attribute }"),
        "services.xml": CONTAINER.format(EMBEDDER),
    }, ["services.xml:2:39: embedder 'e': the package has no file 'm.onnx'"]),
    # Selections, where a field that one is about is broken and another has none.
    ({
        "schemas/s.sd": schema(document="field x type nosuch {}"),
        "schemas/t.sd": "schema t { document t { } }",
        "services.xml": services("s", "t").replace('"s"', '"s" selection="s.x == 1"').replace('"t"', '"t" selection="t.y == 1"'),
    }, [
        "schemas/s.sd:27:14: unknown type 'nosuch': ",
        "services.xml: selection of 't': selection 't.y == 1': document type 't' has no field 'y'",
    ]),
    # Changes that need a permission, and a mistake.
    ({
        "schemas/s.sd": schema(score="nosuch").replace("year type int", "year type string").replace("seen type bool", "seen type string"),
    }, [
        "Document type 's': Field 'seen' changed: data type: 'bool' -> 'string'; ",
        "Document type 's': Field 'year' changed: data type: 'int' -> 'string'; ",
        "schemas/s.sd:35:27: rank profile p: no rank feature, function or constant 'nosuch'",
    ]),
])
def test_packages_with_several_mistakes(server, files, told):
    status, answer = deploy(server, PARTS | files)
    lines = answer["message"].split("\n")
    assert (status, answer["error-code"]) == (400, "INVALID_APPLICATION_PACKAGE")
    assert len(lines) == len(told) and all(line.startswith(start) for line, start in zip(lines, told)), answer["message"]


def test_only_so_many_mistakes_are_told(server):
    fields = "\n".join(f"field f{at} type int {{ bolding: on }}" for at in range(25))
    _, answer = deploy(server, PARTS | {"schemas/s.sd": schema(document=fields)})
    lines = answer["message"].split("\n")
    assert lines[19].startswith("schemas/s.sd:46:22: bolding is for strings") and lines[20:] == ["and 5 more"]


def test_several_mistakes_are_told_in_every_way_that_reads_packages(server, tmp_path):
    files = PARTS | {"schemas/s.sd": schema(score="nosuch", document="field x type nosuch {}")}
    _, told = deploy(server, files)
    assert told["message"].count("\n") == 1
    sessions = f"{server.config}/application/v2/tenant/default/session"
    status, session = call("POST", sessions, archive(files), "application/zip")
    assert status == 200
    prepared = f"{sessions}/{session['session-id']}/prepared"
    assert call("PUT", prepared) == (400, told)
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    run = lambda *arguments: subprocess.run([binary(), *arguments], capture_output=True, text=True, timeout=60).stderr
    assert told["message"] in run("deploy", "--config-url", server.config, tmp_path)
    ports = ["--port", "0", "--config-port", "0"]
    assert told["message"] in run("serve", "--app", tmp_path, "--data-dir", tmp_path / "data", *ports)


def test_queries(server):
    assert deploy(server, PARTS)[0] == 200

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
        return f"{errors[0]['code']} {errors[0]['message']}" if status == 400 else f"{status} {errors}"

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
