//! Shapes of queries: every operator, and nothing of what a user has typed.

use millrace_query::{ItemShape, OPERATORS, Query, QueryLimits};

/// Conditions, with `sesame` and 4711 in place of all that a user may type, and their shapes.
const SHAPES: &[(&str, &str)] = &[
    ("true", "TRUE"),
    ("title contains 'sesame'", "title:?"),
    ("default contains 'sesame' and stars > 4711", "AND(default:? stars:>?)"),
    ("stars = 4711", "stars:=?"),
    ("stars < 4711", "stars:<?"),
    ("range(stars, 4711, 4712)", "stars:[?;?]"),
    ("stars in (4711, 4712)", "stars:IN(2)"),
    ("tags in ('sesame')", "tags:IN(1)"),
    ("a contains 'sesame' or a contains 'sesam' or b contains 'sesame'", "OR(a:? x2 b:?)"),
    ("a contains 'sesame' and !(b contains 'sesame')", "NOT(a:? b:?)"),
    ("rank(a contains 'sesame', b contains 'sesame')", "RANK(a:? b:?)"),
    ("({targetHits: 4711}weakAnd(a contains 'sesame', b contains 'sesame'))", "WEAKAND(a:? b:?)"),
    ("wand(tags, {'sesame': 4711})", "tags:WAND(1)"),
    ("dotProduct(tags, {'sesame': 4711, 'b': 2})", "tags:DOTPRODUCT(2)"),
    ("weightedSet(tags, {'sesame': 4711})", "tags:WEIGHTEDSET(1)"),
    ("({targetHits: 10}nearestNeighbor(embedding, q))", "embedding:NEAREST(10)"),
    ("geoLocation(place, 4.711, 4.711, '4711 km')", "place:CIRCLE"),
    ("geoBoundingBox(place, 4.711, 4.711, 4.72, 4.72)", "place:BOX"),
    ("userInput('sesame open 4711')", "default:TEXT(3)"),
    ("({defaultIndex: 'title'}userInput('sesame'))", "title:TEXT(1)"),
    ("userQuery()", "default:TEXT(2)"),
    ("nonEmpty(title contains 'sesame')", "title:?"),
    ("predicate(conditions, {'sesame': 'sesame'}, {'sesame': 4711})", "conditions:PREDICATE(2)"),
    ("title contains phrase('sesame', 'open')", "title:PHRASE(2)"),
    ("title contains near('sesame', 'open')", "title:NEAR(title:? x2)"),
    ("title contains onear('sesame', 'open')", "title:ONEAR(title:? x2)"),
    ("title contains equiv('sesame', 'open')", "title:EQUIV(title:? x2)"),
    ("title contains alternatives({'sesame': 1.0, 'open': 0.5})", "title:ALTERNATIVES(2)"),
    ("title contains fuzzy('sesame')", "title:~?"),
    ("title contains prefix('sesame')", "title:?*"),
    ("title contains substring('sesame')", "title:*?*"),
    ("title contains suffix('sesame')", "title:*?"),
    ("title matches 'sesame.*'", "title:/?/"),
    (
        "persons contains sameElement(name contains 'sesame', age = 4711)",
        "persons:SAMEELEMENT(name:? age:=?)",
    ),
    ("title contains uri('http://sesame/4711')", "title:URI(?)"),
    ("labeled(title contains 'sesame', 'sesame', 4711)", "title:?"),
    ("title contains text('sesame')", "title:TEXT(1)"),
];

#[test]
fn shapes_have_operators_and_fields_alone() {
    for (condition, expected) in SHAPES {
        let yql = format!("select * from sources * where {condition}");
        let parameters = [("yql", yql.as_str()), ("query", "sesame open")];
        let parameters = parameters.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        let query = Query::from_parameters(parameters, &QueryLimits::default());
        let query = query.unwrap_or_else(|error| panic!("{condition}: {error}"));
        let shape = ItemShape(&query.root).to_string();
        assert!(!shape.contains("sesam") && !shape.contains("4711"), "{condition}: {shape}");
        assert_eq!(shape, *expected, "{condition}");
    }
}

#[test]
fn every_operator_has_its_shape() {
    let has = |name: &str| SHAPES.iter().any(|(condition, _)| condition.contains(&format!("{name}(")));
    let missing: Vec<&str> =
        OPERATORS.iter().map(|operator| operator.name).filter(|name| !has(name)).collect();
    assert!(missing.is_empty(), "add these to the table: {missing:?}");
}
