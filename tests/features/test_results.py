"""In which order hits come, how they are scored, and what is shown of them."""

import math

import pytest

ALL = "select * from note where true"

ORDERS = [
    ({"yql": f"{ALL} order by year"}, "eabcdfgh"),
    ({"yql": f"{ALL} order by year desc"}, "hgfcdbae"),
    ({"yql": f"{ALL} order by year desc limit 3"}, "hgf"),
    ({"yql": f"{ALL} order by year desc limit 4 offset 2"}, "fc"),
    ({"yql": f"{ALL} order by missing(year, first) desc"}, "ehgfcdba"),
    ({"yql": f"{ALL} order by missing(year, as, 2007)"}, "abecdfgh"),
    ({"yql": f"{ALL} order by lowercase(folder), year"}, "ehfgabdc"),
    ({"yql": "select * from note where year > 2000", "sorting": "-year"}, "hgfcdb"),
    ({"yql": "select * from note where year > 2000", "ranking.sorting": "+price -year"}, "hgcdbf"),
    # Members of structs: of several values the first in the order.
    ({"yql": "select * from note where people.age > 0 order by people.age"}, "abc"),
    ({"yql": "select * from note where people.age > 0 order by people.age desc, people.first desc"}, "cab"),
    ({"yql": "select * from note where people.age > 0", "sorting": "-people.first +people.age"}, "acb"),
    ({"yql": 'select * from note where name contains "ada" or name contains "Ada" order by raw(name)'}, "ab"),
    ({"yql": 'select * from note where price > 1 order by uca(folder, "en_US", "PRIMARY"), year desc'}, "fba"),
    # Binary data, by its bytes; documents without it come first, or last where the order is descending.
    ({"yql": 'select * from note where name contains "ada" or name contains "Ada" order by blob'}, "ba"),
    ({"yql": 'select * from note where name contains "ada" or name contains "Ada" order by blob desc'}, "ab"),
    ({"yql": 'select * from note where anywhere contains "fox" order by year'}, "abf"),
    ({"yql": ALL, "hits": 3}, "hgf"),
    # As long as it takes.
    ({"yql": ALL, "hits": 3, "timeout": "10000000000000000000"}, "hgf"),
    ({"yql": ALL, "hits": 3, "offset": 2}, "fcd"),
    ({"yql": ALL, "count": 3, "start": 2}, "fcd"),
]


@pytest.mark.parametrize("parameters, expected", ORDERS)
def test_orders(notes, parameters, expected):
    assert notes.found(**parameters) == expected


def bm25(frequency: int, length: int, average: float, documents: int, having: int) -> float:
    inverse = math.log(1 + (documents - having + 0.5) / (having + 0.5))
    return inverse * frequency * 2.2 / (frequency + 1.2 * (0.25 + 0.75 * length / average))


# Eight titles of 4, 5, 2, 2, 1, 3, 3 and 1 words; two have "quick", three have "fox".
QUICK_FOX = {"a": bm25(1, 4, 21 / 8, 8, 2) + bm25(1, 4, 21 / 8, 8, 3), "b": bm25(1, 5, 21 / 8, 8, 2) + bm25(1, 5, 21 / 8, 8, 3)}

SCORES = [
    ('title contains "quick" and title contains "fox"', {"ranking": "text"}, QUICK_FOX),
    ("price > 0", {"ranking": "two"}, {"f": 2 * 10 + 2, "b": 2 * 2.5 + 2, "a": 1.5}),
    ("price > 0", {"ranking": "two", "input.query(n)": 5}, {"f": 25, "b": 10, "a": 1.5}),
    ("price > 0", {"ranking": "two", "ranking.secondPhase.rerankCount": 1}, {"f": 22, "b": 2.5, "a": 1.5}),
    ("true", {"ranking": "limited"}, {"f": 10, "b": 2.5, "a": 1.5}),
    ("price > 1", {"ranking": "unranked"}, {"a": 0, "b": 0, "f": 0}),
    (
        "{targetHits: 9}nearestNeighbor(vec, q)",
        {"ranking": "near", "input.query(q)": [1, 0, 0]},
        {"a": 1, "b": 1 / (1 + 2**0.5), "c": 1 / (1 + 2**0.5), "f": 1 / (1 + 20**0.5)},
    ),
    (
        "{targetHits: 9, distanceThreshold: 1.5}nearestNeighbor(vec, q)",
        {"ranking": "near", "input.query(q)": "{{x:0}:1,{x:1}:0,{x:2}:0}"},
        {"a": 1, "b": 1 / (1 + 2**0.5), "c": 1 / (1 + 2**0.5)},
    ),
    (
        "{targetHits: 1}nearestNeighbor(vec, q) and year > 2000",
        {"ranking": "near", "input.query(q)": "[1, 1, 0]"},
        {"b": 0.5},
    ),
]


@pytest.mark.parametrize("condition, parameters, expected", SCORES)
def test_scores(notes, condition, parameters, expected):
    root = notes.search(yql=f"select * from note where {condition}", **parameters)
    scores = {hit["id"][-1]: hit["relevance"] for hit in root["children"]}
    assert scores == pytest.approx(expected)
    assert list(scores.values()) == sorted(scores.values(), reverse=True)


DOG = 'select * from note where default contains "dog"'
DOG_AND_MORE = f'{DOG} and lines contains "pear" and people.first contains "ann" and labels contains "work"'

SHOWN = [
    ({"yql": 'select title, year from note where title contains "bread"'}, {"title": "Brown bread", "year": 2010}),
    ({"yql": DOG, "summary": "brief"}, {"title": "The quick brown fox", "year": 1999, "sddocname": "note"}),
    (
        {"yql": DOG, "presentation.summary": "renamed"},
        {"title": "The quick brown fox", "heading": "The quick brown fox", "year": 1999, "sddocname": "note"},
    ),
    (
        {"yql": DOG_AND_MORE, "presentation.summary": "matched"},
        {
            "lines": ["green pear"],
            "people": [{"first": "Ann", "last": "Lee", "age": 30}],
            "labels": {"work": 10},
            "sddocname": "note",
        },
    ),
    (
        {"yql": DOG, "presentation.summary": "teaser"},
        {"body": "jumps over the lazy <hi>dog</hi> and the <hi>dog</hi> barks", "sddocname": "note"},
    ),
]


@pytest.mark.parametrize("parameters, expected", SHOWN)
def test_summaries(notes, parameters, expected):
    assert [hit["fields"] for hit in notes.search(**parameters)["children"]] == [expected]


FORMS = [
    ("body", {}, "jumps over the lazy <hi>dog</hi> and the <hi>dog</hi> barks"),
    ("body", {"presentation.bolding": False}, "jumps over the lazy dog and the dog barks"),
    ("size", {}, 10_000_000_000),
    ("seen", {}, True),
    ("labels", {"renderer__json__jsonWsets": "false"}, [{"item": "work", "weight": 10}, {"item": "urgent", "weight": 5}]),
    ("prefs", {"renderer__json__jsonMaps": "false"}, {"color": "blue", "lang": "en"}),
    ("prefs", {"renderer__json__jsonWsets": "false"}, {"color": "blue", "lang": "en"}),
    ("small", {}, -3),
    ("labels", {}, {"work": 10, "urgent": 5}),
    ("weights", {}, {"7": 70, "8": 80}),
    ("numbers", {}, [1, 2, 3]),
    ("owner", {}, {"first": "Grace", "last": "Hopper", "age": 45}),
    ("prefs", {}, {"color": "blue", "lang": "en"}),
    ("blob", {}, "AAEC"),
    ("parts", {}, {"type": "tensor<bfloat16>(part{},x[2])", "blocks": {"p": [1.0, 0.0], "q": [0.0, 1.0]}}),
    ("parts", {"presentation.format.tensors": "short-value"}, {"p": [1.0, 0.0], "q": [0.0, 1.0]}),
    ("bits", {"presentation.format.tensors": "hex"}, {"type": "tensor<int8>(x[2])", "values": "0103"}),
    ("bits", {"presentation.format.tensors": "hex-value"}, "0103"),
    (
        "bits",
        {"presentation.format.tensors": "long"},
        {
            "type": "tensor<int8>(x[2])",
            "cells": [{"address": {"x": "0"}, "value": 1.0}, {"address": {"x": "1"}, "value": 3.0}],
        },
    ),
    ("sparse", {"presentation.format.tensors": "short-value"}, {"x": 1.0, "y": 2.0}),
]


@pytest.mark.parametrize("field, parameters, expected", FORMS)
def test_forms_of_values(notes, field, parameters, expected):
    [hit] = notes.search(yql=DOG, **parameters)["children"]
    assert hit["fields"][field] == expected


REFUSED = [
    ({"yql": "select * from note where"}, "line 1, column"),
    ({"yql": 'select * from note where nosuch contains "x"'}, "nosuch"),
    ({"yql": 'select * from nosuch where true'}, "nosuch"),
    ({"yql": ALL, "hits": 100_000}, "hits"),
    ({"yql": ALL, "ranking": "nosuch"}, "nosuch"),
    ({"yql": ALL, "presentation.summary": "nosuch"}, "nosuch"),
    ({"yql": f"{ALL} order by nosuch"}, "nosuch"),
    ({"yql": f"{ALL} order by vec"}, "vec"),
    ({"yql": ALL, "sorting": "prefs{color}"}, "one entry of a map"),
    ({"yql": "select * from note where nearestNeighbor(vec, q)"}, "targetHits"),
    ({"yql": "select * from note where {targetHits: 1}nearestNeighbor(vec, nosuch)"}, "nosuch"),
    ({"yql": "select * from note where {targetHits: 1}nearestNeighbor(vec, q)", "input.query(q)": [1]}, "x"),
    ({"yql": f"{ALL} | all(group(nosuch) each(output(count())))"}, "nosuch"),
    ({"yql": ALL, "timeout": "soon"}, "timeout"),
    ({"yql": ALL, "streaming.groupname": ""}, "streaming.groupname"),
    ({"query": '"', "type": "nosuch"}, "nosuch"),
]


@pytest.mark.parametrize("parameters, named", REFUSED)
def test_what_is_wrong_is_named(notes, parameters, named):
    parameters.setdefault("streaming.groupname", "me")
    status, answer = notes.call("POST", "/search/", parameters)
    assert status == 400
    assert named in answer["root"]["errors"][0]["message"]


def test_a_source_that_does_not_exist_is_told_before_a_missing_group(notes):
    for source, told in [("nosuch", "'nosuch'"), ("note", "streaming.groupname")]:
        status, answer = notes.call("POST", "/search/", {"yql": f"select * from {source} where true"})
        assert status == 400
        assert told in answer["root"]["errors"][0]["message"]


UNSHOWN = [
    ("titel", "no field 'titel' to select (did you mean 'title'?)"),
    ("title, zzzzzzzzzz", "no field 'zzzzzzzzzz' to select"),
    ("title, owner.first", "'owner.first' is a part of a field: select 'owner', which is shown as a whole"),
    ("title, documentid, sddocname, summaryfeatures, matchfeatures, rankfeatures", None),
]


@pytest.mark.parametrize("fields, told", UNSHOWN)
def test_a_selected_field_that_is_not_there_is_told_of_beside_the_hits(notes, fields, told):
    root = notes.search(yql=f"select {fields} from note where true")
    assert (root["status"], root["fields"]["totalCount"]) == (200, 8)
    messages = [error["message"] for error in root.get("errors", [])]
    assert messages == ([told] if told else [])


def test_sources_that_are_there_are_asked_beside_others(notes):
    root = notes.search(yql="select * from note, nosuch where true")
    assert (root["status"], root["fields"]["totalCount"]) == (200, 8)
    told = "Could not resolve source ref 'nosuch'. Valid source refs are "
    assert [error["message"].startswith(told) for error in root["errors"]] == [True]
    assert notes.search(yql="select * from nosuch, other where true")["status"] == 400
