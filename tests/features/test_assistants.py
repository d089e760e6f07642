"""Search for assistants: the Model Context Protocol at /mcp/."""

import json
import urllib.request

import pytest

from node import ROOT, Node, free_ports
from packages import call, deploy, services

SCHEMA = """schema page {
    document page {
        struct person { field name type string { } field age type int { } }
        field authors type array<person> { indexing { summary } struct-field name { indexing: attribute } }
        field notes type map<string, string> { indexing { summary } struct-field key { indexing: attribute } }
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


# Of the protocol, the newest first.
VERSIONS = ["2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05"]


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
    """Whether a call is an error, and what its text says: JSON, unless the arguments are wrong."""
    result = ask(node, "tools/call", {"name": name, "arguments": arguments})
    [content] = result["content"]
    assert content["type"] == "text"
    text = content["text"]
    return result["isError"], text if result["isError"] and not text.startswith("{") else json.loads(text)


def test_it_is_met(node):
    met = ask(node, "initialize", {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": {"name": "test"}})
    assert (met["protocolVersion"], met["capabilities"]) == ("2025-03-26", {"tools": {}, "resources": {}, "prompts": {}})
    assert ask(node, "initialize", {"protocolVersion": "1999-01-01"})["protocolVersion"] == "2025-11-25"
    for version in VERSIONS:
        assert ask(node, "initialize", {"protocolVersion": version})["protocolVersion"] == version
    assert ask(node, "ping") == {}
    listed = ask(node, "tools/list")["tools"]
    # Hosts need not ask their users before each call.
    assert all(tool["annotations"] == {"readOnlyHint": True, "openWorldHint": False} for tool in listed)
    tools = {tool["name"]: tool["inputSchema"]["type"] for tool in listed}
    assert tools == {"getSchemas": "object", "executeQuery": "object", "readQueryExamples": "object"}


@pytest.mark.parametrize("version, expected", [
    (None, 200), *((version, 200) for version in VERSIONS), ("1999-01-01", 400), ("", 400), ("2025-06-18, 2025-03-26", 400),
])
@pytest.mark.parametrize("message", [{"id": 1, "method": "ping"}, {"method": "notifications/initialized"}])
def test_versions_that_are_not_spoken_are_refused(node, version, expected, message):
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    status, answer = call("POST", f"{node.data}/mcp/", {"jsonrpc": "2.0"} | message, headers=headers)
    assert status == (202 if expected == 200 and "id" not in message else expected)
    if expected == 400:
        assert ", ".join(VERSIONS) in answer["message"]


def test_schemas(node):
    is_error, schemas = tool(node, "getSchemas")
    assert not is_error and list(schemas) == ["page"] and schemas["page"]["name"] == "page"
    schema = schemas["page"]
    assert schema["fields"]["text"] == {"name": "text", "type": "string", "isIndex": True, "isAttribute": False, "aliases": []}
    assert schema["fields"]["year"]["isAttribute"] is True
    assert sorted(name for name in schema["fields"] if "." in name) == ["authors.name", "notes.key"], "what can be searched"
    part = {"type": "string", "isIndex": False, "isAttribute": True, "aliases": []}
    assert schema["fields"]["authors.name"] == {"name": "authors.name"} | part
    assert schema["fields"]["notes.key"] == {"name": "notes.key"} | part
    assert schema["fieldSets"]["words"] == {"name": "words", "type": "string", "isIndex": True, "isAttribute": False, "fieldNames": ["text"]}
    assert schema["rankProfiles"]["recent"] == {
        "name": "recent", "hasSummaryFeatures": True, "hasRankFeatures": False, "useSignificanceModel": False,
        "inputs": {"query(v)": "tensor<float>(x[2])"},
    }
    assert schema["documentSummaries"]["default"]["fields"]["year"] == {"name": "year", "type": "int"}
    assert schema["documentSummaries"]["short"]["isDynamic"] and not schema["documentSummaries"]["default"]["isDynamic"]
    assert tool(node, "getSchemas", schemaNames=["page", "other"]) == (False, schemas | {"other": "Schema not found"})
    assert tool(node, "getSchemas", schemaNames=[]) == (False, {})
    is_error, reason = tool(node, "getSchemas", schemaNames="page")
    assert is_error and "expected a sequence" in reason
    is_error, reason = tool(node, "getSchemas", names=["page"])
    assert is_error and "unknown field `names`" in reason


def test_examples(node):
    is_error, text = tool(node, "readQueryExamples")
    [listed] = ask(node, "resources/list")["resources"]
    [read] = ask(node, "resources/read", {"uri": listed["uri"]})["contents"]
    assert not is_error and text.startswith("# Examples")
    assert read == {"uri": "millrace:///resources/queryExamples", "mimeType": "text/plain", "text": text}
    of_vespa = "/resources/queryExamples"
    assert ask(node, "resources/read", {"uri": of_vespa})["contents"] == [read | {"uri": of_vespa}]
    assert ask(node, "resources/read", {"uri": "/x"}) == (-32002, "no resource '/x'; there is millrace:///resources/queryExamples")
    is_error, reason = tool(node, "readQueryExamples", x=1)
    assert is_error and "unknown field `x`" in reason
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
    is_error, answer = tool(node, "executeQuery", yql=yql, groupname="me", queryProfileName=None, parameters=None)
    assert not is_error and answer["root"]["fields"]["totalCount"] == 2, "null is left out"
    own = {"streaming.groupname": "me", "queryProfile": "mine"}
    is_error, answer = tool(node, "executeQuery", yql=yql, groupname=None, queryProfileName=None, parameters=own)
    assert not is_error and len(answer["root"]["children"]) == 1, "null replaces no parameter"
    sources = {"sources": ["page"], "presentation.summaryFields": ["year"], "hits": 1}
    is_error, answer = tool(node, "executeQuery", yql="select * from sources * where true", groupname="me", parameters=sources)
    assert not is_error and list(answer["root"]["children"][0]["fields"]) == ["year"]
    is_error, answer = tool(node, "executeQuery", yql=yql)
    assert is_error and "set groupname (" in answer["root"]["errors"][0]["message"], "the argument of the tool"
    is_error, answer = tool(node, "executeQuery", yql="select", groupname="me")
    assert is_error and "YQL" in answer["root"]["errors"][0]["message"]


REFUSED = [
    ("nosuch/list", {}, (-32601, "no method 'nosuch/list'; there are initialize, ping, tools/list, tools/call, resources/list, resources/templates/list, resources/read, prompts/list, prompts/get")),
    ("tools/call", {"name": "nosuch"}, (-32602, "no tool 'nosuch'; there are getSchemas, executeQuery and readQueryExamples")),
    ("tools/call", {}, (-32602, "a call has the name of a tool and its arguments: missing field `name` at line 1 column 2")),
    ("prompts/get", {}, (-32602, "no prompt ''; there is listTools")),
    ("resources/read", {"uri": 5}, (-32602, "wrong parameters: invalid type: integer `5`, expected a string at line 1 column 9")),
    *((f"{things}/list", {"cursor": "x"}, (-32602, "cursor 'x' is unknown; leave it out: the list is on one page"))
      for things in ["tools", "prompts", "resources", "resources/templates"]),
]


@pytest.mark.parametrize("method, parameters, expected", REFUSED)
def test_what_is_wrong_is_told(node, method, parameters, expected):
    assert ask(node, method, parameters) == expected


# Of executeQuery, with the error that the assistant gets as a result.
WRONG_ARGUMENTS = [
    ({"sql": "x"}, "executeQuery has no argument 'sql'; tools/list shows those that there are"),
    ({"parameters": 5}, "'parameters' is an object, as in {\"hits\": 5}"),
    ([], "'arguments' is an object, as in {\"yql\": \"select * from sources * where true\"}"),
    ("x", "'arguments' is an object, as in {\"yql\": \"select * from sources * where true\"}"),
    ({"yql": "select * from page where true", "groupname": "me", "parameters": {"presentation.format": "cbor"}},
     "the result is not JSON: leave out presentation.format"),
]


@pytest.mark.parametrize("arguments, expected", WRONG_ARGUMENTS)
def test_wrong_arguments_are_results(node, arguments, expected):
    result = ask(node, "tools/call", {"name": "executeQuery", "arguments": arguments})
    assert result == {"content": [{"type": "text", "text": expected}], "isError": True}


@pytest.mark.parametrize("arguments", [[], "x", 5, True])
@pytest.mark.parametrize("name, example", [
    ("getSchemas", '{"schemaNames": ["NAME"]}, or {} for all schemas'),
    ("readQueryExamples", "{}"),
    ("executeQuery", '{"yql": "select * from sources * where true"}'),
])
def test_arguments_are_an_object(node, name, example, arguments):
    result = ask(node, "tools/call", {"name": name, "arguments": arguments})
    assert result == {"content": [{"type": "text", "text": f"'arguments' is an object, as in {example}"}], "isError": True}


PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

# Bodies with the status and the error code of their answers; without a code the answer is empty.
MESSAGES = [
    ({"jsonrpc": "2.0", "method": "notifications/initialized"}, 202, None),
    ({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}, 202, None),
    ({"jsonrpc": "2.0", "id": 1, "result": {}}, 202, None),
    ({"jsonrpc": "2.0", "id": 1, "result": None}, 202, None),
    ({"jsonrpc": "2.0", "id": 1, "error": {"code": 1, "message": "x"}}, 202, None),
    (b"", 400, -32700),
    (b"{", 400, -32700),
    (b"null", 400, -32600),
    ([], 400, -32600),
    ([PING, PING], 400, -32600),
    (["2.0", 1, "ping", {}, None, None], 400, -32600),
    ({"id": 1, "method": "ping"}, 400, -32600),
    (PING | {"method": 5}, 400, -32600),
    *((PING | {"id": wrong}, 400, -32600) for wrong in [None, True, 1.5, 1e3, [1], {}]),
    ({"jsonrpc": "1.0", "method": "notifications/initialized"}, 400, -32600),
    ({"jsonrpc": "2.0"}, 400, -32600),
    # A request with an id gets an answer to it.
    (PING | {"jsonrpc": "1.0"}, 200, -32600),
    ({"jsonrpc": "2.0", "id": 1}, 200, -32600),
    *((PING | {"params": wrong}, 200, -32602) for wrong in [[], [1], "x", 5, True]),
]


@pytest.mark.parametrize("message, status, code", MESSAGES)
def test_messages(node, message, status, code):
    answered, answer = call("POST", f"{node.data}/mcp/", message)
    assert answered == status, answer
    if code is None:
        assert answer is None
    else:
        assert answer["error"]["code"] == code and answer["id"] == (None if status == 400 else 1), answer


@pytest.mark.parametrize("identity", [0, -1, 9007199254740993, "", "x"])
def test_ids_come_back(node, identity):
    assert call("POST", f"{node.data}/mcp/", PING | {"id": identity}) == (200, {"jsonrpc": "2.0", "id": identity, "result": {}})


@pytest.mark.parametrize("method", ["ping", "nosuch"])
@pytest.mark.parametrize("identity", ["-0", "1" + "0" * 40, "1" + "0" * 400, '"\\ud800"', '"\\u0041\\/"'])
def test_ids_come_back_as_they_are_written(node, identity, method):
    message = f'{{"jsonrpc":"2.0","id":{identity},"method":"{method}"}}'
    request = urllib.request.Request(f"{node.data}/mcp/", data=message.encode(), headers={"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=60) as answer:
        text = answer.read().decode()
    assert text.startswith(f'{{"jsonrpc":"2.0","id":{identity},"' + ("result" if method == "ping" else "error"))


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
def test_other_methods_are_refused(node, method):
    status, answer = call(method, f"{node.data}/mcp/")
    assert status == 405 and "POST" in answer["message"], "neither streams of events nor sessions are offered"
