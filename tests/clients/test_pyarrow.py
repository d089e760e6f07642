"""Tables of Apache Arrow: what docs/loading.md shows, with pyarrow alone."""

import io
import json
import urllib.request
import zipfile

import pyarrow as pa
import pytest

ARROW = "application/vnd.apache.arrow.stream"
SERVICES = """<services version="1.0">
  <container id="default" version="1.0"><search/><document-api/></container>
  <content id="notes" version="1.0">
    <redundancy>1</redundancy>
    <documents><document type="note" mode="streaming"/></documents>
  </content>
</services>"""
NOTE = """schema note {
  document note {
    field title type string { indexing: summary | index }
    field date type long { indexing: summary | attribute }
    field tags type array<string> { indexing: summary | attribute }
    field weights type weightedset<string> { indexing: summary | attribute }
    field place type position { indexing: summary | attribute }
    field vector type tensor<bfloat16>(x[4]) { indexing: summary | attribute }
    field chunks type tensor<float>(c{},x[2]) { indexing: summary | attribute }
  }
}"""


def send(url, body, content_type=ARROW):
    request = urllib.request.Request(url, body, {"Content-Type": content_type})
    with urllib.request.urlopen(request) as answer:
        return [json.loads(line) for line in answer.read().splitlines()][-1]


def stream(table):
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table, max_chunksize=100)
    return sink.getvalue().to_pybytes()


@pytest.fixture(scope="module")
def notes(node):
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as files:
        files.writestr("services.xml", SERVICES)
        files.writestr("schemas/note.sd", NOTE)
    send_to = node.config + "/application/v2/tenant/default/prepareandactivate"
    request = urllib.request.Request(send_to, package.getvalue(), {"Content-Type": "application/zip"})
    assert urllib.request.urlopen(request).status == 200
    return node


def table(rows):
    return pa.table({
        "id": pa.array([str(row) for row in range(rows)]),
        "person": pa.array([["ada", "bob"][row % 2] for row in range(rows)]).dictionary_encode(),
        "title": pa.array([f"note {row}" for row in range(rows)], pa.large_string()),
        "date": pa.array([1_700_000_000 + row for row in range(rows)], pa.timestamp("s")),
        "tags": [["a", "b"], []] * (rows // 2),
        "weights": pa.array([[("x", 1), ("y", row)] for row in range(rows)], pa.map_(pa.string(), pa.int64())),
        "place": [{"lat": 63.4, "lng": 10.4}] * rows,
        "vector": pa.array([[row, 0.5, -1, 0] for row in range(rows)], pa.list_(pa.float32(), 4)),
        "chunks": [[[1.0, 2.0], [3.0, 4.0]]] * rows,
    })


def test_a_table_is_loaded_and_read_back(notes):
    total = send(notes.data + "/feed/v1?type=note&namespace=notes&group=person", stream(table(1000)))
    assert (total["complete"], total["ok"]) == (True, 1000), total
    export = urllib.request.Request(
        notes.data + "/group/v1/ada/export?type=note", method="POST", headers={"Accept": ARROW})
    with urllib.request.urlopen(export) as answer, pa.ipc.open_stream(answer) as reader:
        back = reader.read_all()
    rows = {row["id"]: row for row in back.to_pylist()}
    assert len(rows) == 500
    row = rows["id:notes:note:g=ada:6"]
    assert row["title"] == "note 6" and row["date"] == 1_700_000_006
    assert (row["tags"], row["weights"]) == (["a", "b"], [("x", 1), ("y", 6)])
    assert row["place"] == {"lat": 63.4, "lng": 10.4}
    assert row["vector"] == [6, 0.5, -1, 0]
    assert row["chunks"] == [("0", [1, 2]), ("1", [3, 4])]
    # What was read is fed as it is.
    assert send(notes.data + "/feed/v1", stream(back))["ok"] == 500


def test_columns_that_do_not_fit_are_refused(notes):
    wrong = pa.table({"id": ["1"], "date": pa.array([1], pa.timestamp("ms")), "titel": ["x"]})
    total = send(notes.data + "/feed/v1?type=note", stream(wrong))
    assert (total["complete"], total["operations"], total["status"]) == (False, 0, 400)
    assert "column 'date' is Timestamp(ms), and the field is long" in total["message"]
    assert "column 'titel' is not a field of note" in total["message"]
    # The cure: the columns of the document type, to cast to.
    with urllib.request.urlopen(notes.data + "/feed/v1?type=note") as answer:
        schema = pa.ipc.open_stream(answer).read_all().schema
    assert schema.names[:3] == ["id", "title", "date"]
    right = wrong.select(["id", "date"]).cast(pa.schema([schema.field("id"), schema.field("date")]))
    assert send(notes.data + "/feed/v1?type=note", stream(right))["ok"] == 1


def test_nothing_is_taken_as_something_else(notes):
    def fed(name, column):
        return send(notes.data + "/feed/v1?type=note&namespace=others", stream(pa.table({"id": ["1"], name: column})))

    numbers = pa.array([[1, 2, 3, 4]], pa.list_(pa.float32(), 4))
    shaped = {shape: pa.fixed_shape_tensor(pa.float32(), list(shape)) for shape in [(4,), (2, 2)]}
    assert fed("vector", pa.ExtensionArray.from_storage(shaped[4,], numbers))["ok"] == 1
    total = fed("vector", pa.ExtensionArray.from_storage(shaped[2, 2], numbers))
    assert total["status"] == 400 and "of the shape [2, 2]" in total["message"], total
    total = fed("chunks", pa.array([[[1.0, 2.0, 3.0], [4.0]]]))
    assert (total["ok"], total["failed"]) == (0, 1), total
    # As in JSON, null is not a value.
    assert fed("tags", pa.array([["a", None, "b"]]))["ok"] == 1
    with urllib.request.urlopen(notes.data + "/document/v1/others/note/docid/1") as answer:
        assert json.loads(answer.read())["fields"] == {"tags": ["a", "b"]}


def test_packed_tables(notes):
    compressed = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression="zstd")
    with pa.ipc.new_stream(compressed, table(2).schema, options=options) as writer:
        writer.write_table(table(2))
    total = send(notes.data + "/feed/v1?type=note&group=person", compressed.getvalue().to_pybytes())
    assert total["complete"] is False and "compressed" in total["message"], total
