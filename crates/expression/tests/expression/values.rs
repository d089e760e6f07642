//! Text in, values out: every line of `values.txt`.

use millrace_expression::{
    EvaluationScratch, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureKind, FeatureName,
    FunctionBody, InputBatch, ParsedExpression, string_hash,
};
use millrace_tensor::{Tensor, TensorType};

/// The features and functions that `values.txt` uses.
struct ValuesNames {
    functions: Vec<(&'static str, Vec<String>, ParsedExpression)>,
}

impl ValuesNames {
    fn new() -> Self {
        let functions = [
            ("one", vec!["x"], "x + 1"),
            ("half", vec!["x"], "x / 2"),
            ("both", vec!["a", "b"], "a * b + one(0)"),
            ("named", vec!["field"], "attribute(field)"),
            ("plain", vec![], "1 + query(two)"),
            ("loop", vec!["x"], "one(loop(x))"),
        ];
        let parsed = functions.map(|(name, parameters, body)| {
            let parameters = parameters.into_iter().map(str::to_owned).collect();
            (name, parameters, ParsedExpression::parse(body).expect("the functions here are right"))
        });
        ValuesNames { functions: parsed.into() }
    }

    fn value(name: &str) -> Option<Tensor> {
        Some(match name {
            "query(two)" => Tensor::scalar(2.0),
            "query(nan)" => Tensor::scalar(f64::NAN),
            "attribute(price)" => Tensor::scalar(12.5),
            "attribute(name)" => Tensor::scalar(string_hash("blue")),
            "query(v)" => literal("tensor<float>(x[3]):[1,2,3]"),
            "attribute(v)" => literal("tensor<float>(x[3]):[4,5,6]"),
            "attribute(b)" => literal("tensor<int8>(x[2]):[5,-1]"),
            "attribute(m)" => literal("tensor(k{}):{a:1,b:2,c:3}"),
            "attribute(mx)" => literal("tensor<float>(k{},x[3]):{a:[1,0,0],b:[0,2,1]}"),
            "query(mat)" => literal("tensor(x[3],y[2]):[[1,2],[3,4],[5,6]]"),
            "query(many_x)" => many_labels("x"),
            "query(many_y)" => many_labels("y"),
            _ => return None,
        })
    }
}

impl ExpressionScope for ValuesNames {
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
        match ValuesNames::value(&name.to_string()) {
            Some(value) => Ok(FeatureKind::Input(value.tensor_type().clone())),
            None => Err(ExpressionFault::new(format!("unknown feature {name}"))),
        }
    }

    fn function(&self, name: &str) -> Option<FunctionBody<'_>> {
        let (_, parameters, body) = self.functions.iter().find(|(known, ..)| *known == name)?;
        Some(FunctionBody { parameters, body })
    }
}

/// A tensor with so many labels of a dimension that a join with others of its kind would have 400 million
/// cells.
fn many_labels(dimension: &str) -> Tensor {
    let cells: Vec<String> = (0..20_000).map(|label| format!("{label}:1")).collect();
    Tensor::parse(&format!("tensor<float>({dimension}{{}}):{{{}}}", cells.join(",")), None).expect("a tensor")
}

#[test]
fn a_join_of_too_many_cells_ends_and_is_empty() {
    let joined = evaluate("query(many_x) * query(many_y)").expect("the expression is right");
    assert_eq!(joined.subspaces(), 0);
    let concatenated = evaluate("concat(query(many_x), query(many_y), z)").expect("the expression is right");
    assert_eq!(concatenated.subspaces(), 0);
    let same = evaluate("query(many_x) + query(many_x)").expect("the expression is right");
    assert_eq!(same.subspaces(), 20_000);
}

fn literal(text: &str) -> Tensor {
    evaluate(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn evaluate(text: &str) -> Result<Tensor, String> {
    let expression = ParsedExpression::parse(text).map_err(|error| error.to_string())?;
    let program =
        ExpressionProgram::compile(&expression, &ValuesNames::new()).map_err(|error| error.to_string())?;
    let values: Vec<Tensor> =
        program.inputs().iter().filter_map(|(name, _)| ValuesNames::value(&name.to_string())).collect();
    let operands: Vec<InputBatch<'_>> = values
        .iter()
        .map(|value| match value.tensor_type().is_scalar() {
            true => InputBatch::number(value.cells().get(0)),
            false => InputBatch::tensor(value),
        })
        .collect();
    let mut scratch = EvaluationScratch::default();
    let output = program.evaluate(&mut scratch, 1, &operands);
    // The same as a batch whose tensors differ from document to document.
    let per_document: Vec<Vec<Tensor>> = values.iter().map(|value| vec![value.clone(); 3]).collect();
    let numbers: Vec<Vec<f64>> = values.iter().map(|value| vec![value.cells().get(0); 3]).collect();
    let operands: Vec<InputBatch<'_>> = per_document
        .iter()
        .zip(&numbers)
        .map(|(tensors, numbers)| match tensors[0].tensor_type().is_scalar() {
            true => InputBatch::numbers(numbers),
            false => InputBatch::tensors(tensors),
        })
        .collect();
    let mut batch_scratch = EvaluationScratch::default();
    let batch = program.evaluate(&mut batch_scratch, 3, &operands);
    let (one, third) = (output.tensor(0), batch.tensor(2));
    assert_eq!(format!("{one:?}"), format!("{third:?}"), "{text}: one document and a batch differ");
    assert_eq!(
        one.tensor_type(),
        program.tensor_type(),
        "{text}: the type inferred is not that of the result"
    );
    Ok(one)
}

fn is_close(a: f64, b: f64) -> bool {
    a == b || a.is_nan() && b.is_nan() || (a - b).abs() <= 1e-6 * a.abs().max(1.0)
}

fn check(text: &str, expected: &str) -> Result<(), String> {
    let found = evaluate(text);
    if let Some(part) = expected.strip_prefix("error: ") {
        return match found {
            Err(error) if error.contains(part) => Ok(()),
            Err(error) => Err(format!("expected an error with '{part}', found: {error}")),
            Ok(value) => Err(format!("expected an error with '{part}', found {value:?}")),
        };
    }
    let found = found?;
    let expected = match expected.parse::<f64>() {
        Ok(number) => Tensor::scalar(number),
        Err(_) => literal(expected),
    };
    let addresses = |t: &Tensor| -> Vec<Vec<String>> {
        let subspaces = if t.tensor_type().mapped().next().is_some() { t.subspaces() } else { 0 };
        (0..subspaces).map(|i| t.labels(i).to_vec()).collect()
    };
    let same = found.tensor_type() == expected.tensor_type()
        && addresses(&found) == addresses(&expected)
        && found.cells().iter().zip(expected.cells().iter()).all(|(a, b)| is_close(a, b));
    if same { Ok(()) } else { Err(format!("expected {expected:?}, found {found:?}")) }
}

#[test]
fn every_line_of_the_table_holds() {
    let lines = include_str!("../values.txt").lines().enumerate();
    let (mut checked, mut wrong) = (0, Vec::new());
    for (number, line) in lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#')) {
        let (text, expected) = line.split_once("=> ").expect("a line is 'expression => value'");
        checked += 1;
        if let Err(reason) = check(text.trim(), expected.trim()) {
            wrong.push(format!("values.txt:{}: {text}: {reason}", number + 1));
        }
    }
    assert!(wrong.is_empty(), "{} of {checked} lines are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(checked >= 150, "the table has {checked} lines");
}

#[test]
fn an_error_names_its_line_and_column() {
    let world = ValuesNames::new();
    let place = |text: &str| {
        let error = match ParsedExpression::parse(text) {
            Err(error) => error,
            Ok(expression) => match ExpressionProgram::compile(&expression, &world) {
                Err(error) => error,
                Ok(_) => panic!("{text} has no error"),
            },
        };
        (error.spot().function.clone(), error.spot().line, error.spot().column)
    };
    assert_eq!(place("1 +\n  )"), (None, 2, 3));
    assert_eq!(place("query(two) +\n  foo"), (None, 2, 3));
    assert_eq!(place("1 + named(zz)"), (Some("named".to_owned()), 1, 1));
    assert_eq!(place("query(v) + attribute(b)"), (None, 1, 12));
}

#[test]
fn type_of_a_result_is_known_without_evaluating() {
    let check = |text: &str, expected: &str| {
        let expression = ParsedExpression::parse(text).expect("the text is right");
        let program = ExpressionProgram::compile(&expression, &ValuesNames::new()).expect("the types fit");
        assert_eq!(*program.tensor_type(), TensorType::parse(expected).expect("a type"), "{text}");
    };
    check("query(v) * attribute(m)", "tensor(k{},x[3])");
    check("query(v) * attribute(v)", "tensor<float>(x[3])");
    check("attribute(b) * 2", "tensor<float>(x[2])");
    check("concat(attribute(b), attribute(b), x)", "tensor<int8>(x[4])");
    check("sum(query(mat) * query(v), x)", "tensor(y[2])");
}

#[test]
fn names_of_features_are_written_one_way() {
    let check = |text: &str, expected: &str| {
        assert_eq!(FeatureName::parse(text).expect("a feature").to_string(), expected);
    };
    check("closeness( field , embedding )", "closeness(field,embedding)");
    check("attribute(tags,\"a b\").weight", "attribute(tags,\"a b\").weight");
    check("attribute(tags, some-key).weight", "attribute(tags,some-key).weight");
    check("bm25(field: title, label: x)", "bm25(field:title,label:x)");
    check(
        "foreach(terms,N,fieldMatch(N).weight,\">0.5\",sum)",
        "foreach(terms,N,fieldMatch(N).weight,\">0.5\",sum)",
    );
    check("match.weight.title", "match.weight.title");
    check("nativeRank", "nativeRank");
    assert!(FeatureName::parse("1 + 2").is_err());
}

#[test]
fn hostile_text_is_refused_without_harm() {
    let world = ValuesNames::new();
    let refused = |text: String| match ParsedExpression::parse(&text) {
        Err(_) => true,
        Ok(expression) => ExpressionProgram::compile(&expression, &world).is_err(),
    };
    assert!(refused("(".repeat(100_000)));
    assert!(refused("foo(".repeat(100_000)));
    assert!(refused("-".repeat(100_000)));
    assert!(refused("tensor(x[2])(".repeat(1000)));
    assert!(refused("if(1,".repeat(1000)));
    assert!(refused("tensor(x[4096],y[4096],z[4096])(1)".to_owned()));
    assert!(!refused(vec!["query(two)"; 20_000].join(" + ")));
}

#[test]
fn every_function_of_the_table_says_what_it_does() {
    for function in millrace_expression::FUNCTIONS {
        assert!(function.usage.starts_with(function.name), "{}", function.name);
        assert!(function.doc.ends_with('.'), "{}", function.name);
    }
    let names: Vec<&str> = millrace_expression::FUNCTIONS.iter().map(|function| function.name).collect();
    assert!(names.is_sorted(), "the table is sorted by name");
}

proptest::proptest! {
    #![proptest_config(proptest::prelude::ProptestConfig::with_cases(1024))]

    /// Random sequences of the language's tokens have a value, or an error with a position.
    #[test]
    fn no_text_does_harm(pieces in proptest::collection::vec(piece(), 0..24)) {
        let text = pieces.concat();
        if let Err(error) = evaluate(&text) {
            proptest::prop_assert!(error.contains("line "), "{text}: {error}");
        }
    }

    /// Expressions with valid syntax have a value or an error; [`evaluate`] compares one document with a
    /// batch.
    #[test]
    fn no_expression_does_harm(text in tree()) {
        if let Err(error) = evaluate(&text) {
            proptest::prop_assert!(error.contains("line "), "{text}: {error}");
        }
    }
}

/// Expressions with valid syntax, whose types may or may not match.
fn tree() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::strategy::Strategy;
    const LEAVES: [&str; 12] = [
        "query(two)",
        "query(nan)",
        "query(v)",
        "attribute(v)",
        "attribute(b)",
        "attribute(m)",
        "attribute(mx)",
        "query(mat)",
        "0",
        "-1.5",
        "1e300",
        "tensor(k{}):{a:1,c:300}",
    ];
    const FORMS: [&str; 32] = [
        "A + B",
        "A * B",
        "A - B",
        "(A / B)",
        "A % B",
        "A ^ B",
        "A < B",
        "A && !B",
        "if (A, B, A)",
        "A in [B, 1]",
        "sum(A)",
        "sum(A, x)",
        "max(A, k)",
        "reduce(A * B, sum, x)",
        "reduce(A, median, y)",
        "join(A, B, f(p,q)(p * p - q))",
        "map(A, f(p)((p + 1) * p))",
        "merge(A, B, f(p,q)(min(p, q)))",
        "concat(A, B, x)",
        "rename(A, x, k)",
        "A{x:1}",
        "A{k:a}",
        "A{x:(B)}",
        "tensor(x[2],y[3])(sum(A) * x + y)",
        "cell_cast(A, int8)",
        "cell_order(A, max)",
        "unpack_bits(A)",
        "map_subspaces(A, f(d)(sum(d * d)))",
        "filter_subspaces(A, f(d)(d > 0))",
        "top(2, A)",
        "sum(reduce(sum(A * B, x), max, k), q)",
        "cosine_similarity(A, B, x)",
    ];
    proptest::sample::select(&LEAVES[..]).prop_map(str::to_owned).prop_recursive(4, 24, 2, |inner| {
        (proptest::sample::select(&FORMS[..]), inner.clone(), inner)
            .prop_map(|(form, a, b)| form.replace('B', &format!("({b})")).replace('A', &format!("({a})")))
    })
}

fn piece() -> impl proptest::strategy::Strategy<Value = String> {
    use proptest::strategy::Strategy;
    let pieces = "( ) , [ ] { } : . + - * / % ^ ! < >= == ~= && || # \" ' 0 1 2.5 1e9 x k a true if( in switch f(x)( \
                  tensor(x[2]) tensor<int8>(k{},x[3]) query(v) attribute(mx) attribute(b) query(two) one( both( loop( max( \
                  sum( reduce( join( map( merge( concat( rename( map_subspaces( filter_subspaces( unpack_bits( cell_cast( \
                  cell_order( top( range( diag( expand( log( é";
    let pieces: Vec<String> = pieces.split_whitespace().map(str::to_owned).collect();
    proptest::sample::select(pieces).prop_map(|piece| if piece.ends_with('(') { piece } else { piece + " " })
}

/// Kernels choose their precision by the types of cells, also of tensors that are computed for each document.
#[test]
fn sums_over_computed_tensors_have_the_precision_of_their_type() {
    let (a, b) = ("query(two) / query(v)", "query(v) * (query(two) / attribute(m))");
    for text in [
        format!("cosine_similarity({a}, {b}, x)"),
        format!("euclidean_distance({a}, {b}, x)"),
        format!("sum(({a}) * ({a}))"),
        format!("sum(({a}) * (query(v) / query(two)), x)"),
        "reduce(reduce((attribute(mx) / 3) * (query(v) / 7), sum, x), max)".to_owned(),
        "sum(reduce(sum((attribute(mx) / 3) * rename(attribute(mx) / 7, k, l), x), max, l))".to_owned(),
    ] {
        // It compares one document with a batch.
        evaluate(&text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
}

#[test]
fn addresses_outside_a_tensor_give_zeros() {
    for index in ["1e300", "-1", "3", "query(nan)", "1 / 0", "-1e300"] {
        check(&format!("query(mat){{x:({index})}}"), "tensor(y[2]):[0,0]")
            .unwrap_or_else(|error| panic!("{index}: {error}"));
        check(&format!("attribute(m){{k:({index})}}"), "0")
            .unwrap_or_else(|error| panic!("{index}: {error}"));
    }
}
