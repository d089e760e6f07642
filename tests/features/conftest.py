"""One node with the notes fed, and `found`, which asks it."""

import json
import pathlib
import sys
import urllib.error
import urllib.parse
import urllib.request

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from documents import NOTES, OTHER  # noqa: E402
from node import Node, free_ports  # noqa: E402
from packages import PATIENCE  # noqa: E402


class Notes:
    """A node that holds the notes."""

    def __init__(self, node: Node):
        self.node = node
        for group, notes in (("me", NOTES), ("you", OTHER)):
            for name, fields in notes.items():
                status, answer = self.call("POST", f"/document/v1/n/note/group/{group}/{name}", {"fields": fields})
                assert status == 200, answer

    def call(self, method: str, path: str, body=None):
        """The status and the parsed body of the answer."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.node.data + path, data, {"content-type": "application/json"}, method=method)
        try:
            with urllib.request.urlopen(request, timeout=120) as response:
                return response.status, json.load(response)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def search(self, **parameters):
        """The root of the result; parameters with a dot are written with two underscores."""
        asked = {"streaming.groupname": "me", "timeout": PATIENCE} | {k.replace("__", "."): v for k, v in parameters.items()}
        status, answer = self.call("POST", "/search/", asked)
        assert "root" in answer, answer
        return answer["root"] | {"status": status}

    def found(self, **parameters) -> str:
        """The names of the notes found, in order, as one word; an error's message where the query is refused."""
        root = self.search(**parameters)
        if errors := root.get("errors"):
            return "error: " + errors[0].get("message", errors[0]["summary"])
        return "".join(hit["id"].rsplit(":", 1)[-1] if hit["id"].startswith("id:") else hit["fields"]["documentid"][-1]
                       for hit in root.get("children", []) if not hit["id"].startswith("group:"))


@pytest.fixture(scope="session")
def notes(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("features") / "data", *free_ports(2), "--app", HERE / "app")
    yield Notes(node)
    node.stop()
