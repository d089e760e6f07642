//! The text of a script of an update, read by descending through its statements and operators.

use serde_json::{Map, Value};

use super::methods::ReadMethod;
use super::values::ScriptedKind;
use super::{AssignedValue, DocumentPath, PartChange, ScriptStatement, ScriptValue};
use crate::Error;
use crate::formulas::{FormulaFunction, FormulaOperator, OPERATORS};
use crate::scripts::{ScriptCursor, ScriptToken};

/// Operands of a script, and the depth of its parts in each other.
const OPERANDS_MAX: usize = 1_024;
const DEPTH_MAX: usize = 32;

/// Descriptions of the document among the members of `ctx`.
const DESCRIPTIONS: [&str; 5] = ["_index", "_id", "_routing", "_version", "_now"];

/// Operators that assign what they compute.
const ASSIGNING: [(&str, FormulaOperator); 5] = [
    ("+=", FormulaOperator::Add),
    ("-=", FormulaOperator::Subtract),
    ("*=", FormulaOperator::Multiply),
    ("/=", FormulaOperator::Divide),
    ("%=", FormulaOperator::Remainder),
];

/// Error of a part of a script that is not of the language.
fn unknown(part: &str) -> Error {
    Error::IllegalArgument(format!(
        "failed to execute script: compile error: [{part}] is not supported there in scripts of updates; docs/elastic.md lists \
         what there is"
    ))
}

/// Error of a part of a script, with the reason for it.
fn refused(reason: &str) -> Error {
    Error::IllegalArgument(format!("failed to execute script: compile error: {reason}"))
}

/// Error of a script that is too long, or too deep.
fn too_deep() -> Error {
    refused(&format!("a script may have {OPERANDS_MAX} operands, {DEPTH_MAX} deep in each other"))
}

/// A value, or the change of it by a method that ends a statement.
enum ScriptChain {
    Value(ScriptValue),
    Change(ScriptValue, PartChange),
}

/// A variable that can be named.
struct VisibleVariable {
    name: String,
    /// Its position among the variables of the script.
    at: usize,
    kind: Option<ScriptedKind>,
}

/// Reader of a script.
pub(super) struct ScriptParser {
    cursor: ScriptCursor,
    visible: Vec<VisibleVariable>,
    /// Number of variables so far.
    variables: usize,
    operands: usize,
    depth: usize,
}

impl ScriptParser {
    pub(super) fn new(source: &str) -> Result<Self, Error> {
        let cursor = ScriptCursor::new(source, unknown)?;
        Ok(ScriptParser { cursor, visible: Vec::new(), variables: 0, operands: 0, depth: 0 })
    }

    /// Reads all of the script; returns its statements, and the number of its variables.
    pub(super) fn script(mut self) -> Result<(Vec<ScriptStatement>, usize), Error> {
        let mut statements = Vec::new();
        loop {
            while self.cursor.takes(";") {}
            if self.cursor.peek(0).is_none() {
                return Ok((statements, self.variables));
            }
            statements.push(self.statement()?);
        }
    }

    /// Reads a part that is in another one.
    fn deeper<T>(&mut self, read: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.operands += 1;
        self.depth += 1;
        if self.operands > OPERANDS_MAX || self.depth > DEPTH_MAX {
            return Err(too_deep());
        }
        let read = read(self)?;
        self.depth -= 1;
        Ok(read)
    }

    fn statement(&mut self) -> Result<ScriptStatement, Error> {
        if self.cursor.takes_name("if") {
            self.cursor.expect("(")?;
            let condition = self.value()?;
            self.cursor.expect(")")?;
            let then = self.deeper(Self::branch)?;
            let otherwise = match self.cursor.takes_name("else") {
                true => self.deeper(Self::branch)?,
                false => Vec::new(),
            };
            return Ok(ScriptStatement::If(condition, then, otherwise));
        }
        let statement = if self.cursor.takes_name("return") {
            ScriptStatement::Return
        } else if let Some((name, kind)) = self.declared() {
            let assigned = match self.cursor.takes("=") {
                true => self.assigned()?,
                false => AssignedValue::Computed(ScriptValue::Constant(Value::Null)),
            };
            // Its own value does not know it.
            ScriptStatement::Set(self.declare(name, kind)?, kind, None, assigned)
        } else {
            self.changing()?
        };
        // The last statement of a block needs no end.
        let is_ended = self.cursor.takes(";") || self.cursor.is_at("}") || self.cursor.peek(0).is_none();
        if is_ended { Ok(statement) } else { Err(self.cursor.unknown()) }
    }

    /// Reads the statements of a branch, in braces or one without.
    fn branch(&mut self) -> Result<Vec<ScriptStatement>, Error> {
        let visible = self.visible.len();
        let mut statements = Vec::new();
        if self.cursor.takes("{") {
            loop {
                while self.cursor.takes(";") {}
                if self.cursor.takes("}") {
                    break;
                }
                statements.push(self.statement()?);
            }
        } else {
            statements.push(self.statement()?);
        }
        self.visible.truncate(visible);
        Ok(statements)
    }

    /// Name and kind of the variable that is declared here; `None` if none is.
    fn declared(&mut self) -> Option<(String, Option<ScriptedKind>)> {
        let (ScriptToken::Name(kind), ScriptToken::Name(name)) = (self.cursor.peek(0)?, self.cursor.peek(1)?)
        else {
            return None;
        };
        let kind = match kind.as_str() {
            "def" | "var" | "Object" => None,
            other => Some(ScriptedKind::named(other)?),
        };
        let name = name.clone();
        if name == "instanceof" {
            return None;
        }
        self.cursor.return_to(self.cursor.position() + 2);
        Some((name, kind))
    }

    /// Adds a variable; returns its position.
    fn declare(&mut self, name: String, kind: Option<ScriptedKind>) -> Result<usize, Error> {
        let is_taken = ["ctx", "params"].contains(&name.as_str());
        if is_taken || self.visible.iter().any(|variable| variable.name == name) {
            return Err(refused(&format!("variable [{name}] is already defined")));
        }
        let at = self.variables;
        self.variables += 1;
        self.visible.push(VisibleVariable { name, at, kind });
        Ok(at)
    }

    /// Reads a statement that changes something.
    fn changing(&mut self) -> Result<ScriptStatement, Error> {
        let target = match self.chain()? {
            ScriptChain::Change(of, change) => {
                return Ok(ScriptStatement::Change(self.path_of(of)?, change));
            }
            ScriptChain::Value(target) => target,
        };
        let one = || AssignedValue::Computed(ScriptValue::Constant(1.into()));
        let (operator, assigned) = if self.cursor.takes("++") {
            (Some(FormulaOperator::Add), one())
        } else if self.cursor.takes("--") {
            (Some(FormulaOperator::Subtract), one())
        } else if let Some((_, operator)) = ASSIGNING.iter().find(|(sign, _)| self.cursor.takes(sign)) {
            (Some(*operator), self.assigned()?)
        } else if self.cursor.takes("=") {
            (None, self.assigned()?)
        } else {
            return Err(self.cursor.unknown());
        };
        match (target, operator, assigned) {
            (ScriptValue::Operation, None, AssignedValue::Computed(operation)) => {
                Ok(ScriptStatement::SetOperation(operation))
            }
            (ScriptValue::Variable(at), operator, assigned) => {
                let variable = self.visible.iter().find(|variable| variable.at == at);
                let kind = variable.and_then(|variable| variable.kind);
                Ok(ScriptStatement::Set(at, kind, operator, assigned))
            }
            (target, operator, assigned) => {
                Ok(ScriptStatement::Assign(self.path_of(target)?, operator, assigned))
            }
        }
    }

    /// Steps of a part of the document.
    ///
    /// # Errors
    /// The value is another one.
    fn path_of(&self, part: ScriptValue) -> Result<DocumentPath, Error> {
        let (mut part, mut steps) = (part, Vec::new());
        loop {
            match part {
                ScriptValue::Source => {
                    steps.reverse();
                    return Ok(steps);
                }
                ScriptValue::Member { of, at, is_safe: false } => {
                    steps.push(*at);
                    part = *of;
                }
                _ => {
                    return Err(refused(
                        "only ctx.op, variables, and parts of ctx._source that are named by their path can be changed: the value \
                         of a variable is a copy",
                    ));
                }
            }
        }
    }

    /// Reads the right side of an assignment.
    fn assigned(&mut self) -> Result<AssignedValue, Error> {
        let begin = (self.cursor.position(), self.operands, self.depth);
        if self.cursor.is_at_name("ctx")
            && let ScriptChain::Change(of, change) = self.chain()?
        {
            return match change {
                PartChange::Remove(at) => Ok(AssignedValue::Removed(self.path_of(of)?, at)),
                _ => Err(refused("a method that changes a value is a statement of its own")),
            };
        }
        self.cursor.return_to(begin.0);
        (self.operands, self.depth) = (begin.1, begin.2);
        Ok(AssignedValue::Computed(self.value()?))
    }

    fn value(&mut self) -> Result<ScriptValue, Error> {
        self.deeper(|parser| {
            let condition = parser.operation(0)?;
            if parser.cursor.takes("?:") {
                let otherwise = parser.value()?;
                return Ok(ScriptValue::Default(Box::new(condition), Box::new(otherwise)));
            }
            if !parser.cursor.takes("?") {
                return Ok(condition);
            }
            let then = parser.value()?;
            parser.cursor.expect(":")?;
            let otherwise = parser.value()?;
            Ok(ScriptValue::Choice(Box::new([condition, then, otherwise])))
        })
    }

    /// Reads operands with operators of a level, and of those that bind more.
    fn operation(&mut self, level: usize) -> Result<ScriptValue, Error> {
        let Some(operators) = OPERATORS.get(level) else { return self.operand() };
        let mut left = self.operation(level + 1)?;
        loop {
            if let Some((_, operator)) = operators.iter().find(|(sign, _)| self.cursor.takes(sign)) {
                let right = self.operation(level + 1)?;
                left = ScriptValue::Binary(*operator, Box::new(left), Box::new(right));
            } else if operators[0].1 == FormulaOperator::LessOrEqual && self.cursor.takes_name("instanceof") {
                let name = self.cursor.name()?;
                let kind = ScriptedKind::named(&name).ok_or_else(|| unknown(&name))?;
                left = ScriptValue::IsKind(Box::new(left), kind);
            } else {
                return Ok(left);
            }
        }
    }

    fn operand(&mut self) -> Result<ScriptValue, Error> {
        self.deeper(|parser| {
            if parser.cursor.takes("!") {
                return Ok(ScriptValue::Not(Box::new(parser.operand()?)));
            }
            if parser.cursor.takes("-") {
                return Ok(ScriptValue::Negative(Box::new(parser.operand()?)));
            }
            if parser.cursor.takes("+") {
                return parser.operand();
            }
            match parser.chain()? {
                ScriptChain::Value(value) => Ok(value),
                ScriptChain::Change(..) => {
                    Err(refused("a method that changes a value is a statement of its own"))
                }
            }
        })
    }

    /// Reads a value with its members and methods, up to a method that changes it.
    fn chain(&mut self) -> Result<ScriptChain, Error> {
        let mut value = self.first()?;
        for _ in 0..=DEPTH_MAX {
            let is_safe = self.cursor.takes("?.");
            if is_safe || self.cursor.takes(".") {
                let name = self.cursor.name()?;
                if !self.cursor.takes("(") {
                    let at = Box::new(ScriptValue::Constant(name.into()));
                    value = ScriptValue::Member { of: Box::new(value), at, is_safe };
                    continue;
                }
                if name == "removeIf" {
                    return Ok(ScriptChain::Change(value, self.removal()?));
                }
                let given = self.given(")")?;
                if let Some(change) = change_of(&name, &given) {
                    return Ok(ScriptChain::Change(value, change));
                }
                value = match ReadMethod::named(&name) {
                    Some((method, least, most)) if (least..=most).contains(&given.len()) => {
                        ScriptValue::Call { of: Box::new(value), method, given, is_safe }
                    }
                    _ => return Err(unknown(&format!("{name}() with {} values", given.len()))),
                };
            } else if self.cursor.takes("[") {
                let at = Box::new(self.value()?);
                self.cursor.expect("]")?;
                value = ScriptValue::Member { of: Box::new(value), at, is_safe: false };
            } else {
                return Ok(ScriptChain::Value(value));
            }
        }
        Err(too_deep())
    }

    /// Reads the rest of `removeIf(NAME -> CONDITION)`.
    fn removal(&mut self) -> Result<PartChange, Error> {
        let visible = self.visible.len();
        let name = self.cursor.name()?;
        self.cursor.expect("->")?;
        let at = self.declare(name, None)?;
        let condition = self.value()?;
        self.cursor.expect(")")?;
        self.visible.truncate(visible);
        Ok(PartChange::RemoveIf(at, condition))
    }

    /// Reads values between commas, up to a sign.
    fn given(&mut self, end: &str) -> Result<Vec<ScriptValue>, Error> {
        let mut given = Vec::new();
        if self.cursor.takes(end) {
            return Ok(given);
        }
        loop {
            given.push(self.value()?);
            if self.cursor.takes(end) {
                return Ok(given);
            }
            self.cursor.expect(",")?;
        }
    }

    /// Reads a value without its members.
    fn first(&mut self) -> Result<ScriptValue, Error> {
        let begin = self.cursor.position();
        match self.cursor.advance() {
            Some(ScriptToken::Whole(number)) => Ok(ScriptValue::Constant(number.into())),
            Some(ScriptToken::Number(number)) => Ok(ScriptValue::Constant(number.into())),
            Some(ScriptToken::Text(text)) => Ok(ScriptValue::Constant(text.into())),
            Some(ScriptToken::Sign("(")) => {
                let inner = self.value()?;
                self.cursor.expect(")")?;
                Ok(inner)
            }
            Some(ScriptToken::Sign("[")) => self.list_or_object(),
            Some(ScriptToken::Name(name)) => self.named(&name, begin),
            _ => {
                self.cursor.return_to(begin);
                Err(self.cursor.unknown())
            }
        }
    }

    /// Reads the rest of `[A, B]`, `['A': B]` or `[:]`.
    fn list_or_object(&mut self) -> Result<ScriptValue, Error> {
        if self.cursor.takes(":") {
            self.cursor.expect("]")?;
            return Ok(ScriptValue::Constant(Value::Object(Map::new())));
        }
        if self.cursor.takes("]") {
            return Ok(ScriptValue::Constant(Value::Array(Vec::new())));
        }
        let first = self.value()?;
        if !self.cursor.takes(":") {
            let mut elements = vec![first];
            if !self.cursor.takes("]") {
                self.cursor.expect(",")?;
                elements.extend(self.given("]")?);
            }
            return Ok(ScriptValue::List(elements));
        }
        let mut members = vec![(first, self.value()?)];
        while self.cursor.takes(",") {
            let name = self.value()?;
            self.cursor.expect(":")?;
            members.push((name, self.value()?));
        }
        self.cursor.expect("]")?;
        Ok(ScriptValue::Object(members))
    }

    /// Reads a value by the name that begins it at a position.
    fn named(&mut self, name: &str, begin: usize) -> Result<ScriptValue, Error> {
        if let Some(variable) = self.visible.iter().rev().find(|variable| variable.name == name) {
            return Ok(ScriptValue::Variable(variable.at));
        }
        match name {
            "true" | "false" => Ok(ScriptValue::Constant((name == "true").into())),
            "null" => Ok(ScriptValue::Constant(Value::Null)),
            "params" => Ok(ScriptValue::Parameters),
            "ctx" => {
                let member = match self.cursor.takes(".") {
                    true => self.cursor.name()?,
                    false => self.cursor.text_in_brackets()?,
                };
                match DESCRIPTIONS.into_iter().find(|known| *known == member) {
                    Some(known) => Ok(ScriptValue::Description(known)),
                    None if member == "_source" => Ok(ScriptValue::Source),
                    None if member == "op" => Ok(ScriptValue::Operation),
                    None => Err(unknown(&format!("ctx.{member}"))),
                }
            }
            "new" => {
                let name = self.cursor.name()?;
                let made = match name.as_str() {
                    "ArrayList" => Value::Array(Vec::new()),
                    "HashMap" => Value::Object(Map::new()),
                    other => return Err(unknown(&format!("new {other}"))),
                };
                self.cursor.expect("(")?;
                self.cursor.expect(")")?;
                Ok(ScriptValue::Constant(made))
            }
            "Math" => {
                self.cursor.expect(".")?;
                let function = self.cursor.name()?;
                self.cursor.expect("(")?;
                let given = self.given(")")?;
                match FormulaFunction::named(&format!("Math.{function}")) {
                    Some((known, count)) if count == given.len() => Ok(ScriptValue::Math(known, given)),
                    _ => Err(unknown(&format!("Math.{function}() with {} values", given.len()))),
                }
            }
            _ => {
                self.cursor.return_to(begin);
                Err(self.cursor.unknown())
            }
        }
    }
}

/// Change by a method of a name; `None` if it changes nothing.
fn change_of(name: &str, given: &[ScriptValue]) -> Option<PartChange> {
    let given = given.to_vec();
    Some(match (name, <[ScriptValue; 1]>::try_from(given)) {
        ("add", Ok([value])) => PartChange::Add(value),
        ("addAll", Ok([value])) => PartChange::AddAll(value),
        ("remove", Ok([at])) => PartChange::Remove(at),
        ("removeAll", Ok([values])) => PartChange::RemoveAll(values),
        ("putAll", Ok([value])) => PartChange::PutAll(value),
        ("clear", Err(given)) if given.is_empty() => PartChange::Clear,
        (_, Ok(_)) => return None,
        (name, Err(given)) => match (name, <[ScriptValue; 2]>::try_from(given)) {
            ("add", Ok([at, value])) => PartChange::Insert(at, value),
            ("put", Ok([name, value])) => PartChange::Put(name, value),
            ("putIfAbsent", Ok([name, value])) => PartChange::PutIfAbsent(name, value),
            _ => return None,
        },
    })
}
