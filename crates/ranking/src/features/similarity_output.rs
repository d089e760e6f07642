//! Formulas of `elementSimilarity`: the rank property that combines the matching elements.

use millrace_expression::{
    EvaluationScratch, ExpressionFault, ExpressionProgram, ExpressionScope, FeatureKind, FeatureName,
    FunctionBody, InputBatch, ParsedExpression,
};
use millrace_tensor::TensorType;

use crate::Error;

/// `aggregator(expression)` with an expression over the measures of an element.
pub(super) struct OutputFormula {
    program: ExpressionProgram,
    /// For each input of the program, its index in [`SYMBOLS`].
    inputs: Vec<usize>,
    aggregator: FormulaAggregator,
}

/// Symbols of the measures: proximity, order, query coverage, field coverage, weight.
const SYMBOLS: [&str; 5] = ["p", "o", "q", "f", "w"];

#[derive(Debug, Clone, Copy)]
enum FormulaAggregator {
    Max,
    Average,
    Sum,
}

impl OutputFormula {
    /// Parses a formula.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let wrong = || {
            Error::setup(format!(
                "expected max, avg or sum of an expression of {}, as in max(p*w), found '{text}'",
                SYMBOLS.join(", ")
            ))
        };
        let (name, inner) = text.trim().split_once('(').ok_or_else(wrong)?;
        let inner = inner.trim_end().strip_suffix(')').ok_or_else(wrong)?;
        let aggregator = match name.trim() {
            "max" => FormulaAggregator::Max,
            "avg" => FormulaAggregator::Average,
            "sum" => FormulaAggregator::Sum,
            _ => return Err(wrong()),
        };
        let compiled = ParsedExpression::parse(inner)
            .and_then(|expression| ExpressionProgram::compile(&expression, &FormulaSymbols));
        let program = compiled.map_err(|error| Error::setup(format!("{}: {}", wrong(), error.reason())))?;
        if !program.tensor_type().is_scalar() {
            return Err(wrong());
        }
        let place = |name: &FeatureName| SYMBOLS.iter().position(|symbol| *symbol == name.name).unwrap_or(0);
        let inputs = program.inputs().iter().map(|(name, _)| place(name)).collect();
        Ok(OutputFormula { program, inputs, aggregator })
    }

    /// Computes the expression for each element; their measures are given as one list per symbol.
    pub fn evaluate(&self, measures: &[Vec<f64>; 5], scratch: &mut EvaluationScratch, out: &mut Vec<f64>) {
        out.clear();
        out.resize(measures[0].len(), 0.0);
        if out.is_empty() {
            return;
        }
        let operands: Vec<InputBatch<'_>> =
            self.inputs.iter().map(|place| InputBatch::numbers(&measures[*place])).collect();
        self.program.evaluate(scratch, out.len(), &operands).write(out);
    }

    /// The output for a document with these values of its elements; 0 without elements.
    pub fn combine(&self, values: &[f64]) -> f64 {
        if values.is_empty() {
            return 0.0;
        }
        let sum = || values.iter().sum::<f64>();
        match self.aggregator {
            FormulaAggregator::Max => values.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            FormulaAggregator::Sum => sum(),
            FormulaAggregator::Average => sum() / values.len() as f64,
        }
    }
}

/// The names that a formula can use.
struct FormulaSymbols;

impl ExpressionScope for FormulaSymbols {
    fn feature(&self, name: &FeatureName) -> Result<FeatureKind, ExpressionFault> {
        let known =
            name.parameters.is_empty() && name.output.is_none() && SYMBOLS.contains(&name.name.as_str());
        match known {
            true => Ok(FeatureKind::Input(TensorType::scalar())),
            false => Err(ExpressionFault::new(format!("no symbol '{name}'"))),
        }
    }

    fn function(&self, _: &str) -> Option<FunctionBody<'_>> {
        None
    }
}
