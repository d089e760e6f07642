"""A Millrace of one's own for each test module, on free ports, with an empty data directory."""

import pathlib
import sys

import pytest

HERE = pathlib.Path(__file__).parent
APP = HERE / "app"
sys.path.insert(0, str(HERE.parent))

from node import Node, free_ports  # noqa: E402


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("node") / "data", *free_ports(2))
    yield node
    node.stop()
