"""Frameworks for language models against a node: LangChain, LlamaIndex, and the official client for assistants."""

import asyncio
import sys
from pathlib import Path

import pytest
from langchain_community.retrievers.vespa_retriever import VespaRetriever
from langchain_community.vectorstores import VespaStore
from langchain_core.embeddings import Embeddings
from llama_index.core.schema import NodeRelationship, RelatedNodeInfo, TextNode
from llama_index.core.vector_stores.types import VectorStoreQuery, VectorStoreQueryMode
from llama_index.vector_stores.vespa import VespaVectorStore
from llama_index.vector_stores.vespa.templates import hybrid_template
from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from vespa.application import Vespa

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
    rank-profile semantic {
        inputs { query(query_embedding) tensor<float>(x[2]) }
        first-phase { expression: closeness(field, embedding) }
    }
}"""
HANDLER = """<component id="com.yahoo.search.mcp.McpSearchSpecProvider" bundle="container-search-and-docproc"/>
<handler id="ai.vespa.mcp.McpRequestHandler" bundle="container-disc"><binding>http://*/mcp/*</binding></handler>"""
# The fields and profiles of the template of LlamaIndex, with vectors that are fed.
LLAMA = """schema doc {
    document doc {
        field id type string { indexing: summary }
        field metadata type string { indexing: summary }
        field text type string {
            indexing: index | summary
            index: enable-bm25
            bolding: on
        }
        field embedding type tensor<float>(x[384]) {
            indexing: attribute | index
            attribute { distance-metric: angular }
        }
    }
    fieldset default { fields: text, metadata }
    rank-profile bm25 {
        inputs { query(q) tensor<float>(x[384]) }
        function bm25sum() { expression: bm25(text) }
        first-phase { expression: bm25sum }
    }
    rank-profile fusion inherits bm25 {
        inputs { query(q) tensor<float>(x[384]) }
        first-phase { expression: closeness(field, embedding) }
        global-phase {
            expression: reciprocal_rank_fusion(bm25sum, closeness(field, embedding))
            rerank-count: 1000
        }
    }
}"""
MAILS = {"1": ("Ferry", "The ferry leaves at noon", [1, 0]), "2": ("Budget", "The budget is tight", [0, 1])}


class Directions(Embeddings):
    """Vectors of two kinds of text."""

    def embed_query(self, text):
        return [1.0, 0.0] if "ferry" in text else [0.0, 1.0]

    def embed_documents(self, texts):
        return [self.embed_query(text) for text in texts]


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("frameworks") / "data", *free_ports(2))
    files = {"services.xml": services("mail").replace("<search/>", "<search/>" + HANDLER), "schemas/mail.sd": SCHEMA}
    assert deploy(node, files)[0] == 200
    for name, (subject, body, vector) in MAILS.items():
        fields = {"subject": subject, "body": body, "embedding": vector}
        assert call("POST", f"{node.data}/document/v1/n/mail/group/ann/{name}", {"fields": fields})[0] == 200
    yield node
    node.stop()


def test_langchain_retriever(node):
    retriever = VespaRetriever.from_params(f"{node.data}/person/ann", "body", k=3, metadata_fields=["subject"], sources=["mail"])
    [found] = retriever.invoke("ferry noon")
    assert (found.page_content, found.metadata["subject"]) == ("The ferry leaves at noon", "Ferry")
    assert retriever.get_relevant_documents_with_filter("ferry", _filter='subject contains "budget"') == []


def test_langchain_store(node):
    store = VespaStore(
        Vespa(url=f"{node.data}/person/ann"), embedding_function=Directions(), page_content_field="body",
        embedding_field="embedding", input_field="query_embedding", metadata_fields=["subject"],
    )
    first, second = store.similarity_search("when does the ferry leave", k=2, ranking="semantic")
    assert (first.metadata["subject"], second.metadata["subject"]) == ("Ferry", "Budget")


@pytest.fixture(scope="module")
def documents(tmp_path_factory):
    """A server for the store of LlamaIndex."""
    node = Node(tmp_path_factory.mktemp("llama") / "data", *free_ports(2))
    status, answer = deploy(node, {"services.xml": services("doc").replace("streaming", "index"), "schemas/doc.sd": LLAMA})
    assert status == 200, answer
    yield node
    node.stop()


def persons_store(token):
    """The store of LlamaIndex at an address with a path, which its own url and port cannot have, with a token."""

    class PersonsStore(VespaVectorStore):
        def _try_get_running_app(self):
            return Vespa(url=self.url, vespa_cloud_secret_token=token)

    return PersonsStore


def test_llama_index(documents):
    use_llama_index(VespaVectorStore(
        application_package=hybrid_template, url="http://127.0.0.1", port=documents.port, default_schema_name="doc",
        embeddings_outside_vespa=True,
    ))


@pytest.mark.parametrize("with_tokens", [False, True], ids=["without credentials", "with signed tokens"])
def test_llama_index_of_one_person(tmp_path_factory, with_tokens):
    directory = tmp_path_factory.mktemp("persons")
    callers = Callers(directory, with_tokens)
    node = Node(directory / "data", *free_ports(2), *callers.settings)
    operator = callers.headers("all", "read", "write", "deploy")
    status, answer = deploy(node, {"services.xml": services("doc"), "schemas/doc.sd": LLAMA}, operator)
    assert status == 200, answer
    bobs = f"{node.data}/document/v1/default/doc/group/bob/b"
    fields = {"text": "The ferry of another person", "metadata": "{}"}
    assert call("POST", bobs, {"fields": fields}, headers=operator)[0] == 200
    use_llama_index(persons_store(callers.token(["ann"], "read", "write"))(
        application_package=hybrid_template, url=f"{node.data}/person/ann", default_schema_name="doc",
        embeddings_outside_vespa=True,
    ))
    assert call("GET", f"{node.data}/document/v1/default/doc/group/ann/b", headers=operator)[0] == 200
    assert call("GET", bobs, headers=operator)[0] == 200
    if with_tokens:
        assert call("GET", bobs, headers=callers.headers(["ann"], "read"))[0] == 403
        assert call("GET", bobs)[0] == 401
    node.stop()


def use_llama_index(store):
    def vector(place):
        return [float(number == place) for number in range(384)]

    def text(name, words, place):
        relation = {NodeRelationship.SOURCE: RelatedNodeInfo(node_id=f"of-{name}")}
        return TextNode(id_=name, text=words, embedding=vector(place), relationships=relation, metadata={"kind": name})

    store.add([text("a", "The ferry leaves at noon", 0), text("b", "The budget is tight", 1)])

    def ids(mode, words, place):
        query = VectorStoreQuery(query_str=words, query_embedding=vector(place), similarity_top_k=2, mode=mode)
        return store.query(query).ids

    assert ids(VectorStoreQueryMode.TEXT_SEARCH, "ferry", 1) == ["a"]
    assert ids(VectorStoreQueryMode.HYBRID, "ferry", 0)[0] == "a"
    assert ids(VectorStoreQueryMode.SEMANTIC_HYBRID, "budget", 1)[0] == "b"
    store.delete("a")
    assert ids(VectorStoreQueryMode.TEXT_SEARCH, "ferry", 1) == []


def test_assistants(node):
    async def talk():
        async with streamable_http_client(f"{node.data}/person/ann/mcp/") as (reader, writer):
            async with ClientSession(reader, writer) as session:
                await session.initialize()
                tools = {tool.name for tool in (await session.list_tools()).tools}
                [resource] = (await session.list_resources()).resources
                [examples] = (await session.read_resource(resource.uri)).contents
                assert examples.text.startswith("# Examples of queries")
                arguments = {"yql": 'select * from mail where body contains "ferry"'}
                answer = await session.call_tool("executeQuery", arguments)
                return tools, answer

    tools, answer = asyncio.run(talk())
    assert {"getSchemas", "executeQuery"} <= tools
    assert not answer.is_error and "leaves at noon" in answer.content[0].text
