"""Small packages made of texts, and calls of a node that has one."""

import io
import json
import urllib.error
import urllib.request
import zipfile
from typing import Any

from node import Node

# Timeout of queries: a debug build beside other tests does not always answer within the usual half second.
QUERY_TIMEOUT = "60s"

SERVICES = """<services version="1.0">
<container id="default" version="1.0"><search/><document-api/></container>
<content id="c" version="1.0"><redundancy>1</redundancy><documents>{}</documents></content>
</services>"""


def services(*types: str) -> str:
    """A services.xml for documents of these types."""
    return SERVICES.format("".join(f'<document type="{name}" mode="streaming"/>' for name in types))


def call(
    method: str, url: str, body: Any = None, content_type: str = "application/json", headers: dict[str, str] | None = None
) -> tuple[int, Any]:
    """The status and the answer, which is JSON or nothing."""
    data = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"content-type": content_type} | (headers or {}), method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as response:
            text = response.read()
            return response.status, json.loads(text) if text else None
    except urllib.error.HTTPError as error:
        return error.code, json.load(error)


def archive(files: dict[str, str]) -> bytes:
    """A package of these files."""
    content = io.BytesIO()
    with zipfile.ZipFile(content, "w") as package:
        for path, text in files.items():
            package.writestr(path, text)
    return content.getvalue()


def deploy(node: Node, files: dict[str, str], headers: dict[str, str] | None = None) -> tuple[int, Any]:
    """The status and the answer to a package of these files."""
    url = f"{node.config}/application/v2/tenant/default/prepareandactivate"
    return call("POST", url, archive(files), "application/zip", headers)


def query_parameters(parameters: dict[str, Any]) -> dict[str, Any]:
    """Parameters of a query of the group `me`; names with a dot are written with two underscores."""
    given = {name.replace("__", "."): value for name, value in parameters.items()}
    return {"streaming.groupname": "me", "timeout": QUERY_TIMEOUT} | given


def search(node: Node, **parameters: Any) -> dict[str, Any]:
    """The root of a result of the group `me`; see `query_parameters`."""
    _, answer = call("POST", f"{node.data}/search/", query_parameters(parameters))
    return answer["root"]


def found(node: Node, condition: str, **parameters: Any) -> str:
    """The names of the documents for which a condition holds, best first, as one word; the message of an error."""
    root = search(node, yql=f"select * from sources * where {condition}", **parameters)
    if errors := root.get("errors"):
        return "error: " + errors[0].get("message", errors[0]["summary"])
    return "".join(hit["id"].rsplit(":", 1)[-1] for hit in root.get("children", []))
