//! The text of a formula, read by descending through its operators.

use serde_json::{Map, Value};

use super::{FormulaFunction, FormulaNode, FormulaOperator, ScriptFormula, VectorMeasure};
use crate::Error;
use crate::vector_similarity::vector_of;

/// Operands of a formula, and their depth in each other.
const OPERANDS_MAX: usize = 256;
const DEPTH_MAX: usize = 32;

/// Signs; of those that begin alike, the longer one first.
const SIGNS: [&str; 26] = [
    "&&", "||", "==", "!=", "<=", ">=", "+", "-", "*", "/", "%", "(", ")", "<", ">", "!", "?", ":", ";", ",",
    ".", "[", "]", "{", "}", "=",
];

/// Operators between two operands, those that bind least first.
const OPERATORS: &[&[(&str, FormulaOperator)]] = &[
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

#[derive(Debug, Clone, PartialEq)]
enum FormulaToken {
    Number(f64),
    Name(String),
    Text(String),
    Sign(&'static str),
}

/// Error of a part of a script that is not of a formula.
fn unknown(part: &str) -> Error {
    Error::IllegalArgument(format!(
        "[{part}] is not part of a formula, and of scripts formulas alone are supported; docs/elastic.md lists what there is"
    ))
}

/// Parts of a script.
fn tokens_of(source: &str) -> Result<Vec<FormulaToken>, Error> {
    let mut tokens = Vec::new();
    let mut rest = source.trim_start();
    while let Some(first) = rest.chars().next() {
        let is_of_name = |sign: char| sign.is_ascii_alphanumeric() || sign == '_';
        let begins_number = |text: &str| text.starts_with(|sign: char| sign.is_ascii_digit());
        let length = if begins_number(rest) || first == '.' && begins_number(&rest[1..]) {
            let (number, length) = number_at(rest)?;
            tokens.push(FormulaToken::Number(number));
            length
        } else if is_of_name(first) {
            let length = rest.find(|sign: char| !is_of_name(sign)).unwrap_or(rest.len());
            tokens.push(FormulaToken::Name(rest[..length].to_owned()));
            length
        } else if first == '\'' || first == '"' {
            let length = rest[1..].find(first).ok_or_else(|| unknown(rest))?;
            tokens.push(FormulaToken::Text(rest[1..=length].to_owned()));
            length + 2
        } else {
            let sign = SIGNS.into_iter().find(|sign| rest.starts_with(sign)).ok_or_else(|| unknown(rest))?;
            tokens.push(FormulaToken::Sign(sign));
            sign.len()
        };
        rest = rest[length..].trim_start();
    }
    Ok(tokens)
}

/// Number at the beginning of a text, and its length with the letter of its type.
fn number_at(text: &str) -> Result<(f64, usize), Error> {
    let bytes = text.as_bytes();
    let digits = |from: usize| bytes[from..].iter().take_while(|byte| byte.is_ascii_digit()).count();
    let mut length = digits(0);
    if bytes.get(length) == Some(&b'.') {
        length += 1;
        length += digits(length);
    }
    if matches!(bytes.get(length), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(bytes.get(length + 1), Some(b'+' | b'-')));
        let exponent = bytes.get(length + 1 + sign..).map_or(0, |_| digits(length + 1 + sign));
        if exponent > 0 {
            length += 1 + sign + exponent;
        }
    }
    let number = text[..length].parse().map_err(|_| unknown(&text[..length]))?;
    let has_type = matches!(bytes.get(length), Some(b'f' | b'F' | b'd' | b'D' | b'l' | b'L'));
    Ok((number, length + usize::from(has_type)))
}

/// Reader of a script.
pub(super) struct FormulaParser<'p> {
    tokens: Vec<FormulaToken>,
    at: usize,
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
        let (tokens, variables) = (tokens_of(source)?, Vec::new());
        Ok(FormulaParser { tokens, at: 0, parameters, figures, variables, operands: 0, depth: 0 })
    }

    /// Reads all of the script.
    pub(super) fn script(mut self) -> Result<ScriptFormula, Error> {
        let mut variables = Vec::new();
        while let Some(name) = self.declared() {
            variables.push(self.formula()?);
            self.expect(";")?;
            self.variables.push(name);
        }
        let result = self.outcome()?;
        match self.tokens.get(self.at) {
            None => Ok(ScriptFormula { variables, result }),
            Some(_) => Err(self.unknown()),
        }
    }

    /// Reads what the script returns: a formula, or several of which conditions choose one.
    fn outcome(&mut self) -> Result<FormulaNode, Error> {
        let mut choices = Vec::new();
        let last = loop {
            if !self.takes_name("if") {
                self.takes_name("return");
                let last = self.formula()?;
                self.takes(";");
                break last;
            }
            self.expect("(")?;
            let condition = self.formula()?;
            self.expect(")")?;
            choices.push((condition, self.returned()?));
            if self.takes_name("else") && !self.is_at_name("if") {
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
        let has_braces = self.takes("{");
        if !self.takes_name("return") {
            return Err(self.unknown());
        }
        let value = self.formula()?;
        let has_end = self.takes(";");
        if has_braces {
            self.expect("}")?;
        } else if !has_end {
            return Err(self.unknown());
        }
        Ok(value)
    }

    /// Name of the variable that is declared here, up to its value; `None` if none is.
    fn declared(&mut self) -> Option<String> {
        match self.tokens.get(self.at..self.at + 3)? {
            [FormulaToken::Name(kind), FormulaToken::Name(name), FormulaToken::Sign("=")]
                if ["double", "float", "def"].contains(&kind.as_str()) =>
            {
                let name = name.clone();
                self.at += 3;
                Some(name)
            }
            _ => None,
        }
    }

    fn formula(&mut self) -> Result<FormulaNode, Error> {
        let condition = self.operation(0)?;
        if !self.takes("?") {
            return Ok(condition);
        }
        let then = self.formula()?;
        self.expect(":")?;
        let otherwise = self.formula()?;
        Ok(FormulaNode::Choice(Box::new([condition, then, otherwise])))
    }

    /// Reads operands with operators of a level, and of those that bind more.
    fn operation(&mut self, level: usize) -> Result<FormulaNode, Error> {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut left = self.operation(level + 1)?;
        while let Some((_, operator)) = operators.iter().find(|(sign, _)| self.takes(sign)) {
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
        let token = self.tokens.get(self.at).cloned();
        self.at += 1;
        let node = match token {
            Some(FormulaToken::Number(number)) => FormulaNode::Number(number),
            Some(FormulaToken::Sign("+")) => self.operand()?,
            Some(FormulaToken::Sign("-")) => FormulaNode::Binary(
                FormulaOperator::Multiply,
                Box::new(FormulaNode::Number(-1.0)),
                Box::new(self.operand()?),
            ),
            Some(FormulaToken::Sign("!")) => FormulaNode::Not(Box::new(self.operand()?)),
            Some(FormulaToken::Sign("(")) => {
                let inner = self.formula()?;
                self.expect(")")?;
                inner
            }
            Some(FormulaToken::Name(name)) => self.named(name)?,
            _ => {
                self.at -= 1;
                return Err(self.unknown());
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
        while self.takes(".") {
            path = format!("{path}.{}", self.name()?);
        }
        if self.takes("(") {
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
        let field = self.text_in_brackets()?;
        self.expect(".")?;
        let property = self.name()?;
        let is_call = self.takes("(");
        if is_call {
            self.expect(")")?;
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
            if self.takes(".") {
                path.push(self.name()?);
            } else if self.tokens.get(self.at) == Some(&FormulaToken::Sign("[")) {
                path.push(self.text_in_brackets()?);
            } else if path.is_empty() {
                return Err(self.unknown());
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
            if self.name()? != "params" {
                return Err(unknown(&format!("{name} without params.VECTOR")));
            }
            let path = self.parameter_path()?;
            let vector = self.parameter_at(&path).and_then(vector_of);
            let vector = vector.ok_or_else(|| unknown(&format!("params.{}", path.join("."))))?;
            self.expect(",")?;
            let field = if let Some(FormulaToken::Text(field)) = self.tokens.get(self.at).cloned() {
                self.at += 1;
                field
            } else if self.name()? == "doc" {
                self.text_in_brackets()?
            } else {
                return Err(self.unknown());
            };
            self.expect(")")?;
            return Ok(FormulaNode::Compared(measure, vector, field));
        }
        let (function, count) = FormulaFunction::named(name).ok_or_else(|| unknown(name))?;
        let mut given = Vec::with_capacity(count);
        for at in 0..count {
            if at > 0 {
                self.expect(",")?;
            }
            given.push(self.formula()?);
        }
        self.expect(")")?;
        Ok(FormulaNode::Call(function, given))
    }

    fn text_in_brackets(&mut self) -> Result<String, Error> {
        self.expect("[")?;
        let Some(FormulaToken::Text(text)) = self.tokens.get(self.at).cloned() else {
            return Err(self.unknown());
        };
        self.at += 1;
        self.expect("]")?;
        Ok(text)
    }

    fn name(&mut self) -> Result<String, Error> {
        let Some(FormulaToken::Name(name)) = self.tokens.get(self.at).cloned() else {
            return Err(self.unknown());
        };
        self.at += 1;
        Ok(name)
    }

    fn is_at_name(&self, name: &str) -> bool {
        matches!(self.tokens.get(self.at), Some(FormulaToken::Name(here)) if here == name)
    }

    /// Passes over a name, if it is here.
    fn takes_name(&mut self, name: &str) -> bool {
        let is_here = self.is_at_name(name);
        self.at += usize::from(is_here);
        is_here
    }

    /// Passes over a sign, if it is here.
    fn takes(&mut self, sign: &str) -> bool {
        let is_here = matches!(self.tokens.get(self.at), Some(FormulaToken::Sign(here)) if *here == sign);
        self.at += usize::from(is_here);
        is_here
    }

    fn expect(&mut self, sign: &str) -> Result<(), Error> {
        if self.takes(sign) { Ok(()) } else { Err(self.unknown()) }
    }

    /// Error of the part here.
    fn unknown(&self) -> Error {
        match self.tokens.get(self.at) {
            None => unknown("the end"),
            Some(FormulaToken::Number(number)) => unknown(&number.to_string()),
            Some(FormulaToken::Name(text) | FormulaToken::Text(text)) => unknown(text),
            Some(FormulaToken::Sign(sign)) => unknown(sign),
        }
    }
}
