//! A slow evaluator of ranking expressions, independent of the one under test: it parses the text itself and
//! computes while reading.
//!
//! It has no types, constants or patterns. It reports constructs that it does not support (literals that
//! contain expressions, models).

pub mod tensor;

use std::collections::BTreeMap;

use tensor::{Cells, SlowTensor};

/// A construct that the evaluator does not support.
#[derive(Debug)]
pub struct UnknownConstruct(pub String);

type Result<T> = std::result::Result<T, UnknownConstruct>;

/// Meaning of names outside lambdas: features by their text, functions by parameters and body, and literals.
pub trait SlowNames {
    fn feature(&self, text: &str) -> Option<SlowTensor>;
    fn function(&self, name: &str) -> Option<(Vec<String>, String)>;
    /// Evaluates a literal, from its type to its end.
    fn literal(&self, text: &str) -> Option<SlowTensor>;
}

/// Evaluates an expression.
pub fn evaluate(text: &str, world: &dyn SlowNames) -> Result<SlowTensor> {
    SlowParser { text, at: 0, world, names: &BTreeMap::new() }.whole()
}

struct SlowParser<'a> {
    text: &'a str,
    at: usize,
    world: &'a dyn SlowNames,
    /// Parameters of lambdas and functions: their values, and their texts for use in feature names.
    names: &'a BTreeMap<String, (SlowTensor, String)>,
}

/// Operators by ascending precedence.
const INFIX: [&[&str]; 9] = [
    &["||"],
    &["&&"],
    &["==", "!=", "~=", "<=", "<", ">=", ">"],
    &["+"],
    &["-"],
    &["*"],
    &["/"],
    &["%"],
    &["^"],
];

impl<'a> SlowParser<'a> {
    fn unknown<T>(&self, what: &str) -> Result<T> {
        Err(UnknownConstruct(format!("{what} at {} of {}", self.at, self.text)))
    }

    fn whole(mut self) -> Result<SlowTensor> {
        let value = self.infix(0)?;
        self.skip();
        if self.at < self.text.len() { self.unknown("rest") } else { Ok(value) }
    }

    fn skip(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    fn rest(&self) -> &str {
        &self.text[self.at..]
    }

    fn take(&mut self, symbol: &str) -> bool {
        self.skip();
        let found = self.rest().starts_with(symbol);
        self.at += if found { symbol.len() } else { 0 };
        found
    }

    fn need(&mut self, symbol: &str) -> Result<()> {
        if self.take(symbol) { Ok(()) } else { self.unknown(symbol) }
    }

    fn word(&mut self) -> Option<String> {
        self.skip();
        let end = self.rest().find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(self.rest().len());
        let word = self.rest()[..end].to_owned();
        if word.is_empty() || word.starts_with(|c: char| c.is_ascii_digit()) {
            return None;
        }
        self.at += end;
        Some(word)
    }

    fn infix(&mut self, level: usize) -> Result<SlowTensor> {
        let Some(operators) = INFIX.get(level) else { return self.unary() };
        let mut left = self.infix(level + 1)?;
        loop {
            self.skip();
            if level == 2 && self.rest().starts_with("in ") {
                self.at += 2;
                left = self.is_in(&left)?;
                continue;
            }
            let is_arrow = |operator: &&&str| self.rest().starts_with(**operator);
            let Some(operator) = operators.iter().find(is_arrow) else { return Ok(left) };
            self.at += operator.len();
            // Only `^` associates to the right.
            let right = self.infix(if *operator == "^" { level } else { level + 1 })?;
            left = left.join(&right, binary(operator).ok_or(UnknownConstruct((*operator).to_owned()))?);
        }
    }

    fn is_in(&mut self, of: &SlowTensor) -> Result<SlowTensor> {
        self.need("[")?;
        let mut found = of.map(|_| 0.0);
        while !self.take("]") {
            let member = self.infix(0)?;
            found = found.join(&of.join(&member, |a, b| f64::from(a == b)), f64::max);
            self.take(",");
        }
        Ok(found)
    }

    fn unary(&mut self) -> Result<SlowTensor> {
        if self.take("-") {
            return Ok(self.unary()?.map(|x| -x));
        }
        if self.take("!") {
            return Ok(self.unary()?.map(|x| f64::from(x == 0.0)));
        }
        let mut value = self.primary()?;
        loop {
            if self.rest().starts_with('{') || self.rest().starts_with('[') {
                value = self.slice(&value)?;
            } else {
                return Ok(value);
            }
        }
    }

    fn slice(&mut self, of: &SlowTensor) -> Result<SlowTensor> {
        let close = if self.take("[") { "]" } else { "}" };
        if close == "}" {
            self.need("{")?;
        }
        let mut at = Vec::new();
        while !self.take(close) {
            let before = self.at;
            let name = match self.word() {
                Some(name) if self.take(":") => name,
                _ => {
                    self.at = before;
                    self.skip();
                    let is_number = |c: char| c == '-' || c == '(' || c.is_ascii_digit();
                    let is_indexed = close == "]" || self.rest().starts_with(is_number);
                    // The only dimension, or the only one of the label's kind.
                    let is_its =
                        |size: &Option<usize>| of.dimensions.len() == 1 || size.is_some() == is_indexed;
                    let mut names = of.dimensions.iter().filter(|(_, size)| is_its(size));
                    let (name, _) = names.next().ok_or(UnknownConstruct("a slice".to_owned()))?;
                    name.clone()
                }
            };
            at.push((name, self.label(close)?));
            self.take(",");
        }
        Ok(of.peek(&at))
    }

    fn label(&mut self, close: &str) -> Result<String> {
        self.skip();
        if self.rest().starts_with('(') || close == "]" {
            let value = self.infix(0)?.as_number().ok_or(UnknownConstruct("a label".to_owned()))?;
            // A fractional index is rounded down.
            return Ok((value.floor() as i64).to_string());
        }
        if self.take("\"") {
            let end = self.rest().find('"').ok_or(UnknownConstruct("a string".to_owned()))?;
            let label = self.rest()[..end].to_owned();
            self.at += end + 1;
            return Ok(label);
        }
        let end = self.rest().find([',', '}']).ok_or(UnknownConstruct("a label".to_owned()))?;
        let label = self.rest()[..end].trim().to_owned();
        if !label.chars().all(|c| c.is_alphanumeric() || c == '_') {
            let value = self.infix(0)?.as_number().ok_or(UnknownConstruct("a label".to_owned()))?;
            return Ok((value.floor() as i64).to_string());
        }
        self.at += end;
        Ok(label)
    }

    fn primary(&mut self) -> Result<SlowTensor> {
        self.skip();
        if self.take("(") {
            let value = self.infix(0)?;
            self.need(")")?;
            return Ok(value);
        }
        if self.take("$") {
            let Some(input) = self.word() else { return self.unknown("the name of a query input") };
            return match self.world.feature(&format!("query({input})")) {
                Some(value) => Ok(value),
                None => self.unknown(&input),
            };
        }
        if self.rest().starts_with('"') {
            let end = self.rest()[1..].find('"').ok_or(UnknownConstruct("a string".to_owned()))?;
            let text = self.rest()[1..=end].to_owned();
            self.at += end + 2;
            return Ok(SlowTensor::number(millrace_expression::string_hash(&text)));
        }
        let digits = self.rest().find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(self.rest().len());
        if digits > 0 {
            let mut end = digits;
            let exponent = &self.rest()[digits..];
            if exponent.starts_with(['e', 'E']) {
                let after = exponent[1..].trim_start_matches(['-', '+']);
                let length = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
                end += exponent.len() - after.len() + length;
            }
            let number = self.rest()[..end].parse().map_err(|_| UnknownConstruct("a number".to_owned()))?;
            self.at += end;
            return Ok(SlowTensor::number(number));
        }
        let start = self.at;
        let Some(name) = self.word() else { return self.unknown("no value") };
        if name == "tensor" && (self.rest().starts_with('(') || self.rest().starts_with('<')) {
            return self.tensor(start);
        }
        match name.as_str() {
            "true" => return Ok(SlowTensor::number(1.0)),
            "false" => return Ok(SlowTensor::number(0.0)),
            "if" => return self.choice(),
            "switch" => return self.switch(),
            _ => {}
        }
        if let Some((value, _)) = self.names.get(&name) {
            return Ok(value.clone());
        }
        if let Some((parameters, body)) = self.world.function(&name) {
            return self.application(&parameters, &body);
        }
        if !self.take("(") {
            return match self.world.feature(&name) {
                Some(value) => Ok(value),
                None => self.unknown(&name),
            };
        }
        self.call(&name)
    }

    /// Calls a function of the application.
    fn application(&mut self, parameters: &[String], body: &str) -> Result<SlowTensor> {
        let mut names = BTreeMap::new();
        if self.take("(") {
            for parameter in parameters {
                let start = self.at;
                let value = self.infix(0).or_else(|_| {
                    // A field name is not a value, but may be part of a feature.
                    self.at = start;
                    self.word()
                        .map(|_| SlowTensor::number(f64::NAN))
                        .ok_or(UnknownConstruct("an argument".to_owned()))
                })?;
                names.insert(parameter.clone(), (value, self.text[start..self.at].trim().to_owned()));
                self.take(",");
            }
            self.need(")")?;
        }
        SlowParser { text: body, at: 0, world: self.world, names: &names }.whole()
    }

    fn choice(&mut self) -> Result<SlowTensor> {
        self.need("(")?;
        let condition = self.infix(0)?.as_number().ok_or(UnknownConstruct("a condition".to_owned()))?;
        self.need(",")?;
        let then = self.infix(0)?;
        self.need(",")?;
        let otherwise = self.infix(0)?;
        if self.take(",") {
            self.infix(0)?;
        }
        self.need(")")?;
        Ok(if condition != 0.0 { then } else { otherwise })
    }

    fn switch(&mut self) -> Result<SlowTensor> {
        self.need("(")?;
        let of = self.infix(0)?;
        self.need(")")?;
        self.need("{")?;
        let mut found = None;
        loop {
            if self.take("case") {
                let case = self.infix(0)?;
                self.need(":")?;
                let value = self.infix(0)?;
                if found.is_none() && of == case {
                    found = Some(value);
                }
                self.take(",");
            } else {
                self.need("default")?;
                self.need(":")?;
                let value = self.infix(0)?;
                self.need("}")?;
                return Ok(found.unwrap_or(value));
            }
        }
    }

    /// Evaluates a literal, or a tensor computed from its indices.
    fn tensor(&mut self, start: usize) -> Result<SlowTensor> {
        let end = self.rest().find(')').ok_or(UnknownConstruct("a type".to_owned()))?;
        let dimensions = self.rest()[self.rest().find('(').unwrap_or(0) + 1..end].to_owned();
        self.at += end + 1;
        if self.take(":") {
            let length = literal_length(self.rest());
            let text = self.text[start..self.at + length].to_owned();
            self.at += length;
            return self.world.literal(&text).ok_or(UnknownConstruct(format!("literal {text}")));
        }
        let body = self.parenthesised()?;
        let mut indices: Vec<BTreeMap<String, String>> = vec![BTreeMap::new()];
        let mut sizes = BTreeMap::new();
        for dimension in dimensions.split(',') {
            let (name, size) = dimension
                .trim()
                .trim_end_matches(']')
                .split_once('[')
                .ok_or(UnknownConstruct(dimension.to_owned()))?;
            let size: usize = size.parse().map_err(|_| UnknownConstruct(dimension.to_owned()))?;
            sizes.insert(name.to_owned(), Some(size));
            let each = |address: &BTreeMap<String, String>| {
                let address = address.clone();
                (0..size).map(move |index| {
                    let mut address = address.clone();
                    address.insert(name.to_owned(), index.to_string());
                    address
                })
            };
            indices = indices.iter().flat_map(each).collect();
        }
        let mut cells = Cells::new();
        for address in indices {
            let mut names = self.names.clone();
            for (name, index) in &address {
                let number = index.parse().unwrap_or(f64::NAN);
                names.insert(name.clone(), (SlowTensor::number(number), index.clone()));
            }
            let value = SlowParser { text: &body, at: 0, world: self.world, names: &names }.whole()?;
            cells.insert(address, value.as_number().ok_or(UnknownConstruct("a cell".to_owned()))?);
        }
        Ok(SlowTensor { dimensions: sizes, cells })
    }

    /// The text between parentheses.
    fn parenthesised(&mut self) -> Result<String> {
        self.need("(")?;
        let mut depth = 1;
        for (at, c) in self.rest().char_indices() {
            depth += i32::from(c == '(') - i32::from(c == ')');
            if depth == 0 {
                let text = self.rest()[..at].to_owned();
                self.at += at + 1;
                return Ok(text);
            }
        }
        self.unknown("an open parenthesis")
    }

    /// `f(a,b)(…)`
    fn lambda(&mut self) -> Result<impl Fn(&[&SlowTensor]) -> Result<SlowTensor> + use<'a>> {
        self.need("f")?;
        let parameters: Vec<String> =
            self.parenthesised()?.split(',').map(|parameter| parameter.trim().to_owned()).collect();
        let body = self.parenthesised()?;
        let world = self.world;
        Ok(move |values: &[&SlowTensor]| {
            let values = values.iter().map(|value| ((*value).clone(), String::new()));
            let names = parameters.iter().cloned().zip(values).collect();
            SlowParser { text: &body, at: 0, world, names: &names }.whole()
        })
    }

    /// Dimension names, each after a comma, up to the end of the call.
    fn names(&mut self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        while self.take(",") {
            names.push(self.word().ok_or(UnknownConstruct("a name".to_owned()))?);
        }
        self.need(")")?;
        Ok(names)
    }

    fn call(&mut self, name: &str) -> Result<SlowTensor> {
        let start = self.at;
        if ["query", "attribute", "rankingExpression"].contains(&name) {
            self.at -= 1;
            let inside = self.parenthesised()?;
            let inside = inside.trim().trim_matches('"');
            if name == "rankingExpression" {
                return SlowParser { text: inside, at: 0, world: self.world, names: self.names }.whole();
            }
            let inside = self.names.get(inside).map_or(inside, |(_, text)| text);
            let value = self.world.feature(&format!("{name}({inside})"));
            return value.ok_or(UnknownConstruct(format!("{name}({inside})")));
        }
        let ahead = self.rest().find(')').map_or("", |end| &self.rest()[..end]);
        if (name == "range" || name == "diag") && ahead.contains('[') {
            let names: Vec<&str> =
                ahead.split(',').filter_map(|part| Some(part.split_once('[')?.0)).collect();
            let body = match name {
                "range" => names.join(" + "),
                _ => names
                    .iter()
                    .map(|other| format!("({} == {other})", names[0]))
                    .collect::<Vec<_>>()
                    .join(" * "),
            };
            let text = format!("tensor({ahead})({body})");
            self.at += ahead.len() + 1;
            return SlowParser { text: &text, at: 0, world: self.world, names: self.names }.whole();
        }
        if name == "range" || name == "diag" {
            let sizes = self.parenthesised_numbers(start)?;
            let names = ["i", "j"];
            let body = if name == "range" { "i" } else { "i == j" };
            let dimensions: Vec<String> =
                sizes.iter().zip(names).map(|(size, name)| format!("{name}[{size}]")).collect();
            let text = format!("tensor({})({body})", dimensions.join(","));
            return SlowParser { text: &text, at: 0, world: self.world, names: self.names }.whole();
        }
        if name == "top" {
            let n = self.infix(0)?.as_number().unwrap_or(0.0);
            self.need(",")?;
            let of = self.infix(0)?;
            self.need(")")?;
            let order = ranks(&of, true);
            let mut kept = of;
            kept.cells.retain(|address, _| order.cells[address] < n);
            return Ok(kept);
        }
        let first = self.infix(0)?;
        if let Some(f) = unary(name) {
            self.need(")")?;
            return Ok(first.map(f));
        }
        let is_aggregator = ["avg", "count", "max", "median", "min", "prod", "sum"].contains(&name);
        if is_aggregator {
            let before = self.at;
            if let Ok(names) = self.names()
                && names.iter().all(|name| first.dimensions.contains_key(name))
            {
                return first.reduce(name, &names).ok_or(UnknownConstruct(name.to_owned()));
            }
            self.at = before;
        }
        if let Some(f) = binary(name) {
            self.need(",")?;
            let second = self.infix(0)?;
            self.need(")")?;
            return Ok(first.join(&second, f));
        }
        self.of_tensor(name, &first)
    }

    fn parenthesised_numbers(&mut self, start: usize) -> Result<Vec<String>> {
        self.at = start - 1;
        Ok(self.parenthesised()?.split(',').map(|number| number.trim().to_owned()).collect())
    }

    fn of_tensor(&mut self, name: &str, first: &SlowTensor) -> Result<SlowTensor> {
        let number =
            |value: Result<SlowTensor>| value.ok().and_then(|value| value.as_number()).unwrap_or(f64::NAN);
        match name {
            "map" => {
                self.need(",")?;
                let f = self.lambda()?;
                let mapped = first.map(|x| number(f(&[&SlowTensor::number(x)])));
                self.need(")")?;
                Ok(mapped)
            }
            "join" | "merge" => {
                self.need(",")?;
                let second = self.infix(0)?;
                self.need(",")?;
                let f = self.lambda()?;
                let of = |x, y| number(f(&[&SlowTensor::number(x), &SlowTensor::number(y)]));
                let joined = if name == "join" { first.join(&second, of) } else { first.merge(&second, of) };
                self.need(")")?;
                Ok(joined)
            }
            "reduce" => {
                self.need(",")?;
                let aggregator = self.word().unwrap_or_default();
                let over = self.names()?;
                first.reduce(&aggregator, &over).ok_or(UnknownConstruct(aggregator))
            }
            "rename" => {
                self.need(",")?;
                let list = |reader: &mut Self| -> Result<Vec<String>> {
                    if !reader.rest().trim_start().starts_with('(') {
                        return Ok(reader.word().into_iter().collect());
                    }
                    Ok(reader.parenthesised()?.split(',').map(|name| name.trim().to_owned()).collect())
                };
                let from = list(self)?;
                self.need(",")?;
                let to = list(self)?;
                self.need(")")?;
                Ok(first.rename(&from, &to))
            }
            "concat" => {
                self.need(",")?;
                let second = self.infix(0)?;
                let along = self.names()?;
                Ok(first.concat(&second, &along[0]))
            }
            "expand" => {
                let along = self.names()?;
                let one = Cells::from([([(along[0].clone(), "0".to_owned())].into(), 1.0)]);
                let one = SlowTensor { dimensions: [(along[0].clone(), Some(1))].into(), cells: one };
                Ok(first.join(&one, |x, _| x))
            }
            "cell_cast" => {
                let to = self.names()?;
                Ok(first.map(|x| match to[0].as_str() {
                    "int8" => f64::from(x as i8),
                    "float" => f64::from(x as f32),
                    "bfloat16" => half::bf16::from_f64(x).to_f64(),
                    _ => x,
                }))
            }
            "cell_order" => {
                let order = self.names()?;
                Ok(ranks(first, order[0] == "max"))
            }
            "unpack_bits" => {
                let options = self.names()?;
                let lowest_first = options.get(1).is_some_and(|order| order == "little");
                let (dimension, size) =
                    first.dimensions.iter().next_back().ok_or(UnknownConstruct("bits".to_owned()))?;
                let mut unpacked = first.clone();
                unpacked.dimensions.insert(dimension.clone(), size.map(|size| size * 8));
                unpacked.cells.clear();
                for (address, cell) in &first.cells {
                    let index: usize = address[dimension].parse().unwrap_or(0);
                    for bit in 0..8 {
                        let mut address = address.clone();
                        address.insert(dimension.clone(), (index * 8 + bit).to_string());
                        let shift = if lowest_first { bit } else { 7 - bit };
                        unpacked.cells.insert(address, f64::from(*cell as i8 as u8 >> shift & 1));
                    }
                }
                Ok(unpacked)
            }
            "map_subspaces" | "filter_subspaces" => {
                self.need(",")?;
                let f = self.lambda()?;
                let mut result = SlowTensor { dimensions: first.dimensions.clone(), cells: Cells::new() };
                for (mapped, subspace) in first.subspaces() {
                    let value = f(&[&subspace])?;
                    let kept = match name {
                        "map_subspaces" => {
                            result.dimensions.retain(|_, size| size.is_none());
                            result.dimensions.extend(value.dimensions.clone());
                            value
                        }
                        _ if value.cells.values().any(|cell| *cell != 0.0) => subspace,
                        _ => continue,
                    };
                    for (address, cell) in kept.cells {
                        result.cells.insert(mapped.clone().into_iter().chain(address).collect(), cell);
                    }
                }
                self.need(")")?;
                Ok(result)
            }
            "argmax" | "argmin" => {
                let over = self.names()?;
                let best = first.reduce(&name[3..], &over).ok_or(UnknownConstruct(name.to_owned()))?;
                Ok(first.join(&best, |x, y| f64::from(x == y)))
            }
            "softmax" | "l1_normalize" | "l2_normalize" => {
                let over = self.names()?;
                let of = if name == "softmax" { first.map(f64::exp) } else { first.clone() };
                let sums = match name {
                    "l2_normalize" => of.map(|x| x * x).reduce("sum", &over).map(|sums| sums.map(f64::sqrt)),
                    _ => of.reduce("sum", &over),
                };
                Ok(of.join(&sums.ok_or(UnknownConstruct(name.to_owned()))?, |x, y| x / y))
            }
            "matmul" | "cosine_similarity" | "euclidean_distance" => {
                self.need(",")?;
                let second = self.infix(0)?;
                let over = self.names()?;
                let sum = |of: SlowTensor| of.reduce("sum", &over).ok_or(UnknownConstruct(name.to_owned()));
                let product = |a: &SlowTensor, b: &SlowTensor| sum(a.join(b, |x, y| x * y));
                match name {
                    "matmul" => product(first, &second),
                    "cosine_similarity" => {
                        let lengths =
                            product(first, first)?.join(&product(&second, &second)?, |x, y| (x * y).sqrt());
                        Ok(product(first, &second)?.join(&lengths, |x, y| x / y))
                    }
                    _ => Ok(sum(first.join(&second, |x, y| (x - y) * (x - y)))?.map(f64::sqrt)),
                }
            }
            "xw_plus_b" => {
                self.need(",")?;
                let weights = self.infix(0)?;
                self.need(",")?;
                let bias = self.infix(0)?;
                let over = self.names()?;
                let product = first.join(&weights, |x, y| x * y).reduce("sum", &over);
                Ok(product.ok_or(UnknownConstruct(name.to_owned()))?.join(&bias, |x, y| x + y))
            }
            _ => self.unknown(name),
        }
    }
}

/// Rank of each cell in the order of all; equal cells are ordered by address.
fn ranks(of: &SlowTensor, largest_first: bool) -> SlowTensor {
    let mut order: Vec<(&tensor::Address, f64)> =
        of.cells.iter().map(|(address, cell)| (address, *cell)).collect();
    order.sort_by(|(_, a), (_, b)| if largest_first { b.total_cmp(a) } else { a.total_cmp(b) });
    let cells = order.into_iter().enumerate().map(|(rank, (address, _))| (address.clone(), rank as f64));
    SlowTensor { dimensions: of.dimensions.clone(), cells: cells.collect() }
}

/// Length of a literal's cells: a number, or the text between brackets.
fn literal_length(text: &str) -> usize {
    let blank = text.len() - text.trim_start().len();
    let mut depth = 0;
    for (at, c) in text.char_indices().skip(blank) {
        match c {
            '[' | '{' => depth += 1,
            ']' | '}' => {
                depth -= 1;
                if depth == 0 {
                    return at + 1;
                }
            }
            _ if depth == 0 && !c.is_ascii_digit() && c != '.' && c != '-' => return at,
            _ => {}
        }
    }
    text.len()
}

fn unary(name: &str) -> Option<fn(f64) -> f64> {
    Some(match name {
        "abs" | "fabs" => f64::abs,
        "acos" => f64::acos,
        "asin" => f64::asin,
        "atan" => f64::atan,
        "ceil" => f64::ceil,
        "cos" => f64::cos,
        "cosh" => f64::cosh,
        "elu" => |x| if x < 0.0 { x.exp_m1() } else { x },
        "erf" => |x| {
            // The series is exact enough for the small numbers used here.
            let (mut sum, mut term) = (x, x);
            for n in 1..200 {
                term *= -x * x / f64::from(n);
                sum += term / f64::from(2 * n + 1);
            }
            sum * 2.0 / std::f64::consts::PI.sqrt()
        },
        "exp" => f64::exp,
        "floor" => f64::floor,
        "isNan" => |x| f64::from(x.is_nan()),
        "log" => f64::ln,
        "log10" => f64::log10,
        "relu" => |x| x.max(0.0),
        "round" => |x| (x + 0.5).floor(),
        "sigmoid" => |x| 1.0 / (1.0 + (-x).exp()),
        "sign" => |x| {
            if x > 0.0 {
                1.0
            } else if x < 0.0 {
                -1.0
            } else {
                0.0
            }
        },
        "sin" => f64::sin,
        "sinh" => f64::sinh,
        "sqrt" => f64::sqrt,
        "square" => |x| x * x,
        "tan" => f64::tan,
        "tanh" => f64::tanh,
        _ => return None,
    })
}

fn binary(name: &str) -> Option<fn(f64, f64) -> f64> {
    Some(match name {
        "||" => |a, b| f64::from(a != 0.0 || b != 0.0),
        "&&" => |a, b| f64::from(a != 0.0 && b != 0.0),
        "==" => |a, b| f64::from(a == b),
        "!=" => |a, b| f64::from(a != b),
        "~=" => |a, b| f64::from((a - b).abs() < 1e-6 * a.abs().max(b.abs()).max(1.0)),
        "<" => |a, b| f64::from(a < b),
        "<=" => |a, b| f64::from(a <= b),
        ">" => |a, b| f64::from(a > b),
        ">=" => |a, b| f64::from(a >= b),
        "+" => |a, b| a + b,
        "-" => |a, b| a - b,
        "*" => |a, b| a * b,
        "/" => |a, b| a / b,
        "%" | "fmod" => |a, b| a % b,
        "^" | "pow" => f64::powf,
        "atan2" => f64::atan2,
        "bit" => {
            |a, b| if (0.0..8.0).contains(&b) { f64::from(a as i8 as u8 >> (b as u32) & 1) } else { 0.0 }
        }
        "hamming" => |a, b| f64::from((a as i8 as u8 ^ b as i8 as u8).count_ones()),
        "ldexp" => |a, b| a * 2f64.powi(b as i32),
        "max" => f64::max,
        "min" => f64::min,
        _ => return None,
    })
}
