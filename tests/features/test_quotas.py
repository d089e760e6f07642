"""Clients that ask more queries a second than they may."""

from node import Node, free_ports
from packages import QUERY_TIMEOUT, call, deploy, services

SCHEMA = "schema page { document page { field text type string { indexing: index } } }"
SEARCHER = """<search><chain id="default" inherits="vespa">
<searcher id="com.yahoo.search.searchers.RateLimitingSearcher" bundle="container-search-and-docproc"/>
</chain></search>"""
PROFILE = '<query-profile id="default"><field name="rate.id">all</field></query-profile>'


def test_quotas(tmp_path):
    node = Node(tmp_path / "data", *free_ports(2))

    def statuses(count: int, **rate):
        asked = {"yql": "select * from page where true", "streaming.groupname": "me", "timeout": QUERY_TIMEOUT}
        asked |= {f"rate.{name}": value for name, value in rate.items()}
        return [call("POST", f"{node.data}/search/", asked)[0] for _ in range(count)]

    files = {"services.xml": services("page"), "schemas/page.sd": SCHEMA}
    assert deploy(node, files)[0] == 200
    assert statuses(3, id="a", quota=0) == [200] * 3, "without the searcher nothing has a quota"

    files["services.xml"] = files["services.xml"].replace("<search/>", SEARCHER)
    files["search/query-profiles/default.xml"] = PROFILE
    status, answer = deploy(node, files)
    assert (status, answer["log"]) == (200, [])
    # So small a quota does not fill again while the test runs.
    assert statuses(3, id="a", quota=0.0001, cost=1) == [200, 429, 429]
    assert statuses(2, id="a", quota=0.0001, dryRun="true") == [200, 200]
    assert statuses(2, id="b", quota=1_000_000) == [200, 200]
    assert statuses(2, quota=0.0001) == [200, 429], "the id is the query profile's"
    assert statuses(2) == [200, 200]
    assert statuses(1, id="a", quota="many") == [400]
    asked = {"yql": "select * from page where true", "streaming.groupname": "me", "rate.id": "a", "rate.quota": 0.0001}
    _, answer = call("POST", f"{node.data}/search/", asked)
    assert "'a' has asked more than its rate.quota of 0.0001 a second" in answer["root"]["errors"][0]["message"]
    node.stop()
