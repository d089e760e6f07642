"""Text that was encoded as UTF-8 twice on its way here."""

from node import Node, free_ports
from packages import call, deploy, search, services

SCHEMA = """schema page { document page { field text type string { indexing: index } }
fieldset default { fields: text } }"""
SEARCHER = """<search><chain id="default" inherits="vespa">
<searcher id="com.yahoo.search.searchers.InputCheckingSearcher" bundle="container-search-and-docproc"/>
</chain></search>"""


def test_encoding(tmp_path):
    node = Node(tmp_path / "data", *free_ports(2))
    files = {"services.xml": services("page"), "schemas/page.sd": SCHEMA}
    assert deploy(node, files)[0] == 200
    page = {"fields": {"text": "smörgåsbord"}}
    assert call("POST", f"{node.data}/document/v1/n/page/group/me/a", page)[0] == 200
    twice = "smörgåsbord".encode().decode("latin-1")
    assert search(node, query=twice)["fields"]["totalCount"] == 0, "without the searcher it only finds nothing"

    files["services.xml"] = files["services.xml"].replace("<search/>", SEARCHER)
    status, answer = deploy(node, files)
    assert (status, answer["log"]) == (200, [])
    assert search(node, query="smörgåsbord")["fields"]["totalCount"] == 1
    for asked in (
        {"query": twice},
        {"query": f"text:a -{twice}"},
        {"yql": f'select * from page where text contains "{twice}"'},
        {"yql": f'select * from page where text contains "a" or !(text contains phrase("a", "{twice}"))'},
        {"yql": "select * from page where userInput(@typed)", "typed": twice},
    ):
        root = search(node, **asked)
        assert "looks like double encoded UTF-8" in root["errors"][0]["message"], asked
    node.stop()
