"""Documents over `/document/v1`: updates, conditions, selections, visits."""

import pytest

PATH = "/document/v1/n/note/group/edit/one"

# An update of a field that holds something, and what the field holds then.
UPDATES = [
    ("year", 1999, {"year": {"assign": 2001}}, 2001),
    ("year", 1999, {"year": {"increment": 2}}, 2001),
    ("year", 1999, {"year": {"decrement": 9}}, 1990),
    ("price", 1.5, {"price": {"multiply": 4}}, 6.0),
    ("price", 1.5, {"price": {"divide": 2}}, 0.75),
    ("title", "old", {"title": {"assign": "new"}}, "new"),
    ("title", "old", {"title": {"assign": None}}, None),
    ("numbers", [1, 2], {"numbers": {"add": [3]}}, [1, 2, 3]),
    ("numbers", [1, 2], {"numbers": {"match": {"element": 1, "increment": 5}}}, [1, 7]),
    ("numbers", [1, 2], {"numbers[0]": {"assign": 9}}, [9, 2]),
    ("numbers", [1, 2], {"numbers[0]": {"remove": 0}}, [2]),
    ("labels", {"a": 1}, {"labels": {"add": {"b": 2}}}, {"a": 1, "b": 2}),
    ("labels", {"a": 1, "b": 2}, {"labels": {"remove": {"a": 0}}}, {"b": 2}),
    ("labels", {"a": 1}, {"labels": {"match": {"element": "a", "increment": 4}}}, {"a": 5}),
    ("labels", {"a": 1}, {"labels{a}": {"assign": 8}}, {"a": 8}),
    ("prefs", {"k": "v"}, {"prefs{k}": {"assign": "w"}}, {"k": "w"}),
    ("prefs", {"k": "v"}, {"prefs{new}": {"assign": "w"}}, {"k": "v", "new": "w"}),
    ("prefs", {"k": "v", "l": "w"}, {"prefs{k}": {"remove": 0}}, {"l": "w"}),
    ("owner", {"first": "A", "age": 3}, {"owner.age": {"assign": 4}}, {"first": "A", "age": 4}),
    ("people", [{"first": "A"}], {"people[0].first": {"assign": "B"}}, [{"first": "B"}]),
    ("people", [{"first": "A"}], {"people": {"add": [{"first": "B"}]}}, [{"first": "A"}, {"first": "B"}]),
    ("vec", [1, 2, 3], {"vec": {"modify": {"operation": "add", "cells": [{"address": {"x": "1"}, "value": 5}]}}}, [1.0, 7.0, 3.0]),
    ("sparse", {"a": 1}, {"sparse": {"add": {"cells": {"b": 2}}}}, {"a": 1.0, "b": 2.0}),
    ("sparse", {"a": 1, "b": 2}, {"sparse": {"remove": {"addresses": [{"tag": "a"}]}}}, {"b": 2.0}),
    ("sparse", {"a": 1}, {"sparse": {"modify": {"operation": "multiply", "cells": {"a": 3}}}}, {"a": 3.0}),
    ("place", {"lat": 1.0, "lng": 2.0}, {"place": {"assign": "N3.0;E4.0"}}, {"lat": 3.0, "lng": 4.0}),
    ("blob", "AAEC", {"blob": {"assign": "/w=="}}, "/w=="),
    ("seen", False, {"seen": {"assign": True}}, True),
]


@pytest.mark.parametrize("field, before, update, after", UPDATES)
def test_updates(notes, field, before, update, after):
    assert notes.call("POST", PATH, {"fields": {field: before}})[0] == 200
    status, answer = notes.call("PUT", PATH, {"fields": update})
    assert status == 200, answer
    _, document = notes.call("GET", f"{PATH}?format.tensors=short-value")
    assert document["fields"].get(field) == after


def test_cells_are_shown_with_all_digits_by_themselves_and_with_their_own_in_results(notes):
    assert notes.call("POST", PATH, {"fields": {"vec": [0.1, 2, 3]}})[0] == 200
    _, document = notes.call("GET", f"{PATH}?format.tensors=short-value")
    assert document["fields"]["vec"] == [0.10000000149011612, 2, 3]
    _, visited = notes.call("GET", "/document/v1/n/note/docid?format.tensors=short-value&wantedDocumentCount=100")
    assert [0.10000000149011612, 2, 3] in [document["fields"].get("vec") for document in visited["documents"]]


# A condition on a note with year 1999, two numbers, an owner and a label; and whether it holds.
CONDITIONS = [
    ("note.year == 1999", True),
    ("note.year > 1999", False),
    ("note.year % 2 == 1", True),
    ('note.title == "The Fox"', True),
    ('note.title == "the fox"', False),
    ('note.title = "The*"', True),
    ('note.title =~ "^The F"', True),
    ("note.title.lowercase() == \"the fox\"", True),
    ("note.body == null", True),
    ("note.body", False),
    ("note.body != null or note.year < 2000", True),
    ("not note.year == 1999", False),
    ("note.numbers[1] == 2", True),
    ("note.numbers == 2", True),
    ("note.labels{work} == 7", True),
    ('note.owner.first == "Ada"', True),
    ('note.prefs{color} == "blue"', True),
    ("note.year + 1 == 2000 and note.year * 2 == 3998", True),
    ('id.namespace == "n"', True),
    ('id.group == "edit"', True),
    ('id.type == "note" and id.specific == "one"', True),
    ('id == "id:n:note:g=edit:one"', True),
    ("note.year < now()", True),
    ("now() - 86400 > 1500000000", True),
    ("music.year == 1999", None),
    ("note.year ==", None),
    ("note.nosuch == 1", None),
]


@pytest.mark.parametrize("condition, holds", CONDITIONS)
def test_conditions(notes, condition, holds):
    fields = {
        "title": "The Fox",
        "year": 1999,
        "numbers": [1, 2],
        "labels": {"work": 7},
        "owner": {"first": "Ada"},
        "prefs": {"color": "blue"},
    }
    assert notes.call("POST", PATH, {"fields": fields})[0] == 200
    status, answer = notes.call("POST", PATH, {"condition": condition, "fields": fields})
    assert status == {True: 200, False: 412, None: 400}[holds], answer


def test_updates_of_what_is_not_there(notes):
    path = "/document/v1/n/note/group/edit/absent"
    update = {"fields": {"year": {"assign": 1}}}
    assert notes.call("PUT", path, update)[0] == 200
    assert notes.call("GET", path)[0] == 404
    assert notes.call("PUT", f"{path}?create=true", update)[0] == 200
    assert notes.call("GET", path)[1]["fields"] == {"year": 1}
    assert notes.call("DELETE", f"{path}?condition=note.year==2")[0] == 412
    assert notes.call("DELETE", path)[0] == 200
    assert notes.call("GET", path)[0] == 404


def visited(notes, query: str):
    """All documents that a visit of the group gives, page by page."""
    documents, continuation = [], ""
    while True:
        _, page = notes.call("GET", f"/document/v1/n/note/group/me?{query}{continuation}")
        documents += page["documents"]
        if "continuation" not in page:
            return documents
        continuation = f"&continuation={page['continuation']}"


def test_visits(notes):
    def names(query):
        return "".join(sorted(document["id"][-1] for document in visited(notes, query)))

    assert names("wantedDocumentCount=100") == "abcdefgh"
    assert names("wantedDocumentCount=1") == "abcdefgh"
    assert names("selection=note.year%3E2010") == "fgh"
    assert names("selection=note.year%3E2010&wantedDocumentCount=1") == "fgh"
    assert names("fieldSet=note:year") == "abcdefgh"
    slices = [names(f"slices=2&sliceId={slice}") for slice in range(2)]
    assert "".join(sorted(slices[0] + slices[1])) == "abcdefgh"
    assert {tuple(d["fields"]) for d in visited(notes, "fieldSet=note:year&selection=note.year==1999")} == {("year",)}
    assert {tuple(d["fields"]) for d in visited(notes, "fieldSet=[id]")} <= {()}
    # A fieldset of the schema stands for its fields.
    first = "selection=note.year==1999"
    assert {tuple(d["fields"]) for d in visited(notes, f"fieldSet=note:default&{first}")} == {("title", "body")}
    assert {tuple(d["fields"]) for d in visited(notes, f"fieldSet=note:year,default&{first}")} == {("title", "body", "year")}


def test_many_at_once(notes):
    for name in "pqr":
        assert notes.call("POST", f"/document/v1/n/note/group/many/{name}", {"fields": {"year": ord(name)}})[0] == 200
    many = "/document/v1/n/note/group/many"
    update = {"fields": {"title": {"assign": "changed"}}}
    status, answer = notes.call("PUT", f"{many}?selection=note.year%3E{ord('p')}&cluster=notes", update)
    assert (status, answer["documentCount"]) == (200, 2), answer
    assert notes.found(yql='select * from note where title contains "changed"', streaming__groupname="many") in ("qr", "rq")
    status, answer = notes.call("DELETE", f"{many}?selection=note.year=={ord('q')}&cluster=notes")
    assert (status, answer["documentCount"]) == (200, 1), answer
    status, answer = notes.call("DELETE", f"{many}?selection=true&cluster=notes")
    assert status == 200, answer
    assert notes.found(yql="select * from note where true", streaming__groupname="many") == ""
    assert notes.found(yql="select * from note where true", streaming__groupname="you") == "z"


WRONG = [
    ("POST", PATH, {"fields": {"nosuch": 1}}, "nosuch"),
    ("POST", PATH, {"fields": {"year": "x"}}, "year"),
    ("POST", PATH, {"fields": {"year": 3_000_000_000}}, "year"),
    ("POST", PATH, {"fields": {"vec": [1, 2]}}, "vec"),
    ("POST", PATH, {"fields": {"vec": {"cells": [{"address": {"y": "0"}, "value": 1}]}}}, "vec"),
    ("POST", PATH, {"fields": {"numbers": {"a": 1}}}, "numbers"),
    ("POST", PATH, {"fields": {"blob": "!"}}, "blob"),
    ("POST", PATH, {"fields": {"place": "here"}}, "place"),
    ("POST", PATH, {"field": {}}, "fields"),
    ("PUT", PATH, {"fields": {"year": {"append": 1}}}, "append"),
    ("PUT", PATH, {"fields": {"title": {"increment": 1}}}, "title"),
    ("PUT", PATH, {"fields": {"vec": {"modify": {"operation": "add", "cell": []}}}}, "cell"),
    ("PUT", PATH, {"fields": {"owner.nosuch": {"assign": 1}}}, "nosuch"),
    ("POST", "/document/v1/n/nosuch/group/edit/one", {"fields": {}}, "nosuch"),
    ("GET", "/document/v1/n/note/group/edit/one?fieldSet=note:nosuch", None, "nosuch"),
    ("GET", "/document/v1/n/note/group/me?selection=note.year%20%3D", None, "selection"),
]


@pytest.mark.parametrize("method, path, body, named", WRONG)
def test_what_is_wrong_is_named(notes, method, path, body, named):
    status, answer = notes.call(method, path, body)
    assert status == 400, answer
    assert named in answer["message"]
