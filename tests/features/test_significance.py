"""How rare words are: by the group's own documents, by a model of a large collection, or as the query says."""

import json
import math

import pytest

from node import Node, free_ports
from packages import call, deploy, search, services

SCHEMA = """schema page {
    document page {
        field text type string { indexing: summary | index }
    }
    fieldset default { fields: text }
    rank-profile default {
        first-phase { expression: 1 }
        summary-features { term(0).significance bm25(text) }
    }
    rank-profile modelled inherits default {
        significance { use-model: true }
    }
}"""


def model(**languages) -> str:
    entry = lambda words: {"document-count": 1000, "document-frequencies": words}
    return json.dumps({"version": 1, "id": "m", "languages": {tag: entry(words) for tag, words in languages.items()}})


MODELS = '<search><significance><model path="models/en.json"/><model path="models/more.json"/></significance></search>'
PACKAGE = {
    "services.xml": services("page").replace("<search/>", MODELS),
    "schemas/page.sd": SCHEMA,
    "models/en.json": model(en={"the": 900, "fox": 10}, no={"reven": 900}),
    "models/more.json": model(no={"reven": 1}),
}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("significance") / "data", *free_ports(2))
    status, answer = deploy(node, PACKAGE)
    assert status == 200 and not answer["log"], answer
    for name, text in {"a": "the fox", "b": "the reven", "c": "the end"}.items():
        call("POST", f"{node.data}/document/v1/n/page/group/me/{name}", {"fields": {"text": text}})
    yield node
    node.stop()


def significance(share: float) -> float:
    return 0.5 + 0.5 * math.log(share) / math.log(0.000_001)


ASKED = [
    # By the group: one of three documents has it.
    ("fox", {}, significance(1 / 3)),
    ("the", {}, significance(1)),
    # By the model, which has it in ten of a thousand; a word that it lacks counts as one of a single document.
    ("fox", {"ranking": "modelled"}, significance(0.01)),
    ("Fox", {"ranking.significance.useModel": True}, significance(0.01)),
    ("the", {"ranking": "modelled"}, significance(0.9)),
    ("end", {"ranking": "modelled"}, significance(0.001)),
    ("fox", {"ranking": "modelled", "ranking.significance.useModel": False}, significance(1 / 3)),
    # By the query's language, the last model first.
    ("reven", {"ranking": "modelled", "language": "no"}, significance(0.001)),
    # Of alternatives, the rarest word counts; by the group they are as rare as their documents.
    ('alternatives({"fox": 1.0, "the": 0.5})', {"ranking": "modelled"}, significance(0.01)),
    ('alternatives({"the": 1.0, "End": 0.5})', {"ranking": "modelled"}, significance(0.001)),
    # A word of a language without a model: by that of the query.
    ('({language: "sv"}"fox")', {"ranking": "modelled"}, significance(0.01)),
    ('({language: "no"}"reven")', {"ranking": "modelled", "language": "en"}, significance(0.001)),
    # As the query says.
    ('({significance: 0.25}"fox")', {"ranking": "modelled"}, 0.25),
    ("fox", {"rankproperty.vespa.term.1.significance": 0.75}, 0.75),
    ("fox", {"ranking.properties.vespa.term.1.significance": 0.75, "ranking": "modelled"}, 0.75),
    ("fox", {"rankproperty.vespa.term.2.significance": 0.75}, significance(1 / 3)),
    ('({documentFrequency: {frequency: 5, count: 10}}"fox")', {"ranking": "modelled"}, significance(0.5)),
]


@pytest.mark.parametrize("word, asked, expected", ASKED)
def test_significance(node, word, asked, expected):
    word = word if "(" in word else f'"{word}"'
    [hit] = search(node, yql=f"select * from page where text contains {word} limit 1", **asked)["children"]
    assert hit["fields"]["summaryfeatures"]["term(0).significance"] == pytest.approx(expected)


def test_models_count_for_bm25(node):
    def bm25(**asked):
        [hit] = search(node, yql='select * from page where text contains "fox"', **asked)["children"]
        return hit["fields"]["summaryfeatures"]["bm25(text)"]

    assert bm25(ranking="modelled") > bm25() > 0


def test_a_language_without_model_is_refused(node):
    root = search(node, yql='select * from page where text contains "x"', ranking="modelled", language="fi")
    assert root["errors"][0]["message"] == "no significance model has the language 'fi'; there are en, no"
