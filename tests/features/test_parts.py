"""Parts of structs and maps as attributes in ranking: wherever a field with several values can be used."""

import pytest

from node import Node, free_ports
from packages import call, deploy, search, services

SCHEMA = """schema file {
    document file {
        struct chunk {
            field number type int {}
            field label type string {}
        }
        field chunks type array<chunk> {
            indexing: summary
            struct-field number { indexing: attribute }
            struct-field label { indexing: attribute }
        }
        field marks type map<string, int> {
            indexing: summary
            struct-field key { indexing: attribute }
            struct-field value { indexing: attribute }
        }
        field links type weightedset<uri> { indexing: summary | attribute }
    }
    rank-profile default {
        rank nosuch: filter
        summary-features {
            attribute(chunks.number,1)
            attribute(chunks.number).count
            dotProduct(chunks.number,v)
            dotProduct(marks.value,v)
            tensorFromLabels(attribute(chunks.number),i)
            tensorFromLabels(attribute(chunks.label),i)
            tensorFromLabels(attribute(marks.key),i)
            tensorFromLabels(attribute(marks.value),i)
            tensorFromLabelsWithOffset(attribute(chunks.number),i,offset)
            tensorFromLabelsWithOffset(attribute(marks.key),i,offset)
            attributeMatch(chunks.label).matches
            attributeMatch(chunks.label).fieldCompleteness
            attributeMatch(marks.key).fieldCompleteness
            attributeMatch(marks.value).matches
            nativeDotProduct(chunks.label)
            rawScore(chunks.number)
            match.weight.chunks.label
        }
    }
}"""

FILE = {
    "chunks": [{"number": 7, "label": "a"}, {"number": 9, "label": "b"}],
    "marks": {"x": 3, "y": 4},
    "links": {"https://example.com/": 2},
}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("parts") / "data", *free_ports(2))
    yield node
    node.stop()


@pytest.fixture(scope="module")
def features(node):
    status, answer = deploy(node, {"services.xml": services("file"), "schemas/file.sd": SCHEMA})
    assert status == 200, answer
    assert any("'nosuch', which is not a field: the setting has no effect" in line["message"] for line in answer["log"])
    for name, fields in [("full", FILE), ("empty", {})]:
        assert call("POST", f"{node.data}/document/v1/n/file/group/me/{name}", {"fields": fields})[0] == 200
    asked = {"yql": f"select * from file where rank(true, {TERMS})", "ranking.properties.dotProduct.v": "[10 100]"}
    root = search(node, **{name.replace(".", "__"): value for name, value in asked.items()})
    by_name = {hit["id"].rsplit(":", 1)[-1]: hit["fields"] for hit in root["children"]}
    assert by_name["full"]["links"] == {"https://example.com/": 2}
    return {name: fields["summaryfeatures"] for name, fields in by_name.items()}


# What the documents are ranked by.
TERMS = ", ".join(
    [
        'chunks.label contains "a"',
        'marks.key contains "x"',
        'marks.key contains "y"',
        "marks.value = 4",
        "dotProduct(chunks.number, {7: 3})",
    ]
)

VALUES = [
    ("attribute(chunks.number,1)", 9, 0),
    ("attribute(chunks.number).count", 2, 0),
    ("dotProduct(chunks.number,v)", 970, 0),
    ("dotProduct(marks.value,v)", 430, 0),
    ("tensorFromLabels(attribute(chunks.number),i)", {"7": 1, "9": 1}, {}),
    ("tensorFromLabels(attribute(chunks.label),i)", {"a": 1, "b": 1}, {}),
    ("tensorFromLabels(attribute(marks.key),i)", {"x": 1, "y": 1}, {}),
    ("tensorFromLabels(attribute(marks.value),i)", {"3": 1, "4": 1}, {}),
    ("tensorFromLabelsWithOffset(attribute(chunks.number),i,offset)", {("7", "0"), ("9", "1")}, set()),
    ("tensorFromLabelsWithOffset(attribute(marks.key),i,offset)", {("x", "0"), ("y", "1")}, set()),
    ("attributeMatch(chunks.label).matches", 1, 0),
    ("attributeMatch(chunks.label).fieldCompleteness", 0.5, 0),
    ("attributeMatch(marks.key).fieldCompleteness", 1, 0),
    ("attributeMatch(marks.value).matches", 1, 0),
    ("nativeDotProduct(chunks.label)", 100, 0),
    ("rawScore(chunks.number)", 3, 0),
    ("match.weight.chunks.label", 100, 100),
]


def plain(value):
    """A number, the cells of one mapped dimension, or the addresses of two."""
    if not isinstance(value, dict):
        return value
    cells = value.get("cells", {})
    if isinstance(cells, dict):
        return cells
    return {(cell["address"]["i"], cell["address"]["offset"]) for cell in cells}


@pytest.mark.parametrize("feature, full, empty", VALUES)
def test_values(features, feature, full, empty):
    assert plain(features["full"][feature]) == full
    found = plain(features["empty"][feature])
    assert found == empty or not found and not empty
