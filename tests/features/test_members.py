"""Words inside structs and maps: searched, ranked and near each other as those of other fields are."""

import pytest

from node import Node, free_ports
from packages import call, deploy, found, search, services

SCHEMA = """schema card {
    document card {
        struct person {
            field name type string {}
            field age type int {}
            field nicknames type array<string> {}
            field marks type map<string, string> {}
        }
        field title type string { indexing: summary | index }
        field owner type person { indexing: summary | index }
        field people type array<person> { indexing: summary | index }
        field notes type map<string, string> { indexing: summary | index }
        field deep type map<string, map<string, person>> { indexing: summary | index }
        field codes type map<string, string> {
            indexing: summary | index
            struct-field value {
                indexing: index
                match: exact
            }
        }
        field plain type array<person> {
            indexing: summary
            struct-field name { indexing: attribute }
        }
        field lines type array<string> { indexing: summary | index }
    }
    fieldset default { fields: title, owner, notes }
    document-summary elements {
        summary lines_that_match {
            source: lines
            matched-elements-only
        }
        summary people_that_match {
            source: people
            matched-elements-only
        }
    }
    rank-profile default {
        first-phase { expression: nativeRank }
        summary-features {
            bm25(owner.name)
            fieldMatch(owner.name)
            fieldMatch(owner.name).matches
            fieldTermMatch(people.name,0).occurrences
            fieldTermMatch(people.name,1).occurrences
            fieldTermMatch(people.name,0).firstPosition
            fieldLength(people.name)
            fieldLength(people.age)
            fieldMatch(owner.age)
            fieldMatch(people.age).fieldCompleteness
            fieldMatch(people.age).matches
            fieldTermMatch(people.age,0).occurrences
            fieldTermMatch(people.age,1).occurrences
            fieldTermMatch(deep.value.value.name,0).occurrences
            fieldLength(deep.value.value.name)
            matches(people.age)
            matchCount(notes.value)
            nativeRank(people.name)
            nativeProximity(lines)
            matches(people)
            matches(people,0)
            matches(people,1)
            matches(people.name,1)
            matches(people.age,2)
            matches(notes)
            matches(lines,0)
            queryTermCount
            fieldTermMatch(lines,0).occurrences
            fieldTermMatch(notes.value,0).occurrences
            matchCount(title)
            elementwise(bm25(lines),x,double)
            fieldMatch(title).fieldCompleteness
            fieldMatch(title).queryCompleteness
            attribute(owner.age)
        }
    }
    rank-profile joined inherits default {
        rank lines { element-gap: 0 }
    }
    rank-profile joined-in-a-feature inherits default {
        rank-properties {
            nativeProximity.elementGap.lines: 0
        }
    }
}"""

CARDS = {
    "a": {
        "title": "first small steps",
        "owner": {"name": "Ada Augusta Lovelace", "age": 36, "nicknames": ["Countess"]},
        "people": [{"name": "Grace Hopper", "age": 40}, {"name": "Hopper Grace Grace", "age": 50}],
        "notes": {"color": "likes dark red wine", "place": "running in parks"},
        "deep": {"x": {"y": {"name": "Deep Thought"}, "z": {"name": "Deep Blue"}}, "w": {"y": {"name": "Deep Sleep Now"}}},
        "codes": {"k": "AB-1 c"},
        "plain": [{"name": "Two Words"}],
        "lines": ["red apple", "green pear"],
    },
    "b": {
        "title": "second",
        "owner": {"name": "Alan Turing", "age": 41, "marks": {"x": "bold", "y": "thin"}},
        "people": [{"name": "Grace Kelly", "age": 30, "marks": {"q": "thin"}}],
        "notes": {"wine": "white"},
        "lines": ["apple x x x x green"],
    },
    "c": {
        "title": "m m m n n n",
        "people": [{"age": 1}, {"name": "Joe Smith", "age": 2, "nicknames": ["J", "Jo"]}, {"name": "Joe Jones", "age": 3}],
        "notes": {"k": "plum cake", "l": "plum jam"},
        "lines": ["plum pie", "plum tart", "hot plum pie"],
    },
}


@pytest.fixture(scope="module")
def node(tmp_path_factory):
    node = Node(tmp_path_factory.mktemp("members") / "data", *free_ports(2))
    status, answer = deploy(node, {"services.xml": services("card"), "schemas/card.sd": SCHEMA})
    assert status == 200, answer
    for name, fields in CARDS.items():
        status, answer = call("POST", f"{node.data}/document/v1/n/card/group/me/{name}", {"fields": fields})
        assert status == 200, answer
    yield node
    node.stop()


CONDITIONS = [
    ('owner.name contains "ada"', "a"),
    ('owner.name contains phrase("augusta", "lovelace")', "a"),
    ('owner.name contains phrase("ada", "lovelace")', ""),
    ('owner.name contains near("ada", "lovelace")', "a"),
    ('owner.name contains ({prefix: true}"love")', "a"),
    ('owner.nicknames contains "countess"', "a"),
    ("owner.age > 40", "b"),
    ('people.name contains "grace"', "ab"),
    ('people.name contains phrase("grace", "hopper")', "a"),
    # Never across elements.
    ('people.name contains phrase("hopper", "hopper")', ""),
    ('people.name contains near("hopper", "kelly")', ""),
    ('people contains sameElement(name contains "grace", age = 50)', "a"),
    ('people contains sameElement(name contains phrase("grace", "hopper"), age = 50)', ""),
    # Words are stemmed and folded as elsewhere.
    ('notes.value contains "RUN"', "a"),
    ('notes.value contains "wine"', "a"),
    ('notes.value contains phrase("red", "wine")', "a"),
    ('notes.key contains "wine"', "b"),
    ('notes{color} contains "wine"', "a"),
    ('notes{place} contains "wine"', ""),
    ('notes contains sameElement(key contains "color", value contains phrase("dark", "red"))', "a"),
    # A struct or a map stands for all that is in it.
    ('owner contains "turing"', "b"),
    ('notes contains "wine"', "ab"),
    ('people contains "hopper"', "a"),
    ('default contains "wine"', "ab"),
    ('default contains "augusta"', "a"),
    ('deep.value.value.name contains "thought"', "a"),
    ('deep contains "thought"', "a"),
    # Entries of maps, at any depth.
    ('deep{x} contains "thought"', "a"),
    ('deep{w} contains "thought"', ""),
    ('deep{x}{y}.name contains "thought"', "a"),
    ('deep{x}{z}.name contains "thought"', ""),
    ('deep{w}{y}.name contains "thought"', ""),
    ('deep.value{y}.name contains "sleep"', "a"),
    ('deep.value{z}.name contains "sleep"', ""),
    ('deep{x}.value.name contains "blue"', "a"),
    ('deep{x}.key contains "z"', "a"),
    ('deep{w}.key contains "z"', ""),
    ('owner.marks{x} contains "bold"', "b"),
    ('owner.marks{y} contains "bold"', ""),
    ('people contains sameElement(name contains "kelly", marks{q} contains "thin")', "b"),
    ('people contains sameElement(name contains "kelly", marks{r} contains "thin")', ""),
    # Settings of its own.
    ('codes.value contains "ab-1 c"', "a"),
    ('codes.value contains "c"', ""),
    ('plain.name contains "two words"', "a"),
    ('plain.name contains "two"', ""),
]


@pytest.mark.parametrize("condition, expected", CONDITIONS)
def test_conditions(node, condition, expected):
    names = found(node, condition)
    assert ("".join(sorted(names)) if not names.startswith("error") else names) == expected


def features(node, condition: str, **parameters) -> dict:
    """The summary features of the best hit."""
    root = search(node, yql=f"select * from card where {condition}", **parameters)
    return root["children"][0]["fields"]["summaryfeatures"]


FEATURES = [
    ('owner.name contains "augusta"', "fieldMatch(owner.name).matches", 1),
    ('people.name contains "hopper"', "fieldTermMatch(people.name,0).occurrences", 2),
    ('people.name contains "hopper"', "fieldTermMatch(people.name,0).firstPosition", 1),
    # The longest element that matches.
    ('people.name contains "hopper"', "fieldLength(people.name)", 3),
    ('people.name contains phrase("grace", "hopper")', "fieldLength(people.name)", 2),
    # A number is a word, and an element.
    ("owner.age = 36", "fieldMatch(owner.age)", 1),
    ("people.age > 1", "fieldMatch(people.age).matches", 1),
    ("people.age > 1", "fieldMatch(people.age).fieldCompleteness", 1),
    ("people.age = 1", "fieldLength(people.age)", 1),
    ("people.age in (40, 50)", "fieldLength(people.age)", 1),
    ("range(people.age, 1, 3)", "fieldTermMatch(people.age,0).occurrences", 3),
    ('people contains sameElement(age > 1, name contains "joe")', "fieldTermMatch(people.age,1).occurrences", 2),
    ('deep contains "deep"', "fieldTermMatch(deep.value.value.name,0).occurrences", 3),
    ('deep{x} contains "deep"', "fieldTermMatch(deep.value.value.name,0).occurrences", 2),
    ('deep{x}{y}.name contains "deep"', "fieldTermMatch(deep.value.value.name,0).occurrences", 1),
    ('deep.value{y}.name contains "deep"', "fieldTermMatch(deep.value.value.name,0).occurrences", 2),
    ('deep.value{y}.name contains "deep"', "fieldLength(deep.value.value.name)", 3),
    ("people.age = 50", "matches(people.age)", 1),
    ("people.age = 30", "matches(people.age)", 1),
    ('notes.value contains "red" and notes.value contains "wine"', "matchCount(notes.value)", 2),
    ("owner.age = 36", "attribute(owner.age)", 36),
    # Words inside sameElement are those of the elements that match, words inside near those of its spans.
    ('lines contains "plum"', "fieldTermMatch(lines,0).occurrences", 3),
    ('lines contains sameElement("plum" and "tart")', "fieldTermMatch(lines,0).occurrences", 1),
    ('lines contains sameElement("plum" and "pie")', "fieldTermMatch(lines,0).occurrences", 2),
    ('lines contains sameElement("plum" and !"pie")', "fieldTermMatch(lines,0).occurrences", 1),
    ('lines contains ({elementFilter: [0, 2]}sameElement("plum"))', "fieldTermMatch(lines,0).occurrences", 2),
    ('lines contains sameElement("plum" and "hot") or lines contains "tart"', "fieldTermMatch(lines,0).occurrences", 1),
    ('lines contains sameElement("plum" and "soup") or lines contains "tart"', "fieldTermMatch(lines,0).occurrences", 0),
    ('people contains sameElement(name contains "joe", age = 3)', "fieldTermMatch(people.name,1).occurrences", 1),
    ('people contains sameElement(name contains "joe", age > 1)', "fieldTermMatch(people.name,1).occurrences", 2),
    # A sameElement is a term of the field, and its conditions are terms after it; but the element itself is no
    # term beside a condition on it.
    ('people contains sameElement(name contains "joe", age = 3)', "matches(people)", 1),
    ('people contains sameElement(name contains "joe", age = 3)', "matches(people,0)", 1),
    ('people contains sameElement(name contains "joe", age = 3)', "matches(people,1)", 0),
    ('people contains sameElement(name contains "joe", age = 3)', "matches(people.name,1)", 1),
    ('people contains sameElement(name contains "joe", age = 3)', "matches(people.age,2)", 1),
    ('people contains sameElement(name contains "joe", age = 3)', "queryTermCount", 3),
    ('people contains sameElement(name contains "joe" and !(age = 99))', "matches(people,0)", 1),
    ('people contains sameElement(name contains "joe", age = 99) or people.name contains "joe"', "matches(people)", 0),
    ('people contains ({ranked: false}sameElement(name contains "joe"))', "matches(people)", 0),
    ('people.name contains "joe"', "matches(people)", 0),
    ('notes contains sameElement(key contains "k", value contains "plum")', "matches(notes)", 1),
    ('lines contains sameElement("plum")', "matches(lines,0)", 1),
    ('lines contains sameElement("plum")', "queryTermCount", 1),
    ('notes.value contains "plum"', "fieldTermMatch(notes.value,0).occurrences", 2),
    ('notes{k} contains "plum"', "fieldTermMatch(notes.value,0).occurrences", 1),
    ('title contains "m" and title contains "n"', "matchCount(title)", 6),
    ('title contains ({distance: 1}near("m", "n"))', "matchCount(title)", 2),
    ('title contains ({distance: 2}onear("m", "n"))', "matchCount(title)", 3),
    ('rank(title contains "m", title contains ({distance: 1}near("n", "m")))', "matchCount(title)", 5),
    # A phrase is as many words as it has, but one among equivalents.
    ('title contains phrase("first", "small", "steps")', "fieldMatch(title).fieldCompleteness", 1),
    ('title contains equiv(phrase("first", "small"), "nosuch")', "fieldMatch(title).fieldCompleteness", 1 / 3),
    ('title contains equiv(phrase("first", "small"), "nosuch")', "fieldMatch(title).queryCompleteness", 1),
    ('title contains equiv(phrase("first", "small"), "steps")', "fieldMatch(title).fieldCompleteness", 1 / 3),
]


@pytest.mark.parametrize("condition, feature, expected", FEATURES)
def test_features(node, condition, feature, expected):
    assert features(node, condition)[feature] == pytest.approx(expected)


def test_elements_that_do_not_match_have_no_score(node):
    scores = features(node, 'lines contains sameElement("plum" and "pie")')["elementwise(bm25(lines),x,double)"]
    assert list(scores["cells"]) == ["0", "2"]


def test_what_matches_better_is_worth_more(node):
    both = features(node, 'owner.name contains "ada" and owner.name contains "augusta"')
    one = features(node, 'owner.name contains "lovelace"')
    for feature in ("bm25(owner.name)", "fieldMatch(owner.name)"):
        assert both[feature] > one[feature] > 0
    assert features(node, 'people.name contains "kelly"')["nativeRank(people.name)"] > 0


def test_elements_are_near_where_a_gap_says_so(node):
    near = 'lines contains near("apple", "green")'
    assert found(node, near) == ""
    assert found(node, near, ranking="joined") == "a"
    assert found(node, near, ranking__elementGap__lines=1) == "a"
    assert found(node, near, ranking__elementGap__lines=2) == ""
    assert found(node, near, ranking="joined", ranking__elementGap__lines="infinity") == ""
    words = 'lines contains "apple" and lines contains "green" and title contains "first"'
    profiles = ({}, {"ranking": "joined"}, {"ranking": "joined-in-a-feature"})
    proximity = [features(node, words, **asked)["nativeProximity(lines)"] for asked in profiles]
    assert proximity[0] == 0 < proximity[1] == proximity[2]
    assert found(node, near, ranking="joined-in-a-feature") == ""


# The condition, the profile, and the elements that match: of near and onear those that a match lies in.
ELEMENTS = [
    ('lines contains "plum"', "default", "lines", ["plum pie", "plum tart", "hot plum pie"]),
    ('lines contains near("plum", "tart")', "default", "lines", ["plum tart"]),
    ('lines contains near("pie", "hot")', "default", "lines", ["hot plum pie"]),
    ('lines contains onear("plum", "pie")', "default", "lines", ["plum pie", "hot plum pie"]),
    ('lines contains near("plum", "pie", !"hot")', "default", "lines", ["plum pie"]),
    ('lines contains near("red", "apple")', "joined", "lines", ["red apple"]),
    ('lines contains near("apple", "green")', "joined", "lines", ["red apple", "green pear"]),
    ('lines contains sameElement("plum" and "pie")', "default", "lines", ["plum pie", "hot plum pie"]),
    ('lines contains ({elementFilter: [0, 1]}sameElement("plum"))', "default", "lines", ["plum pie", "plum tart"]),
    ('people.name contains onear("grace", "hopper")', "default", "people", [{"name": "Grace Hopper", "age": 40}]),
]


@pytest.mark.parametrize("condition, ranking, field, expected", ELEMENTS)
def test_elements_that_match_are_shown(node, condition, ranking, field, expected):
    root = search(node, yql=f"select * from card where {condition}", summary="elements", ranking=ranking)
    assert [hit["fields"][f"{field}_that_match"] for hit in root["children"]] == [expected]
