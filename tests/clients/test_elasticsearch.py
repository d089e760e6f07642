"""Clients of Elasticsearch and of OpenSearch, unchanged: bulks, scans, copies, and finding the nodes.

Each test runs with those of the two that are installed, in the version that is installed.
`scripts/elastic_clients.py` runs them with other versions.
"""

import importlib
import importlib.util
import json
import urllib.request
import warnings

import pytest
from conftest import Node, free_ports

CLIENTS = {"elasticsearch": "Elasticsearch", "opensearchpy": "OpenSearch"}
INSTALLED = [name for name in CLIENTS if importlib.util.find_spec(name)]
COUNT = 2_000
WAYS = ["bulk", "streaming_bulk", "parallel_bulk"]


@pytest.fixture(scope="module")
def url(tmp_path_factory):
    port, config, elastic = free_ports(3)
    node = Node(tmp_path_factory.mktemp("elastic") / "data", port, config, "--elastic-port", str(elastic))
    yield f"http://127.0.0.1:{elastic}"
    node.stop()


class Client:
    """A client with the names of its package."""

    def __init__(self, package, url):
        self.module = importlib.import_module(package)
        self.helpers = importlib.import_module(f"{package}.helpers")
        self.url = url
        self.name = package
        self.made = []
        self.api = self.connect(url)

    def connect(self, *urls, **options):
        made = getattr(self.module, CLIENTS[self.name])(list(urls), **options)
        self.made.append(made)
        return made

    def index(self, name):
        """A name that no other client uses."""
        return f"{name}-{self.name}"

    def write(self, way, actions, **options):
        """Documents that were written, and the errors of the others."""
        outcome = getattr(self.helpers, way)(self.api, actions, **options)
        if way == "bulk":
            return outcome
        results = list(outcome)
        return sum(is_written for is_written, _ in results), [item for is_written, item in results if not is_written]

    def count(self, index):
        return self.api.count(index=index)["count"]

    def ids(self, index, **options):
        return [hit["_id"] for hit in self.helpers.scan(self.api, index=index, **options)]


@pytest.fixture(scope="module", params=INSTALLED)
def client(request, url):
    # Version 7 warns that the server has no security.
    warnings.simplefilter("ignore")
    client = Client(request.param, url)
    yield client
    for made in client.made:
        made.close()


def put(url, path, body):
    request = urllib.request.Request(
        url + path, json.dumps(body).encode(), {"content-type": "application/json"}, method="PUT"
    )
    with urllib.request.urlopen(request, timeout=120) as answer:
        return json.load(answer)


def documents(index, action="index", with_ids=True):
    for number in range(COUNT):
        identity = {"_id": str(number)} if with_ids else {}
        yield {"_op_type": action, "_index": index, **identity, "n": number, "text": f"document {number} of many"}


def test_a_client_is_installed():
    assert INSTALLED, "install elasticsearch or opensearch-py"


@pytest.mark.parametrize("way", WAYS)
def test_all_documents_arrive_once(client, way):
    index = client.index(way.replace("_", "-"))
    assert client.write(way, documents(index), chunk_size=700) == (COUNT, [])
    assert client.count(index) == COUNT
    assert sorted(client.ids(index, size=999), key=int) == [str(number) for number in range(COUNT)]
    assert client.api.get(index=index, id="7")["_source"] == {"n": 7, "text": "document 7 of many"}


@pytest.mark.parametrize("way", WAYS)
def test_documents_that_are_there_are_conflicts(client, way):
    index = client.index(f"there-{way.replace('_', '-')}")
    assert client.write(way, documents(index, "create")) == (COUNT, [])
    written, errors = client.write(way, documents(index, "create"), raise_on_error=False)
    assert (written, len(errors)) == (0, COUNT)
    assert {error["create"]["status"] for error in errors} == {409}
    with pytest.raises(client.helpers.BulkIndexError):
        client.write(way, documents(index, "create"))


def test_updates_and_deletions_arrive(client):
    index = client.index("changed")
    client.write("bulk", documents(index))
    changes = [{"_op_type": "update", "_index": index, "_id": str(n), "doc": {"is_even": True}} for n in range(0, COUNT, 2)]
    removals = [{"_op_type": "delete", "_index": index, "_id": str(n)} for n in range(1, COUNT, 2)]
    assert client.write("bulk", changes + removals) == (COUNT, [])
    found = list(client.helpers.scan(client.api, index=index, query={"query": {"term": {"is_even": True}}}))
    assert sorted(hit["_source"]["n"] for hit in found) == list(range(0, COUNT, 2))
    assert client.count(index) == len(found)


def test_an_index_is_copied(client):
    source, target = client.index("source"), client.index("target")
    client.write("bulk", documents(source))
    query = {"query": {"range": {"n": {"gte": 1_000}}}}
    assert client.helpers.reindex(client.api, source, target, query=query) == (COUNT - 1_000, 0)
    assert sorted(client.ids(target), key=int) == [str(number) for number in range(1_000, COUNT)]


@pytest.mark.parametrize("way", WAYS)
def test_a_data_stream_of_logs_takes_all(client, way):
    template = {
        "index_patterns": [f"{client.index('logs')}-*"],
        "data_stream": {},
        "template": {"settings": {"index.mode": "logsdb"}},
    }
    put(client.url, f"/_index_template/{client.index('logs')}", template)
    stream = f"{client.index('logs')}-{way.replace('_', '-')}"
    events = ({**event, "@timestamp": event["n"]} for event in documents(stream, "create", with_ids=False))
    assert client.write(way, events) == (COUNT, [])
    found = [hit["_source"]["n"] for hit in client.helpers.scan(client.api, index=stream)]
    assert sorted(found) == list(range(COUNT))
    assert client.api.index(index=stream, **{BODY[client.name](client): {"n": COUNT}})["result"] == "created"


# Name of the argument for a document.
BODY = {
    "elasticsearch": lambda client: "document" if client.module.__version__[0] >= 8 else "body",
    "opensearchpy": lambda _: "body",
}


def test_nodes_that_are_found_answer(client):
    index = client.index("sniffed")
    client.write("bulk", documents(index))
    sniffing = client.connect(client.url, sniff_on_start=True, max_retries=0)
    transport = sniffing.transport
    if hasattr(transport, "node_pool"):
        known = [node.base_url for node in transport.node_pool.all()]
    else:
        known = [connection.host for connection in transport.connection_pool.connections]
    assert set(known) == {client.url}
    assert sniffing.count(index=index)["count"] == COUNT
