//! Scripts of updates: statements that change a document.
//!
//! A script assigns to parts of `ctx._source`, calls methods that change lists and objects there, declares
//! variables, chooses by `if`, and sets `ctx.op`, by which the update removes the document, or leaves it as
//! it is. It has no loops: its time grows with its length and with the values that it reads, and is bounded.
//! Values are copied where they are assigned.

mod methods;
mod parsing;
mod values;

use std::borrow::Cow;
use std::cell::Cell;
use std::ops::ControlFlow;

use serde_json::{Map, Value};

use self::methods::ReadMethod;
use self::parsing::ScriptParser;
use self::values::ScriptedKind;
use crate::Error;
use crate::catalog::now_ms;
use crate::formulas::{FormulaFunction, FormulaOperator};
use crate::scripts::ScriptText;
use crate::update::UpdateEffect;

/// Work of a script: the parts that it evaluates, with the bytes of the values that it copies or searches.
const WORK_MAX: usize = 16 << 20;

/// Depth of the objects and lists of a document. A deeper one could not be read again.
const LEVELS_MAX: usize = 127;

/// A script that changes a document.
#[derive(Debug, Clone)]
pub(crate) struct UpdateScript {
    statements: Vec<ScriptStatement>,
    parameters: Value,
    /// Number of its variables.
    variables: usize,
    /// Bytes of its source and its parameters.
    bytes: usize,
}

/// Description of the document that a script changes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ScriptedDocument<'c> {
    pub(crate) index: &'c str,
    pub(crate) id: &'c str,
    pub(crate) routing: Option<&'c str>,
    /// Version of the stored document; `None` if the update is to insert it.
    pub(crate) version: Option<i64>,
}

#[derive(Debug, Clone)]
enum ScriptStatement {
    /// A part of the document is set to a value, or changed by an operator.
    Assign(DocumentPath, Option<FormulaOperator>, AssignedValue),
    /// A variable is set, by its position, to a value of a kind.
    Set(usize, Option<ScriptedKind>, Option<FormulaOperator>, AssignedValue),
    Change(DocumentPath, PartChange),
    SetOperation(ScriptValue),
    If(ScriptValue, Vec<ScriptStatement>, Vec<ScriptStatement>),
    Return,
}

/// Steps from `ctx._source` to a part of it: names of members, and positions in lists.
type DocumentPath = Vec<ScriptValue>;

/// Right side of an assignment.
#[derive(Debug, Clone)]
enum AssignedValue {
    Computed(ScriptValue),
    /// A part that is removed from an object or a list, and its name or position there.
    Removed(DocumentPath, ScriptValue),
}

/// Change of a list or an object of the document.
#[derive(Debug, Clone)]
enum PartChange {
    Add(ScriptValue),
    Insert(ScriptValue, ScriptValue),
    AddAll(ScriptValue),
    Remove(ScriptValue),
    RemoveAll(ScriptValue),
    /// Elements of which a condition holds, which has them in a variable.
    RemoveIf(usize, ScriptValue),
    Put(ScriptValue, ScriptValue),
    PutIfAbsent(ScriptValue, ScriptValue),
    PutAll(ScriptValue),
    Clear,
}

/// A part of a script that has a value, and changes nothing.
#[derive(Debug, Clone)]
enum ScriptValue {
    Constant(Value),
    Source,
    Parameters,
    Variable(usize),
    /// A description of the document, by its name.
    Description(&'static str),
    Operation,
    Member {
        of: Box<ScriptValue>,
        at: Box<ScriptValue>,
        /// True if null has null there.
        is_safe: bool,
    },
    Call {
        of: Box<ScriptValue>,
        method: ReadMethod,
        given: Vec<ScriptValue>,
        is_safe: bool,
    },
    Math(FormulaFunction, Vec<ScriptValue>),
    List(Vec<ScriptValue>),
    Object(Vec<(ScriptValue, ScriptValue)>),
    IsKind(Box<ScriptValue>, ScriptedKind),
    Not(Box<ScriptValue>),
    Negative(Box<ScriptValue>),
    Binary(FormulaOperator, Box<ScriptValue>, Box<ScriptValue>),
    /// A condition with its two values.
    Choice(Box<[ScriptValue; 3]>),
    /// The first value, or the second one if that is null.
    Default(Box<ScriptValue>, Box<ScriptValue>),
}

/// Step from the value of a part to that of the part around it, which begins with it.
enum ValueStep<'s> {
    Member { at: &'s ScriptValue, is_safe: bool },
    Call { method: ReadMethod, given: &'s [ScriptValue], is_safe: bool },
    Binary(FormulaOperator, &'s ScriptValue),
}

impl ScriptValue {
    /// Part that this one begins with, and the step from there.
    fn begin(&self) -> Option<(&ScriptValue, ValueStep<'_>)> {
        Some(match self {
            ScriptValue::Member { of, at, is_safe } => (&**of, ValueStep::Member { at, is_safe: *is_safe }),
            ScriptValue::Call { of, method, given, is_safe } => {
                (&**of, ValueStep::Call { method: *method, given, is_safe: *is_safe })
            }
            ScriptValue::Binary(operator, left, right) => (&**left, ValueStep::Binary(*operator, right)),
            _ => return None,
        })
    }
}

/// Error of a script that cannot be executed.
fn failed(reason: impl std::fmt::Display) -> Error {
    Error::IllegalArgument(format!("failed to execute script: {reason}"))
}

impl UpdateScript {
    /// Reads a script: a text, or an object with `source` and `params`.
    ///
    /// # Errors
    /// It is malformed, or has parts that are not of the language.
    pub(crate) fn parse(script: &Value) -> Result<Self, Error> {
        let ScriptText { source, parameters, language } = ScriptText::of(script)?;
        match language.as_deref() {
            None | Some("painless") => {}
            Some(other) => return Err(Error::unsupported(&format!("a script in the language [{other}]"))),
        }
        let (statements, variables) = ScriptParser::new(source)?.script()?;
        let parameters = Value::Object(parameters.cloned().unwrap_or_default());
        let bytes = source.len() + values::bytes_of(&parameters);
        Ok(UpdateScript { statements, parameters, variables, bytes })
    }

    /// Bytes of its source and its parameters, about.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Changes a document.
    ///
    /// # Errors
    /// A value is not of the kind that a statement needs, or the script takes too much time.
    pub(crate) fn run(
        &self,
        document: Map<String, Value>,
        about: ScriptedDocument<'_>,
    ) -> Result<UpdateEffect, Error> {
        let operation = if about.version.is_some() { "index" } else { "create" };
        let mut run = ScriptRun {
            parameters: &self.parameters,
            about,
            source: Value::Object(document),
            variables: vec![Value::Null; self.variables],
            operation: operation.into(),
            work: Cell::new(0),
        };
        // A script may end before its last statement.
        let _end = run.block(&self.statements)?;
        let ScriptRun { source, operation, .. } = run;
        if levels_of(&source) > LEVELS_MAX {
            return Err(failed(format!("the document would be more than {LEVELS_MAX} levels deep")));
        }
        match (operation.as_str(), source) {
            (Some("index" | "create"), Value::Object(document)) => Ok(UpdateEffect::Write(document)),
            (Some("index" | "create"), _) => Err(failed("ctx._source has to be an object")),
            // There is nothing to remove.
            (Some("delete"), _) if about.version.is_none() => Ok(UpdateEffect::Noop),
            (Some("delete"), _) => Ok(UpdateEffect::Remove),
            (Some("none" | "noop"), _) => Ok(UpdateEffect::Noop),
            (_, _) => Err(failed(format!(
                "Operation type [{operation}] not allowed, only [noop, index, delete] are allowed"
            ))),
        }
    }
}

/// Depth of the objects and lists of a value.
fn levels_of(value: &Value) -> usize {
    match value {
        Value::Object(members) => 1 + members.values().map(levels_of).max().unwrap_or(0),
        Value::Array(elements) => 1 + elements.iter().map(levels_of).max().unwrap_or(0),
        _ => 0,
    }
}

/// Execution of a script.
struct ScriptRun<'s> {
    parameters: &'s Value,
    about: ScriptedDocument<'s>,
    source: Value,
    variables: Vec<Value>,
    /// Value of `ctx.op`.
    operation: Value,
    /// Work that was done.
    work: Cell<usize>,
}

impl ScriptRun<'_> {
    /// Executes statements; breaks after one that ends the script.
    fn block(&mut self, statements: &[ScriptStatement]) -> Result<ControlFlow<()>, Error> {
        for statement in statements {
            match statement {
                ScriptStatement::Assign(path, operator, assigned) => {
                    let value = self.assigned(assigned)?;
                    let steps = self.steps(path)?;
                    let value = match operator {
                        None => value,
                        Some(operator) => {
                            let before = self.part_at(&steps)?;
                            self.counted(values::computed(*operator, &before, &value)?)?
                        }
                    };
                    self.put_at(&steps, value)?;
                }
                ScriptStatement::Set(at, kind, operator, assigned) => {
                    let mut value = self.assigned(assigned)?;
                    if let Some(operator) = operator {
                        value = self.counted(values::computed(*operator, &self.variables[*at], &value)?)?;
                    }
                    self.variables[*at] = match kind {
                        Some(kind) => kind.converted(value)?,
                        None => value,
                    };
                }
                ScriptStatement::Change(path, change) => self.change(path, change)?,
                ScriptStatement::SetOperation(operation) => {
                    self.operation = self.value(operation)?.into_owned();
                }
                ScriptStatement::If(condition, then, otherwise) => {
                    let chosen = if self.holds(condition)? { then } else { otherwise };
                    if self.block(chosen)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
                ScriptStatement::Return => return Ok(ControlFlow::Break(())),
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Counts work.
    ///
    /// # Errors
    /// It is more than a script may do.
    fn count(&self, work: usize) -> Result<(), Error> {
        let done = self.work.get().saturating_add(work);
        self.work.set(done);
        match done > WORK_MAX {
            true => Err(failed(format!("it copies and compares more than {} MB of values", WORK_MAX >> 20))),
            false => Ok(()),
        }
    }

    /// A value, whose memory is counted.
    fn counted(&self, value: Value) -> Result<Value, Error> {
        self.count(values::memory_of(&value))?;
        Ok(value)
    }

    /// A copy of the value of a part.
    fn copied(&self, part: &ScriptValue) -> Result<Value, Error> {
        let value = self.value(part)?;
        self.count(values::memory_of(&value))?;
        Ok(value.into_owned())
    }

    /// Value of the right side of an assignment.
    fn assigned(&mut self, assigned: &AssignedValue) -> Result<Value, Error> {
        match assigned {
            AssignedValue::Computed(value) => self.copied(value),
            AssignedValue::Removed(path, at) => {
                let (at, steps) = (self.copied(at)?, self.steps(path)?);
                values::removed(self.part_mut(&steps)?, &at)
            }
        }
    }

    /// True if a condition holds.
    fn holds(&self, condition: &ScriptValue) -> Result<bool, Error> {
        values::flag(&*self.value(condition)?)
    }

    /// Names and positions of a path.
    fn steps(&self, path: &[ScriptValue]) -> Result<Vec<Value>, Error> {
        path.iter().map(|step| self.copied(step)).collect()
    }

    /// A copy of the part of the document at a path.
    fn part_at(&self, steps: &[Value]) -> Result<Value, Error> {
        let mut part = Cow::Borrowed(&self.source);
        for step in steps {
            part = values::member(part, step)?;
        }
        self.count(values::memory_of(&part))?;
        Ok(part.into_owned())
    }

    /// The part of the document at a path.
    fn part_mut(&mut self, steps: &[Value]) -> Result<&mut Value, Error> {
        steps.iter().try_fold(&mut self.source, |part, step| values::member_mut(part, step))
    }

    /// Sets the part of the document at a path.
    fn put_at(&mut self, steps: &[Value], value: Value) -> Result<(), Error> {
        match steps.split_last() {
            None => self.source = value,
            Some((last, before)) => values::put(self.part_mut(before)?, last, value)?,
        }
        Ok(())
    }

    /// Changes a list or an object of the document.
    fn change(&mut self, path: &[ScriptValue], change: &PartChange) -> Result<(), Error> {
        let steps = self.steps(path)?;
        match change {
            PartChange::Add(value) => {
                let value = self.copied(value)?;
                values::list_of(self.part_mut(&steps)?)?.push(value);
            }
            PartChange::Insert(at, value) => {
                let (at, value) = (self.copied(at)?, self.copied(value)?);
                let list = values::list_of(self.part_mut(&steps)?)?;
                // A value may be added after the last one.
                let at = values::position(list.len() + 1, &at)?;
                let moved = list.len() - at;
                list.insert(at, value);
                self.count(moved)?;
            }
            PartChange::AddAll(added) => {
                let mut added = self.copied(added)?;
                let added = std::mem::take(values::list_of(&mut added)?);
                values::list_of(self.part_mut(&steps)?)?.extend(added);
            }
            PartChange::Remove(at) => {
                let at = self.copied(at)?;
                values::removed(self.part_mut(&steps)?, &at)?;
            }
            PartChange::RemoveAll(removed) => {
                let mut removed = self.copied(removed)?;
                let removed = values::list_of(&mut removed)?;
                let list = std::mem::take(values::list_of(self.part_mut(&steps)?)?);
                let mut kept = Vec::with_capacity(list.len());
                for element in list {
                    // A comparison of long texts takes longer.
                    self.count(removed.len().saturating_mul(1 + values::bytes_of(&element) / 16))?;
                    if !removed.iter().any(|other| values::are_equal(other, &element)) {
                        kept.push(element);
                    }
                }
                *values::list_of(self.part_mut(&steps)?)? = kept;
            }
            PartChange::RemoveIf(at, condition) => {
                // The condition may look at the list itself.
                let mut copy = self.part_at(&steps)?;
                let elements = std::mem::take(values::list_of(&mut copy)?);
                let mut kept = Vec::with_capacity(elements.len());
                for element in elements {
                    self.variables[*at] = element;
                    kept.push(!self.holds(condition)?);
                }
                let mut kept = kept.into_iter();
                values::list_of(self.part_mut(&steps)?)?.retain(|_| kept.next().unwrap_or(true));
            }
            PartChange::Put(name, value) => {
                let (name, value) = (self.copied(name)?, self.copied(value)?);
                let members = values::members_of(self.part_mut(&steps)?)?;
                members.insert(values::name_of(name)?, value);
            }
            PartChange::PutIfAbsent(name, value) => {
                let (name, value) = (self.copied(name)?, self.copied(value)?);
                let members = values::members_of(self.part_mut(&steps)?)?;
                let member = members.entry(values::name_of(name)?).or_insert(Value::Null);
                if member.is_null() {
                    *member = value;
                }
            }
            PartChange::PutAll(added) => {
                let mut added = self.copied(added)?;
                let added = std::mem::take(values::members_of(&mut added)?);
                values::members_of(self.part_mut(&steps)?)?.extend(added);
            }
            PartChange::Clear => values::clear(self.part_mut(&steps)?)?,
        }
        Ok(())
    }

    /// Value of a part. Steps are taken one after the other, and not in each other: there may be many.
    fn value<'v>(&'v self, part: &'v ScriptValue) -> Result<Cow<'v, Value>, Error> {
        let (mut first, mut steps) = (part, Vec::new());
        while let Some((begin, step)) = first.begin() {
            first = begin;
            steps.push(step);
        }
        let mut value = self.first_value(first)?;
        for step in steps.into_iter().rev() {
            value = self.next_value(value, step)?;
        }
        Ok(value)
    }

    /// Value after a step from another one.
    fn next_value<'v>(&'v self, of: Cow<'v, Value>, step: ValueStep<'v>) -> Result<Cow<'v, Value>, Error> {
        self.count(1)?;
        match step {
            ValueStep::Member { is_safe: true, .. } | ValueStep::Call { is_safe: true, .. }
                if of.is_null() =>
            {
                Ok(of)
            }
            ValueStep::Member { at, .. } => values::member(of, &*self.value(at)?),
            ValueStep::Call { method, given, .. } => {
                let given = given.iter().map(|one| self.value(one)).collect::<Result<Vec<_>, Error>>()?;
                if method.reads_all() {
                    self.count(values::bytes_of(&of))?;
                }
                let value = method.value(&of, &given)?;
                Ok(Cow::Owned(self.counted(value)?))
            }
            ValueStep::Binary(operator, right) => {
                match operator {
                    FormulaOperator::And if !values::flag(&of)? => return Ok(Cow::Owned(false.into())),
                    FormulaOperator::Or if values::flag(&of)? => return Ok(Cow::Owned(true.into())),
                    _ => {}
                }
                let right = self.value(right)?;
                if matches!(operator, FormulaOperator::Equal | FormulaOperator::NotEqual) {
                    self.count(values::bytes_of(&of))?;
                }
                Ok(Cow::Owned(self.counted(values::computed(operator, &of, &right)?)?))
            }
        }
    }

    /// Value of a part that begins with no other, or else of all of it.
    fn first_value<'v>(&'v self, part: &'v ScriptValue) -> Result<Cow<'v, Value>, Error> {
        self.count(1)?;
        Ok(match part {
            ScriptValue::Constant(value) => Cow::Borrowed(value),
            ScriptValue::Source => Cow::Borrowed(&self.source),
            ScriptValue::Parameters => Cow::Borrowed(self.parameters),
            ScriptValue::Variable(at) => Cow::Borrowed(&self.variables[*at]),
            ScriptValue::Operation => Cow::Borrowed(&self.operation),
            ScriptValue::Description(name) => Cow::Owned(self.description(name)),
            ScriptValue::Member { .. } | ScriptValue::Call { .. } | ScriptValue::Binary(..) => {
                return self.value(part);
            }
            ScriptValue::Math(function, given) => {
                let given = given.iter().map(|one| self.value(one)).collect::<Result<Vec<_>, Error>>()?;
                Cow::Owned(values::of_function(*function, &given)?)
            }
            ScriptValue::List(elements) => {
                let elements = elements.iter().map(|element| self.copied(element));
                Cow::Owned(Value::Array(elements.collect::<Result<_, Error>>()?))
            }
            ScriptValue::Object(members) => {
                let mut object = Map::new();
                for (name, value) in members {
                    object.insert(values::name_of(self.copied(name)?)?, self.copied(value)?);
                }
                Cow::Owned(Value::Object(object))
            }
            ScriptValue::IsKind(of, kind) => Cow::Owned(kind.has(&*self.value(of)?).into()),
            ScriptValue::Not(of) => Cow::Owned((!self.holds(of)?).into()),
            ScriptValue::Negative(of) => Cow::Owned(values::negative(&*self.value(of)?)?),
            ScriptValue::Choice(parts) => {
                let [condition, then, otherwise] = &**parts;
                return self.value(if self.holds(condition)? { then } else { otherwise });
            }
            ScriptValue::Default(of, otherwise) => {
                let of = self.value(of)?;
                return if of.is_null() { self.value(otherwise) } else { Ok(of) };
            }
        })
    }

    /// A description of the document.
    fn description(&self, name: &str) -> Value {
        match name {
            "_index" => self.about.index.into(),
            "_id" => self.about.id.into(),
            "_routing" => self.about.routing.into(),
            "_version" => self.about.version.into(),
            _ => now_ms().into(),
        }
    }
}
