"""One node with the notes fed, and `found`, which asks it."""

import pathlib
import sys
from typing import Any

import pytest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from documents import NOTES, OTHER  # noqa: E402
from node import Node, free_ports  # noqa: E402
from packages import call, query_parameters  # noqa: E402


class Notes:
    """A node that holds the notes."""

    def __init__(self, node: Node) -> None:
        self.node = node
        for group, notes in (("me", NOTES), ("you", OTHER)):
            for name, fields in notes.items():
                status, answer = self.call("POST", f"/document/v1/n/note/group/{group}/{name}", {"fields": fields})
                assert status == 200, answer

    def call(self, method: str, path: str, body: Any = None) -> tuple[int, Any]:
        """The status and the parsed body of the answer."""
        return call(method, self.node.data + path, body)

    def search(self, **parameters: Any) -> dict[str, Any]:
        """The root of the result, with the status of the answer; see `query_parameters`."""
        status, answer = self.call("POST", "/search/", query_parameters(parameters))
        assert "root" in answer, answer
        return answer["root"] | {"status": status}

    def found(self, **parameters: Any) -> str:
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
