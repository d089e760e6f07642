//! The text of a formula, read by descending through its operators.

use serde_json::{Map, Value};

use super::{FormulaFunction, FormulaNode, FormulaOperator, ScriptFormula, VectorMeasure};
use crate::Error;
use crate::scripts::{ScriptCursor, ScriptToken};
use crate::vector_similarity::vector_of;

/// Operands of a formula, and their depth in each other.
const OPERANDS_MAX: usize = 256;
const DEPTH_MAX: usize = 32;

/// Operators between two operands, those that bind least first.
pub(crate) const OPERATORS: &[&[(&str, FormulaOperator)]] = &[
    &[("||", FormulaOperator::Or)],
    &[("&&", FormulaOperator::And)],
    &[("==", FormulaOperator::Equal), ("!=", FormulaOperator::NotEqual)],
    &[
        ("<=", FormulaOperator::LessOrEqual),
        (">=", FormulaOperator::GreaterOrEqual),
        ("<", FormulaOperator::Less),
        (">", FormulaOperator::Greater),
    ],
    &[("+", FormulaOperator::Add), ("-", FormulaOperator::Subtract)],
    &[("*", FormulaOperator::Multiply), ("/", FormulaOperator::Divide), ("%", FormulaOperator::Remainder)],
];

/// Error of a part of a script that is not of a formula.
fn unknown(part: &str) -> Error {
    Error::IllegalArgument(format!(
        "[{part}] is not part of a formula, and formulas are the only scripts that are supported here; docs/elastic.md lists what there is"
    ))
}

/// Reader of a script.
pub(super) struct FormulaParser<'p> {
    cursor: ScriptCursor,
    parameters: &'p Map<String, Value>,
    figures: &'p [&'p str],
    variables: Vec<String>,
    operands: usize,
    depth: usize,
}

impl<'p> FormulaParser<'p> {
    pub(super) fn new(
        source: &str,
        parameters: &'p Map<String, Value>,
        figures: &'p [&'p str],
    ) -> Result<Self, Error> {
        let (cursor, variables) = (ScriptCursor::new(source, unknown)?, Vec::new());
        Ok(FormulaParser { cursor, parameters, figures, variables, operands: 0, depth: 0 })
    }

    /// Reads all of the script.
    pub(super) fn script(mut self) -> Result<ScriptFormula, Error> {
        let mut variables = Vec::new();
        while let Some(name) = self.declared() {
            variables.push(self.formula()?);
            self.cursor.expect(";")?;
            self.variables.push(name);
        }
        let result = self.outcome()?;
        match self.cursor.peek(0) {
            None => Ok(ScriptFormula { variables, result }),
            Some(_) => Err(self.cursor.unknown()),
        }
    }

    /// Reads what the script returns: a formula, or several of which conditions choose one.
    fn outcome(&mut self) -> Result<FormulaNode, Error> {
        let mut choices = Vec::new();
        let last = loop {
            if !self.cursor.takes_name("if") {
                self.cursor.takes_name("return");
                let last = self.formula()?;
                self.cursor.takes(";");
                break last;
            }
            self.cursor.expect("(")?;
            let condition = self.formula()?;
            self.cursor.expect(")")?;
            choices.push((condition, self.returned()?));
            if self.cursor.takes_name("else") && !self.cursor.is_at_name("if") {
                break self.returned()?;
            }
        };
        let choices = choices.into_iter().rev();
        Ok(choices.fold(last, |otherwise, (condition, then)| {
            FormulaNode::Choice(Box::new([condition, then, otherwise]))
        }))
    }

    /// Reads `return FORMULA;`, in braces or without.
    fn returned(&mut self) -> Result<FormulaNode, Error> {
        let has_braces = self.cursor.takes("{");
        if !self.cursor.takes_name("return") {
            return Err(self.cursor.unknown());
        }
        let value = self.formula()?;
        let has_end = self.cursor.takes(";");
        if has_braces {
            self.cursor.expect("}")?;
        } else if !has_end {
            return Err(self.cursor.unknown());
        }
        Ok(value)
    }

    /// Name of the variable that is declared here, up to its value; `None` if none is.
    fn declared(&mut self) -> Option<String> {
        let (ScriptToken::Name(kind), ScriptToken::Name(name), ScriptToken::Sign("=")) =
            (self.cursor.peek(0)?, self.cursor.peek(1)?, self.cursor.peek(2)?)
        else {
            return None;
        };
        if !["double", "float", "def"].contains(&kind.as_str()) {
            return None;
        }
        let name = name.clone();
        self.cursor.return_to(self.cursor.position() + 3);
        Some(name)
    }

    fn formula(&mut self) -> Result<FormulaNode, Error> {
        let condition = self.operation(0)?;
        if !self.cursor.takes("?") {
            return Ok(condition);
        }
        let then = self.formula()?;
        self.cursor.expect(":")?;
        let otherwise = self.formula()?;
        Ok(FormulaNode::Choice(Box::new([condition, then, otherwise])))
    }

    /// Reads operands with operators of a level, and of those that bind more.
    fn operation(&mut self, level: usize) -> Result<FormulaNode, Error> {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut left = self.operation(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.cursor.takes(sign)) {
            let right = self.operation(level + 1)?;
            left = FormulaNode::Binary(*operator, Box::new(left), Box::new(right));
        }
        Ok(left)
    }

    fn operand(&mut self) -> Result<FormulaNode, Error> {
        self.operands += 1;
        self.depth += 1;
        if self.operands > OPERANDS_MAX || self.depth > DEPTH_MAX {
            return Err(Error::IllegalArgument(format!(
                "a script may have {OPERANDS_MAX} operands, {DEPTH_MAX} deep in each other"
            )));
        }
        let begin = self.cursor.position();
        let node = match self.cursor.advance() {
            Some(ScriptToken::Whole(number)) => FormulaNode::Number(number as f64),
            Some(ScriptToken::Number(number)) => FormulaNode::Number(number),
            Some(ScriptToken::Sign("+")) => self.operand()?,
            Some(ScriptToken::Sign("-")) => FormulaNode::Binary(
                FormulaOperator::Multiply,
                Box::new(FormulaNode::Number(-1.0)),
                Box::new(self.operand()?),
            ),
            Some(ScriptToken::Sign("!")) => FormulaNode::Not(Box::new(self.operand()?)),
            Some(ScriptToken::Sign("(")) => {
                let inner = self.formula()?;
                self.cursor.expect(")")?;
                inner
            }
            Some(ScriptToken::Name(name)) => self.named(name)?,
            _ => {
                self.cursor.return_to(begin);
                return Err(self.cursor.unknown());
            }
        };
        self.depth -= 1;
        Ok(node)
    }

    fn named(&mut self, name: String) -> Result<FormulaNode, Error> {
        match name.as_str() {
            "doc" => return self.value_of_field(),
            "params" => return self.parameter(),
            _ => {}
        }
        let mut path = name;
        while self.cursor.takes(".") {
            path = format!("{path}.{}", self.cursor.name()?);
        }
        if self.cursor.takes("(") {
            return self.call(&path);
        }
        match path.as_str() {
            "_score" => return Ok(FormulaNode::Score),
            "Math.E" => return Ok(FormulaNode::Number(std::f64::consts::E)),
            "Math.PI" => return Ok(FormulaNode::Number(std::f64::consts::PI)),
            _ => {}
        }
        if let Some(at) = self.variables.iter().position(|variable| *variable == path) {
            return Ok(FormulaNode::Variable(at));
        }
        match self.figures.contains(&path.as_str()) {
            true => Ok(FormulaNode::Figure(path)),
            false => Err(unknown(&path)),
        }
    }

    /// Reads the rest of `doc['FIELD'].value`, or of a number of values.
    fn value_of_field(&mut self) -> Result<FormulaNode, Error> {
        let field = self.cursor.text_in_brackets()?;
        self.cursor.expect(".")?;
        let property = self.cursor.name()?;
        let is_call = self.cursor.takes("(");
        if is_call {
            self.cursor.expect(")")?;
        }
        let is_empty = |field: String| FormulaNode::Not(Box::new(FormulaNode::FieldCount(field)));
        match (property.as_str(), is_call) {
            ("value", false) => Ok(FormulaNode::FieldValue(field)),
            ("length", false) | ("size", true) => Ok(FormulaNode::FieldCount(field)),
            ("empty", false) | ("isEmpty", true) => Ok(is_empty(field)),
            _ => Err(unknown(&property)),
        }
    }

    /// Reads the rest of a parameter that is a number, or of a figure.
    fn parameter(&mut self) -> Result<FormulaNode, Error> {
        let path = self.parameter_path()?;
        if let [name] = path.as_slice()
            && self.figures.contains(&name.as_str())
        {
            return Ok(FormulaNode::Figure(name.clone()));
        }
        let number = self.parameter_at(&path).and_then(Value::as_f64);
        number.map(FormulaNode::Number).ok_or_else(|| unknown(&format!("params.{}", path.join("."))))
    }

    /// Names after `params`, with dots before them, or as texts in brackets.
    fn parameter_path(&mut self) -> Result<Vec<String>, Error> {
        let mut path = Vec::new();
        loop {
            if self.cursor.takes(".") {
                path.push(self.cursor.name()?);
            } else if self.cursor.is_at("[") {
                path.push(self.cursor.text_in_brackets()?);
            } else if path.is_empty() {
                return Err(self.cursor.unknown());
            } else {
                return Ok(path);
            }
        }
    }

    fn parameter_at(&self, path: &[String]) -> Option<&'p Value> {
        let (first, rest) = path.split_first()?;
        rest.iter().try_fold(self.parameters.get(first)?, |value, name| value.get(name.as_str()))
    }

    /// Reads the rest of a call of a function.
    fn call(&mut self, name: &str) -> Result<FormulaNode, Error> {
        if let Some(measure) = VectorMeasure::named(name) {
            if self.cursor.name()? != "params" {
                return Err(unknown(&format!("{name} without params.VECTOR")));
            }
            let path = self.parameter_path()?;
            let vector = self.parameter_at(&path).and_then(vector_of);
            let vector = vector.ok_or_else(|| unknown(&format!("params.{}", path.join("."))))?;
            self.cursor.expect(",")?;
            let field = if let Some(ScriptToken::Text(field)) = self.cursor.peek(0).cloned() {
                self.cursor.advance();
                field
            } else if self.cursor.name()? == "doc" {
                self.cursor.text_in_brackets()?
            } else {
                return Err(self.cursor.unknown());
            };
            self.cursor.expect(")")?;
            return Ok(FormulaNode::Compared(measure, vector, field));
        }
        let (function, count) = FormulaFunction::named(name).ok_or_else(|| unknown(name))?;
        let mut given = Vec::with_capacity(count);
        for at in 0..count {
            if at > 0 {
                self.cursor.expect(",")?;
            }
            given.push(self.formula()?);
        }
        self.cursor.expect(")")?;
        Ok(FormulaNode::Call(function, given))
    }
}
