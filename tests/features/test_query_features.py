"""The value of a query feature by what sets it: the request under any of its names, `inputs`, or rank properties."""

import pytest

from node import Node, free_ports
from packages import call, deploy, search, services

SCHEMA = """schema note {
document note { field title type string { indexing: summary | index } }
rank-profile base {
  inputs { query(declared): 1.5
    query(bare) double
    query(vec) tensor<float>(x[2]) }
  rank-properties { query(plain): 4
    $old: 2
    $plain: 9
    query(declared): 7
    query(bare): 3
    query(vec): [1,2] }
  function vec() { expression: reduce(query(vec), sum) }
  first-phase { expression: 1 }
  summary-features { query(declared) query(bare) query(plain) query(old) query(free) vec }
}
rank-profile child inherits base {
  inputs { query(bare): 30 }
  rank-properties { query(plain): 5 }
}
}
"""

PROFILES = {
    "full": '<field name="ranking.features.query(plain)">50</field><field name="ranking.properties.free">51</field>',
    "short": '<field name="input.query(plain)">50</field><field name="rankproperty.free">51</field>',
    "fixed": '<field name="ranking.features.query(plain)" overridable="false">50</field>',
    "both": '<field name="input.query(plain)">50</field><field name="ranking.features.query(plain)">60</field>',
    "hits": '<field name="hits">1</field><field name="count">0</field>',
}

# The parameters, and the features: declared, bare, plain, old, free, and the sum of vec.
FEATURES = [
    ({}, "1.5 3.0 4.0 2.0 0.0 3.0"),
    ({"ranking": "child"}, "1.5 30.0 5.0 2.0 0.0 3.0"),
    ({"input.query(plain)": 8}, "1.5 3.0 8.0 2.0 0.0 3.0"),
    ({"ranking.features.query(old)": 8}, "1.5 3.0 4.0 8.0 0.0 3.0"),
    ({"rankfeature.$free": 8}, "1.5 3.0 4.0 2.0 8.0 3.0"),
    ({"rankproperty.free": 8}, "1.5 3.0 4.0 2.0 8.0 3.0"),
    ({"rankproperty.query(free)": 8}, "1.5 3.0 4.0 2.0 8.0 3.0"),
    ({"ranking.properties.$free": 8}, "1.5 3.0 4.0 2.0 8.0 3.0"),
    ({"ranking.properties.$free": 8, "ranking.properties.free": 9}, "1.5 3.0 4.0 2.0 9.0 3.0"),
    ({"ranking.properties.query(free)": 10, "ranking.properties.free": 9}, "1.5 3.0 4.0 2.0 10.0 3.0"),
    ({"rankproperty.query(declared)": 8}, "8.0 3.0 4.0 2.0 0.0 3.0"),
    ({"rankproperty.$plain": 8}, "1.5 3.0 8.0 2.0 0.0 3.0"),
    ({"rankproperty.query(vec)": "[3,4]"}, "1.5 3.0 4.0 2.0 0.0 7.0"),
    ({"input.query(bare)": 6, "rankproperty.query(bare)": 8}, "1.5 6.0 4.0 2.0 0.0 3.0"),
    ({"queryProfile": "full"}, "1.5 3.0 50.0 2.0 51.0 3.0"),
    ({"queryProfile": "full", "input.query(plain)": 8}, "1.5 3.0 8.0 2.0 51.0 3.0"),
    ({"queryProfile": "full", "rankfeature.query(plain)": 8}, "1.5 3.0 8.0 2.0 51.0 3.0"),
    ({"queryProfile": "full", "rankproperty.free": 8}, "1.5 3.0 50.0 2.0 8.0 3.0"),
    ({"queryProfile": "short", "ranking.features.query(plain)": 8}, "1.5 3.0 8.0 2.0 51.0 3.0"),
    ({"queryProfile": "short", "rankfeature.query(plain)": 8}, "1.5 3.0 8.0 2.0 51.0 3.0"),
    ({"queryProfile": "short", "ranking.properties.free": 8}, "1.5 3.0 50.0 2.0 8.0 3.0"),
    ({"queryProfile": "fixed", "ranking.features.query(plain)": 8}, "1.5 3.0 50.0 2.0 0.0 3.0"),
    ({"queryProfile": "fixed", "input.query(plain)": 8}, "1.5 3.0 50.0 2.0 0.0 3.0"),
    ({"queryProfile": "both"}, "1.5 3.0 50.0 2.0 0.0 3.0"),
    ({"queryProfile": "both", "rankfeature.query(plain)": 8}, "1.5 3.0 8.0 2.0 0.0 3.0"),
    ({"queryProfile": "hits"}, "1.5 3.0 4.0 2.0 0.0 3.0"),
]


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("query_features") / "data", *free_ports(2))
    profiles = {
        f"search/query-profiles/{name}.xml": f'<query-profile id="{name}">{fields}</query-profile>'
        for name, fields in PROFILES.items()
    }
    assert deploy(node, {"services.xml": services("note"), "schemas/note.sd": SCHEMA} | profiles)[0] == 200
    assert call("POST", f"{node.data}/document/v1/n/note/group/me/1", {"fields": {"title": "a"}})[0] == 200
    yield node
    node.stop()


@pytest.mark.parametrize("parameters, expected", FEATURES)
def test_query_features(server, parameters, expected):
    root = search(server, yql="select * from note where true", **({"ranking": "base"} | parameters))
    assert "errors" not in root, root["errors"]
    told = root["children"][0]["fields"]["summaryfeatures"]
    names = ["query(declared)", "query(bare)", "query(plain)", "query(old)", "query(free)", "vec"]
    assert " ".join(str(told[name]) for name in names) == expected
