//! Parser of the JSON form of a query: `{"where": …, "grouping": […], "fields": […]}`.

mod grouping;

use serde_json::{Map, Value};

use crate::syntax::{NumberComparison, SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{Error, OPERATORS, OperatorRole, QueryNumber, YqlOperator};

pub(crate) use grouping::requests as grouping_requests;

/// Conditions of `where`, with the path of each node in the JSON, by [`SyntaxNode::at`].
pub(crate) struct WhereConditions {
    pub root: SyntaxNode,
    paths: Vec<String>,
}

impl WhereConditions {
    /// Parses the value of `where`.
    pub fn read(value: &Value) -> Result<Self, Error> {
        let mut reader = SelectReader { paths: Vec::new() };
        match reader.condition(value, "where") {
            Ok(root) => Ok(WhereConditions { root, paths: reader.paths }),
            Err(fault) => Err(error(fault, &reader.paths)),
        }
    }

    /// Error for a fault in these conditions.
    pub fn error(&self, fault: SyntaxFault) -> Error {
        error(fault, &self.paths)
    }
}

fn error(fault: SyntaxFault, paths: &[String]) -> Error {
    let path = paths.get(fault.at).map_or("where", String::as_str);
    Error::Parameter { parameter: format!("select.{path}"), reason: fault.reason }
}

struct SelectReader {
    paths: Vec<String>,
}

type Read<T> = Result<T, SyntaxFault>;

impl SelectReader {
    fn node(&mut self, path: &str, form: SyntaxForm) -> SyntaxNode {
        self.paths.push(path.to_owned());
        SyntaxNode::new(self.paths.len() - 1, form)
    }

    fn fault<T>(&mut self, path: &str, reason: impl ToString) -> Read<T> {
        self.paths.push(path.to_owned());
        Err(SyntaxFault::new(self.paths.len() - 1, reason))
    }

    fn condition(&mut self, value: &Value, path: &str) -> Read<SyntaxNode> {
        match value {
            Value::Bool(truth) => Ok(self.node(path, SyntaxForm::Bool(*truth))),
            Value::String(_) | Value::Number(_) => self.value(value, path),
            Value::Object(entries) if !entries.is_empty() => {
                let mut children = Vec::with_capacity(entries.len());
                for (name, value) in entries {
                    children.push(self.function(name, value, &format!("{path}.{name}"))?);
                }
                match children.len() {
                    1 => Ok(children.remove(0)),
                    _ => Ok(self.node(path, SyntaxForm::And(children))),
                }
            }
            _ => {
                self.fault(path, "expected a condition, as in {\"contains\": [\"title\", \"word\"]}, or true")
            }
        }
    }

    /// Parses one operator with its arguments and annotations.
    fn function(&mut self, name: &str, value: &Value, path: &str) -> Read<SyntaxNode> {
        let (arguments, attributes) = parts(value);
        let arguments = arguments.as_slice();
        let mut node = match name {
            "and" | "or" => {
                let children = self.conditions(arguments, path)?;
                self.node(path, if name == "and" { SyntaxForm::And(children) } else { SyntaxForm::Or(children) })
            }
            "and_not" => {
                let mut children = self.conditions(arguments, path)?;
                for child in children.iter_mut().skip(1) {
                    let inner = std::mem::replace(child, SyntaxNode::new(child.at, SyntaxForm::Bool(true)));
                    *child = SyntaxNode::new(inner.at, SyntaxForm::Not(Box::new(inner)));
                }
                self.node(path, SyntaxForm::And(children))
            }
            "not" => {
                let [inner] = arguments else { return self.fault(path, "expected one condition in not") };
                let inner = self.condition(inner, path)?;
                self.node(path, SyntaxForm::Not(Box::new(inner)))
            }
            "contains" | "matches" => {
                let [field, operand] = arguments else {
                    return self.fault(path, format!("expected a field and a value, as in {{\"{name}\": [\"title\", \"word\"]}}"));
                };
                let field = Box::new(self.field(field, path)?);
                let mut operand = Box::new(self.value(operand, &format!("{path}[1]"))?);
                // They are those of the term.
                operand.annotations.extend(self.annotations(attributes, path)?);
                self.node(path, if name == "contains" { SyntaxForm::Contains(field, operand) } else { SyntaxForm::Matches(field, operand) })
            }
            "in" => {
                let Some((field, values)) = arguments.split_first() else {
                    return self.fault(path, "expected a field and values, as in {\"in\": [\"year\", 2001, 2002]}");
                };
                let field = Box::new(self.field(field, path)?);
                let values = values.iter().map(|value| self.value(value, path)).collect::<Read<_>>()?;
                self.node(path, SyntaxForm::In(field, values))
            }
            "range" => self.range(arguments, path)?,
            "equals" => self.equals(value, arguments, path)?,
            "rank" | "weakAnd" | "nonEmpty" => {
                let children = self.conditions(arguments, path)?;
                self.node(path, SyntaxForm::Call(name.to_owned(), children))
            }
            "wand" | "dotProduct" | "weightedSet" | "nearestNeighbor" | "geoLocation" | "geoBoundingBox" | "predicate" => {
                let Some((field, rest)) = arguments.split_first() else { return self.fault(path, "expected arguments") };
                let mut all = vec![self.field(field, path)?];
                for (index, argument) in rest.iter().enumerate() {
                    all.push(match argument {
                        Value::Null if name == "predicate" => self.node(path, SyntaxForm::Name("null".to_owned())),
                        _ => self.value(argument, &format!("{path}[{}]", index + 1))?,
                    });
                }
                self.node(path, SyntaxForm::Call(name.to_owned(), all))
            }
            "userInput" | "userQuery" => {
                let all = arguments.iter().map(|argument| self.value(argument, path)).collect::<Read<_>>()?;
                self.node(path, SyntaxForm::Call(name.to_owned(), all))
            }
            "phrase" | "near" | "onear" | "equiv" | "alternatives" | "fuzzy" => return self.call(name, value, path),
            // `{"title": "word"}`
            _ if matches!(value, Value::String(_)) => {
                let field = Box::new(self.node(path, SyntaxForm::Name(name.to_owned())));
                let operand = Box::new(self.value(value, path)?);
                self.node(path, SyntaxForm::Contains(field, operand))
            }
            _ => return self.fault(path, format!("no operator '{name}'; there are and, or, and_not, contains, range, equals, in, matches, rank, weakAnd, wand, nearestNeighbor and others")),
        };
        node.annotations.extend(self.annotations(attributes, path)?);
        Ok(node)
    }

    fn conditions(&mut self, arguments: &[&Value], path: &str) -> Read<Vec<SyntaxNode>> {
        if arguments.is_empty() {
            return self.fault(path, "expected at least one condition");
        }
        arguments
            .iter()
            .enumerate()
            .map(|(index, child)| self.condition(child, &format!("{path}[{index}]")))
            .collect()
    }

    fn field(&mut self, value: &Value, path: &str) -> Read<SyntaxNode> {
        match value {
            Value::String(name) => Ok(self.node(path, SyntaxForm::Name(name.clone()))),
            _ => self.fault(path, "expected the name of a field as the first argument"),
        }
    }

    /// Parses text, a number, a list, a map of tokens, or a term operator.
    fn value(&mut self, value: &Value, path: &str) -> Read<SyntaxNode> {
        let form = match value {
            Value::String(text) => SyntaxForm::String(text.clone()),
            Value::Number(number) => SyntaxForm::Number(match number.as_i64() {
                Some(number) => QueryNumber::Integer(number),
                None => QueryNumber::Float(number.as_f64().unwrap_or(f64::INFINITY)),
            }),
            Value::Bool(truth) => SyntaxForm::Bool(*truth),
            Value::Array(items) => {
                SyntaxForm::List(items.iter().map(|item| self.value(item, path)).collect::<Read<_>>()?)
            }
            Value::Object(entries) => {
                let is_operator = |name: &str| {
                    let of_terms = |operator: &YqlOperator| operator.role == OperatorRole::Term;
                    name == "not"
                        || OPERATORS.iter().any(|operator| of_terms(operator) && operator.name == name)
                };
                return match entries.iter().next() {
                    Some((name, value)) if entries.len() == 1 && is_operator(name) => {
                        self.call(name, value, &format!("{path}.{name}"))
                    }
                    _ => {
                        let entries = self.annotations(Some(entries), path)?;
                        Ok(self.node(path, SyntaxForm::Map(entries)))
                    }
                };
            }
            Value::Null => return self.fault(path, "null is not a value"),
        };
        Ok(self.node(path, form))
    }

    /// Parses a term operator.
    fn call(&mut self, name: &str, value: &Value, path: &str) -> Read<SyntaxNode> {
        let (arguments, attributes) = parts(value);
        let mut node = if name == "not" {
            let [inner] = arguments.as_slice() else { return self.fault(path, "expected one term in not") };
            let inner = self.value(inner, path)?;
            self.node(path, SyntaxForm::Not(Box::new(inner)))
        } else {
            let mut all = Vec::with_capacity(arguments.len());
            for (index, argument) in arguments.iter().enumerate() {
                let path = format!("{path}[{index}]");
                all.push(match name {
                    "sameElement" => self.condition(argument, &path)?,
                    _ => self.value(argument, &path)?,
                });
            }
            self.node(path, SyntaxForm::Call(name.to_owned(), all))
        };
        node.annotations = self.annotations(attributes, path)?;
        Ok(node)
    }

    fn annotations(
        &mut self,
        attributes: Option<&Map<String, Value>>,
        path: &str,
    ) -> Read<Vec<(String, SyntaxNode)>> {
        let Some(attributes) = attributes else { return Ok(Vec::new()) };
        attributes
            .iter()
            .map(|(key, value)| Ok((key.clone(), self.value(value, &format!("{path}.attributes.{key}"))?)))
            .collect()
    }

    /// Parses `["date", {">=": 10, "<": 20}]`: one comparison, or two.
    fn range(&mut self, arguments: &[&Value], path: &str) -> Read<SyntaxNode> {
        const EXAMPLE: &str =
            "expected a field and bounds, as in {\"range\": [\"date\", {\">=\": 10, \"<\": 20}]}";
        let [first, second] = arguments else {
            return self.fault(path, EXAMPLE);
        };
        let (field, bounds) = if first.is_object() { (second, first) } else { (first, second) };
        let Some(bounds) = bounds.as_object() else {
            return self.fault(path, EXAMPLE);
        };
        let mut low = (QueryNumber::Float(f64::NEG_INFINITY), false);
        let mut high = (QueryNumber::Float(f64::INFINITY), false);
        for (operator, value) in bounds {
            let node = self.value(value, &format!("{path}[1]"))?;
            let number = match &node.form {
                SyntaxForm::Number(number) => Some(*number),
                SyntaxForm::String(text) => crate::build::parse_number(text),
                _ => None,
            };
            let Some(number) = number else {
                return Err(SyntaxFault::new(
                    node.at,
                    format!("expected a number, found {}", node.describe()),
                ));
            };
            match operator.as_str() {
                ">=" => low = (number, false),
                ">" => low = (number, true),
                "<=" => high = (number, false),
                "<" => high = (number, true),
                "=" => (low, high) = ((number, false), (number, false)),
                _ => {
                    return self
                        .fault(path, format!("'{operator}' is not a bound; there are >=, >, <= and <"));
                }
            }
        }
        let bounds = match (low.1, high.1) {
            (false, false) => "closed",
            (true, false) => "leftOpen",
            (false, true) => "rightOpen",
            (true, true) => "open",
        };
        let arguments = vec![
            self.field(field, path)?,
            self.node(path, SyntaxForm::Number(low.0)),
            self.node(path, SyntaxForm::Number(high.0)),
        ];
        let bounds = self.node(path, SyntaxForm::String(bounds.to_owned()));
        let call = self.node(path, SyntaxForm::Call("range".to_owned(), arguments));
        Ok(SyntaxNode { annotations: vec![("bounds".to_owned(), bounds)], ..call })
    }

    fn equals(&mut self, value: &Value, arguments: &[&Value], path: &str) -> Read<SyntaxNode> {
        const EXAMPLE: &str = "expected {\"equals\": [\"number\", 42]} or {\"equals\": {\"field\": \"numbers\", \"index\": 2, \"value\": 42}}";
        let (field, index, number) = match (arguments, value) {
            ([Value::String(field), number], _) => (field, None, *number),
            (_, Value::Object(entries)) => match (entries.get("field"), entries.get("value")) {
                (Some(Value::String(field)), Some(number)) => (field, entries.get("index"), number),
                _ => return self.fault(path, EXAMPLE),
            },
            _ => return self.fault(path, EXAMPLE),
        };
        let field = match index {
            None => SyntaxForm::Name(field.clone()),
            Some(index) => match index.as_u64().and_then(|index| u32::try_from(index).ok()) {
                Some(index) => SyntaxForm::Element(field.clone(), index),
                None => return self.fault(path, "expected an index from 0"),
            },
        };
        let field = Box::new(self.node(path, field));
        let mut number = Box::new(self.value(number, path)?);
        // They are those of the term.
        let attributes = value.get("attributes").and_then(Value::as_object);
        number.annotations = self.annotations(attributes, path)?;
        Ok(self.node(path, SyntaxForm::Compare(NumberComparison::Equal, field, number)))
    }
}

/// Arguments (`children`, `query`, a list, or the value alone) and `attributes` of an operator.
fn parts(value: &Value) -> (Vec<&Value>, Option<&Map<String, Value>>) {
    match value {
        Value::Array(items) => (items.iter().collect(), None),
        Value::Object(entries) => {
            let attributes = entries.get("attributes").and_then(Value::as_object);
            match entries.get("children").or_else(|| entries.get("query")) {
                Some(Value::Array(items)) => (items.iter().collect(), attributes),
                Some(other) => (vec![other], attributes),
                None => (vec![value], None),
            }
        }
        _ => (vec![value], None),
    }
}
