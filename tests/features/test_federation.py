"""Sources that are searched apart, each by parameters of its own, and what becomes of their results."""

import json

import pytest

from node import Node, free_ports
from packages import QUERY_TIMEOUT, call, deploy, search

SERVICES = """<services version="1.0">
<container id="default" version="1.0"><search>
<provider id="recent" type="local" cluster="files"><source id="drive"/></provider>
<provider id="old" type="local" cluster="files"><source idref="drive"/></provider>
<chain id="groups"><federation id="f"><source idref="mails"/><source idref="drive"/></federation></chain>
<chain id="both" inherits="vespa"><federation id="f"><source-set inherits="default"/></federation></chain>
<chain id="hasty" inherits="vespa"><federation id="f"><source idref="mails"/><source idref="drive">
<federationoptions optional="true"/></source></federation></chain>
<chain id="late" inherits="vespa"><federation id="f"><source idref="mails"/><source idref="drive">
<federationoptions timeout="0.001 ms"/></source></federation></chain>
</search><document-api/></container>
<content id="mails" version="1.0"><redundancy>1</redundancy><documents>
<document type="mail" mode="streaming"/><document type="note" mode="streaming"/></documents></content>
<content id="files" version="1.0"><redundancy>1</redundancy><documents><document type="file" mode="streaming"/></documents></content>
</services>"""
SCHEMA = """schema {0} {{ document {0} {{ field text type string {{ indexing: index | summary }}
field {0}_size type int {{ indexing: attribute | summary }} field size type int {{ indexing: attribute | summary }} }}
fieldset default {{ fields: text }}
rank-profile default {{ first-phase {{ expression: attribute(size) }} }} }}"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    """Mails m1, m3, … and notes n2 in one cluster, files f2, f4, … in another; each as relevant as its number."""
    node = Node(tmp_path_factory.mktemp("federation") / "data", *free_ports(2))
    schemas = {f"schemas/{name}.sd": SCHEMA.format(name) for name in ("mail", "note", "file")}
    profile = '<query-profile id="brief"><field name="source.mail.hits">1</field></query-profile>'
    status, answer = deploy(node, {"services.xml": SERVICES, "search/query-profiles/brief.xml": profile} | schemas)
    assert status == 200, answer
    for name, sizes in (("mail", range(1, 20, 2)), ("note", [2]), ("file", range(2, 20, 2))):
        for size in sizes:
            fields = {"text": "word", "size": size, f"{name}_size": size}
            assert call("POST", f"{node.data}/document/v1/n/{name}/group/me/{name[0]}{size}", {"fields": fields})[0] == 200
    fields = {"text": "word", "size": 1, "file_size": 1}
    assert call("POST", f"{node.data}/document/v1/n/file/group/team/t1", {"fields": fields})[0] == 200
    yield node
    node.stop()


def names(hits) -> str:
    return " ".join(hit["id"].rsplit(":", 1)[-1] for hit in hits)


def shown(root) -> str:
    """The hits in their order, those of groups after the names of their sources; the message of an error before them."""
    children = root.get("children", [])
    text = names(children) if not any("children" in child for child in children) else "; ".join(
        f"{child['source']}: {names(child['children'])}" for child in children)
    return " ".join([*(f"!{error['message']}" for error in root.get("errors", [])), text])


BLENDED = [
    # Parameters of a source go before those of the request, and those of a source before those of its provider.
    ({"source.mail.hits": 2, "source.file.hits": 3}, "m19 f18 m17 f16 f14"),
    ({"source.mail.hits": 2, "source.file.hits": 3, "hits": 3}, "m19 f18 m17"),
    ({"source.mail.hits": 2, "source.file.hits": 3, "offset": 3}, "f16 f14"),
    ({"source.mail.hits": 1, "source.mail.offset": 9}, "f18 f16 f14 f12 f10 f8 f6 f4 f2 m1"),
    ({"source.mail.query": "nothing"}, "f18 f16 f14 f12 f10 f8 f6 f4 f2"),
    ({"source.file.hits": 1, "sorting": "+size"}, "m1 f2 m3 m5 m7 m9 m11 m13 m15 m17"),
    ({"source.file.streaming.groupname": "team"}, "m19 m17 m15 m13 m11 m9 m7 m5 m3 t1"),
    ({"source.file.streaming.groupname": "team", "hits": 11}, "m19 m17 m15 m13 m11 m9 m7 m5 m3 t1 m1"),
    ({"sources": "mails,drive", "source.drive.hits": 1, "provider.recent.hits": 5, "hits": 4}, "m19 f18 m17 m15"),
    ({"sources": "mails,drive", "provider.recent.hits": 1, "hits": 4}, "m19 f18 m17 m15"),
    ({"sources": "mails,drive", "provider.old.hits": 1, "hits": 4}, "m19 f18 m17 f16"),
    ({"sources": "mails,drive", "provider.old.hits": 1, "source.drive.provider": "old", "hits": 4}, "m19 f18 m17 m15"),
    ({"sources": "mails,drive", "source.mails.restrict": "note", "hits": 3}, "f18 f16 f14"),
    ({"sources": "mails,drive", "restrict": "note", "source.mails.hits": 3}, "n2"),
    ({"queryProfile": "brief", "hits": 3}, "m19 f18 f16"),
    # One source alone is searched by its own parameters.
    ({"sources": "mail", "source.mail.hits": 2, "hits": 1}, "m19 m17"),
    ({"sources": "mail", "source.file.hits": 2, "hits": 1}, "m19"),
    # Two names of one cluster are two sources; together with the other cluster they are all there are.
    ({"sources": "recent,old", "hits": 3}, "f18 f18 f16"),
    ({"sources": "mails,drive", "hits": 3}, "m19 f18 m17"),
    ({"searchChain": "both", "hits": 3, "sources": None}, "m19 f18 m17"),
    ({"searchChain": "hasty", "hits": 3, "sources": None, "source.mails.hits": 1, "source.drive.hits": 0}, "m19"),
    ({"sources": "mail,nothing", "source.mail.hits": 1},
     "!Could not resolve source ref 'nothing'. Valid source refs are drive, file, mail, mails, note, old, recent. m19"),
]


@pytest.mark.parametrize("parameters, expected", BLENDED)
def test_hits_of_sources_become_one_list(node, parameters, expected):
    asked = {"query": "word", "sources": "mail,file"} | parameters
    assert shown(search(node, **{name: value for name, value in asked.items() if value is not None})) == expected


GROUPED = [
    ({}, "mails: m19 m17; drive: f18 f16"),
    ({"sources": "drive"}, "drive: f18 f16"),
    ({"sources": "drive,mails", "source.mails.hits": 3, "source.drive.offset": 1}, "mails: m19 m17 m15; drive: f16 f14"),
    ({"source.drive.sorting": "+size"}, "mails: m19 m17; drive: f2 f4"),
    ({"offset": 1}, "mails: m17 m15; drive: f16 f14"),
    ({"query": None, "yql": "select * from note where true"}, "mails: n2"),
    ({"sources": "recent"}, "!Could not resolve source ref 'recent'. Valid source refs are mails, drive. "),
    ({"sources": "mails,recent"}, "!Could not resolve source ref 'recent'. Valid source refs are mails, drive. mails: m19 m17"),
]


@pytest.mark.parametrize("parameters, expected", GROUPED)
def test_a_chain_keeps_its_sources_apart(node, parameters, expected):
    asked = {"searchChain": "groups", "query": "word", "hits": 2} | parameters
    assert shown(search(node, **{name: value for name, value in asked.items() if value is not None})) == expected


def test_a_statement_speaks_of_the_whole_request(node):
    yql = "select * from mail, file where size > 0 limit 3 offset 1"
    assert shown(search(node, yql=yql)) == "f18 m17"
    assert shown(search(node, yql=yql, source__mail__hits=1)) == "f18 f16"
    # A field that only one of the sources has, in the condition and among the fields that are selected.
    yql = "select mail_size from mail, file where mail_size > 16"
    assert shown(search(node, yql=yql, source__mail__hits=1)).startswith("mail/")
    assert "nosuch" in shown(search(node, yql="select nosuch from mail, file where true", source__mail__hits=1))


def test_counts_are_of_all_sources_and_hits_name_theirs(node):
    root = search(node, query="word", sources="mail,file", source__mail__hits=1, source__file__hits=1)
    assert [hit["source"] for hit in root["children"]] == ["mail", "file"]
    assert root["fields"]["totalCount"] == 19
    assert root["coverage"] == {
        "coverage": 100, "documents": 19, "full": True, "nodes": 1, "results": 2, "resultsFull": 2}
    root = search(node, query="word", searchChain="groups")
    assert [(child["id"], child["relevance"], child["source"]) for child in root["children"]] == [
        ("source:mails", 1.0, "mails"), ("source:drive", 1.0, "drive")]
    assert {hit["source"] for hit in root["children"][1]["children"]} == {"drive"}
    assert root["fields"]["totalCount"] == 20


def test_groups_are_of_all_where_sources_are_searched_in_one_go(node):
    select = "all(output(count()))"
    count = lambda root: [child["fields"]["count()"] for child in root["children"] if child["id"].startswith("group:")]
    assert count(search(node, query="word", sources="mail,file", select=select)) == [19]
    assert count(search(node, query="word", sources="mail,file", select=select, source__mail__hits=1)) == [10, 9]
    assert count(search(node, query="word", searchChain="both", select=select)) == [20]


def test_one_source_that_fails_is_told_of_beside_the_others(node):
    root = search(node, query="word", sources="mail,file", source__mail__ranking="nosuch", hits=1)
    assert shown(root).endswith(" f18")
    assert root["errors"][0]["source"] == "mail" and "nosuch" in root["errors"][0]["message"]
    assert root["coverage"]["results"] == 2 and root["coverage"]["resultsFull"] == 1


def test_a_source_may_take_less_time_than_the_query(node):
    root = search(node, query="word", searchChain="late", hits=2)
    [error] = root["errors"]
    assert (error["code"], error["source"]) == (12, "drive")
    assert names(root["children"]) == "m19 m17" and root["coverage"]["resultsFull"] == 1


REFUSED = [
    ({"source.mail.hits": "many"}, "source 'mail': "),
    ({"source.mail.hits": 401}, "401 hits requested"),
    ({"source.mail.searchChain": "both"}, "parameter 'source.mail.searchChain': the request has one for all sources"),
    ({"source.mail.format": "xml"}, "parameter 'source.mail.format': the request has one for all sources"),
    ({"sources": "mail,drive", "source.drive.provider": "new"},
     "parameter 'source.drive.provider': no provider 'new' has the source, only recent, old"),
    ({"source.mail.sorting": "+size"}, "source 'mail' has an order of its own"),
    ({"source.mials.hits": 1}, "parameter 'source.mials.hits': no source 'mials', only drive, file, "),
    ({"source": {"mials": {"hits": 1}}}, "parameter 'source.mials.hits': no source 'mials', only drive, file, "),
    ({"provider.odl.hits": 1}, "parameter 'provider.odl.hits': no provider 'odl', only "),
]


@pytest.mark.parametrize("parameters, expected", REFUSED)
def test_what_a_source_cannot_have_is_refused(node, parameters, expected):
    asked = {"query": "word", "sources": "mail,file", "streaming.groupname": "me"} | parameters
    status, answer = call("POST", f"{node.data}/search/", asked)
    assert status == 400 and expected in answer["root"]["errors"][0]["message"], answer


def test_xml_has_a_group_for_each_source(node):
    import urllib.request
    asked = {"query": "word", "searchChain": "groups", "format": "xml", "hits": 1, "streaming.groupname": "me", "timeout": QUERY_TIMEOUT}
    request = urllib.request.Request(f"{node.data}/search/", json.dumps(asked).encode(), {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as response:
        text = response.read().decode()
    assert '<group relevancy="1.0" source="mails">' in text and 'results="2"' in text
    assert text.count("<hit ") == 2
