"""Which notes a query finds. Each line: the condition in YQL, the notes, and what else the request says."""

import pytest


def in_any_order(found: str) -> str:
    """The names sorted; an error as it is."""
    return found if found.startswith("error") else "".join(sorted(found))


CONDITIONS = [
    # Words: stemmed, folded, without accents, in any case.
    ('title contains "fox"', "abf"),
    ('title contains "FOX"', "abf"),
    ('title contains "foxes"', "abf"),
    ('title contains ({stem: false}"foxes")', "b"),
    ('title contains "run"', "g"),
    ('body contains "cat"', "g"),
    ('title contains "cafe"', "d"),
    ('title contains "Résumé"', "d"),
    ('body contains "uber"', "d"),
    ('default contains "dog"', "a"),
    ('default contains "bread"', "c"),
    ('lines contains "apple"', "abc"),
    # Punctuation in a word makes a phrase of it.
    ('body contains "gray-green"', "h"),
    ('body contains "green-gray"', ""),
    ('body contains "o\'clock"', "h"),
    ('body contains "3.14"', "h"),
    ('body contains "user@example.com"', "h"),
    ('body contains "foo_bar"', "h"),
    # Positions.
    ('title contains phrase("quick", "brown")', "a"),
    ('title contains phrase("quick", "fox")', ""),
    ('title contains phrase("brown", "fox")', "a"),
    ('title contains phrase("quick", ({prefix: true}"bro"))', "a"),
    ('title contains phrase(prefix("quick"), suffix("own"))', "a"),
    ('title contains phrase("quick", ({prefix: true}"fo"))', ""),
    ('title contains near("quick", "fox")', "a"),
    ('title contains ({distance: 1}near("quick", "fox"))', ""),
    ('title contains ({distance: 4}near("fox", "quick"))', "ab"),
    ('title contains ({distance: 9}onear("fox", "quick"))', ""),
    ('title contains ({distance: 9}onear("quick", "fox"))', "ab"),
    ('body contains phrase("two", "fox")', "f"),
    ('lines contains phrase("red", "apple")', "a"),
    ('lines contains phrase("pear", "apple")', ""),
    ('lines contains near("pear", "apple")', ""),
    # Parts of words.
    ('title contains ({prefix: true}"qui")', "ab"),
    ('title contains ({substring: true}"ow")', "abc"),
    ('title contains ({suffix: true}"own")', "ac"),
    ('folder contains ({prefix: true}"in")', "abd"),
    ('folder matches "^in"', "abd"),
    ('folder matches "ch"', "fg"),
    ('folder matches "^a.*e$"', "fg"),
    ('folder contains ({maxEditDistance: 1}fuzzy("inbix"))', "abd"),
    ('folder contains ({maxEditDistance: 1}fuzzy("imbix"))', ""),
    ('folder contains ({maxEditDistance: 2}fuzzy("imbix"))', "abd"),
    ('folder contains ({maxEditDistance: 2, prefixLength: 2}fuzzy("imbix"))', ""),
    ('folder contains ({maxEditDistance: 1, prefix: true}fuzzy("arx"))', "fg"),
    # Match modes.
    ('code contains "AB-1"', "ab"),
    ('code contains "x 9"', "c"),
    ('code contains "9"', ""),
    ('folder contains "sent mail"', "c"),
    ('folder contains "sent"', ""),
    ('name contains "Ada"', "a"),
    ('name contains "ada"', "b"),
    ('grams contains "house"', "ac"),
    ('grams contains "light"', "ab"),
    ('link contains "example"', "a"),
    ('link contains uri("https://www.example.com/a/b?x=1")', "a"),
    ('link contains phrase("other", "org")', "b"),
    ('link.hostname contains uri("example.com")', "a"),
    ('link.hostname contains uri("example")', ""),
    ('link.hostname contains ({endAnchor: false}uri("example"))', "a"),
    ('link.hostname contains ({startAnchor: true}uri("example.com"))', ""),
    ('link.hostname contains ({startAnchor: true}uri("other.org"))', "b"),
    ('link.path contains uri("a/b")', "a"),
    ('link.query contains "1"', "a"),
    ('link.path contains "1"', ""),
    ('link.scheme contains "http"', "b"),
    ('userInput("link.hostname:^other.org")', "b"),
    ('labeled(link.path contains "path", "mine", 3)', "b"),
    ('domain contains "http://other.org/path"', "b"),
    # Numbers.
    ("year = 2010", "cd"),
    ("year > 2010", "fgh"),
    ("year >= 2010", "cdfgh"),
    ("year < 2005", "a"),
    ("!(year = 2010) and year > 0", "abfgh"),
    ("range(year, 1999, 2005)", "ab"),
    ('({bounds: "open"}range(year, 1999, 2010))', "b"),
    ('({bounds: "leftOpen"}range(year, 1999, 2005))', "b"),
    ("range(year, -Infinity, 2005)", "ab"),
    ("year in (1999, 2020)", "af"),
    ("price < 0", "c"),
    ("price = 2.5", "b"),
    ("price > 1.5", "bf"),
    ("ratio = 0.25", "a"),
    ("size > 5000000000", "a"),
    ("size = 10000000000", "a"),
    ("size = -5", "b"),
    ("small = -3", "a"),
    ("seen = true", "ac"),
    # What is not given is false.
    ("seen = false", "bdefgh"),
    ("seen = false and year > 2000", "bdfgh"),
    ("!(seen = false)", "ac"),
    # Collections.
    ('labels contains "work"', "ab"),
    ('labels contains "wor"', ""),
    ("numbers = 3", "ab"),
    ("numbers in (4, 1)", "ab"),
    ("weights = 8", "ab"),
    ("weights = 7", "a"),
    ('folder in ("archive", "sent mail")', "cfg"),
    # Structs.
    ('people.first contains "ann"', "ab"),
    ("people.age > 45", "c"),
    ('people contains sameElement(first contains "ann", age > 35)', "b"),
    ('people contains sameElement(first contains "bob", last contains "lee")', "c"),
    ('people.first contains "bob" and people.last contains "lee"', "ac"),
    ('prefs contains sameElement(key contains "color", value contains "red")', "b"),
    ('prefs.value contains "en"', "a"),
    ('prefs.key contains "color"', "ab"),
    # Logic.
    ("true", "abcdefgh"),
    ("false", ""),
    ('title contains "fox" and !(body contains "dog")', "bf"),
    ('!(title contains "fox") and year > 0', "cdgh"),
    ('title contains "fox" or year = 2010', "abcdf"),
    ('title contains "fox" and (year = 1999 or year = 2020)', "af"),
    ('rank(title contains "bread", body contains "dog")', "c"),
    ('title contains equiv("bread", "colour")', "ch"),
    ('title contains alternatives({"bread": 1.0, "colour": 0.5})', "ch"),
    ("nonEmpty(year = 2010)", "cd"),
    # Many at once.
    ('({targetHits: 10}weakAnd(title contains "bread", title contains "fox"))', "abcf"),
    ('weightedSet(labels, {"home": 1, "urgent": 1})', "ac"),
    ('weightedSet(folder, {"archive": 1})', "fg"),
    ('dotProduct(labels, {"work": 2})', "ab"),
    ('({targetHits: 10}wand(labels, {"work": 1, "home": 2}))', "abc"),
    # Places.
    ('geoLocation(place, 59.9, 10.7, "50 km")', "a"),
    ('geoLocation(place, 59.9, 10.7, "1000 km")', "ab"),
    ("geoBoundingBox(place, 59, 10, 60, 11)", "a"),
    ("geoBoundingBox(place, 59, 10, 64, 11)", "ab"),
]


@pytest.mark.parametrize("condition, expected", CONDITIONS)
def test_conditions(notes, condition, expected):
    found = notes.found(yql=f"select * from note where {condition}")
    assert in_any_order(found) == expected


USER_QUERIES = [
    # What people type, by the default grammar: any of the words, best first; a minus excludes.
    ("quick fox", {}, "abf"),
    ("brown -bread", {}, "a"),
    ('"lazy dog"', {}, "a"),
    ("+quick +dog", {"type": "all"}, "a"),
    ("quick fox", {"type": "all"}, "ab"),
    ("bread colour", {"type": "any"}, "ch"),
    ("brown fox", {"type": "phrase"}, "a"),
    ("bread colour", {"type": "web"}, ""),
    ("(bread OR colour)", {"type": "adv"}, "ch"),
    ("quick AND fox ANDNOT dog", {"type": "adv"}, "b"),
    ("title:bread", {"type": "all"}, "c"),
    ("year:2010", {"type": "all"}, "cd"),
    ("year:>2015", {"type": "all"}, "fgh"),
    ("year:<2005", {"type": "all"}, "a"),
    ("year:[2000;2010]", {"type": "all"}, "bcd"),
    ("fo*", {"type": "all"}, "abcfh"),
    ("quick", {"filter": "+folder:inbox +dog"}, "a"),
    ("bread", {"default-index": "body"}, "c"),
    ("colour", {"default-index": "body"}, ""),
    ("quick!200 fox", {"type": "all"}, "ab"),
]


@pytest.mark.parametrize("text, parameters, expected", USER_QUERIES)
def test_user_queries(notes, text, parameters, expected):
    parameters = {k if k in ("filter", "default-index") else f"model__{k}": v for k, v in parameters.items()}
    for yql in ("select * from note where userQuery()", None):
        asked = {"query": text, **parameters} | ({"yql": yql} if yql else {})
        found = notes.found(**asked)
        assert in_any_order(found) == expected


USER_INPUTS = [
    ("userInput(@q)", "quick fox", "abf"),
    ('({grammar: "all"}userInput(@q))', "quick fox", "ab"),
    ('({grammar: "any"}userInput(@q))', "bread colour", "ch"),
    ('({grammar: "phrase"}userInput(@q))', "brown fox", "a"),
    ('({defaultIndex: "body"}userInput(@q))', "bread colour", "c"),
    ('({grammar: "raw", defaultIndex: "folder"}userInput(@q))', "sent mail", "c"),
    ('({grammar: "linguistics"}userInput(@q))', "foxes", "abf"),
    ('title contains text(@q)', "brown fox", "abcf"),
    ('title contains ({grammar.composite: "and"}text(@q))', "brown fox", "a"),
    ('title contains @q', "bread", "c"),
    ('({allowEmpty: true}userInput(@q))', "", ""),
]


@pytest.mark.parametrize("condition, text, expected", USER_INPUTS)
def test_user_inputs(notes, condition, text, expected):
    found = notes.found(yql=f"select * from note where {condition}", q=text)
    assert in_any_order(found) == expected
