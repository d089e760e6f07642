//! Values of each feature over a few documents. The first three documents match the query (see `support`).

use std::sync::Arc;

use millrace_document::{DataType, DocumentField, DocumentValue, StructType};
use millrace_plan::{LeafId, Plan, PlanLeaf, PlanNode, Predicate};
use millrace_ranking::CompiledProfile;

use crate::support::{documents, matches, plan, profile, schema, view};

/// Value of a scoring expression for each matching document.
fn scores(expression: &str) -> Result<Vec<f64>, String> {
    scores_of(expression, |plan| plan)
}

/// Like [`scores`], with another plan.
pub fn scores_of(expression: &str, change: impl Fn(Plan) -> Plan) -> Result<Vec<f64>, String> {
    let schema = schema([profile(expression)]);
    let compiled = CompiledProfile::compile(&schema, "default").map_err(|error| error.to_string())?;
    let view = view(&schema, &documents());
    let plan = change(plan(schema));
    let matches = matches(&plan, &view, &compiled);
    let scores =
        compiled.first_phase(&plan, &view, &matches, &|| false).map_err(|error| error.to_string())?.scores;
    Ok(scores.into_iter().flatten().collect())
}

#[track_caller]
pub fn check(expression: &str, expected: [f64; 3]) {
    let found = scores(expression).unwrap_or_else(|error| panic!("{expression}: {error}"));
    let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-6 * b.abs().max(1.0);
    let same = found.len() == 3 && found.iter().zip(&expected).all(close);
    assert!(same, "{expression}: expected {expected:?}, found {found:?}");
}

#[track_caller]
fn refused(expression: &str, part: &str) {
    match scores(expression) {
        Ok(found) => panic!("{expression} is {found:?}"),
        Err(error) => assert!(error.contains(part), "{expression}: {error}"),
    }
}

#[test]
fn values_of_documents() {
    let missing = f64::NEG_INFINITY;
    check("attribute(price)", [2.5, 10.0, missing]);
    check("if (isNan(attribute(price)), -1, attribute(price))", [2.5, 10.0, -1.0]);
    check("attribute(sent)", [990.0, 950.0, missing]);
    check("attribute(flag)", [1.0, 0.0, 0.0]);
    check("attribute(color) == \"blue\"", [1.0, 0.0, 0.0]);
    check("attribute(numbers,1)", [5.0, 0.0, 0.0]);
    check("attribute(numbers,9)", [0.0, 0.0, 0.0]);
    check("attribute(numbers).count", [2.0, 0.0, 0.0]);
    check("attribute(tags,hot).weight", [10.0, 5.0, 0.0]);
    check("attribute(tags,new).contains", [1.0, 0.0, 0.0]);
    check("attribute(tags).count", [2.0, 1.0, 0.0]);
    check("sum(attribute(vector))", [7.0, 1.0, 0.0]);
    check("sum(attribute(parts))", [3.0, 0.0, 0.0]);
    check("sum(tensorFromWeightedSet(attribute(tags), t) * tensor(t{}):{hot:2})", [20.0, 10.0, 0.0]);
    check("sum(tensorFromLabels(attribute(numbers), n) * tensor(n{}):{4:3,5:1})", [4.0, 0.0, 0.0]);
    check("dotProduct(tags,v)", [50.0, 10.0, 0.0]);
    check("dotProduct(numbers,v)", [54.0, 0.0, 0.0]);
    refused("attribute(title)", "indexing: attribute");
    refused("attribute(nothing)", "schema test has no field 'nothing'");
    refused("attribute(tags)", "is not one value");
    refused("attribute(price,1)", "needs an array field");
}

#[test]
fn building_blocks_are_expressions_of_other_features() {
    check("double(value(3))", [6.0; 3]);
    check("double(\" value( 2 ) \") + double(value(1), query(boost)).1", [10.0; 3]);
    check("mysum(value(4), double(value(2)), query(boost))", [11.0; 3]);
    check("mysum(value(4)).out + unbox(query(boost)) + unbox(value(1)).value", [8.0; 3]);
    check("if (isNan(staticrank(price)), -1, staticrank(price))", [2.5, 10.0, -1.0]);
    check("chain(basic,3,7)", [7.0; 3]);
    refused("double(value(3)).1", "its outputs are the numbers from 0 to 0");
    refused("double()", "write double(feature");
    refused("mysum(value(1)).sum", "has the output out");
    refused("chain(cycle,1,1)", "write double(feature");
    refused("chain(basic,0,1)", "1 to 1000 links");
    check("test_cfgvalue(b)", [15.0; 3]);
    check("test_cfgvalue(b).1", [25.0; 3]);
    refused("test_cfgvalue(a)", "needs the rank property test_cfgvalue(a).value");
}

#[test]
fn values_of_the_request() {
    check("query(boost)", [3.0; 3]);
    check("query(unknown)", [0.0; 3]);
    check("twice(query(boost))", [6.0; 3]);
    check("constant(seven) + seven", [14.0; 3]);
    check("sum(query(user) * attribute(vector))", [11.0, 2.0, 0.0]);
    check("sum(constant(weights) * attribute(vector))", [34.0, 1.0, 0.0]);
    check("max(sum(query(user) * attribute(parts), x))", [4.0, 0.0, 0.0]);
    check("now", [1000.0; 3]);
    check("queryTermCount", [5.0; 3]);
    check("term(0).weight", [200.0; 3]);
    check("term(9).weight", [0.0; 3]);
    check("term(1).connectedness", [0.1; 3]);
    check("value(2.5)", [2.5; 3]);
    check("value(2.5,7).0 + value(2.5,7).1", [9.5; 3]);
    check("match.weight.title", [100.0; 3]);
    check("pi", [std::f64::consts::PI; 3]);
    refused("constant(nothing)", "no constant 'nothing'");
    refused("nothing", "no rank feature, function or constant 'nothing'");
    refused("nativeRnk", "or constant 'nativeRnk' (did you mean 'nativeRank'?)");
    refused("normalise_linear(bm25(title))", "(bm25(title))' (did you mean 'normalize_linear'?)");
    refused("onnx(model)", "no such onnx-model, none");
    refused("term(x).weight", "needs the number of a term");
    refused("value(2.5,7).2", "its outputs are the numbers from 0 to 1");
    refused("value(2.5,x)", "needs a number");
}

#[test]
fn time() {
    check("age(sent)", [10.0, 50.0, 1e10]);
    check("freshness(sent)", [0.9, 0.5, 0.0]);
    check("freshness(sent).logscale > freshness(sent)", [0.0, 0.0, 0.0]);
    refused("freshness(sent).cubic", "has the output logscale");
}

#[test]
fn distances() {
    check("distance(field,vector)", [5.0, 1.0, f64::MAX]);
    check("distance(label,near)", [5.0, 1.0, f64::MAX]);
    check("closeness(field, vector)", [1.0 / 6.0, 0.5, 0.0]);
    check("closeness(label,near)", [1.0 / 6.0, 0.5, 0.0]);
    check("closeness(label,other)", [0.0; 3]);
    check("rawScore(vector)", [1.0 / 6.0, 0.5, 0.0]);
    check("itemRawScore(near)", [1.0 / 6.0, 0.5, 0.0]);
    check(
        "euclidean_distance(query(user), attribute(vector), x)",
        [8.0f64.sqrt(), 2.0f64.sqrt(), 5.0f64.sqrt()],
    );
    // The short form, and the name of the only output.
    check("distance(vector)", [5.0, 1.0, f64::MAX]);
    check("closeness(vector)", [1.0 / 6.0, 0.5, 0.0]);
    check("distance(vector).out", [5.0, 1.0, f64::MAX]);
    refused("distance(vector).km", "of a vector has no outputs");
    refused("great_circle_distance(vector)", "needs a field of positions");
    refused("distance(price)", "needs a tensor field or one of positions");
    refused("closeness(field,price)", "needs a tensor field");
    refused("closeness(vectors,x)", "write closeness(field,name) or closeness(label,name)");
}

#[test]
fn labelled_conditions_score_where_they_hold() {
    // Tags "hot" and title "red", each with a mark beside it, and one that never holds.
    let marked = |mut plan: Plan| {
        let mut ranked = Vec::new();
        for (leaf, label, score) in [(3, "mine", 2.5), (0, "mine", 4.0), (2, "other", -1.0)] {
            let predicate = Predicate::Labeled { label: label.to_owned(), score };
            plan.leaves.push(PlanLeaf { field: "".into(), predicate, term: None, dot_product_above: None });
            let mark = LeafId(plan.leaves.len() - 1);
            ranked.push(PlanNode::And(vec![PlanNode::Leaf(LeafId(leaf)), PlanNode::Leaf(mark)]));
        }
        plan.root = PlanNode::Rank(Box::new(plan.root), ranked);
        plan
    };
    for (expression, expected) in [
        ("itemRawScore(mine)", [6.5, 2.5, 4.0]),
        ("itemRawScore(other)", [-1.0, 0.0, 0.0]),
        ("itemRawScore(near)", [1.0 / 6.0, 0.5, 0.0]),
        ("itemRawScore(nothing)", [0.0; 3]),
        ("closeness(label,mine)", [0.0; 3]),
        ("queryTermCount", [5.0; 3]),
    ] {
        assert_eq!(scores_of(expression, marked).unwrap(), expected, "{expression}");
    }
}

/// Three documents: at the place of the query and a degree north of it, far away, and nowhere.
#[test]
fn distances_of_places() {
    let degree = 6371.0088 * std::f64::consts::PI / 180.0;
    for (expression, expected) in [
        ("distance(place)", [0.0, 90e6, 6.4e9]),
        ("distance(place).out", [0.0, 90e6, 6.4e9]),
        ("distance(field,place)", [0.0, 90e6, 6.4e9]),
        ("distance(place).km", [0.0, 90.0 * degree, 40_000.0]),
        ("distance(field,place).km", [0.0, 90.0 * degree, 40_000.0]),
        ("distance(place).index", [1.0, 0.0, -1.0]),
        ("distance(place).latitude", [0.0, 90.0, 90.0]),
        ("distance(place).longitude", [10.0, 10.0, -180.0]),
        ("great_circle_distance(place)", [0.0, 90.0 * degree, f64::MAX]),
        ("great_circle_distance(place).km", [0.0, 90.0 * degree, f64::MAX]),
        ("great_circle_distance(field,place).latitude", [0.0, 90.0, 90.0]),
        ("great_circle_distance(place).longitude", [10.0, 10.0, -180.0]),
        ("closeness(place)", [1.0, 0.0, 0.0]),
        ("closeness(field,place)", [1.0, 0.0, 0.0]),
        ("closeness(place).logscale", [1.0, 0.0, 0.0]),
        // The query has no place in this field: that of the other field counts.
        ("distance(elsewhere).km", [degree, 40_000.0, 40_000.0]),
        // A position's number on a z-curve is a name of the field.
        ("distance(place_zcurve).km", [0.0, 90.0 * degree, 40_000.0]),
        ("closeness(field,place_zcurve)", [1.0, 0.0, 0.0]),
        ("great_circle_distance(place_zcurve)", [0.0, 90.0 * degree, f64::MAX]),
        ("matches(place_zcurve)", [1.0, 1.0, 0.0]),
        // Raw scores are 1 in the centre, and fall with the kilometres.
        ("rawScore(place)", [1.0, 1.0 / (1.0 + 90.0 * degree), 0.0]),
        ("rawScore(place_zcurve)", [1.0, 1.0 / (1.0 + 90.0 * degree), 0.0]),
        ("rawScore(elsewhere_zcurve)", [0.0; 3]),
        ("itemRawScore(here)", [1.0, 1.0 / (1.0 + 90.0 * degree), 0.0]),
        ("closeness(label,here)", [1.0, 1.0 / (1.0 + 90.0 * degree), 0.0]),
        ("distance(label,here)", [0.0, 90.0 * degree, f64::MAX]),
        ("distance(label,there)", [f64::MAX; 3]),
        ("distance(label,box)", [0.0, f64::MAX, f64::MAX]),
        ("itemRawScore(box)", [1.0, 0.0, 0.0]),
    ] {
        let found = place_scores(expression);
        let close = |(a, b): (&f64, &f64)| a == b || (a - b).abs() < 1e-6 * b.abs().max(1.0);
        assert!(found.iter().zip(&expected).all(close), "{expression}: {found:?}, expected {expected:?}");
    }
}

fn place_scores(expression: &str) -> Vec<f64> {
    use millrace_document::{DataType, DocumentValue};
    use millrace_fixtures::{Fields, field};
    use millrace_plan::{LeafId, PlanNode, Predicate};
    let position = |latitude: i32, longitude: i32| DocumentValue::Position {
        latitude: latitude * 1_000_000,
        longitude: longitude * 1_000_000,
    };
    let mut schema = schema([profile(expression)]);
    for (name, data_type) in [
        ("place", DataType::Array(Box::new(DataType::Position))),
        ("elsewhere", DataType::Position),
        ("boxed", DataType::Position),
    ] {
        schema.fields.insert(name.into(), field(name, data_type, false));
    }
    let compiled = CompiledProfile::compile(&schema, "default").expect("the feature is known");
    let documents = [
        Fields::from([
            ("place", DocumentValue::Array(vec![position(1, 10), position(0, 10)])),
            ("elsewhere", position(1, 10)),
            ("boxed", position(0, 10)),
        ]),
        Fields::from([("place", DocumentValue::Array(vec![position(90, 10)]))]),
        Fields::from([]),
    ];
    let view = view(&schema, &documents);
    let circle = Predicate::GeoCircle { latitude: 0.0, longitude: 10.0, radius_km: None };
    let in_box = Predicate::GeoBox([-1.0, 9.0, 1.0, 11.0]);
    // The circle is ranked in `place`, the box in a field that no other feature here reads.
    let ranked = vec![PlanNode::Leaf(LeafId(0)), PlanNode::Leaf(LeafId(1))];
    let root = PlanNode::Rank(Box::new(PlanNode::True), ranked);
    let leaves = vec![("place", circle), ("boxed", in_box)];
    let mut plan = millrace_fixtures::plan(&std::sync::Arc::new(schema), root, leaves);
    for (term, label) in plan.terms.iter_mut().zip(["here", "box"]) {
        term.annotations.label = Some(label.to_owned());
    }
    let matches = matches(&plan, &view, &compiled);
    let scores = compiled.first_phase(&plan, &view, &matches, &|| false).expect("the columns can be read");
    scores.scores.into_iter().flatten().collect()
}

/// Each feature may be asked for by the name of its first output; a name that it does not have is refused.
#[test]
fn first_outputs_have_names() {
    for (short, long) in [
        ("age(sent)", "age(sent).out"),
        ("attribute(price)", "attribute(price).value"),
        ("bm25(title)", "bm25(title).score"),
        ("fieldMatch(title)", "fieldMatch(title).score"),
        ("fieldTermMatch(title,1)", "fieldTermMatch(title,1).firstPosition"),
        ("freshness(sent)", "freshness(sent).out"),
        ("matches(title)", "matches(title).out"),
        ("nativeRank", "nativeRank.score"),
        ("now", "now.out"),
        ("term(1)", "term(1).connectedness"),
        ("termDistance(title,0,1)", "termDistance(title,0,1).forward"),
        ("textSimilarity(title)", "textSimilarity(title).score"),
        ("elementCompleteness(title)", "elementCompleteness(title).completeness"),
    ] {
        let text = |expression: &str| format!("{:?}", scores(expression));
        assert_eq!(text(short), text(long), "{short}");
        assert!(scores(short).is_ok(), "{short}: {}", text(short));
    }
    for expression in
        ["age(sent).seconds", "bm25(title).k1", "matches(title).count", "now.ms", "rawScore(vector).x"]
    {
        refused(expression, "has no output");
    }
}

#[test]
fn words() {
    check("matches(title)", [1.0, 1.0, 1.0]);
    check("matches(title,0)", [1.0, 0.0, 1.0]);
    check("matches(notes)", [1.0, 0.0, 0.0]);
    check("matchCount(title)", [2.0, 1.0, 3.0]);
    check("fieldLength(title)", [3.0, 2.0, 6.0]);
    // The longest matching element of an array counts; in the second, the word is alone.
    check("fieldLength(notes)", [1.0, 1e6, 1e6]);
    check("fieldMatch(notes).fieldCompleteness", [1.0, 0.0, 0.0]);
    check("fieldMatch(notes).head", [0.0; 3]);
    check("fieldMatch(notes).tail", [0.0; 3]);
    check("fieldMatch(notes).earliness", [1.0, 0.0, 0.0]);
    check("averageFieldLength(title)", [3.5; 3]);
    check("fieldTermMatch(title,1).firstPosition", [1.0, 1.0, 0.0]);
    check("fieldTermMatch(title,1).occurrences", [1.0, 1.0, 2.0]);
    check("fieldTermMatch(title,0).firstPosition", [0.0, 1e6, 4.0]);
    check("fieldTermMatch(title,1).lastPosition", [1.0, 1.0, 2.0]);
    check("fieldTermMatch(title,0).lastPosition", [0.0, 1e6, 4.0]);
    check("termDistance(title,0,1).forward", [1.0, 1e6, 1e6]);
    check("termDistance(title,0,1).reverse", [1e6, 1e6, 2.0]);
    check("termDistance(title,0,1).reverseTermPosition", [1e6, 1e6, 2.0]);
    check("attributeMatch(tags).totalWeight", [10.0, 5.0, 0.0]);
    check("attributeMatch(tags).fieldCompleteness", [0.25, 1.0, 0.0]);
    check("attributeMatch(tags).matches", [1.0, 1.0, 0.0]);
    check("nativeDotProduct(tags)", [1000.0, 500.0, 0.0]);
    refused("bm25(price)", "needs a text field");
    refused("termDistance(title,0,1).sideways", "has the outputs");
}

#[test]
fn one_feature_over_many_items() {
    check("foreach(terms,N,matches(title,N),true,sum)", [2.0, 1.0, 2.0]);
    check("foreach(terms, N, fieldTermMatch(title,N).firstPosition, \"<1000000\", max)", [1.0, 1.0, 4.0]);
    check("foreach(terms,N,term(N).weight,\">100\",count)", [1.0; 3]);
    check("foreach(terms,N,term(N).weight,true,average)", [120.0; 3]);
    check("foreach(fields,F,matchCount(F),true,product)", [2.0, 0.0, 0.0]);
    check("foreach(attributes,A,matches(A),true,min)", [0.0; 3]);
    refused("foreach(words,N,now,true,sum)", "the dimension is terms, fields or attributes");
    refused("foreach(terms,N,now,often,sum)", "the condition is true");
    refused("foreach(terms,N,now,true,mean)", "the operation is sum, product");
    refused("foreach(fields,F,nothing(F),true,sum)", "no rank feature");
}

#[test]
fn expressions_inside_of_features() {
    check("rankingExpression(\"attribute(sent) * 2\")", [1980.0, 1900.0, f64::NEG_INFINITY]);
    check("rankingExpression(twice(4))", [8.0; 3]);
    check("foreach(terms,N,rankingExpression(\"term(N).weight*term(N).weight\"),true,max)", [40_000.0; 3]);
    check("foreach(fields,F,foreach(terms,N,matches(F,N),true,sum),true,sum)", [3.0, 1.0, 2.0]);
    check("foreach(terms,N,term(N).weight,\">1000\",min)", [0.0; 3]);
    check("foreach(terms,N,value(2),\">1\",product)", [32.0; 3]);
    refused("rankingExpression(\"1 +\")", "expected");
}

#[test]
fn what_makes_tensors() {
    check("sum(bm25_for_labels(title))", [0.0; 3]);
    check("reduce(elementwise(bm25(notes),e,float), count)", [1.0, 0.0, 0.0]);
    check("elementwise(bm25(notes),e,float){e:1} > 0", [1.0, 0.0, 0.0]);
    check("queryTermDocumentFrequency(title){term:1}", [3.0; 3]);
    check("sum(closest(parts))", [0.0; 3]);
    check(
        "sum(tensorFromLabelsWithOffset(attribute(numbers),n,o) * tensor(n{},o{}):{{n:5,o:1}:3,{n:5,o:0}:7})",
        [3.0, 0.0, 0.0],
    );
    refused("elementwise(bm25(price),e,float)", "needs a text field");
    refused("elementwise(nativeRank(title),e)", "write elementwise(bm25(field)");
    refused("closest(vector)", "needs a tensor field with a mapped dimension");
    refused("tensorFromStructs(attribute(numbers),a,b,float)", "needs an array of structs");
}

#[test]
fn structs_and_their_members_become_tensors() {
    let member = |name: &str, data_type| DocumentField { name: name.into(), data_type };
    let members =
        vec![member("x", DataType::String), member("y", DataType::Int), member("w", DataType::Float)];
    let point = DataType::Struct(Arc::new(StructType { name: "point".to_owned(), fields: members }));
    let points = millrace_fixtures::field("points", DataType::Array(Box::new(point)), false);
    let value = |x: &str, y: i32, w: f32| {
        DocumentValue::Struct(vec![
            ("x".into(), DocumentValue::String(x.to_owned())),
            ("y".into(), DocumentValue::Int(y)),
            ("w".into(), DocumentValue::Float(w)),
        ])
    };
    // Of two structs with the same keys the last counts.
    let values = vec![value("a", 1, 9.0), value("b", 2, 5.0), value("a", 1, 2.75)];
    let mut documents = documents();
    documents[0].insert("points", DocumentValue::Array(values));
    let scores = |expression: &str| {
        let mut schema = schema([profile(expression)]);
        schema.fields.insert("points".into(), points.clone());
        let compiled = CompiledProfile::compile(&schema, "default").map_err(|error| error.to_string())?;
        let view = view(&schema, &documents);
        let plan = plan(schema);
        let matches = matches(&plan, &view, &compiled);
        let first =
            compiled.first_phase(&plan, &view, &matches, &|| false).map_err(|error| error.to_string())?;
        Ok::<Vec<f64>, String>(first.scores.into_iter().flatten().collect())
    };
    let made = "sum(tensorFromStructs(attribute(points),y,x,w,CELL) * tensor(x{},y{}):{{x:a,y:1}:1})";
    for (cell, expected) in [("double", 2.75), ("float", 2.75), ("bfloat16", 2.75), ("int8", 2.0)] {
        assert_eq!(scores(&made.replace("CELL", cell)), Ok(vec![expected, 0.0, 0.0]), "{cell}");
    }
    for (aggregator, expected) in [("count", 2.0), ("sum", 7.75)] {
        let all = format!("reduce(tensorFromStructs(attribute(points),x,y,w,float), {aggregator})");
        assert_eq!(scores(&all), Ok(vec![expected, 0.0, 0.0]), "{aggregator}");
    }
    // Features of two members of the same structs, each with its own values.
    let members = "sum(tensorFromLabels(attribute(points.x), n) * tensor(n{}):{b:3,2:50}) \
        + sum(tensorFromLabels(attribute(points.y), n) * tensor(n{}):{b:70,2:4})";
    assert_eq!(scores(members), Ok(vec![7.0, 0.0, 0.0]));
    let error = scores(&made.replace("CELL", "half")).expect_err("it is not a type of cells");
    assert!(error.contains("double, float, bfloat16 or int8, found 'half'"), "{error}");
}

#[test]
fn numbers_that_are_drawn() {
    check("random(a) == random(b)", [0.0; 3]);
    check("random(a).match == random(a).match", [1.0; 3]);
    check("randomNormal(5,0)", [5.0; 3]);
    check("randomNormalStable(5,0,x)", [5.0; 3]);
    check("fabs(randomNormal(0,1)) < 10", [1.0; 3]);
    refused("randomNormal(few,many)", "two numbers");
}

#[test]
fn tensors_of_numbers_that_are_drawn() {
    for (dimensions, cells) in [("x[1]", 1.0), ("x[2],y[3]", 6.0), ("a[2],b[3],c[4]", 24.0)] {
        for cell in ["", "<float>"] {
            let tensor = format!("random{cell}({dimensions})");
            check(&format!("reduce({tensor}, count)"), [cells; 3]);
            check(&format!("reduce({tensor}, min) >= 0 && reduce({tensor}, max) <= 1"), [1.0; 3]);
        }
        // No two cells are equal: every cell is equal to itself alone.
        let (tensor, other) = (names(dimensions, ""), names(dimensions, "2"));
        let renamed = format!("rename(random({dimensions}), ({tensor}), ({other}))");
        check(&format!("reduce(random({dimensions}) == {renamed}, sum)"), [cells; 3]);
    }
    check("random(x) == random(x)", [1.0; 3]);
    refused("random(x[2]) + random(x[3])", "x[");
}

/// The names of `dimensions` such as `x[2],y[3]`, with an ending.
fn names(dimensions: &str, ending: &str) -> String {
    let name = |dimension: &str| dimension.split('[').next().map(|name| format!("{name}{ending}"));
    dimensions.split(',').filter_map(name).collect::<Vec<_>>().join(",")
}

#[test]
fn all_searched_fields_together() {
    // title, notes and tags are searched, each by weight 100. Those that match count: in the second document
    // title and tags, in the third title.
    check("match.totalWeight", [300.0, 200.0, 100.0]);
    let sum = "100 * (fieldMatch(title) + elementCompleteness(notes) + attributeMatch(tags))";
    check(&format!("match * match.totalWeight - {sum}"), [0.0; 3]);
    refused("match.nothing", "match has the outputs");
    // Where no field is searched, they are 0, not -0.
    let unsearched = |mut plan: Plan| {
        plan.root = PlanNode::True;
        plan.leaves.clear();
        plan.terms.clear();
        plan
    };
    for feature in ["match", "match.totalWeight"] {
        let above = scores_of(&format!("if (1 / {feature} > 0, 1, 0)"), unsearched).unwrap();
        assert_eq!(above, vec![1.0; above.len().max(1)], "{feature}");
    }
}

#[test]
fn segments() {
    check("fieldMatch(title).matches", [2.0, 1.0, 2.0]);
    check("fieldMatch(title).queryCompleteness", [1.0, 0.5, 1.0]);
    check("fieldMatch(title).fieldCompleteness", [2.0 / 3.0, 0.5, 1.0 / 3.0]);
    check("fieldMatch(title).segments", [1.0, 1.0, 1.0]);
    check("fieldMatch(title).outOfOrder", [0.0, 0.0, 1.0]);
    check("fieldMatch(title).orderness", [1.0, 1.0, 0.0]);
    check("fieldMatch(title).gaps", [0.0, 0.0, 1.0]);
    check("fieldMatch(title).gapLength", [0.0, 0.0, 2.0]);
    check("fieldMatch(title).longestSequence", [2.0, 1.0, 1.0]);
    check("fieldMatch(title).head", [0.0, 1.0, 2.0]);
    check("fieldMatch(title).tail", [1.0, 0.0, 1.0]);
    check("fieldMatch(title).earliness", [1.0, 0.8, 0.6]);
    check("fieldMatch(title).proximity", [1.0, 1.0, 0.24]);
    check("fieldMatch(title).weight", [0.5, 1.0 / 6.0, 0.5]);
    check("fieldMatch(title) > fieldMatch(title).absoluteProximity", [1.0, 1.0, 1.0]);
    refused("fieldMatch(title).beauty", "fieldMatch has the outputs match, proximity");
}

#[test]
fn similarities() {
    check("textSimilarity(title).proximity", [1.0, 1.0 - 1.0 / 64.0, 1.0 - 9.0 / 64.0]);
    // A single term that matches is in order, whatever else the query has.
    check("textSimilarity(title).order", [1.0, 1.0, 0.0]);
    check("textSimilarity(title).queryCoverage", [1.0, 1.0 / 3.0, 1.0]);
    check("textSimilarity(title).fieldCoverage", [2.0 / 3.0, 0.5, 1.0 / 3.0]);
    check("elementSimilarity(notes)", [1.0, 0.0, 0.0]);
    check("elementCompleteness(notes).completeness", [1.0, 0.0, 0.0]);
    check("elementCompleteness(notes).elementWeight", [1.0, 0.0, 0.0]);
    refused("textSimilarity(title).beauty", "textSimilarity has the outputs score, proximity");
}

/// The formulas of the reference over the words of the three titles: `red fox jumps`, `blue fox`,
/// `fox and fox met red dog`, among four documents with 3.5 words on average. `red` is in two of them, `fox`
/// in three.
mod formulas {
    use super::*;

    const LENGTHS: [f64; 3] = [3.0, 2.0, 6.0];
    const RED: [f64; 3] = [1.0, 0.0, 1.0];
    const FOX: [f64; 3] = [1.0, 1.0, 2.0];

    #[test]
    fn bm25() {
        let rarity = |n: f64| (1.0 + (4.0 - n + 0.5) / (n + 0.5)).ln();
        let part = |count: f64, length: f64| count * 2.2 / (count + 1.2 * (0.25 + 0.75 * length / 3.5));
        let of = |d: usize| rarity(2.0) * part(RED[d], LENGTHS[d]) + rarity(3.0) * part(FOX[d], LENGTHS[d]);
        check("bm25(title)", [of(0), of(1), of(2)]);
        check("score_of(title)", [of(0) + 1.0, of(1) + 1.0, of(2) + 1.0]);
        check("bm25(field: title, label: none)", [0.0; 3]);
    }

    fn significance(n: f64) -> f64 {
        0.5 + 0.5 * (n / 4.0).ln() / 0.000_001f64.ln()
    }

    fn field_match(d: usize) -> f64 {
        let first = |position: f64| 8000.0 * (-(position * 255.0 / 5.0).floor() / 12.5).exp();
        let count = |count: f64| 1500.0 * (1.0 + (count * 255.0 / 6.0).floor() / 19.0).ln() + 4000.0;
        let max = 0.5 * 8000.0 + 0.5 * (1500.0 * (1.0 + 255.0f64 / 19.0).ln() + 4000.0);
        let boost =
            |position: f64, n: f64| if n > 0.0 { 0.5 * first(position) + 0.5 * count(n) } else { 0.0 };
        let (red, fox) = (significance(2.0) * 200.0, significance(3.0) * 100.0);
        let red_first = [0.0, 0.0, 4.0];
        let fox_first = [1.0, 1.0, 0.0];
        (red * boost(red_first[d], RED[d]) + fox * boost(fox_first[d], FOX[d])) / ((red + fox) * max)
    }

    fn proximity(d: usize) -> f64 {
        let max = 0.5 * 500.0 + 0.5 * 400.0;
        match d {
            0 => 0.5 * 500.0 / max,
            2 => 0.5 * 400.0 * (-1.0f64 / 3.0).exp() / max,
            _ => 0.0,
        }
    }

    #[test]
    fn native() {
        check("term(0).significance", [significance(2.0); 3]);
        check("nativeFieldMatch(title)", [field_match(0), field_match(1), field_match(2)]);
        check("nativeProximity(title)", [proximity(0), proximity(1), proximity(2)]);
        check("nativeAttributeMatch(tags)", [10.0 / 255.0, 5.0 / 255.0, 0.0]);
        let rank = |d: usize| (100.0 * field_match(d) + 25.0 * proximity(d)) / 225.0;
        check("nativeRank(title)", [rank(0), rank(1), rank(2)]);
    }
}

#[test]
fn random_numbers_are_in_range_and_differ() {
    let drawn = scores("random").expect("random has no parameters");
    assert!(drawn.iter().all(|number| (0.0..1.0).contains(number)), "{drawn:?}");
    let named = scores("random(other)").expect("a name is allowed");
    assert_ne!(drawn, named);
}

#[test]
fn errors_name_file_and_line() {
    let place =
        |expression: &str| scores(expression).expect_err("it is wrong").split(' ').next().map(str::to_owned);
    assert_eq!(place("1 +"), Some("schemas/test.sd:10:8:".to_owned()));
    assert_eq!(place("1 +\n  nothing"), Some("schemas/test.sd:11:3:".to_owned()));
    assert_eq!(place("score_of(price)"), Some("schemas/test.sd:10:5:".to_owned()));
    assert_eq!(place("attribute(vector)"), Some("schemas/test.sd:10:5:".to_owned()));
}
