"""pyvespa, unchanged, against Millrace: deploy, feed_iterable, query, query_many, get, update, delete."""

import io
import zipfile

import pytest
import requests
from conftest import APP
from vespa.application import Vespa
from vespa.package import ApplicationPackage, Document, Field, FieldSet, RankProfile, Schema

GROUP = "ann"


@pytest.fixture(scope="module")
def app(node):
    package = io.BytesIO()
    with zipfile.ZipFile(package, "w") as archive:
        for path in APP.rglob("*"):
            if path.is_file():
                archive.write(path, path.relative_to(APP))
    answer = requests.post(
        f"{node.config}/application/v2/tenant/default/prepareandactivate",
        data=package.getvalue(), headers={"Content-Type": "application/zip"}, timeout=60,
    )
    assert answer.status_code == 200, answer.text
    app = Vespa(url="http://127.0.0.1", port=node.port)
    app.wait_for_application_up(max_wait=30)
    return app


def feed(app, documents) -> list[int]:
    statuses = []
    app.feed_iterable(
        ({**document, "groupname": GROUP} for document in documents), schema="note", namespace="demo",
        callback=lambda response, _: statuses.append(response.status_code),
    )
    return statuses


def test_feed_iterable_and_query(app):
    documents = [
        {"id": str(i), "fields": {"title": f"meeting {i}", "text": "budget" if i % 3 == 0 else "plan", "stars": i,
                                  "embedding": [1.0, 0.0, 0.0, float(i)]}}
        for i in range(300)
    ]
    assert feed(app, documents) == [200] * 300
    answer = app.query(
        yql="select * from note where title contains 'meeting' and text contains 'budget'",
        groupname=GROUP, hits=5, timeout="60s",
    )
    assert answer.is_successful() and answer.number_documents_retrieved == 100 and len(answer.hits) == 5
    assert all(hit["fields"]["stars"] % 3 == 0 for hit in answer.hits)

    nearest = app.query(body={
        "yql": "select * from note where {targetHits:3}nearestNeighbor(embedding, q)", "ranking": "near",
        "input.query(q)": [1.0, 0.0, 0.0, 7.2], "streaming.groupname": GROUP, "hits": 3, "timeout": "60s",
    })
    assert [hit["fields"]["stars"] for hit in nearest.hits] == [7, 8, 6]


def test_query_many(app):
    bodies = [
        {"yql": f"select * from note where stars = {i}", "streaming.groupname": GROUP, "timeout": "60s"} for i in range(20)
    ]
    answers = app.query_many(bodies)
    assert [answer.hits[0]["fields"]["stars"] for answer in answers] == list(range(20))


def test_get_update_delete(app):
    def get():
        return app.get_data(schema="note", namespace="demo", data_id="7", groupname=GROUP)

    assert get().json["fields"]["title"] == "meeting 7"
    updated = app.update_data(schema="note", namespace="demo", data_id="7", fields={"stars": 70}, groupname=GROUP)
    assert updated.status_code == 200
    assert get().json["fields"]["stars"] == 70 and get().json["fields"]["title"] == "meeting 7"
    assert app.delete_data(schema="note", namespace="demo", data_id="7", groupname=GROUP).status_code == 200
    assert get().status_code == 404


def test_a_package_made_by_pyvespa_deploys(node):
    package = ApplicationPackage(name="made", schema=[Schema(
        name="page", mode="streaming",
        document=Document(fields=[Field(name="body", type="string", indexing=["index", "summary"], index="enable-bm25")]),
        fieldsets=[FieldSet(name="default", fields=["body"])],
        rank_profiles=[RankProfile(name="bm25", first_phase="bm25(body)")],
    )])
    answer = requests.post(
        f"{node.config}/application/v2/tenant/default/prepareandactivate",
        data=package.to_zip().getvalue(), headers={"Content-Type": "application/zip"}, timeout=60,
    )
    # The running application has another document type, which may only go when that is allowed.
    assert answer.status_code == 400 and "validation-overrides.xml" in answer.json()["message"], answer.text
