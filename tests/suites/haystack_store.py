"""The document store of Haystack at one person's endpoint. It needs another version of pyvespa than frameworks.py."""

import sys
from pathlib import Path

import pytest
from haystack import Document
from haystack.document_stores.types import DuplicatePolicy
from haystack.utils import Secret
from haystack_integrations.components.retrievers.vespa import VespaKeywordRetriever
from haystack_integrations.document_stores.vespa import VespaDocumentStore

TESTS = Path(__file__).parents[1]
sys.path[:0] = [str(TESTS), str(TESTS / "features")]

from node import Node, free_ports  # noqa: E402
from packages import call, deploy, services  # noqa: E402
from signed import Callers  # noqa: E402

SCHEMA = """schema mail {
    document mail {
        field subject type string { indexing: summary | index }
        field body type string { indexing: summary | index }
        field embedding type tensor<float>(x[2]) { indexing: summary | attribute }
    }
    fieldset default { fields: subject, body }
    rank-profile bm25 { first-phase { expression: bm25(subject) + bm25(body) } }
}"""
MAILS = {"1": ("Ferry", "The ferry leaves at noon", [1, 0]), "2": ("Budget", "The budget is tight", [0, 1])}


@pytest.fixture(scope="module", params=[False, True], ids=["without credentials", "with signed tokens"])
def server(request, tmp_path_factory):
    """A node with mails of ann, and the credentials of its callers."""
    directory = tmp_path_factory.mktemp("haystack")
    callers = Callers(directory, request.param)
    node = Node(directory / "data", *free_ports(2), *callers.settings)
    operator = callers.headers("all", "read", "write", "deploy")
    assert deploy(node, {"services.xml": services("mail"), "schemas/mail.sd": SCHEMA}, operator)[0] == 200
    for name, (subject, body, vector) in MAILS.items():
        fields = {"subject": subject, "body": body, "embedding": vector}
        path = f"{node.data}/document/v1/n/mail/group/ann/{name}"
        assert call("POST", path, {"fields": fields}, headers=operator)[0] == 200
    yield node, callers
    node.stop()


@pytest.mark.parametrize("named_by", ["the path", "the token"])
def test_a_store_of_one_person(server, named_by):
    node, callers = server
    token = callers.token(["hay"], "read", "write")
    if named_by == "the token" and not token:
        pytest.skip("there is no token")
    by_path = named_by == "the path"
    store = VespaDocumentStore(
        url=f"{node.data}/person/hay" if by_path else node.data, port=None, content_cluster_name="c", schema="mail",
        namespace="n", content_field="body", metadata_fields=["subject"],
        additional_headers=None if by_path else {"Millrace-Ids": "short"},
        vespa_cloud_secret_token=Secret.from_token(token) if token else None,
    )
    mails = [
        Document(id=name, content=body, embedding=[float(part) for part in vector], meta={"subject": subject})
        for name, (subject, body, vector) in MAILS.items()
    ]
    assert store.write_documents(mails, policy=DuplicatePolicy.FAIL) == 2
    assert store.count_documents() == 2, "those of another person do not count"
    [found] = VespaKeywordRetriever(document_store=store, top_k=3).run(query="ferry noon")["documents"]
    assert (found.id, found.content, found.meta["subject"]) == ("1", "The ferry leaves at noon", "Ferry")
    store.delete_documents(["1"])
    assert [mail.id for mail in store.filter_documents()] == ["2"]
    store.delete_all_documents()
    assert store.count_documents() == 0
    anns = f"{node.data}/document/v1/n/mail/group/ann/1"
    assert call("GET", anns, headers=callers.headers("all", "read"))[0] == 200, "another person keeps everything"
    if token:
        hay = callers.headers(["hay"], "read", "write")
        assert call("GET", anns, headers=hay)[0] == 403
        assert call("GET", f"{node.data}/person/ann/document/v1/n/mail/docid/1", headers=hay)[0] == 403
        assert call("GET", anns)[0] == 401
