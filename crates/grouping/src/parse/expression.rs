//! Parser for expressions: sums and products of values, functions, aggregates, fields, buckets.

use super::GroupingParser;
use super::forms::FORMS;
use crate::Error;
use crate::functions::{self, GroupingFunction};
use crate::lexer::GroupingLexer;
use crate::request::{
    BucketBound, DistanceUnit, GroupAggregator, GroupingExpression, GroupingNumber, GroupingPath,
    GroupingPathStep, LiteralBucket,
};

/// Operators with their functions, the loosest first: each binds tighter than the one before it.
const OPERATORS: [(char, &str); 5] = [('+', "add"), ('-', "sub"), ('/', "div"), ('%', "mod"), ('*', "mul")];

impl GroupingParser<'_> {
    /// Parses an expression with its sign and its label; of arguments and parts the label is of no use.
    pub(super) fn expression(&mut self) -> Result<GroupingExpression, Error> {
        self.labelled().map(|(expression, _)| expression)
    }

    /// Parses an expression, its sign before it, which is that of the whole sum, and `as(label)` after it.
    pub(super) fn labelled(&mut self) -> Result<(GroupingExpression, Option<String>), Error> {
        self.nested(|parser| {
            let is_negative = parser.lexer.take_symbol('-');
            if !is_negative {
                parser.lexer.take_symbol('+');
            }
            let expression = parser.operators()?;
            let expression = if is_negative { parser.negated(expression)? } else { expression };
            let label = if parser.lexer.take_word("as") { Some(parser.parenthesised_name()?) } else { None };
            Ok((expression, label))
        })
    }

    /// Parses values and the [`OPERATORS`] between them.
    pub(super) fn operators(&mut self) -> Result<GroupingExpression, Error> {
        let mut left = self.value()?;
        let mut waiting: Vec<(usize, GroupingExpression)> = Vec::new();
        loop {
            let next = OPERATORS.iter().position(|(symbol, _)| self.lexer.take_symbol(*symbol));
            while let Some((operator, first)) =
                waiting.pop_if(|(operator, _)| next.is_none_or(|next| *operator >= next))
            {
                left = self.call(OPERATORS[operator].1, vec![first, left])?;
            }
            let Some(next) = next else { return Ok(left) };
            waiting.push((next, std::mem::replace(&mut left, self.value()?)));
        }
    }

    fn negated(&mut self, expression: GroupingExpression) -> Result<GroupingExpression, Error> {
        Ok(match expression {
            GroupingExpression::Long(value) => GroupingExpression::Long(value.wrapping_neg()),
            // The lowest whole number has no positive counterpart.
            GroupingExpression::Double(value) if value == 2f64.powi(63) => GroupingExpression::Long(i64::MIN),
            GroupingExpression::Double(value) => GroupingExpression::Double(-value),
            other => self.call("neg", vec![other])?,
        })
    }

    fn value(&mut self) -> Result<GroupingExpression, Error> {
        self.count()?;
        if self.lexer.peek_symbol('(') {
            return self.parenthesised(Self::expression);
        }
        if self.lexer.take_symbol('$') {
            return self.alias_use();
        }
        if let Some(number) = self.lexer.number()? {
            return Ok(match number {
                GroupingNumber::Long(value) => GroupingExpression::Long(value),
                GroupingNumber::Double(value) => GroupingExpression::Double(value),
            });
        }
        if self.lexer.take_symbol('-') {
            let operand = self.nested(Self::value)?;
            return self.negated(operand);
        }
        if let Some(text) = self.lexer.string()? {
            return Ok(GroupingExpression::Text(text));
        }
        let before = self.lexer.clone();
        let name = self.lexer.word().map(str::to_owned);
        match name {
            Some(name) => self.named(name, before),
            None => Err(self.lexer.expected("a field, a number, a text, a function or '('")),
        }
    }

    fn alias_use(&mut self) -> Result<GroupingExpression, Error> {
        let name = self.name()?;
        if self.lexer.take_symbol('=') {
            let before = self.parts;
            let expression = self.operators()?;
            self.aliases.insert(name, (expression.clone(), self.parts - before));
            return Ok(expression);
        }
        let Some((expression, parts)) = self.aliases.get(&name) else {
            return Err(self.lexer.expected(&format!("alias({name}, …) before ${name} is used")));
        };
        self.parts += parts;
        let expression = expression.clone();
        self.count()?;
        Ok(expression)
    }

    /// Parses an expression that starts with a name at `start`: a function, an aggregate, or a field.
    fn named(&mut self, mut name: String, mut start: GroupingLexer<'_>) -> Result<GroupingExpression, Error> {
        if ["math", "time", "zcurve", "array"].contains(&name.as_str()) && self.lexer.peek_symbol('.') {
            let before = self.lexer.clone();
            self.lexer.symbol('.')?;
            let member = format!("{name}.{}", self.lexer.word().unwrap_or_default());
            if self.lexer.peek_symbol('(') {
                name = member;
            } else {
                self.lexer = before;
            }
        }
        if !self.lexer.peek_symbol('(') {
            return self.field(name, false);
        }
        if let Some(form) = FORMS.iter().find(|form| form.name == name) {
            return (form.parse)(self);
        }
        match functions::find(&name) {
            Some(function) => {
                let arguments = self.list(Self::expression)?;
                self.check_arity(function, arguments.len())?;
                Ok(GroupingExpression::Call { function, arguments })
            }
            None => Err(start.expected("a function or aggregate of the grouping language")),
        }
    }

    fn check_arity(&self, function: &GroupingFunction, given: usize) -> Result<(), Error> {
        if (function.min_arguments..=function.max_arguments).contains(&given) {
            return Ok(());
        }
        Err(self.lexer.error(format!(
            "'{}' takes {} argument{}, not {given}",
            function.name,
            if given < function.min_arguments { function.min_arguments } else { function.max_arguments },
            if function.max_arguments == 1 { "" } else { "s" },
        )))
    }

    pub(super) fn field(&mut self, field: String, wrapped: bool) -> Result<GroupingExpression, Error> {
        let mut steps = Vec::new();
        loop {
            if self.lexer.take_symbol('.') {
                let name = self.name()?;
                if name == "at" && self.lexer.peek_symbol('(') {
                    let index = self.parenthesised(Self::expression)?;
                    let list = GroupingExpression::Field { path: GroupingPath { field, steps }, wrapped };
                    return self.call("array.at", vec![list, index]);
                }
                steps.push(GroupingPathStep::Name(name));
            } else if self.lexer.take_symbol('{') {
                let key = match self.lexer.string()? {
                    Some(key) => GroupingPathStep::Key(key),
                    None => self.bare_key()?,
                };
                self.lexer.symbol('}')?;
                steps.push(key);
            } else {
                break;
            }
        }
        Ok(GroupingExpression::Field { path: GroupingPath { field, steps }, wrapped })
    }

    /// Parses `field` or `field.member`.
    fn path(&mut self) -> Result<GroupingPath, Error> {
        let mut path = GroupingPath { field: self.name()?, steps: Vec::new() };
        while self.lexer.take_symbol('.') {
            path.steps.push(GroupingPathStep::Name(self.name()?));
        }
        Ok(path)
    }

    /// Parses a key without quotes: the field that contains the key, a word, or a whole number.
    fn bare_key(&mut self) -> Result<GroupingPathStep, Error> {
        if let Some(GroupingNumber::Long(key)) = self.lexer.number()? {
            return Ok(GroupingPathStep::Key(key.to_string()));
        }
        match self.lexer.word() {
            Some("attribute") if self.lexer.peek_symbol('(') => {
                self.parenthesised(Self::path).map(GroupingPathStep::KeyOf)
            }
            Some(key) => Ok(GroupingPathStep::Key(key.to_owned())),
            None => Err(self.lexer.expected("a key, as in map{\"key\"} or map{attribute(field)}")),
        }
    }

    pub(super) fn quantiles(&mut self) -> Result<GroupingExpression, Error> {
        self.lexer.symbol('[')?;
        let mut quantiles = Vec::new();
        loop {
            let quantile = self.lexer.float()?;
            if !(0.0..=1.0).contains(&quantile) {
                return Err(self.lexer.error(format!("a quantile is from 0 to 1, and {quantile} is not")));
            }
            quantiles.push(quantile);
            if !self.lexer.take_symbol(',') {
                break;
            }
        }
        self.lexer.symbol(']')?;
        self.lexer.symbol(',')?;
        let input = Some(Box::new(self.expression()?));
        Ok(GroupingExpression::Aggregate { aggregator: GroupAggregator::Quantiles, input, quantiles })
    }

    pub(super) fn predefined(&mut self) -> Result<GroupingExpression, Error> {
        let input = Box::new(self.expression()?);
        self.lexer.symbol(',')?;
        let parenthesised = self.lexer.take_symbol('(');
        let mut buckets = Vec::new();
        loop {
            self.count()?;
            buckets.push(self.bucket()?);
            if !self.lexer.take_symbol(',') {
                break;
            }
        }
        if parenthesised {
            self.lexer.symbol(')')?;
        }
        Ok(GroupingExpression::Predefined { input, buckets })
    }

    fn bucket(&mut self) -> Result<LiteralBucket, Error> {
        if !self.lexer.take_word("bucket") {
            return Err(self.lexer.expected("bucket(from, to), bucket[from, to> or bucket<from, to]"));
        }
        let from_inclusive = if self.lexer.take_symbol('(') || self.lexer.take_symbol('[') {
            true
        } else if self.lexer.take_symbol('<') {
            false
        } else {
            return Err(self.lexer.expected("'(', '[' or '<'"));
        };
        let from = self.bound(true)?;
        let to = if self.lexer.take_symbol(',') { Some(self.bound(false)?) } else { None };
        if from == BucketBound::Infinite && to.as_ref().is_none_or(|to| *to == BucketBound::Infinite) {
            return Err(self.lexer.error("one of the two ends of a bucket is a value".to_owned()));
        }
        let to_inclusive = if self.lexer.take_symbol(']') {
            to.is_some()
        } else if self.lexer.take_symbol(')') || self.lexer.take_symbol('>') {
            false
        } else {
            return Err(self.lexer.expected("')', ']' or '>'"));
        };
        Ok(LiteralBucket { from, from_inclusive, to, to_inclusive })
    }

    /// Parses a bound: `-inf` only as the lower one, `inf` only as the upper one.
    fn bound(&mut self, is_lower: bool) -> Result<BucketBound, Error> {
        let before = self.lexer.clone();
        let negative = self.lexer.take_symbol('-');
        if self.lexer.take_word("inf") {
            if negative != is_lower {
                self.lexer = before;
                let end = if is_lower { "-inf below" } else { "inf above" };
                return Err(self.lexer.expected(&format!("a value, or {end}")));
            }
            return Ok(BucketBound::Infinite);
        }
        if negative {
            self.lexer = before;
        }
        if let Some(text) = self.lexer.string()? {
            return Ok(BucketBound::Text(text));
        }
        if self.lexer.take_symbol('{') {
            return self.raw().map(BucketBound::Raw);
        }
        match self.lexer.number()? {
            Some(GroupingNumber::Long(value)) => Ok(BucketBound::Long(value)),
            Some(GroupingNumber::Double(value)) => Ok(BucketBound::Double(value)),
            None => match self.lexer.word() {
                Some(word) => Ok(BucketBound::Text(word.to_owned())),
                None => Err(self.lexer.expected("a number, a text, {bytes}, inf or -inf")),
            },
        }
    }

    /// Parses bytes given as numbers and texts: `{10, 'a', 255}`.
    fn raw(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while !self.lexer.take_symbol('}') {
            if let Some(text) = self.lexer.string()? {
                bytes.extend_from_slice(text.as_bytes());
            } else {
                match self.lexer.number()? {
                    Some(GroupingNumber::Long(byte)) if (-128..=255).contains(&byte) => {
                        bytes.push(byte as u8)
                    }
                    _ => return Err(self.lexer.expected("a byte (a number from 0 to 255) or a text")),
                }
            }
            self.lexer.take_symbol(',');
        }
        Ok(bytes)
    }

    pub(super) fn fixed_width(&mut self) -> Result<GroupingExpression, Error> {
        let input = Box::new(self.expression()?);
        self.lexer.symbol(',')?;
        match self.lexer.number()? {
            Some(width @ GroupingNumber::Long(1..)) => Ok(GroupingExpression::FixedWidth { input, width }),
            Some(width @ GroupingNumber::Double(size)) if size > 0.0 => {
                Ok(GroupingExpression::FixedWidth { input, width })
            }
            _ => Err(self.lexer.expected("a width above 0, as in fixedwidth(price, 100)")),
        }
    }

    pub(super) fn collate(&mut self) -> Result<GroupingExpression, Error> {
        let input = Box::new(self.expression()?);
        self.lexer.symbol(',')?;
        let locale = self.text_or_name("a locale, as in uca(name, \"sv\")")?;
        let strength = if self.lexer.take_symbol(',') {
            Some(self.text_or_name("a strength, as in \"PRIMARY\"")?)
        } else {
            None
        };
        Ok(GroupingExpression::Collate { input, locale, strength })
    }

    pub(super) fn geo_distance(&mut self) -> Result<GroupingExpression, Error> {
        self.lexer.symbol('(')?;
        if !self.lexer.take_word("attribute") {
            return Err(self
                .lexer
                .expected("attribute(field), as in geo_distance(attribute(place), 63.4, 10.4).km"));
        }
        let field = self.parenthesised_name()?;
        self.lexer.symbol(',')?;
        let latitude = self.lexer.float()?;
        self.lexer.symbol(',')?;
        let longitude = self.lexer.float()?;
        self.lexer.symbol(')')?;
        self.lexer.symbol('.')?;
        let unit = match self.lexer.word() {
            Some("km") => DistanceUnit::Kilometre,
            Some("miles") => DistanceUnit::Mile,
            _ => return Err(self.lexer.expected("km or miles")),
        };
        Ok(GroupingExpression::GeoDistance { field, latitude, longitude, unit })
    }

    fn call(&mut self, name: &str, arguments: Vec<GroupingExpression>) -> Result<GroupingExpression, Error> {
        self.count()?;
        let function = functions::find(name).ok_or_else(|| self.lexer.expected("a function"))?;
        Ok(GroupingExpression::Call { function, arguments })
    }
}
