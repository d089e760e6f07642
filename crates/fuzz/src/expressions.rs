//! Ranking expressions, evaluated over a few features.

use std::sync::LazyLock;

use millrace_expression::{
    EvaluationScratch, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureKind, FeatureName,
    FunctionBody, InputBatch, ParsedExpression,
};
use millrace_tensor::Tensor;

use crate::{tells, text};

/// Features available to expressions, with their values.
const FEATURES: [(&str, &str); 5] = [
    ("attribute(count)", "tensor():{{}:42}"),
    ("query(w)", "tensor():{{}:nan}"),
    ("query(v)", "tensor<float>(x[3]):[1,2,3]"),
    ("attribute(sparse)", "tensor(k{}):{a:1,b:2}"),
    ("attribute(mixed)", "tensor<float>(k{},x[3]):{a:[1,0,0],b:[0,2,1]}"),
];

struct FuzzNames;

impl FuzzNames {
    fn value(name: &str) -> Option<&'static Tensor> {
        static VALUES: LazyLock<Vec<(&str, Tensor)>> = LazyLock::new(|| {
            let value = |text| match Tensor::parse(text, None) {
                Ok(tensor) => tensor,
                Err(error) => panic!("the features here are right: {text}: {error}"),
            };
            FEATURES.iter().map(|(name, text)| (*name, value(text))).collect()
        });
        VALUES.iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
}

impl ExpressionScope for FuzzNames {
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
        match FuzzNames::value(&name.to_string()) {
            Some(value) => Ok(FeatureKind::Input(value.tensor_type().clone())),
            None => Err(ExpressionFault::new(format!("unknown feature {name}"))),
        }
    }

    fn function(&self, name: &str) -> Option<FunctionBody<'_>> {
        static LOOP: LazyLock<(Vec<String>, ParsedExpression)> = LazyLock::new(|| {
            let body = ParsedExpression::parse("1 + again(x)").expect("the function here is right");
            (vec!["x".to_owned()], body)
        });
        (name == "again").then(|| FunctionBody { parameters: &LOOP.0, body: &LOOP.1 })
    }
}

/// Compiles and evaluates an expression.
pub(crate) fn expression(input: &[u8]) {
    let expression = match ParsedExpression::parse(text(input)) {
        Ok(expression) => expression,
        Err(error) => return tells(&error),
    };
    let program = match ExpressionProgram::compile(&expression, &FuzzNames) {
        Ok(program) => program,
        Err(error) => return tells(&error),
    };
    let values: Vec<&Tensor> =
        program.inputs().iter().filter_map(|(name, _)| FuzzNames::value(&name.to_string())).collect();
    let operands: Vec<InputBatch<'_>> = values
        .iter()
        .map(|value| match value.tensor_type().is_scalar() {
            true => InputBatch::number(value.cells().get(0)),
            false => InputBatch::tensor(value),
        })
        .collect();
    let mut scratch = EvaluationScratch::default();
    let result = program.evaluate(&mut scratch, 1, &operands).tensor(0);
    assert_eq!(result.tensor_type(), program.tensor_type(), "the type of a result is known before");
}
