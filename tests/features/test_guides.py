"""Applications of the kinds that Vespa's guides describe: texts in chunks, diverse results, prices by market, places, pinned
results, promotions as tensors, and ways to match text. Each is a package, documents, and requests with their answers."""

import pytest

from node import Node, free_ports
from packages import call, deploy, found, search, services

CHUNKS = """schema page {
    document page {
        field text type string { }
        field parts type array<string> {
            indexing: index | summary
            summary { select-elements-by: best_parts }
        }
        field vectors type tensor<float>(chunk{}, x[2]) { indexing: attribute }
    }
    field pieces type array<string> { indexing: input text | chunk fixed-length 12 | summary | index }
    field sentences type array<string> { indexing: input text | chunk sentence | summary | index }
    rank-profile default {
        inputs { query(v) tensor<float>(x[2]) }
        function my_distance() { expression: euclidean_distance(query(v), attribute(vectors), x) }
        function distance_scores() { expression: 1 / (1 + my_distance) }
        function text_scores() { expression: elementwise(bm25(parts), chunk, float) }
        function part_scores() { expression: merge(distance_scores, text_scores, f(a,b)(a+b)) }
        function best_parts() { expression: top(2, part_scores) }
        first-phase { expression: sum(part_scores()) }
        summary-features { best_parts }
    }
    rank-profile near inherits default {
        rank parts { element-gap: 1 }
        first-phase { expression: nativeProximity(parts) }
    }
    rank-profile closest {
        inputs { query(v) tensor<float>(x[2]) }
        first-phase { expression: closeness(field, vectors) }
        match-features { closest(vectors) }
    }
}"""

DIVERSE = """schema page {
    document page {
        field host type string { indexing: attribute | summary }
        field fame type int { indexing: attribute | summary }
    }
    rank-profile diverse {
        first-phase { expression: attribute(fame) }
        diversity {
            attribute: host
            min-groups: 2
        }
        second-phase {
            expression: 1000 + attribute(fame)
            rerank-count: 2
        }
    }
    rank-profile matched {
        match-phase {
            attribute: fame
            total-max-hits: 1000
            max-filter-coverage: 1.0
        }
        diversity {
            attribute: host
            min-groups: 10
        }
        first-phase { expression: attribute(fame) }
    }
}"""

PRICES = """schema ware {
    document ware {
        field currency type string { indexing: summary | attribute }
        struct offer {
            field market type string {}
            field price type double {}
        }
        field offers type array<offer> {
            indexing: summary
            summary: matched-elements-only
            struct-field market {
                indexing: attribute
                attribute: fast-search
            }
            struct-field price {
                indexing: attribute
                attribute: fast-search
            }
        }
    }
    rank-profile price {
        inputs {
            query(rates) tensor<double>(from{}, to{})
            query(buyer) tensor<double>(to{})
            query(market) tensor<double>(market{})
        }
        function from_selector() { expression: tensorFromLabels(attribute(currency), from) }
        function rate() { expression: sum(query(rates) * from_selector() * query(buyer), from, to) }
        function prices() { expression: tensorFromStructs(attribute(offers), market, price, double) }
        function here() { expression: sum(prices() * query(market), market) }
        function elsewhere() { expression: prices(){market:'DEFAULT'} }
        function price() { expression: if(here() > 0, here(), elsewhere()) }
        first-phase { expression: -price() * rate() }
    }
}"""

PLACES = """schema shop {
    document shop {
        field title type string { indexing: index }
        field main type position { indexing: attribute | summary }
        field others type array<position> { indexing: attribute }
    }
    fieldset default { fields: title }
    rank-profile near {
        first-phase { expression: distance(main).km }
        summary-features {
            distance(main)
            closeness(main)
            distanceToPath(main).distance
        }
    }
    rank-profile path {
        first-phase { expression: nativeRank }
        second-phase { expression: firstPhase * if (distanceToPath(main).distance < 10000, 1, 0) }
    }
}"""

PINNED = """schema item {
    document item {
        field features type weightedset<string> {
            indexing: summary | attribute
            attribute: fast-search
        }
        field pins type weightedset<string> { indexing: index | summary }
        field category type string {
            indexing: attribute | summary
            attribute: fast-search
            rank: filter
        }
    }
    rank-profile default { first-phase { expression: rawScore(features) } }
    rank-profile labels { first-phase { expression: itemRawScore(one) + 10 * itemRawScore(two) } }
    rank-profile pinned {
        function top_ten(name) {
            expression {
                if (elementCompleteness(name).elementWeight > 0,
                    11 - elementCompleteness(name).elementWeight, 0)
            }
        }
        first-phase { expression: 0.5 + top_ten(pins) }
        match-features { elementCompleteness(pins).elementWeight }
    }
}"""

TENSORS = """schema deal {
    document deal {
        field starts type tensor(id{}) { indexing: attribute }
        field ends type tensor(id{}) { indexing: attribute }
        field price type tensor(id{}) { indexing: attribute }
        field matrix type tensor<float>(x[3], y[2]) { indexing: attribute }
        field vector type tensor<float>(x[4]) { indexing: attribute | summary }
        field rows type tensor<float>(x{}, y[3]) { indexing: attribute }
    }
    rank-profile promotions {
        first-phase { expression: reduce((attribute(starts) < now) * (attribute(ends) > now) * attribute(price), max) }
    }
    rank-profile joined {
        first-phase { expression: sum(join(attribute(starts), now, f(x,y)(x < y))) }
    }
    rank-profile matrix {
        inputs { query(q) tensor<float>(x[3]) }
        first-phase { expression: reduce(sum(query(q) * attribute(matrix), x), max) }
    }
    rank-profile rows {
        inputs { query(key) tensor<float>(x{}) }
        function row() {
            expression {
                if(reduce(query(key) * attribute(rows), count) == 3,
                   reduce(query(key) * attribute(rows), sum, x),
                   tensor<float>(y[3]):[0.5,0.5,0.5])
            }
        }
        first-phase { expression: sum(row()) }
    }
    rank-profile sliced {
        inputs { query(q) tensor<float>(x[4]) }
        function first(t) { expression: l2_normalize(tensor<float>(x[2])(t{x:(x)}), x) }
        first-phase { expression: sum(first(query(q)) * first(attribute(vector))) }
        second-phase { expression: sum(query(q) * attribute(vector)) }
    }
    rank-profile concatenated {
        inputs { query(q) tensor<float>(x[4]) }
        first-phase { expression: sum(concat(concat(query(q), attribute(vector), x), tensor(x[2]):[value(1), value(2)], x)) }
    }
}"""

MATCHING = """schema song {
    document song {
        field album type string { indexing: summary | index }
        field songs type array<string> {
            indexing: summary | index
            index: enable-bm25
        }
        field name type string { indexing: index | summary }
        field chinese type string {
            indexing {
                "zh-hant" | set_language;
                summary | index
            }
            match {
                gram
                gram-size: 2
            }
        }
        field whole type string {
            indexing: summary | attribute
            attribute: fast-search
        }
    }
    field album_whole type string { indexing: input album | attribute }
    field songs_whole type array<string> {
        indexing: input songs | attribute | summary
        attribute: fast-search
    }
    field words type array<string> { indexing: input name | trim | split " +" | attribute | summary }
    document-summary debug {
        summary album { }
        summary album_tokens {
            source: album
            tokens
        }
        summary whole_tokens {
            source: whole
            tokens
        }
        from-disk
    }
    fieldset default { fields: album, name }
}"""

DREAMS = {"album": "A Head Full of Dreams", "songs": ["Enter Sandman", "Birds"], "name": " Big  Trees ", "chinese": "滿腦子的夢想",
          "whole": "A Head Full of Dreams"}
LOVE = {"album": "Love Is Here To Stay", "songs": ["Nice Work"], "name": "Small", "whole": "Love Is Here To Stay"}

# The schema, the documents.
APPLICATIONS = {
    "chunks": (CHUNKS, "page", {
        "a": {"text": "One sentence. And another one.", "parts": ["green apples", "red pears", "blue plums"],
              "vectors": {"0": [0, 0], "1": [3, 4], "2": [0, 1]}},
        "b": {"parts": ["nothing"], "vectors": {"0": [9, 9]}},
    }),
    "diverse": (DIVERSE, "page", {
        "a": {"host": "x", "fame": 9}, "b": {"host": "x", "fame": 8}, "c": {"host": "y", "fame": 7}, "d": {"host": "z", "fame": 1},
    }),
    "prices": (PRICES, "ware", {
        "a": {"currency": "USD", "offers": [{"market": "DEFAULT", "price": 199}, {"market": "NO", "price": 300}]},
        "b": {"currency": "EUR", "offers": [{"market": "DEFAULT", "price": 100}]},
    }),
    "places": (PLACES, "shop", {
        "a": {"title": "main office", "main": {"lat": 37.4181488, "lng": -122.0256157}},
        "b": {"title": "some offices", "main": {"lat": 37.4, "lng": -122.0}, "others": [{"lat": 63.4, "lng": 10.4}]},
        "c": {"title": "office", "main": {"lat": 63.4, "lng": 10.4}},
    }),
    "pinned": (PINNED, "item", {
        "a": {"features": {"x": 2, "y": 3}, "pins": {"q1": 1, "q2": 2}, "category": "tv"},
        "b": {"features": {"x": 5}, "pins": {"q1": 4}, "category": "tabloid"},
        "c": {"features": {"z": 1}, "category": "radio"},
    }),
    "tensors": (TENSORS, "deal", {
        "a": {"starts": {"cells": {"p": 40, "q": 60}}, "ends": {"cells": {"p": 50, "q": 70}}, "price": {"cells": {"p": 16, "q": 18}},
              "matrix": {"values": [1, 7, 3, 11, 5, 13]}, "vector": [1, 2, 3, 5],
              "rows": {"blocks": {"a": [1, 2, 3], "b": [4, 5, 6]}}},
    }),
    "matching": (MATCHING, "song", {"a": DREAMS, "b": LOVE}),
}


@pytest.fixture(scope="module")
def nodes(tmp_path_factory):
    """Returns the node of an application, with its documents; each is started once."""
    started = {}

    def node_of(name: str) -> Node:
        if name not in started:
            schema, document_type, documents = APPLICATIONS[name]
            node = started[name] = Node(tmp_path_factory.mktemp(name) / "data", *free_ports(2))
            files = {"services.xml": services(document_type), f"schemas/{document_type}.sd": schema}
            status, answer = deploy(node, files)
            assert status == 200, answer
            for key, fields in documents.items():
                url = f"{node.data}/document/v1/n/{document_type}/group/me/{key}"
                status, answer = call("POST", url, {"fields": fields})
                assert status == 200, answer
        return started[name]

    yield node_of
    for node in started.values():
        node.stop()


FOUND = [
    ("chunks", 'parts contains "apples"', {}, "a"),
    ("chunks", 'pieces contains "sentence"', {}, ""),
    ("chunks", 'sentences contains "another"', {}, "a"),
    ("chunks", "parts contains text(@query) or ({totalTargetHits:10}nearestNeighbor(vectors, v))",
     {"query": "plums", "input.query(v)": [0, 0]}, "ab"),
    ("diverse", "true", {"ranking": "diverse"}, "acbd"),
    ("diverse", "true", {"ranking": "matched"}, "abcd"),
    ("prices", 'offers contains sameElement(market contains "NO", price >= 200, price <= 400)', {}, "a"),
    ("places", 'title contains "office" and geoLocation(main, 37.416383, -122.024683, "20 miles")', {"ranking": "near"}, "ba"),
    ("places", 'rank(title contains "office", geoLocation(main, 37.416383, -122.024683, "-1 m"))', {"ranking": "near"}, "cba"),
    ("places", 'geoLocation(others, 63.4, 10.4, "5 km")', {}, "b"),
    ("places", 'rank(title contains "office", title contains "main")',
     {"ranking": "path", "rankproperty.distanceToPath(main).path": "(-122030000,37409000,-121990000,37409000)"}, "abc"),
    ("pinned", 'dotProduct(features, {"x": 1, "y": 2})', {}, "ab"),
    ("pinned", '({label: "one"}dotProduct(features, {"x": 1})) or ({label: "two"}dotProduct(features, {"z": 1}))',
     {"ranking": "labels"}, "cba"),
    ("pinned", 'true or rank(pins contains "q1")', {"ranking": "pinned"}, "abc"),
    ("pinned", "category in ('tv', 'radio') order by category", {}, "ca"),
    ("matching", 'album contains "dreams"', {}, "a"),
    ("matching", 'album_whole contains "a head full of dreams"', {}, "a"),
    ("matching", 'whole contains ({prefix: true}"a hea")', {}, "a"),
    ("matching", 'whole contains ({maxEditDistance: 1}fuzzy("A Head Full of Dreems"))', {}, "a"),
    ("matching", 'whole contains ({maxEditDistance: 1, prefix: true}fuzzy("Ahead Full"))', {}, "a"),
    ("matching", 'songs_whole contains ({maxEditDistance: 1}fuzzy("enter zandman"))', {}, "a"),
    ("matching", 'whole matches "^a head fu[l]+ of dreams"', {}, "a"),
    ("matching", 'whole matches "head"', {}, "a"),
    ("matching", 'whole matches "^." order by whole', {}, "ab"),
    ("matching", 'words contains "Trees"', {}, "a"),
    ("matching", 'chinese contains "夢想"', {}, "a"),
    ("matching", 'chinese contains "滿腦夢想"', {}, ""),
    ("matching", 'chinese contains "滿腦夢想"', {"gram.match": "any"}, "a"),
    ("matching", 'userQuery()', {"query": "trees", "type": "any"}, "a"),
]


@pytest.mark.parametrize("name, condition, parameters, expected", FOUND)
def test_found(nodes, name, condition, parameters, expected):
    names = found(nodes(name), condition, **{key.replace(".", "__"): value for key, value in parameters.items()})
    assert names == expected


SCORES = [
    ("prices", "true", {"ranking": "price", "input.query(buyer)": "{{to:NOK}:1}", "input.query(market)": "{{market:NO}:1}",
                        "input.query(rates)": "{{from:USD,to:NOK}:10,{from:EUR,to:NOK}:11}"}, {"a": -3000, "b": -1100}),
    ("pinned", 'true or rank(pins contains "q1")', {"ranking": "pinned"}, {"a": 10.5, "b": 7.5, "c": 0.5}),
    ("tensors", "true", {"ranking": "promotions", "ranking.freshness": "45"}, {"a": 16}),
    ("tensors", "true", {"ranking": "promotions", "ranking.freshness": "65"}, {"a": 18}),
    ("tensors", "true", {"ranking": "joined", "ranking.freshness": "45"}, {"a": 1}),
    ("tensors", "true", {"ranking": "matrix", "input.query(q)": [1, 3, 5]}, {"a": 105}),
    ("tensors", "true", {"ranking": "rows", "input.query(key)": "{b:1.0}"}, {"a": 15}),
    ("tensors", "true", {"ranking": "rows", "input.query(key)": "{z:1.0}"}, {"a": 1.5}),
    ("tensors", "true", {"ranking": "sliced", "input.query(q)": [1, 2, 3, 5]}, {"a": 39}),
    ("tensors", "true", {"ranking": "concatenated", "input.query(q)": [1, 1, 1, 1]}, {"a": 18}),
    ("chunks", "({targetHits: 5}nearestNeighbor(vectors, v))", {"ranking": "closest", "input.query(v)": [0, 1]}, {"a": 1, "b": 1 / (1 + 145**0.5)}),
]


@pytest.mark.parametrize("name, condition, parameters, expected", SCORES)
def test_scores(nodes, name, condition, parameters, expected):
    asked = {key.replace(".", "__"): value for key, value in parameters.items()}
    root = search(nodes(name), yql=f"select * from sources * where {condition}", **asked)
    assert {hit["id"][-1]: hit["relevance"] for hit in root["children"]} == pytest.approx(expected)


SHOWN = [
    ("chunks", 'parts contains "pears"', {"input.query(v)": [0, 0]}, {
        "parts": ["green apples", "red pears"],
        "sentences": ["One sentence.", "And another one."],
    }),
    ("prices", 'offers contains sameElement(market contains "NO", price > 1)', {}, {"offers": [{"market": "NO", "price": 300.0}]}),
    ("matching", 'album contains "dreams"', {"summary": "debug"}, {
        "album_tokens": ["a", "head", "full", "of", "dream"],
        "whole_tokens": ["a head full of dreams"],
    }),
    ("matching", 'album contains "dreams"', {}, {"words": ["Big", "Trees"]}),
]


@pytest.mark.parametrize("name, condition, parameters, expected", SHOWN)
def test_shown(nodes, name, condition, parameters, expected):
    asked = {key.replace(".", "__"): value for key, value in parameters.items()}
    [hit] = search(nodes(name), yql=f"select * from sources * where {condition}", **asked)["children"]
    assert {name: hit["fields"].get(name) for name in expected} == expected
