//! Conversion of tensors from and to JSON and text: each form in, one form out.

use millrace_tensor::json::{CellNumbers, ModifySeed, RemoveSeed, TensorFormat, TensorSeed};
use millrace_tensor::{CellType, DimensionKind, Tensor, TensorCells, TensorDimension, TensorType};
use proptest::prelude::*;
use serde::de::DeserializeSeed;

fn read(spec: &str, json: &str) -> Result<Tensor, String> {
    let tensor_type = TensorType::parse(spec).map_err(|error| error.to_string())?;
    let mut deserializer = serde_json::Deserializer::from_str(json);
    TensorSeed(&tensor_type).deserialize(&mut deserializer).map_err(|error| error.to_string())
}

fn render(tensor: &Tensor, format: &str) -> String {
    serde_json::to_string(&tensor.rendered(format.parse().unwrap())).unwrap()
}

/// Reads `json`, and expects it to be written as `expected`; or, after `!`, an error that contains this text.
fn check(spec: &str, json: &str, format: &str, expected: &str) {
    match (read(spec, json), expected.strip_prefix('!')) {
        (Ok(tensor), None) => assert_eq!(render(&tensor, format), expected, "{spec} from {json}"),
        (Err(error), Some(expected)) => assert!(error.contains(expected), "{spec} from {json}: {error}"),
        (outcome, _) => panic!("{spec} from {json}: {outcome:?}"),
    }
}

#[test]
fn hexadecimal_digits_are_those_of_all_bytes() {
    let upper: String = (0..=u8::MAX).map(|byte| format!("{byte:02X}")).collect();
    for digits in [upper.clone(), upper.to_lowercase()] {
        check("tensor<int8>(x[256])", &format!("\"{digits}\""), "hex-value", &format!("\"{upper}\""));
    }
    for other in (b' '..0x7F).map(char::from).filter(|c| !c.is_ascii_hexdigit() && !"\"\\".contains(*c)) {
        for digits in [format!("{other}0"), format!("0{other}")] {
            let json = format!("\"{digits}\"");
            check("tensor<int8>(x[1])", &json, "hex-value", "!2 hexadecimal digits a int8 cell");
        }
    }
}

/// Expects digits of each type of cells to be read as cells of each other type, but int8.
#[test]
fn hexadecimal_digits_may_have_the_width_of_another_type() {
    let widths = [
        ("int8", "01FE", "[1.0,-2.0]"),
        ("bfloat16", "3F80C000", "[1.0,-2.0]"),
        ("float", "3F800000C0000000", "[1.0,-2.0]"),
        ("double", "3FF0000000000000C000000000000000", "[1.0,-2.0]"),
    ];
    for (written, digits, expected) in widths {
        for cell in ["int8", "bfloat16", "float", "double"] {
            let refused = cell == "int8" && written != cell;
            let (dense, mixed) = if refused {
                let reason = "!2 hexadecimal digits a int8 cell, 2 cells";
                (reason.to_owned(), reason.to_owned())
            } else {
                // Bytes are written as whole numbers.
                let expected = if cell == "int8" { "[1,-2]" } else { expected };
                (expected.to_owned(), format!(r#"{{"a":{expected}}}"#))
            };
            let (dense_type, mixed_type) =
                (format!("tensor<{cell}>(x[2])"), format!("tensor<{cell}>(k{{}},x[2])"));
            for json in [format!("\"{digits}\""), format!(r#"{{"values":"{digits}"}}"#)] {
                check(&dense_type, &json, "short-value", &dense);
            }
            for json in [
                format!(r#"{{"a":"{digits}"}}"#),
                format!(r#"{{"blocks":{{"a":"{digits}"}}}}"#),
                format!(r#"{{"blocks":[{{"address":{{"k":"a"}},"values":"{digits}"}}]}}"#),
            ] {
                check(&mixed_type, &json, "short-value", &mixed);
            }
        }
    }
    // Neither too many digits, nor too few, nor a text without any, is a value.
    for digits in ["", "01", "010", "010203", "010203040506070809"] {
        check("tensor(x[2])", &format!("\"{digits}\""), "short", "!16 hexadecimal digits a double cell");
    }
    check("tensor(x{})", "\"\"", "short", "!16 hexadecimal digits a double cell");
    check("tensor<float>(x[1])", "\"7FE0000000000000\"", "short", "!8 hexadecimal digits a float cell");
}

#[test]
fn every_json_form_is_read() {
    for json in [
        "[1,2,3,4,5,6]",
        "[[1,2,3],[4,5,6]]",
        r#"{"values":[1,2,3,4,5,6]}"#,
        r#"{"type":"tensor<float>(x[2],y[3])","values":[[1,2,3],[4,5,6]]}"#,
        r#""3F80000040000000404000004080000040A0000040C00000""#,
        r#"{"values":"3f80000040000000404000004080000040a0000040c00000"}"#,
        r#"{"cells":[{"address":{"x":"0","y":"0"},"value":1},{"address":{"y":1,"x":0},"value":2},
            {"value":3,"address":{"x":"0","y":"2"}},{"address":{"x":"1","y":"0"},"value":4},
            {"address":{"x":"1","y":"1"},"value":5},{"address":{"x":"1","y":"2"},"value":6}]}"#,
    ] {
        check("tensor<float>(x[2],y[3])", json, "short-value", "[[1.0,2.0,3.0],[4.0,5.0,6.0]]");
    }
    for json in [
        r#"{"a":1,"b":2}"#,
        r#"{"cells":{"a":1,"b":2}}"#,
        r#"[{"address":{"x":"a"},"value":1},{"address":{"x":"b"},"value":2}]"#,
        r#"{"cells":[{"address":{"x":"a"},"value":1},{"address":{"x":"b"},"value":2}],"type":"tensor(x{})"}"#,
    ] {
        check("tensor(x{})", json, "short", r#"{"type":"tensor(x{})","cells":{"a":1.0,"b":2.0}}"#);
    }
    for json in [
        r#"{"a":[1,2],"b":[3,4]}"#,
        r#"{"blocks":{"a":[1,2],"b":"0304"}}"#,
        r#"{"blocks":[{"address":{"x":"a"},"values":[1,2]},{"address":{"x":"b"},"values":[3,4]}]}"#,
        r#"[{"address":{"x":"a","y":"0"},"value":1},{"address":{"x":"a","y":"1"},"value":2},
            {"address":{"x":"b","y":"0"},"value":3},{"address":{"x":"b","y":"1"},"value":4}]"#,
    ] {
        let expected = r#"{"type":"tensor<int8>(x{},y[2])","blocks":{"a":[1,2],"b":[3,4]}}"#;
        check("tensor<int8>(x{},y[2])", json, "short", expected);
    }
    let names = r#"{"cells":[1.0,2.0],"type":[3.0,4.0]}"#;
    check("tensor(x{},y[2])", names, "short-value", names);
    check("tensor(x{},y[2])", r#"{"cells":[1]}"#, "short", "!expected 2 values in a block, got 1");
    check("tensor(x{},y{})", "[]", "short-value", "[]");
    check("tensor(x{})", "{}", "short-value", "{}");
    check("tensor(x{})", r#"{"cells":{"cells":1}}"#, "short-value", r#"{"cells":1.0}"#);
    check("tensor(x{})", r#"{"type":1,"values":2}"#, "short-value", r#"{"type":1.0,"values":2.0}"#);
    // Results have null for what JSON cannot represent, documents the text that is read again.
    let spec = "tensor(x[3])";
    let special = r#"["NaN","-Infinity","Infinity"]"#;
    check(spec, special, "short-value", "[null,null,null]");
    let tensor = read(spec, special).expect("special numbers are read");
    let exact = TensorFormat { direct: true, ..TensorFormat::default() }.with_numbers(CellNumbers::Exact);
    assert_eq!(serde_json::to_string(&tensor.rendered(exact)).expect("it is written"), special);
}

#[test]
fn every_json_form_is_written() {
    let (spec, mixed) = ("tensor<int8>(x{},y[2])", r#"{"a":[1,2]}"#);
    check(spec, mixed, "hex", r#"{"type":"tensor<int8>(x{},y[2])","blocks":{"a":"0102"}}"#);
    check(spec, mixed, "hex-value", r#"{"a":"0102"}"#);
    let long = r#"[{"address":{"x":"a","y":"0"},"value":1},{"address":{"x":"a","y":"1"},"value":2}]"#;
    check(spec, mixed, "long-value", long);
    check(spec, mixed, "long", &format!(r#"{{"type":"{spec}","cells":{long}}}"#));
    let two = r#"{"blocks":[{"address":{"x":"a","y":"b"},"values":[1,2]}]}"#;
    let expected = r#"[{"address":{"x":"a","y":"b"},"values":[1.0,2.0]}]"#;
    check("tensor(x{},y{},z[2])", two, "short-value", expected);
    let sparse = r#"[{"address":{"x":"a","y":"b"},"value":1.0}]"#;
    check(
        "tensor(x{},y{})",
        sparse,
        "short",
        &format!(r#"{{"type":"tensor(x{{}},y{{}})","cells":{sparse}}}"#),
    );
    assert_eq!("short".parse::<TensorFormat>(), Ok(TensorFormat::default()));
    assert!("tall".parse::<TensorFormat>().unwrap_err().to_string().contains("hex-value"));
}

/// Each form that a tensor without dimensions is written in is read again.
#[test]
fn a_number_without_dimensions_is_read_as_it_is_written() {
    let forms = [
        ("short", r#"{"type":"tensor()","values":[5.0]}"#),
        ("short-value", "[5.0]"),
        ("long", r#"{"type":"tensor()","cells":[{"address":{},"value":5.0}]}"#),
        ("long-value", r#"[{"address":{},"value":5.0}]"#),
        ("hex", r#"{"type":"tensor()","values":"4014000000000000"}"#),
        ("hex-value", r#""4014000000000000""#),
    ];
    for (format, written) in forms {
        for (_, json) in forms {
            check("tensor()", json, format, written);
        }
        check("tensor()", r#"{"values":5}"#, format, written);
    }
    check("tensor()", r#"{"a":5}"#, "short", "!expected 0 labels");
}

#[test]
fn wrong_json_is_refused_with_the_reason() {
    for (spec, json, reason) in [
        ("tensor(x[2])", "[1]", "!expected 2 cells, got 1"),
        ("tensor(x[2])", "[1,2,3]", "!more than the 2 cells"),
        ("tensor(x[2],y[2])", "[[1],[2,3,4]]", "!expected 2 cells in a nested list"),
        ("tensor(x[2])", "[[1,2]]", "!nested deeper"),
        ("tensor(x[2])", r#""zz""#, "!16 hexadecimal digits a double cell"),
        ("tensor<float>(x[1])", "[1e39]", "!out of the range of a float cell"),
        ("tensor<bfloat16>(x[1])", "[3.4e38]", "!out of the range of a bfloat16 cell"),
        ("tensor<int8>(x[1])", "[256]", "!out of the range of a int8 cell"),
        ("tensor(x{})", r#"[{"address":{"y":"a"},"value":1}]"#, "!no dimension 'y'"),
        ("tensor(x{},y{})", r#"[{"address":{"y":"a"},"value":1}]"#, "!must name every dimension"),
        ("tensor(x{})", r#"[{"address":{"x":"a"}}]"#, "!missing field `value`"),
        ("tensor(x[2])", r#"[{"address":{"x":"2"},"value":1}]"#, "!not within 0 to 1"),
        ("tensor(x[2])", r#"[1,{"address":{"x":"1"},"value":1}]"#, "!mixed in a list"),
        ("tensor(x[999999999],y[999999999])", "[]", "!64 MB"),
        ("tensor(x{})", r#"{"values":[1]}"#, "!invalid type: sequence, expected tensor(x{})"),
        ("tensor(x{})", r#"{"a":[1,2]}"#, "!invalid type: sequence, expected tensor(x{})"),
        ("tensor(x{})", "7", "!expected tensor(x{}), for example {\"a\": 1.0}"),
    ] {
        check(spec, json, "short", reason);
    }
    let many: Vec<String> = (0..65).map(|i| format!("d{i}{{}}")).collect();
    assert!(TensorType::parse(&format!("tensor({})", many.join(","))).is_err());
}

/// Parses a literal and expects its short form; or, after `!`, an error that contains this text.
fn check_literal(text: &str, declared: Option<&str>, expected: &str) {
    let declared = declared.map(|spec| TensorType::parse(spec).unwrap());
    match (Tensor::parse(text, declared.as_ref()), expected.strip_prefix('!')) {
        (Ok(tensor), None) => assert_eq!(render(&tensor, "short-value"), expected, "{text}"),
        (Err(error), Some(expected)) => assert!(error.to_string().contains(expected), "{text}: {error}"),
        (outcome, _) => panic!("{text}: {outcome:?}"),
    }
}

#[test]
fn every_literal_form_is_read() {
    check_literal("tensor<float>(x[2]):[3.0, 5]", None, "[3.0,5.0]");
    check_literal(" [3,5] ", Some("tensor<float>(x[2])"), "[3.0,5.0]");
    check_literal("tensor<float>(x[2]):{ {x:0}:3.0, {x:1}:5.0 }", None, "[3.0,5.0]");
    let matrix = "[[11,34,3],[-124,5,-1]]";
    check_literal("0B22038405FF", Some("tensor<int8>(x[2],y[3])"), matrix);
    check_literal("tensor<int8>(x[2],y[3]):[11,34,3,-124,5,-1]", None, matrix);
    check_literal("{ {x:foo}:5.0 }", None, r#"{"foo":5.0}"#);
    check_literal("tensor(k{}):{ {k:'key.1'}:3, {k:\"key's\"}:7 }", None, r#"{"key.1":3.0,"key's":7.0}"#);
    check_literal("{ a: 1, b:2 }", Some("tensor(x{})"), r#"{"a":1.0,"b":2.0}"#);
    check_literal("{}", Some("tensor(x{})"), "{}");
    check_literal("tensor():{5}", None, "[5.0]");
    check_literal("{ -1.5 }", Some("tensor()"), "[-1.5]");
    check_literal("{5,6}", Some("tensor()"), "!expected '}' (at character 3)");
    check_literal("{k1: 0102, k2: [3,4]}", Some("tensor<int8>(k{},x[2])"), r#"{"k1":[1,2],"k2":[3,4]}"#);
    let nested = r#"[{"address":{"c":"c1","k":"k1"},"values":[1.0,2.0]}]"#;
    check_literal("tensor(c{},k{},x[2]):{c1:{k1:[1,2]}}", None, nested);
    check_literal("[1,2", Some("tensor(x[2])"), "!expected ',' (at character 5)");
    check_literal("[1,two]", Some("tensor(x[2])"), "!expected a number, got 'two'");
    check_literal("[1,2]", None, "!needs a type");
    check_literal("tensor(y[2]):[1,2]", Some("tensor(x[2])"), "!the text is a tensor(y[2])");
    check_literal("[1,2] x", Some("tensor(x[2])"), "!text after the value");
}

/// Each example has the type that it is for, and is part of any error of its literal.
#[test]
fn errors_of_reading_have_an_example() {
    #[track_caller]
    fn check(text: &str, spec: &str, expected: &str) {
        let tensor_type = TensorType::parse(spec).expect("a type");
        let error = Tensor::parse(text, Some(&tensor_type)).expect_err("it is none").to_string();
        let (_, example) = error.split_once("; write for example ").expect(&error);
        assert_eq!(example, expected, "{error}");
        if !example.contains('…') {
            Tensor::parse(example, Some(&tensor_type)).expect(example);
        }
    }
    check("words", "tensor()", "1.5");
    check(r#"{"values":[1,2]}"#, "tensor<float>(x[2])", "[0.1,0.2]");
    check("random text", "tensor<float>(x[384])", "[0.1,0.2,…] with all 384 numbers");
    check("7", "tensor(x{})", "{a:1.5}");
    check("7", "tensor(x{},y{},z[3])", "{a:{b:[0.1,0.2,0.3]}}");
}

/// Applies the update `json` of a kind to a tensor and expects the result.
fn check_update(spec: &str, before: &str, kind: &str, json: &str, after: &str) {
    let tensor_type = TensorType::parse(spec).unwrap();
    let tensor = read(spec, before).unwrap();
    let mut deserializer = serde_json::Deserializer::from_str(json);
    let changed = match kind {
        "add" => tensor.with_subspaces(&read(spec, json).unwrap()),
        "remove" => {
            tensor.without_subspaces(&RemoveSeed(&tensor_type).deserialize(&mut deserializer).unwrap())
        }
        _ => tensor.modified(&ModifySeed(&tensor_type).deserialize(&mut deserializer).unwrap()),
    };
    assert_eq!(render(&changed.unwrap(), "short-value"), after, "{kind} {json}");
}

#[test]
fn updates_change_the_cells_they_name() {
    let replace = r#"{"operation":"replace","addresses":[{"address":{"x":"1"},"value":7}]}"#;
    check_update("tensor(x[3])", "[1,2,3]", "modify", replace, "[1.0,7.0,3.0]");
    let by_index = r#"{"operation":"add","cells":{"1":7,"2":"0.5"}}"#;
    check_update("tensor(x[3])", "[1,2,3]", "modify", by_index, "[1.0,9.0,3.5]");
    let add = r#"{"operation":"add","create":true,"cells":{"a":5,"c":6}}"#;
    check_update("tensor(x{})", r#"{"a":1}"#, "modify", add, r#"{"a":6.0,"c":6.0}"#);
    let multiply = r#"{"cells":{"a":5,"c":6},"operation":"multiply"}"#;
    check_update("tensor(x{})", r#"{"a":2}"#, "modify", multiply, r#"{"a":10.0}"#);
    let blocks = r#"{"operation":"multiply","create":true,"blocks":{"a":[3,4],"b":[5,6]}}"#;
    check_update("tensor(x{},y[2])", r#"{"a":[1,2]}"#, "modify", blocks, r#"{"a":[3.0,8.0],"b":[5.0,6.0]}"#);
    let cells = r#"{"cells":[{"address":{"x":"b","y":"0"},"value":2}]}"#;
    check_update("tensor(x{},y[2])", r#"{"a":[1,2]}"#, "add", cells, r#"{"a":[1.0,2.0],"b":[2.0,0.0]}"#);
    check_update(
        "tensor(x{},y{})",
        r#"[{"address":{"x":"a","y":"c"},"value":1},{"address":{"x":"b","y":"c"},"value":2}]"#,
        "remove",
        r#"{"addresses":[{"x":"a"}]}"#,
        r#"[{"address":{"x":"b","y":"c"},"value":2.0}]"#,
    );
}

fn tensors() -> impl Strategy<Value = Tensor> {
    let cells = [CellType::Double, CellType::Float, CellType::BFloat16, CellType::Int8];
    let labels = proptest::collection::btree_set("[a-z:{},'\" ]{1,4}", 0..4);
    let shape = (proptest::sample::select(cells.to_vec()), 0usize..3, 0usize..3);
    (shape, labels, proptest::collection::vec(-128i8..=127, 128)).prop_filter_map(
        "a scalar has no short form",
        |((cell, mapped, indexed), labels, numbers)| {
            let mapped_names = (0..mapped).map(|i| (format!("m{i}"), DimensionKind::Mapped));
            let indexed_names = (0..indexed).map(|i| (format!("i{i}"), DimensionKind::Indexed(i + 2)));
            let dimensions =
                mapped_names.chain(indexed_names).map(|(name, kind)| TensorDimension { name, kind });
            let tensor_type = TensorType::new(cell, dimensions.collect()).unwrap();
            let subspaces = if mapped == 0 { 1 } else { labels.len() };
            let labels: Vec<String> = match mapped {
                0 => Vec::new(),
                _ => labels.iter().flat_map(|label| vec![label.clone(); mapped]).collect(),
            };
            let mut cells = TensorCells::with_capacity(cell, 0);
            let count = subspaces * tensor_type.dense_size();
            numbers.iter().take(count).for_each(|number| cells.push(f64::from(*number)));
            (!tensor_type.is_scalar()).then(|| Tensor::new(tensor_type, labels, cells).unwrap())
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn what_is_written_is_read_again(tensor in tensors()) {
        let spec = tensor.tensor_type().to_string();
        for format in ["short", "long", "hex", "short-value", "long-value", "hex-value"] {
            let json = render(&tensor, format);
            prop_assert_eq!(read(&spec, &json).map_err(|e| format!("{format} {json}: {e}")), Ok(tensor.clone()));
        }
    }

    #[test]
    fn no_text_breaks_the_readers(text in "[\\[\\]{}:,'\"a-c0-9. tensor()xy]{0,40}") {
        for spec in ["tensor(x[2])", "tensor(x{})", "tensor<int8>(x{},y[2])", "tensor()"] {
            let tensor_type = TensorType::parse(spec).unwrap();
            let _ = Tensor::parse(&text, Some(&tensor_type));
            let _ = read(spec, &text);
        }
        let _ = Tensor::parse(&text, None);
        let _ = TensorType::parse(&text);
    }
}
