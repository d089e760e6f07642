"""OpenTelemetry's own exporter of logs, unchanged, against both ports."""

import gzip
import json
import logging
import urllib.error
import urllib.request

import pytest
from conftest import Node, free_ports
from opentelemetry._logs import SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (
    ExportLogsServiceRequest,
    ExportLogsServiceResponse,
)
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource

PROTOBUF = {"content-type": "application/x-protobuf"}


@pytest.fixture(scope="module")
def ports(tmp_path_factory):
    """The base URLs of the data port and of the port of Elasticsearch's interfaces."""
    port, config, elastic = free_ports(3)
    node = Node(tmp_path_factory.mktemp("otlp") / "data", port, config, "--elastic-port", str(elastic))
    yield f"http://127.0.0.1:{port}", f"http://127.0.0.1:{elastic}"
    node.stop()


def search(base: str, query: dict) -> list[dict]:
    body = json.dumps({"query": query, "size": 1000, "sort": "@timestamp"}).encode()
    request = urllib.request.Request(f"{base}/logs-*/_search", body, {"content-type": "application/json"})
    with urllib.request.urlopen(request, timeout=120) as answer:
        return [hit["_source"] for hit in json.load(answer)["hits"]["hits"]]


def post(base: str, body: bytes, headers: dict) -> tuple[int, bytes]:
    request = urllib.request.Request(f"{base}/v1/logs", body, headers)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, error.read()


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip])
@pytest.mark.parametrize("at", [0, 1])
def test_what_an_application_logs_is_found(ports, at, compression):
    service = f"shop-{at}-{compression.value}"
    resource = Resource.create({"service.name": service, "data_stream.dataset": "shop", "replicas": 3})
    provider = LoggerProvider(resource)
    exporter = OTLPLogExporter(endpoint=f"{ports[at]}/v1/logs", compression=compression, timeout=60)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = logging.getLogger(service)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    logger.addHandler(LoggingHandler(logger_provider=provider))
    for number in range(300):
        logger.info("order %d came", number, extra={"order": number, "tags": ["a", "b"]})
    logger.error("the till is empty")
    provider.shutdown()

    mine = {"term": {"resource.attributes.service.name": service}}
    found = search(ports[1], {"bool": {"filter": [mine, {"match": {"body.text": "order"}}]}})
    assert sorted(source["body"]["text"] for source in found) == sorted(f"order {n} came" for n in range(300))
    assert {source["attributes"]["order"] for source in found} == set(range(300))
    assert found[0]["attributes"]["tags"] == ["a", "b"]
    assert found[0]["resource"]["attributes"]["replicas"] == 3
    assert found[0]["scope"]["name"] == service
    assert found[0]["data_stream"] == {"type": "logs", "dataset": "shop", "namespace": "default"}
    [error] = search(ports[1], {"bool": {"filter": [mine, {"term": {"severity_text": "ERROR"}}]}})
    assert error["severity_number"] == SeverityNumber.ERROR.value
    assert error["body"]["text"] == "the till is empty"


def test_answers_are_messages_of_the_specification(ports):
    request = ExportLogsServiceRequest()
    records = request.resource_logs.add().scope_logs.add().log_records
    records.add().body.string_value = "kept"
    deep = records.add().body
    for _ in range(40):
        deep = deep.array_value.values.add()
    for base in ports:
        status, body = post(base, gzip.compress(request.SerializeToString()), {**PROTOBUF, "content-encoding": "gzip"})
        partial = ExportLogsServiceResponse.FromString(body).partial_success
        assert (status, partial.rejected_log_records) == (200, 1)
        assert "levels" in partial.error_message
        status, body = post(base, b"\x0a\x05", PROTOBUF)
        assert status == 400 and b"Protobuf field 1 has a length of 5 bytes" in body
        status, body = post(base, b"{", {"content-type": "application/json"})
        assert status == 400 and json.loads(body)["code"] == 3
        status, body = post(base, b"x", {**PROTOBUF, "content-encoding": "gzip"})
        assert status == 400 and b"gzip" in body
        # A page of another site can send these without being asked.
        for form in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
            assert post(base, b"{}", {"content-type": form})[0] == 415
