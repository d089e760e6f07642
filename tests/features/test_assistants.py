"""Search for assistants: the Model Context Protocol at /mcp/."""

import json

import pytest

from node import ROOT, Node, free_ports
from packages import call, deploy, services

SCHEMA = """schema page {
    document page {
        field text type string { indexing: summary | index }
        field year type int { indexing: summary | attribute }
    }
    fieldset words { fields: text }
    document-summary short { summary text { dynamic } }
    rank-profile recent {
        inputs { query(v) tensor<float>(x[2]) }
        first-phase { expression: attribute(year) }
        summary-features: attribute(year)
    }
}"""
HANDLER = """<component id="com.yahoo.search.mcp.McpSearchSpecProvider" bundle="container-search-and-docproc"/>
<handler id="ai.vespa.mcp.McpRequestHandler" bundle="container-disc"><binding>http://*/mcp/*</binding></handler>"""


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("assistants") / "data", *free_ports(2))
    profile = '<query-profile id="mine"><field name="streaming.groupname">me</field><field name="ranking">recent</field><field name="hits">1</field></query-profile>'
    files = {"services.xml": services("page"), "schemas/page.sd": SCHEMA, "search/query-profiles/mine.xml": profile}
    assert deploy(node, files)[0] == 200
    status, answer = call("POST", f"{node.data}/mcp/", {"jsonrpc": "2.0", "id": 1, "method": "ping"})
    assert status == 404 and "McpRequestHandler" in answer["message"], "it is offered where services.xml says so"
    files["services.xml"] = files["services.xml"].replace("<search/>", "<search/>" + HANDLER)
    status, answer = deploy(node, files)
    assert (status, answer["log"]) == (200, [])
    for name, year in {"a": 2001, "b": 2002}.items():
        fields = {"text": f"page {name}", "year": year}
        assert call("POST", f"{node.data}/document/v1/n/page/group/me/{name}", {"fields": fields})[0] == 200
    yield node
    node.stop()


def ask(node, method: str, parameters=None, **message):
    """The result, or the error with its code and text."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": parameters or {}} | message
    status, answer = call("POST", f"{node.data}/mcp/", message)
    assert (status, answer["jsonrpc"], answer["id"]) == (200, "2.0", 7)
    return answer["result"] if "result" in answer else (answer["error"]["code"], answer["error"]["message"])


def tool(node, name: str, **arguments):
    """Whether a call is an error, and what its text says."""
    result = ask(node, "tools/call", {"name": name, "arguments": arguments})
    if isinstance(result, tuple):
        return result
    [content] = result["content"]
    assert content["type"] == "text"
    return result["isError"], json.loads(content["text"])


def test_it_is_met(node):
    met = ask(node, "initialize", {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test"}})
    assert (met["protocolVersion"], met["capabilities"]) == ("2025-03-26", {"tools": {}, "resources": {}, "prompts": {}})
    assert ask(node, "initialize", {"protocolVersion": "1999-01-01"})["protocolVersion"] == "2025-06-18"
    assert ask(node, "ping") == {}
    tools = {tool["name"]: tool["inputSchema"]["type"] for tool in ask(node, "tools/list")["tools"]}
    assert tools == {"getSchemas": "object", "executeQuery": "object", "readQueryExamples": "object"}


@pytest.mark.parametrize("version, expected", [
    (None, 200), ("2024-11-05", 200), ("2025-03-26", 200), ("2025-06-18", 200), ("1999-01-01", 400), ("", 400), ("2025-06-18, 2025-03-26", 400),
])
@pytest.mark.parametrize("message", [{"id": 1, "method": "ping"}, {"method": "notifications/initialized"}])
def test_versions_that_are_not_spoken_are_refused(node, version, expected, message):
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    status, answer = call("POST", f"{node.data}/mcp/", {"jsonrpc": "2.0"} | message, headers=headers)
    assert status == (202 if expected == 200 and "id" not in message else expected)
    if expected == 400:
        assert "2025-06-18, 2025-03-26, 2024-11-05" in answer["message"]


def test_schemas(node):
    is_error, schemas = tool(node, "getSchemas")
    assert not is_error and list(schemas) == ["page"] and schemas["page"]["name"] == "page"
    schema = schemas["page"]
    assert schema["fields"]["text"] == {"name": "text", "type": "string", "isIndex": True, "isAttribute": False, "aliases": []}
    assert schema["fields"]["year"]["isAttribute"] is True
    assert schema["fieldSets"]["words"] == {"name": "words", "type": "string", "isIndex": True, "isAttribute": False, "fieldNames": ["text"]}
    assert schema["rankProfiles"]["recent"] == {
        "name": "recent", "hasSummaryFeatures": True, "hasRankFeatures": False, "useSignificanceModel": False,
        "inputs": {"query(v)": "tensor<float>(x[2])"},
    }
    assert schema["documentSummaries"]["default"]["fields"]["year"] == {"name": "year", "type": "int"}
    assert schema["documentSummaries"]["short"]["isDynamic"] and not schema["documentSummaries"]["default"]["isDynamic"]
    assert tool(node, "getSchemas", schemaNames=["page", "other"]) == (False, schemas | {"other": "Schema not found"})
    assert tool(node, "getSchemas", schemaNames=[]) == (False, {})
    assert tool(node, "getSchemas", schemaNames="page")[0] == -32602
    assert "unknown field `names`" in tool(node, "getSchemas", names=["page"])[1]


def test_examples(node):
    is_error, text = tool(node, "readQueryExamples")
    [listed] = ask(node, "resources/list")["resources"]
    [read] = ask(node, "resources/read", {"uri": listed["uri"]})["contents"]
    assert not is_error and text.startswith("# Examples") and read == {"uri": "/resources/queryExamples", "mimeType": "text/plain", "text": text}
    assert ask(node, "resources/read", {"uri": "/x"}) == (-32002, "no resource '/x'; there is /resources/queryExamples")
    assert ask(node, "resources/templates/list") == {"resourceTemplates": []}


def test_prompts(node):
    assert [prompt["name"] for prompt in ask(node, "prompts/list")["prompts"]] == ["listTools"]
    [message] = ask(node, "prompts/get", {"name": "listTools"})["messages"]
    assert all(name in message["content"]["text"] for name in ["getSchemas - ", "executeQuery - ", "readQueryExamples - "])
    assert ask(node, "prompts/get", {"name": "x"}) == (-32602, "no prompt 'x'; there is listTools")


def test_the_examples_hold(tmp_path):
    """Every query of the examples runs with the schema that they show."""
    text = (ROOT / "crates/gateway/src/mcp/examples.md").read_text(encoding="utf-8")
    indented = [line[4:] for line in text.splitlines() if line.startswith("    ")]
    schema_end = next(at for at, line in enumerate(indented) if line == "}") + 1
    calls = json.loads("[" + "\n".join(indented[schema_end:]).replace("}\n{", "},\n{") + "]")
    assert len(calls) == 13
    node = Node(tmp_path / "data", *free_ports(2))
    try:
        files = {"services.xml": services("mail").replace("<search/>", "<search/>" + HANDLER), "schemas/mail.sd": "\n".join(indented[:schema_end])}
        assert deploy(node, files)[0] == 200
        for arguments in calls:
            asked = arguments.get("parameters", {})
            if vector := asked.get("input.query(embedding)"):
                assert vector.startswith("embed(")
                asked["input.query(embedding)"] = [0.1] * 384  # embedders need a model
            is_error, answer = tool(node, "executeQuery", groupname="me", **arguments)
            assert not is_error and "errors" not in answer["root"], (arguments, answer)
    finally:
        node.stop()


def test_queries(node):
    yql = 'select * from page where text contains "page"'
    is_error, answer = tool(node, "executeQuery", yql=yql, groupname="me", parameters={"ranking": "recent", "hits": 1})
    assert not is_error and answer["root"]["fields"]["totalCount"] == 2
    assert [hit["fields"]["year"] for hit in answer["root"]["children"]] == [2002]
    is_error, answer = tool(node, "executeQuery", yql="select * from page where true", groupname="nobody")
    assert not is_error and "children" not in answer["root"]
    is_error, answer = tool(node, "executeQuery", yql=yql, queryProfileName="mine")
    assert not is_error and [hit["fields"]["year"] for hit in answer["root"]["children"]] == [2002]
    is_error, answer = tool(node, "executeQuery", yql=yql, queryProfileName="nosuch")
    assert is_error and "nosuch" in answer["root"]["errors"][0]["message"]
    is_error, answer = tool(node, "executeQuery", yql="select", groupname="me")
    assert is_error and "YQL" in answer["root"]["errors"][0]["message"]


REFUSED = [
    ("nosuch/list", {}, (-32601, "no method 'nosuch/list'; there are initialize, ping, tools/list, tools/call, resources/list, resources/templates/list, resources/read, prompts/list, prompts/get")),
    ("tools/call", {"name": "nosuch"}, (-32602, "no tool 'nosuch'; there are getSchemas, executeQuery and readQueryExamples")),
    ("tools/call", {"name": "executeQuery", "arguments": {"sql": "x"}}, (-32602, "executeQuery has no argument 'sql'; there are yql, groupname, queryProfileName and parameters")),
    ("tools/call", {"name": "executeQuery", "arguments": {"parameters": 5}}, (-32602, "'parameters' is an object, as in {\"hits\": 5}")),
]


@pytest.mark.parametrize("method, parameters, expected", REFUSED)
def test_what_is_wrong_is_told(node, method, parameters, expected):
    assert ask(node, method, parameters) == expected


def test_what_is_no_request(node):
    url = f"{node.data}/mcp/"
    assert ask(node, "ping", jsonrpc="1.0")[0] == -32600
    assert call("POST", url, b"{")[1]["error"]["code"] == -32700
    assert call("POST", url, {"id": 1})[1]["error"]["code"] == -32600
    assert call("GET", url)[0] == 405
    notification = {"jsonrpc": "2.0", "method": "notifications/initialized"}
    assert call("POST", url, notification) == (202, None), "a notification has no answer"
