"""Queries that are rewritten by the semantic rules of the package."""

from node import Node, free_ports
from packages import QUERY_TIMEOUT, call, deploy, search, services

SCHEMA = """schema page { document page {
field text type string { indexing: index }
field brand type string { indexing: index }
}
fieldset default { fields: text }
rank-profile best { first-phase { expression: fieldMatch(brand) } } }"""
SHOP = """@default
colour -> color;
[stopword] -> ;
[stopword] :- the, a;
best [brand] -> brand:[brand] parameter.ranking='best';
[brand] -> brand:[brand];
[brand] :- sony, dell;
"""
FILES = {
    "services.xml": services("page"),
    "schemas/page.sd": SCHEMA,
    "rules/shop.sr": SHOP,
    "rules/other.sr": "@include(shop)\n[brand] :- @super, hp;\ncolour -> hue;\n",
}


def total(node, **parameters):
    root = search(node, **parameters)
    return root["errors"][0]["message"] if "errors" in root else root["fields"]["totalCount"]


def told(node, **parameters):
    """What the trace tells of rules, and all that it tells."""
    asked = {"streaming.groupname": "me", "timeout": QUERY_TIMEOUT} | {name.replace("__", "."): value for name, value in parameters.items()}
    _, answer = call("POST", f"{node.data}/search/", asked)
    messages = [entry["message"] for entry in answer.get("trace", {}).get("children", [])]
    return [message for message in messages if "rule" in message], messages


def test_rules(tmp_path):
    node = Node(tmp_path / "data", *free_ports(2))
    status, answer = deploy(node, FILES)
    assert (status, answer["log"]) == (200, [])
    pages = {"a": {"text": "color of sony", "brand": "dell"}, "b": {"text": "hue", "brand": "hp"}, "c": {"text": "colour"}}
    for name, fields in pages.items():
        assert call("POST", f"{node.data}/document/v1/n/page/group/me/{name}", {"fields": fields})[0] == 200

    def hits(**parameters):
        return "".join(sorted(hit["id"][-1] for hit in search(node, **parameters).get("children", [])))

    assert hits(query="colour") == "a"
    assert hits(query="colour", rules__off="") == hits(query="colour", rules__off="true") == "c"
    assert hits(query="the colour", type="all") == "a"
    assert hits(query="dell") == "a" and hits(query="sony") == ""
    assert hits(query="hp") == "" and hits(query="hp", rules__rulebase="other") == "b"
    assert hits(yql="select * from page where userInput(@words)", words="colour") == "a"
    assert hits(yql="select * from page where text contains 'colour'") == "c", "rules without a label are about words without a field"
    assert hits(query="text:colour") == "c"

    assert search(node, query="best dell")["children"][0]["relevance"] == 1.0, "a rule has chosen the rank profile"

    assert total(node, query="x", rules__rulebase="othr") == (
        "parameter 'rules.rulebase': no rule base 'othr' (did you mean 'other'?): there are other, shop")
    assert total(node, query="x", rules__off="maybe") == "parameter 'rules.off': expected true or false, found \"maybe\""
    assert total(node, query="x", tracelevel__rules="much") == "parameter 'tracelevel.rules': expected a whole number from 0, found \"much\""

    result = "rewritten by rule base 'shop': query=[WEAKAND color]"
    rules, messages = told(node, query="the colour", tracelevel__rules="2")
    assert rules == messages == [
        "rules/shop.sr:2:1: query=[WEAKAND the color]",
        "rules/shop.sr:3:1: query=[WEAKAND color]",
        result,
    ]
    rules, messages = told(node, query="the colour", tracelevel="1")
    assert rules == [result] and len(messages) > 1
    assert told(node, query="the colour", tracelevel="2", tracelevel__rules="0")[0] == []
    assert told(node, query="the colour") == ([], [])
    assert told(node, query="dull", tracelevel__rules="2") == ([], [])

    broken = FILES | {"rules/shop.sr": SHOP + "colour -> [color];\n"}
    status, answer = deploy(node, broken)
    assert status == 400 and answer["message"].startswith("rules/shop.sr:8:11: "), answer
    assert hits(query="colour") == "a", "what was refused changes nothing"
    status, answer = deploy(node, FILES | {"rules/shop.sr": SHOP.replace("color", "hue")})
    assert status == 200 and hits(query="colour") == "b", "a deployment brings other rules"
    node.stop()
