use std::collections::HashMap;

use millrace_document::{DataType, Document, DocumentValue, unique_keys};
use millrace_schema::Schema;
use millrace_tensor::TensorType;

use crate::convert::{fit, hash, listed_text_of, number, text_of};
use crate::resolve::{ENTRY_KEY, ENTRY_VALUE};
use crate::script::{
    BinaryOperator, IfComparison, IfExpression, IndexingExpression, IndexingScript, IndexingStatement,
    IndexingStep, SwitchExpression,
};
use crate::{
    ComponentCall, ComponentFailure, IndexingCaller, IndexingComponents, IndexingEnvironment,
    StatementFailure,
};

/// State of one document during execution of the statements.
pub(crate) struct ScriptExecution<'a> {
    pub schema: &'a Schema,
    pub components: &'a dyn IndexingComponents,
    pub environment: &'a IndexingEnvironment,
    /// The original document.
    pub document: &'a Document,
    /// Values written so far, by field name, in order.
    pub outputs: Vec<(String, DocumentValue)>,
    /// Variables of the current field's statements.
    pub variables: HashMap<String, DocumentValue>,
    /// Language set by `set_language`.
    pub language: Option<String>,
    /// Results of components.
    pub results: ComponentResults,
    pub caller: &'a IndexingCaller,
}

/// Results of components for one document, the first [`ComponentResults::MOST`]: equal calls are made once.
#[derive(Default)]
pub(crate) struct ComponentResults(Vec<(ComponentCall, DataType, DocumentValue, PipeValue)>);

impl ComponentResults {
    /// Maximum number of results: each is compared with every later call.
    const MOST: usize = 256;

    fn find(&self, call: &ComponentCall, data_type: &DataType, from: &DocumentValue) -> Option<PipeValue> {
        let same =
            self.0.iter().find(|(by, known, input, _)| input == from && by == call && known == data_type);
        same.map(|(.., value)| value.clone())
    }

    fn insert(&mut self, call: &ComponentCall, data_type: &DataType, from: DocumentValue, value: &PipeValue) {
        if self.0.len() < Self::MOST {
            self.0.push((call.clone(), data_type.clone(), from, value.clone()));
        }
    }
}

/// The value in a pipe; `None` for a field without a value.
type PipeValue = Option<DocumentValue>;

impl ScriptExecution<'_> {
    /// Runs the script; returns the value of the last statement.
    pub fn script(
        &mut self,
        script: &IndexingScript,
        input: &PipeValue,
    ) -> Result<PipeValue, StatementFailure> {
        let mut last = None;
        for statement in &script.statements {
            last = self.statement(statement, input.clone())?;
        }
        Ok(last)
    }

    fn statement(
        &mut self,
        statement: &IndexingStatement,
        input: PipeValue,
    ) -> Result<PipeValue, StatementFailure> {
        let mut current = input;
        for step in &statement.steps {
            current = self.step(step, current)?;
        }
        Ok(current)
    }

    fn step(&mut self, step: &IndexingStep, input: PipeValue) -> Result<PipeValue, StatementFailure> {
        match &step.expression {
            IndexingExpression::Constant(value) => Ok(Some(value.clone())),
            IndexingExpression::This => Ok(input),
            IndexingExpression::Input(path) => Ok(self.field(path)),
            IndexingExpression::GetField(name) => Ok(input.and_then(|value| member(&value, name).cloned())),
            IndexingExpression::GetValue(key) => Ok(input.and_then(|value| entry(&value, key).cloned())),
            IndexingExpression::GetVariable(name) => Ok(self.variables.get(name).cloned()),
            IndexingExpression::SetVariable(name) => {
                self.set_variable(name, &input);
                Ok(input)
            }
            IndexingExpression::Output(name) => {
                if let Some(value) = &input {
                    self.output(name, value.clone())?;
                }
                Ok(input)
            }
            IndexingExpression::Binary(operator, left, right) => {
                let (left, right) = (self.step(left, input.clone())?, self.step(right, input)?);
                left.zip(right).map(|(left, right)| operator.apply(&left, &right)).transpose()
            }
            IndexingExpression::Concat { parts, collects } => {
                let values: Result<_, _> = parts.iter().map(|part| self.step(part, input.clone())).collect();
                concat(values?, *collects)
            }
            IndexingExpression::Choice(steps) => self.choice(steps, &input),
            IndexingExpression::Nested(script) => self.script(script, &input),
            IndexingExpression::ForEach(script) => {
                input.map(|value| self.for_each(script, value)).transpose()
            }
            IndexingExpression::If(of) => self.condition(of, &input),
            IndexingExpression::Switch(switch) => self.switch(switch, input),
            IndexingExpression::SelectInput(cases) => self.select_input(cases),
            IndexingExpression::Apply(function) => match input {
                Some(value) => function.apply(value),
                None => Ok(None),
            },
            IndexingExpression::Hash { long } => {
                input.map(|value| text_of(&value).map(|text| hash(&text, *long))).transpose()
            }
            IndexingExpression::Embed { call, target } => self.embed(call, target, input),
            IndexingExpression::Chunk(call) => {
                input.map(|value| self.chunk(call, &text_of(&value)?)).transpose()
            }
            IndexingExpression::Generate { call, wanted } => match input {
                Some(value) => self.component(call, &wanted.data_type, value, |of, value| {
                    of.components.generate(call, value, wanted, of.caller)
                }),
                None => Ok(None),
            },
            IndexingExpression::SetLanguage => {
                if let Some(value) = &input {
                    self.language = Some(text_of(value)?);
                }
                Ok(input)
            }
            IndexingExpression::GetLanguage => {
                Ok(Some(DocumentValue::String(language_code(self.language.as_deref().unwrap_or_default()))))
            }
            IndexingExpression::Now => Ok(Some(DocumentValue::Long(self.environment.now_s()))),
            IndexingExpression::Random(bound) => self.random(*bound, &input),
            IndexingExpression::Hostname => {
                Ok(Some(DocumentValue::String(self.environment.hostname().to_owned())))
            }
            IndexingExpression::DocumentId(part) => {
                Ok(Some(DocumentValue::String(part.text_in(&self.document.id))))
            }
            IndexingExpression::ClearState => {
                self.variables.clear();
                Ok(None)
            }
            IndexingExpression::Echo => {
                tracing::info!(document = %self.document.id, value = ?input, "echo");
                Ok(input)
            }
        }
    }

    fn set_variable(&mut self, name: &str, value: &PipeValue) {
        match value {
            Some(value) => self.variables.insert(name.to_owned(), value.clone()),
            None => self.variables.remove(name),
        };
    }

    /// The first value of the alternatives.
    fn choice(&mut self, steps: &[IndexingStep], input: &PipeValue) -> Result<PipeValue, StatementFailure> {
        for step in steps {
            let value = self.step(step, input.clone())?;
            if value.is_some() {
                return Ok(value);
            }
        }
        Ok(None)
    }

    /// Runs the statement of the first field that has a value.
    fn select_input(&mut self, cases: &[(String, IndexingStatement)]) -> Result<PipeValue, StatementFailure> {
        for (field, statement) in cases {
            if let Some(value) = self.field(std::slice::from_ref(field)) {
                return self.statement(statement, Some(value));
            }
        }
        Ok(None)
    }

    fn embed(
        &mut self,
        call: &ComponentCall,
        target: &TensorType,
        input: PipeValue,
    ) -> Result<PipeValue, StatementFailure> {
        match input {
            // A text without words has no meaning that could be embedded.
            Some(DocumentValue::String(text)) if text.trim().is_empty() => Ok(None),
            Some(value) => self.component(call, &DataType::Tensor(target.clone()), value, |of, value| {
                let tensor = of.components.embed(call, value, target, of.caller)?;
                Ok(Some(DocumentValue::Tensor(tensor)))
            }),
            None => Ok(None),
        }
    }

    fn chunk(&self, call: &ComponentCall, text: &str) -> Result<DocumentValue, StatementFailure> {
        let chunks = self.components.chunk(call, text)?;
        Ok(DocumentValue::Array(chunks.into_iter().map(DocumentValue::String).collect()))
    }

    /// A random number below a constant, or below the input.
    fn random(&self, bound: Option<u32>, input: &PipeValue) -> Result<PipeValue, StatementFailure> {
        let below = match (bound, input) {
            (Some(bound), _) => bound,
            (None, Some(value)) => number(value)
                .filter(|bound| *bound >= 0.0)
                .ok_or_else(|| StatementFailure::value("random needs a number from 0"))?
                as u32,
            (None, None) => return Ok(None),
        };
        Ok(Some(DocumentValue::Int(self.environment.random(below.min(i32::MAX as u32)) as i32)))
    }

    /// Calls a component, unless the result of an equal call exists.
    fn component(
        &mut self,
        call: &ComponentCall,
        wanted: &DataType,
        input: DocumentValue,
        make: impl FnOnce(&Self, &DocumentValue) -> Result<PipeValue, ComponentFailure>,
    ) -> Result<PipeValue, StatementFailure> {
        if let Some(value) = self.results.find(call, wanted, &input) {
            return Ok(value);
        }
        match make(self, &input) {
            Ok(value) => {
                self.results.insert(call, wanted, input, &value);
                Ok(value)
            }
            Err(failure) => Err(failure.into()),
        }
    }

    /// Value of a field, or of a struct member in it. Fields outside the document have the values written so
    /// far.
    fn field(&self, path: &[String]) -> PipeValue {
        let (name, members) = path.split_first()?;
        let written = || self.outputs.iter().rev().find(|(field, _)| field == name).map(|(_, value)| value);
        let synthetic = self.schema.fields.get(name.as_str()).is_some_and(|field| field.synthetic);
        let value = match synthetic {
            true => written().or_else(|| self.document.get(name)),
            false => self.document.get(name),
        };
        members.iter().try_fold(value?, |value, name| member(value, name)).cloned()
    }

    fn output(&mut self, name: &str, value: DocumentValue) -> Result<(), StatementFailure> {
        let field = self
            .schema
            .fields
            .get(name)
            .ok_or_else(|| StatementFailure::value(format!("no field '{name}'")))?;
        let value = fit(value, &field.data_type)?;
        match self.outputs.iter_mut().find(|(field, _)| field == name) {
            Some((_, old)) => *old = value,
            None => self.outputs.push((name.to_owned(), value)),
        }
        Ok(())
    }

    fn for_each(
        &mut self,
        script: &IndexingScript,
        value: DocumentValue,
    ) -> Result<DocumentValue, StatementFailure> {
        Ok(match value {
            DocumentValue::Array(elements) => {
                let mut results = Vec::with_capacity(elements.len());
                for element in elements {
                    results.extend(self.script(script, &Some(element))?);
                }
                DocumentValue::Array(results)
            }
            DocumentValue::WeightedSet(elements) => {
                let mut results: Vec<(DocumentValue, i32)> = Vec::with_capacity(elements.len());
                for (element, weight) in elements {
                    let Some(element) = self.script(script, &Some(element))? else { continue };
                    match results.iter_mut().find(|(there, _)| *there == element) {
                        Some((_, there)) => *there = weight,
                        None => results.push((element, weight)),
                    }
                }
                DocumentValue::WeightedSet(results)
            }
            DocumentValue::Struct(members) => {
                let mut results = Vec::with_capacity(members.len());
                for (name, member) in members {
                    results.extend(self.script(script, &Some(member))?.map(|value| (name, value)));
                }
                DocumentValue::Struct(results)
            }
            DocumentValue::Map(entries) => {
                let mut results = Vec::with_capacity(entries.len());
                for (key, value) in entries {
                    let entry =
                        DocumentValue::Struct(vec![(ENTRY_KEY.into(), key), (ENTRY_VALUE.into(), value)]);
                    results.extend(self.script(script, &Some(entry))?);
                }
                DocumentValue::Array(results)
            }
            _ => return Err(StatementFailure::value("for_each needs an array, weighted set, map or struct")),
        })
    }

    fn condition(&mut self, of: &IfExpression, input: &PipeValue) -> Result<PipeValue, StatementFailure> {
        let left = self.step(&of.left, input.clone())?;
        let right = self.step(&of.right, input.clone())?;
        let Some((left, right)) = left.zip(right) else { return Ok(None) };
        if of.comparison.holds(&left, &right)? {
            self.script(&of.then, input)
        } else if let Some(otherwise) = &of.otherwise {
            self.script(otherwise, input)
        } else {
            Ok(None)
        }
    }

    fn switch(&mut self, switch: &SwitchExpression, input: PipeValue) -> Result<PipeValue, StatementFailure> {
        let Some(value) = input else { return Ok(None) };
        let text = text_of(&value)?;
        let case = switch.cases.iter().find(|(wanted, _)| *wanted == text).map(|(_, statement)| statement);
        if let Some(statement) = case.or(switch.default.as_ref()) {
            self.statement(statement, Some(value.clone()))?;
        }
        Ok(Some(value))
    }
}

/// Value of a member of a struct; of an entry of a map, also that of a member of its value.
fn member<'v>(value: &'v DocumentValue, name: &str) -> Option<&'v DocumentValue> {
    let own = |wanted: &str| {
        let DocumentValue::Struct(members) = value else { return None };
        members.iter().find(|(member, _)| &**member == wanted).map(|(_, value)| value)
    };
    own(name).or_else(|| member(own(ENTRY_VALUE)?, name))
}

/// Code of the language that a tag names, as in `de` of `de-CH`.
fn language_code(tag: &str) -> String {
    let tag = tag.replace('_', "-").to_ascii_lowercase();
    let mut subtags = tag.split('-');
    let code = match subtags.next().unwrap_or_default() {
        "" | "und" | "unknown" => "un",
        "no" => "nb",
        "zh" if subtags.any(|subtag| matches!(subtag, "cn" | "hans")) => "zh-hans",
        "zh" => "zh-hant",
        other => other,
    };
    code.to_owned()
}

fn entry<'v>(value: &'v DocumentValue, key: &str) -> Option<&'v DocumentValue> {
    let DocumentValue::Map(entries) = value else { return None };
    entries.iter().find(|(name, _)| text_of(name).is_ok_and(|name| name == key)).map(|(_, value)| value)
}

/// Joins arrays, or weighted sets, any of which may be missing; all other values are concatenated as text.
fn concat(values: Vec<PipeValue>, collects: bool) -> Result<PipeValue, StatementFailure> {
    let is_array = |value: &DocumentValue| matches!(value, DocumentValue::Array(_));
    let is_set = |value: &DocumentValue| matches!(value, DocumentValue::WeightedSet(_));
    let known = || values.iter().flatten();
    if collects && (known().all(is_array) || known().all(is_set)) {
        return Ok(values.into_iter().flatten().reduce(joined));
    }
    let mut text = String::new();
    for value in &values {
        let Some(value) = value else { return Ok(None) };
        text += &listed_text_of(value)?;
    }
    Ok(Some(DocumentValue::String(text)))
}

/// Joins two arrays, or two weighted sets: of equal elements the last counts.
fn joined(left: DocumentValue, right: DocumentValue) -> DocumentValue {
    match (left, right) {
        (DocumentValue::WeightedSet(mut left), DocumentValue::WeightedSet(right)) => {
            left.extend(right);
            DocumentValue::WeightedSet(unique_keys(left))
        }
        (DocumentValue::Array(mut left), DocumentValue::Array(right)) => {
            left.extend(right);
            DocumentValue::Array(left)
        }
        // The caller has checked that both are of one kind.
        (left, _) => left,
    }
}

impl BinaryOperator {
    /// Whole numbers give a whole number; 32-bit numbers a 32-bit number if the result fits.
    fn apply(self, left: &DocumentValue, right: &DocumentValue) -> Result<DocumentValue, StatementFailure> {
        if let (Some(a), Some(b)) = (whole(left), whole(right)) {
            let result = match self {
                BinaryOperator::Add => a.checked_add(b),
                BinaryOperator::Subtract => a.checked_sub(b),
                BinaryOperator::Multiply => a.checked_mul(b),
                BinaryOperator::Divide | BinaryOperator::Remainder if b == 0 => {
                    return Err(StatementFailure::value("division by zero"));
                }
                BinaryOperator::Divide => a.checked_div(b),
                BinaryOperator::Remainder => a.checked_rem(b),
            };
            let result = result.ok_or_else(|| {
                StatementFailure::value("the result of arithmetic is out of the range of 64 bits")
            })?;
            let long = matches!(left, DocumentValue::Long(_)) || matches!(right, DocumentValue::Long(_));
            return Ok(match i32::try_from(result) {
                Ok(result) if !long => DocumentValue::Int(result),
                _ => DocumentValue::Long(result),
            });
        }
        let (Some(a), Some(b)) = (number(left), number(right)) else {
            return Err(StatementFailure::value(
                "arithmetic needs numbers; convert with to_int or to_double",
            ));
        };
        if b == 0.0 && matches!(self, BinaryOperator::Divide | BinaryOperator::Remainder) {
            return Err(StatementFailure::value("division by zero"));
        }
        let result = match self {
            BinaryOperator::Add => a + b,
            BinaryOperator::Subtract => a - b,
            BinaryOperator::Multiply => a * b,
            BinaryOperator::Divide => a / b,
            BinaryOperator::Remainder => a % b,
        };
        let double = matches!(left, DocumentValue::Double(_)) || matches!(right, DocumentValue::Double(_));
        Ok(if double { DocumentValue::Double(result) } else { DocumentValue::Float(result as f32) })
    }
}

const fn whole(value: &DocumentValue) -> Option<i64> {
    match value {
        DocumentValue::Byte(value) => Some(*value as i64),
        DocumentValue::Int(value) => Some(*value as i64),
        DocumentValue::Long(value) => Some(*value),
        _ => None,
    }
}

impl IfComparison {
    /// Compares numbers by size, all other values by text.
    fn holds(self, left: &DocumentValue, right: &DocumentValue) -> Result<bool, StatementFailure> {
        let order = match (whole(left), whole(right), number(left), number(right)) {
            (Some(left), Some(right), ..) => Some(left.cmp(&right)),
            (_, _, Some(left), Some(right)) => left.partial_cmp(&right),
            _ => Some(text_of(left)?.cmp(&text_of(right)?)),
        };
        Ok(match self {
            IfComparison::Equal => order.is_some_and(|order| order.is_eq()),
            IfComparison::NotEqual => order.is_none_or(|order| order.is_ne()),
            IfComparison::Less => order.is_some_and(|order| order.is_lt()),
            IfComparison::LessOrEqual => order.is_some_and(|order| order.is_le()),
            IfComparison::Greater => order.is_some_and(|order| order.is_gt()),
            IfComparison::GreaterOrEqual => order.is_some_and(|order| order.is_ge()),
        })
    }
}
