"""Which documents sources, search chains and selections lead to."""

import pytest

from node import Node, free_ports
from packages import call, deploy, search

SERVICES = """<services version="1.0">
<container id="default" version="1.0"><search>
<provider id="letters" type="local" cluster="mails"/>
<chain id="mine" inherits="vespa"/>
</search><document-api/></container>
<content id="mails" version="1.0"><redundancy>1</redundancy><documents><document type="mail" mode="streaming"/></documents></content>
<content id="notes" version="1.0"><redundancy>1</redundancy><documents><document type="note" mode="streaming"/></documents></content>
</services>"""
SCHEMA = """schema {0} {{ document {0} {{ field text type string {{ indexing: index }} {1} }}
fieldset default {{ fields: text }} {2} }}"""
CASES = [
    ({}, ["mail", "note"]),
    ({"sources": "letters"}, ["mail"]),
    ({"sources": "notes,letters"}, ["mail", "note"]),
    ({"restrict": "note"}, ["note"]),
    ({"searchChain": "mine"}, ["mail", "note"]),
    ({"searchChain": "letters"}, ["mail"]),
    ({"searchChain": "notes"}, ["note"]),
    ({"searchChain": "notes", "sources": "letters"}, ["mail"]),
    ({"searchChain": "letters", "yql": "select * from sources * where text contains 'word'"}, ["mail"]),
    ({"searchChain": "mails"}, "no search chain 'mails'"),
    ({"streaming.selection": "mail"}, ["mail"]),
    ({"streaming.selection": 'note.text = "w*" or mail.text == "other"'}, ["note"]),
    ({"streaming.selection": "mail.text", "restrict": "note"}, []),
    ({"streaming.selection": "mail.nosuch > 1", "restrict": "note"}, "document type 'mail' has no field 'nosuch'"),
    # What a query names, one of its schemas has.
    ({"ranking": "own", "restrict": "note"}, "schema 'note' has no rank profile 'own'"),
    ({"ranking": "none"}, "has no rank profile 'none'"),
    ({"ranking": "own", "restrict": "mail"}, ["mail"]),
    ({"sources": "mails"}, "Could not resolve source ref 'mails'. Valid source refs are letters, mail, note, notes."),
]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("sources") / "data", *free_ports(2))
    own = {
        "mail": (
            "field size type int { indexing: attribute }",
            "rank-profile own { } document-summary own { summary text { } }",
        ),
        "note": ("", "document-summary brief { summary text { } }"),
    }
    schemas = {f"schemas/{name}.sd": SCHEMA.format(name, *parts) for name, parts in own.items()}
    status, answer = deploy(node, {"services.xml": SERVICES} | schemas)
    assert status == 200, answer
    for name in ("mail", "note"):
        document = {"fields": {"text": "word"} | ({"size": 5} if name == "mail" else {})}
        assert call("POST", f"{node.data}/document/v1/n/{name}/group/me/{name}", document)[0] == 200
    yield node
    node.stop()


@pytest.mark.parametrize("parameters, expected", CASES)
def test_sources(node, parameters, expected):
    if "streaming.selection" in parameters:
        parameters = {"streaming.groupname": None} | parameters
    root = search(node, **({"query": "word"} | parameters))
    if isinstance(expected, str):
        assert expected in root["errors"][0]["message"]
    else:
        assert "errors" not in root
        assert sorted(hit["id"].rsplit(":", 1)[-1] for hit in root.get("children", [])) == expected


@pytest.mark.parametrize(
    "order, expected",
    [
        ("size", ["note", "mail"]),
        ("size desc", ["mail", "note"]),
        ("missing(size, first) desc", ["note", "mail"]),
        ("missing(size, last)", ["mail", "note"]),
        # What only some schemas have is a key like any other.
        ('size desc, "[docid]"', ["mail", "note"]),
        ('"[source]", size desc', ["mail", "note"]),
    ],
)
def test_orders_by_a_field_of_one_schema(node, order, expected):
    root = search(node, yql=f"select * from sources * where true order by {order}")
    assert [hit["id"].rsplit(":", 1)[-1] for hit in root["children"]] == expected


def test_a_rank_profile_of_one_schema(node):
    for also in ({}, {"summary": "own"}):
        root = search(node, query="word", ranking="own", **also)
        assert [hit["id"].rsplit(":", 1)[-1] for hit in root["children"]] == ["mail"] or also
        assert [hit["fields"]["text"] for hit in root["children"]] == ["word"] or not also
        [error] = root["errors"]
        assert (error["source"], error["code"]) == ("note", 4) and "lacks the rank profile" in error["message"]


def test_a_document_summary_of_one_schema(node):
    # Conditions may name what only the schema has that is left out.
    for yql in ["select * from sources * where text contains 'word'", "select * from sources * where text contains 'word' or size = 1"]:
        root = search(node, yql=yql, summary="own")
        assert [hit["fields"]["text"] for hit in root["children"]] == ["word"]
        [error] = root["errors"]
        assert error["source"] == "note" and "lacks the document summary" in error["message"]
    root = search(node, yql="select * from sources * where size = 5", summary="brief")
    assert root["errors"][0]["source"] == "mail"
