//! Formulas: the arithmetic in the scripts of scores and of buckets.
//!
//! A script is a formula, or statements `double NAME = FORMULA;` and `if (CONDITION) { return FORMULA; }`
//! before `return FORMULA;`. A formula has numbers, parameters, the score, the first value of a field
//! (`doc['FIELD'].value`), operators, functions of `Math`, and measures of vectors. Everything else of a
//! script is refused.

mod parsing;

use serde_json::{Map, Value};

use self::parsing::FormulaParser;
pub(crate) use self::parsing::OPERATORS;
use crate::Error;
use crate::query::text_of;
use crate::scripts::ScriptText;
use crate::vector_similarity::{
    VectorSimilarity, chebyshev, cosine, dot, euclidean_squared, manhattan, vector_of,
};

/// A script that is arithmetic.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ScriptFormula {
    /// Values of its variables, each of which may depend on those before.
    variables: Vec<FormulaNode>,
    result: FormulaNode,
}

/// A part of a formula.
#[derive(Debug, Clone, PartialEq)]
enum FormulaNode {
    Number(f64),
    Score,
    /// A figure by its name.
    Figure(String),
    /// A variable by its position.
    Variable(usize),
    /// The first value of a field, and the number of its values.
    FieldValue(String),
    FieldCount(String),
    Not(Box<FormulaNode>),
    Binary(FormulaOperator, Box<FormulaNode>, Box<FormulaNode>),
    /// A condition with its two values.
    Choice(Box<[FormulaNode; 3]>),
    Call(FormulaFunction, Vec<FormulaNode>),
    /// A vector compared with that of a field.
    Compared(VectorMeasure, Vec<f64>, String),
}

/// Operator between two operands.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FormulaOperator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Remainder,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Equal,
    NotEqual,
    And,
    Or,
}

/// Function of numbers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum FormulaFunction {
    Absolute,
    Ceiling,
    Exponential,
    Floor,
    Ln,
    Log10,
    Max,
    Min,
    Power,
    Round,
    Root,
    Saturation,
    Sigmoid,
}

/// Measure of two vectors.
#[derive(Debug, Clone, Copy, PartialEq)]
enum VectorMeasure {
    Cosine,
    Dot,
    Euclidean,
    EuclideanSquared,
    Manhattan,
    Chebyshev,
    /// The score of the script `knn_score` of OpenSearch.
    Score(VectorSimilarity),
}

/// Values that a formula is computed from.
pub(crate) trait FormulaInputs {
    /// Score of the document.
    fn score(&self) -> f64;
    /// A figure by its name.
    fn figure(&self, name: &str) -> Option<f64>;
    /// Numbers of the document in a field.
    fn numbers(&self, field: &str) -> Vec<f64>;
    /// Number of the values of the document in a field, which may be texts.
    fn count(&self, field: &str) -> usize;
    /// Vector of the document in a field.
    fn vector(&self, field: &str) -> Option<Vec<f64>>;
}

impl ScriptFormula {
    /// Reads a script: a text, or an object with `source` and `params`. `figures` are the names that it may
    /// have beside its parameters.
    ///
    /// # Errors
    /// It is malformed, or more than a formula.
    pub(crate) fn parse(script: &Value, figures: &[&str]) -> Result<Self, Error> {
        let none = Map::new();
        let ScriptText { source, parameters, language } = ScriptText::of(script)?;
        let parameters = parameters.unwrap_or(&none);
        match language.as_deref() {
            None | Some("painless" | "expression") => {}
            Some("knn") if source == "knn_score" => return ScriptFormula::of_vector(parameters),
            Some(other) => return Err(Error::unsupported(&format!("a script in the language [{other}]"))),
        }
        FormulaParser::new(source, parameters, figures)?.script()
    }

    /// Score of a vector, as the script `knn_score` has it.
    fn of_vector(parameters: &Map<String, Value>) -> Result<Self, Error> {
        let text = |name: &str| parameters.get(name).map(text_of).unwrap_or_default();
        let vector = parameters.get("query_value").and_then(vector_of);
        match (vector, VectorSimilarity::parse(&text("space_type"))) {
            (Some(vector), Some(similarity)) => Ok(ScriptFormula {
                variables: Vec::new(),
                result: FormulaNode::Compared(VectorMeasure::Score(similarity), vector, text("field")),
            }),
            _ => Err(Error::IllegalArgument(
                "the script [knn_score] needs [field], a vector as [query_value], and a [space_type]"
                    .to_owned(),
            )),
        }
    }

    /// The score where it is at least the value of this formula, and 0 elsewhere.
    pub(crate) fn into_least_score(self) -> Self {
        let ScriptFormula { variables, result } = self;
        let (score, least) = (Box::new(FormulaNode::Score), Box::new(result));
        let is_reached = FormulaNode::Binary(FormulaOperator::GreaterOrEqual, score, least);
        let parts = [is_reached, FormulaNode::Score, FormulaNode::Number(0.0)];
        ScriptFormula { variables, result: FormulaNode::Choice(Box::new(parts)) }
    }

    /// Value of the formula. Conditions are 1 or 0.
    ///
    /// # Errors
    /// A field has no value, or a vector of another length.
    pub(crate) fn value(&self, inputs: &dyn FormulaInputs) -> Result<f64, Error> {
        let mut variables = Vec::with_capacity(self.variables.len());
        for variable in &self.variables {
            let value = variable.value(inputs, &variables)?;
            variables.push(value);
        }
        self.result.value(inputs, &variables)
    }
}

impl FormulaNode {
    fn value(&self, inputs: &dyn FormulaInputs, variables: &[f64]) -> Result<f64, Error> {
        let flag = |flag: bool| f64::from(u8::from(flag));
        Ok(match self {
            FormulaNode::Number(number) => *number,
            FormulaNode::Score => inputs.score(),
            FormulaNode::Figure(name) => inputs.figure(name).unwrap_or(f64::NAN),
            FormulaNode::Variable(at) => variables[*at],
            FormulaNode::FieldValue(field) => {
                // The values of a document are in their order there.
                let least = inputs.numbers(field).into_iter().reduce(f64::min);
                least.ok_or_else(|| {
                    Error::IllegalArgument(format!(
                        "A document doesn't have a value for the field [{field}]; ask for doc['{field}'].size() before"
                    ))
                })?
            }
            FormulaNode::FieldCount(field) => inputs.count(field) as f64,
            FormulaNode::Not(inner) => flag(inner.value(inputs, variables)? == 0.0),
            FormulaNode::Choice(parts) => {
                let [condition, then, otherwise] = &**parts;
                let chosen = if condition.value(inputs, variables)? == 0.0 { otherwise } else { then };
                chosen.value(inputs, variables)?
            }
            FormulaNode::Binary(operator, left, right) => {
                let left = left.value(inputs, variables)?;
                match operator {
                    FormulaOperator::And if left == 0.0 => return Ok(0.0),
                    FormulaOperator::Or if left != 0.0 => return Ok(1.0),
                    _ => {}
                }
                let right = right.value(inputs, variables)?;
                match operator {
                    FormulaOperator::Add => left + right,
                    FormulaOperator::Subtract => left - right,
                    FormulaOperator::Multiply => left * right,
                    FormulaOperator::Divide => left / right,
                    FormulaOperator::Remainder => left % right,
                    FormulaOperator::Less => flag(left < right),
                    FormulaOperator::LessOrEqual => flag(left <= right),
                    FormulaOperator::Greater => flag(left > right),
                    FormulaOperator::GreaterOrEqual => flag(left >= right),
                    FormulaOperator::Equal => flag(left == right),
                    FormulaOperator::NotEqual => flag(left != right),
                    FormulaOperator::And | FormulaOperator::Or => flag(right != 0.0),
                }
            }
            FormulaNode::Call(function, given) => {
                let given =
                    given.iter().map(|one| one.value(inputs, variables)).collect::<Result<Vec<f64>, _>>()?;
                function.value(&given)
            }
            FormulaNode::Compared(measure, wanted, field) => {
                let stored = match (inputs.vector(field), measure) {
                    (Some(stored), _) => stored,
                    (None, VectorMeasure::Score(_)) => return Ok(0.0),
                    (None, _) => {
                        return Err(Error::IllegalArgument(format!(
                            "A document doesn't have a value for the vector field [{field}]"
                        )));
                    }
                };
                if stored.len() != wanted.len() {
                    return Err(Error::IllegalArgument(format!(
                        "The query vector has a different number of dimensions [{}] than the document vectors [{}].",
                        wanted.len(),
                        stored.len()
                    )));
                }
                measure.value(wanted, &stored)
            }
        })
    }
}

impl FormulaFunction {
    /// Function of a name, with the number of values that it takes; `None` if there is no such function.
    pub(crate) fn named(name: &str) -> Option<(Self, usize)> {
        Some(match name {
            "Math.abs" | "abs" => (FormulaFunction::Absolute, 1),
            "Math.ceil" | "ceil" => (FormulaFunction::Ceiling, 1),
            "Math.exp" | "exp" => (FormulaFunction::Exponential, 1),
            "Math.floor" | "floor" => (FormulaFunction::Floor, 1),
            "Math.log" | "ln" => (FormulaFunction::Ln, 1),
            "Math.log10" | "log10" => (FormulaFunction::Log10, 1),
            "Math.max" | "max" => (FormulaFunction::Max, 2),
            "Math.min" | "min" => (FormulaFunction::Min, 2),
            "Math.pow" | "pow" => (FormulaFunction::Power, 2),
            "Math.round" => (FormulaFunction::Round, 1),
            "Math.sqrt" | "sqrt" => (FormulaFunction::Root, 1),
            "saturation" => (FormulaFunction::Saturation, 2),
            "sigmoid" => (FormulaFunction::Sigmoid, 3),
            _ => return None,
        })
    }

    /// Value for as many numbers as it takes.
    pub(crate) fn value(self, given: &[f64]) -> f64 {
        let (first, second) = (given[0], given.get(1).copied().unwrap_or(0.0));
        match self {
            FormulaFunction::Absolute => first.abs(),
            FormulaFunction::Ceiling => first.ceil(),
            FormulaFunction::Exponential => first.exp(),
            FormulaFunction::Floor => first.floor(),
            FormulaFunction::Ln => first.ln(),
            FormulaFunction::Log10 => first.log10(),
            FormulaFunction::Max => first.max(second),
            FormulaFunction::Min => first.min(second),
            FormulaFunction::Power => first.powf(second),
            FormulaFunction::Round => (first + 0.5).floor(),
            FormulaFunction::Root => first.sqrt(),
            FormulaFunction::Saturation => first / (second + first),
            FormulaFunction::Sigmoid => {
                let exponent = given[2];
                first.powf(exponent) / (second.powf(exponent) + first.powf(exponent))
            }
        }
    }
}

impl VectorMeasure {
    /// Measure of the name of a function; `None` if there is no such function.
    fn named(name: &str) -> Option<Self> {
        Some(match name {
            "cosineSimilarity" => VectorMeasure::Cosine,
            "dotProduct" | "innerProduct" => VectorMeasure::Dot,
            "l1norm" | "l1Norm" => VectorMeasure::Manhattan,
            "l2norm" => VectorMeasure::Euclidean,
            "l2Squared" => VectorMeasure::EuclideanSquared,
            "lInfNorm" => VectorMeasure::Chebyshev,
            _ => return None,
        })
    }

    fn value(self, wanted: &[f64], stored: &[f64]) -> f64 {
        match self {
            VectorMeasure::Cosine => cosine(wanted, stored),
            VectorMeasure::Dot => dot(wanted, stored),
            VectorMeasure::Euclidean => euclidean_squared(wanted, stored).sqrt(),
            VectorMeasure::EuclideanSquared => euclidean_squared(wanted, stored),
            VectorMeasure::Manhattan => manhattan(wanted, stored),
            VectorMeasure::Chebyshev => chebyshev(wanted, stored),
            // The script has twice the score of a query.
            VectorMeasure::Score(VectorSimilarity::Cosine) => 1.0 + cosine(wanted, stored),
            VectorMeasure::Score(similarity) => similarity.score(wanted, stored),
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    struct TestInputs;

    impl FormulaInputs for TestInputs {
        fn score(&self) -> f64 {
            2.0
        }

        fn figure(&self, name: &str) -> Option<f64> {
            (name == "a").then_some(6.0)
        }

        fn numbers(&self, field: &str) -> Vec<f64> {
            if field == "n" { vec![4.0, 9.0] } else { Vec::new() }
        }

        fn count(&self, field: &str) -> usize {
            if field == "t" { 3 } else { self.numbers(field).len() }
        }

        fn vector(&self, field: &str) -> Option<Vec<f64>> {
            (field == "v").then(|| vec![3.0, 4.0])
        }
    }

    fn parsed(source: &str) -> Result<ScriptFormula, Error> {
        let parameters = json!({ "x": 0.5, "w": [4, 3], "o": { "p": 8 } });
        ScriptFormula::parse(&json!({ "source": source, "params": parameters }), &["a"])
    }

    #[test]
    fn formulas_have_values() {
        for (source, expected) in [
            ("1 + 2 * 3 - 4 / 8", 6.5),
            ("-(1 + 2) * -2", 6.0),
            ("7 % 4 + .5", 3.5),
            ("2e2 - 1.5E+1", 185.0),
            ("params.a / params.x", 12.0),
            ("params['a'] * params.o.p", 48.0),
            ("a - 1", 5.0),
            ("_score * doc['n'].value", 8.0),
            ("doc['n'].size() + doc[\"m\"].length", 2.0),
            ("doc['t'].size() + (doc['t'].empty ? 1 : 0)", 3.0),
            ("doc['m'].size() == 0 ? 1 : doc['m'].value", 1.0),
            ("doc['m'].empty || doc['m'].value > 3", 1.0),
            ("!(params.a > 5 && params.a <= 6) ? 1 : 2", 2.0),
            ("1 < 2 ? 3 > 4 ? 5 : 6 : 7", 6.0),
            ("Math.max(1, Math.pow(2, 3)) + Math.sqrt(16)", 12.0),
            ("Math.log(Math.E) + Math.round(2.5) + Math.abs(-1)", 5.0),
            ("saturation(params.a, 2)", 0.75),
            ("sigmoid(1, Math.E, -0.0)", 0.5),
            ("cosineSimilarity(params.w, 'v') + 1.0", 1.96),
            ("dotProduct(params.w, doc['v'])", 24.0),
            ("1 / (1 + l1norm(params.w, 'v'))", 1.0 / 3.0),
            ("innerProduct(params.w, doc['v']) + lInfNorm(params.w, doc['v'])", 25.0),
            ("l2norm(params.w, 'v') * l2norm(params.w, 'v')", 2.0),
            ("double value = dotProduct(params.w, 'v'); return value / 2;", 12.0),
            ("if (doc['m'].size() == 0) { return 7; } return doc['m'].value;", 7.0),
            ("if (a < 1) return 1; else if (a < 9) { return 2 } else { return 3; }", 2.0),
            ("double v = a; if (v > 9) { return 1; } if (v > 8) { return 2; } v + 1", 7.0),
            ("float a1 = 2; def b = a1 * 3;\n return b + a1", 8.0),
        ] {
            let value = parsed(source).and_then(|formula| formula.value(&TestInputs));
            let value = value.unwrap_or_else(|error| panic!("{source}: {error}"));
            assert!((value - expected).abs() < 1e-12, "{source}: {value}");
        }
    }

    #[test]
    fn other_scripts_are_refused() {
        for source in [
            "",
            "1 +",
            "(1",
            "1 2",
            "params.none",
            "params.w",
            "b",
            "doc['n']",
            "doc['n'].value.year",
            "ctx._source.n",
            "Math.random()",
            "Math.max(1)",
            "cosineSimilarity('v', 'v')",
            "if (a > 1) { return 2 }",
            "if (a > 1) return 2 return 3",
            "if (a > 1) { return 2; return 3",
            "if (a > 1) 2; return 3",
            "if (a > 1) { return 2 } else return 3; return 4",
            "for (;;) {}",
            "return 1; return 2",
            "'text'",
            "1 = 2",
            "\u{1F600}",
        ] {
            assert!(parsed(source).is_err(), "{source}");
        }
        let deep = "(".repeat(1_000) + "1" + &")".repeat(1_000);
        assert!(parsed(&deep).is_err());
        assert!(parsed(&("1+".repeat(200) + "1")).is_ok());
        assert!(parsed(&("1+".repeat(300) + "1")).is_err());
        assert!(parsed(&"-".repeat(4_000)).is_err());
        assert!(parsed("doc['m'].value").expect("a formula").value(&TestInputs).is_err());
        assert!(parsed("dotProduct(params.w, 'm')").expect("a formula").value(&TestInputs).is_err());
        assert!(ScriptFormula::parse(&json!({ "id": "stored" }), &[]).is_err());
        assert!(ScriptFormula::parse(&json!({ "source": "1", "lang": "mustache" }), &[]).is_err());
    }
}
