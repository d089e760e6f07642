"""Predicate fields searched with the attributes of several subqueries at once."""

import pytest

from node import Node, free_ports
from packages import call, deploy, search, services

SCHEMA = """schema offer {
    document offer {
        field audience type predicate { indexing: attribute | summary }
        field second type predicate { indexing: attribute | summary }
    }
    rank-profile default {
        summary-features {
            subqueries(audience)
            subqueries(audience).lsb
            subqueries(audience).msb
            subqueries(second).lsb
        }
    }
}"""

OFFERS = {
    "either": {
        "audience": "gender in [Female] or country in [Norway]",
        "second": "gender in [Female] or country in [Norway]",
    },
    "both": {"audience": "gender in [Female] and country in [Norway]"},
    "not": {"audience": "gender not in [Female]"},
    "age": {"audience": "age in [20..29]"},
}

ALL = (1 << 64) - 1


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("predicates") / "data", *free_ports(2))
    status, answer = deploy(node, {"services.xml": services("offer"), "schemas/offer.sd": SCHEMA})
    assert status == 200, answer
    for name, fields in OFFERS.items():
        status, answer = call("POST", f"{node.data}/document/v1/n/offer/group/me/{name}", {"fields": fields})
        assert status == 200, answer
    yield node
    node.stop()


def features(node, **parameters):
    """The summary features of each document that matches, by its name."""
    root = search(node, **parameters)
    assert "errors" not in root, root
    return {hit["id"].rsplit(":", 1)[1]: hit["fields"]["summaryfeatures"] for hit in root.get("children", [])}


@pytest.mark.parametrize(
    ("attributes", "ranges", "expected"),
    [
        ('{"gender": "Female"}', "{}", {"either": ALL}),
        ('{"gender": "Female", "country": "Norway"}', "{}", {"either": ALL, "both": ALL}),
        ('{"[0]": {"gender": "Female"}}', "{}", {"either": 1, "not": ALL ^ 1}),
        ('{"0x8000000000000001": {"gender": ["Female"]}}', "{}", {"either": 1 << 63 | 1, "not": ALL ^ (1 << 63 | 1)}),
        (
            '{"[0, 63]": {"gender": "Female"}, "[31, 62]": {"country": "Norway"}}',
            "0",
            {"either": 1 << 63 | 1 << 62 | 1 << 31 | 1, "not": ALL ^ (1 << 63 | 1)},
        ),
        (
            '{"[0,32,63]": {"gender": "Female"}, "[31,32,62]": {"country": "Norway"}}',
            "{}",
            {
                "both": 1 << 32,
                "either": 1 << 63 | 1 << 62 | 1 << 32 | 1 << 31 | 1,
                "not": ALL ^ (1 << 63 | 1 << 32 | 1),
            },
        ),
        ('{"gender": "Female"}', '{"0x6": {"age": 25}}', {"either": ALL, "age": 6}),
    ],
)
def test_each_subquery_has_its_attributes(node, attributes, ranges, expected):
    found = features(node, yql=f"select * from offer where predicate(audience, {attributes}, {ranges})")
    bits = {}
    for name, shown in found.items():
        low, high = shown["subqueries(audience).lsb"], shown["subqueries(audience).msb"]
        assert shown["subqueries(audience)"] == low
        bits[name] = int(high) << 32 | int(low)
    assert bits == expected


@pytest.mark.parametrize(
    ("first", "second", "audience", "other"), [("audience", "second", 1, 2), ("second", "second", 0, 3)]
)
def test_features_are_those_of_all_operators_on_their_field(node, first, second, audience, other):
    one, two = '{"0x1": {"gender": "Female"}}', '{"0x2": {"gender": "Female"}}'
    yql = f"select * from offer where predicate({first}, {one}, {{}}) and predicate({second}, {two}, {{}})"
    shown = features(node, yql=yql)["either"]
    assert (shown["subqueries(audience).lsb"], shown["subqueries(second).lsb"]) == (audience, other)


def test_json_queries_have_them_too(node):
    where = {"predicate": ["audience", {"[1]": {"gender": "Female"}}, {}]}
    assert features(node, select={"where": where})["either"]["subqueries(audience).lsb"] == 2
