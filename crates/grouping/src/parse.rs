//! The grouping language, read by recursive descent.

use std::collections::HashMap;

use crate::Error;
use crate::functions::{self, Function};
use crate::lexer::Lexer;
use crate::request::{
    Aggregator, Bound, Bucket, Each, Expression, FieldPath, Filter, Limit, Number, Operation, Order, Output,
    Request, Step,
};

/// How deep operations and expressions may be nested.
const MAX_DEPTH: usize = 64;
/// How many parts all expressions of a text may have, aliases put in.
const MAX_PARTS: usize = 10_000;

impl Request {
    /// Parses one or several requests, with `|` or nothing between them: `all(group(a) each(output(count()))) | all(…)`.
    /// A request may begin with its continuations: `{ 'continuations': ['BGAAABEBCA'] } all(…)`.
    ///
    /// # Errors
    /// [`Error::Syntax`].
    ///
    /// ```
    /// use millrace_grouping::Request;
    /// let requests = Request::parse("all(group(sender) max(5) each(output(count())))")?;
    /// assert_eq!(requests.len(), 1);
    /// let error = Request::parse("all(group(sender) each(output(count()))").unwrap_err();
    /// assert!(error.to_string().starts_with("grouping, line 1, column 40: expected ')'"));
    /// # Ok::<(), millrace_grouping::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Vec<Request>, Error> {
        let mut parser = Parser { lexer: Lexer::new(text), aliases: HashMap::new(), depth: 0, parts: 0 };
        let mut requests = Vec::new();
        loop {
            while parser.lexer.take_symbol('|') {}
            if parser.lexer.at_end() {
                break;
            }
            requests.push(parser.request()?);
        }
        if requests.is_empty() {
            return Err(parser.lexer.expected("a request, such as all(group(field) each(output(count())))"));
        }
        Ok(requests)
    }
}

struct Parser<'a> {
    lexer: Lexer<'a>,
    /// The expression of each alias, and how many parts it has.
    aliases: HashMap<String, (Expression, usize)>,
    depth: usize,
    parts: usize,
}

impl Parser<'_> {
    fn request(&mut self) -> Result<Request, Error> {
        self.aliases.clear();
        let continuations = self.annotation()?;
        let root = if self.lexer.take_word("all") {
            self.operation(Each::All)?
        } else if self.lexer.take_word("each") {
            self.operation(Each::Each)?
        } else {
            return Err(self.lexer.expected("all(…) or each(…)"));
        };
        Ok(Request { root, continuations })
    }

    /// `{ 'continuations': ['…', …] }`, also in the old form with brackets around it.
    fn annotation(&mut self) -> Result<Vec<String>, Error> {
        let mut continuations = Vec::new();
        let bracket = self.lexer.take_symbol('[');
        if self.lexer.take_symbol('{') {
            let name = match self.lexer.string()? {
                Some(name) => name,
                None => self.lexer.word().unwrap_or_default().to_owned(),
            };
            if name != "continuations" {
                return Err(self.lexer.expected("'continuations', the only annotation of grouping"));
            }
            self.lexer.symbol(':')?;
            self.lexer.symbol('[')?;
            while let Some(continuation) = self.lexer.string()? {
                continuations.push(continuation);
                if !self.lexer.take_symbol(',') {
                    break;
                }
            }
            self.lexer.symbol(']')?;
            self.lexer.symbol('}')?;
        }
        if bracket {
            self.lexer.symbol(']')?;
        }
        Ok(continuations)
    }

    fn operation(&mut self, each: Each) -> Result<Operation, Error> {
        self.nested(|parser| {
            let mut operation = Operation::new(each);
            parser.lexer.symbol('(')?;
            while !parser.lexer.take_symbol(')') {
                parser.clause(&mut operation)?;
            }
            if parser.lexer.take_word("as") {
                operation.label = Some(parser.parenthesised_name()?);
            }
            Ok(operation)
        })
    }

    fn clause(&mut self, operation: &mut Operation) -> Result<(), Error> {
        let before = self.lexer.clone();
        match self.lexer.word() {
            Some("all") => operation.children.push(self.operation(Each::All)?),
            Some("each") => operation.children.push(self.operation(Each::Each)?),
            Some("group") => operation.group_by = Some(self.parenthesised(Self::expression)?),
            Some("filter" | "keep") => operation.filter = Some(self.parenthesised(Self::filter)?),
            Some("order") => operation.order = self.list(Self::order)?,
            Some("output") => operation.outputs.extend(self.list(Self::output)?),
            Some("max") => operation.max = Some(self.parenthesised(Self::limit)?),
            Some("where") => operation.all_documents = self.parenthesised(Self::where_clause)?,
            Some("precision" | "accuracy") => {
                // Counts are exact here, so there is nothing to set; the number must be one all the same.
                self.parenthesised(|parser| parser.lexer.float())?;
            }
            Some("hint") => drop(self.parenthesised_name()?),
            Some("alias") => self.alias()?,
            _ => {
                self.lexer = before;
                return Err(self.lexer.expected(
                    "')' or one of all, each, group, filter, order, max, output, where, precision, alias, hint",
                ));
            }
        }
        Ok(())
    }

    fn where_clause(&mut self) -> Result<bool, Error> {
        if self.lexer.take_symbol('$') {
            return match self.lexer.word() {
                Some("query") => Ok(false),
                _ => Err(self.lexer.expected("$query or true")),
            };
        }
        match self.lexer.word() {
            Some("true") => Ok(true),
            _ => Err(self.lexer.expected("true or $query")),
        }
    }

    fn limit(&mut self) -> Result<Limit, Error> {
        if self.lexer.take_word("inf") {
            return Ok(Limit::Unlimited);
        }
        match self.lexer.number()? {
            Some(Number::Long(count)) if count > 0 => {
                Ok(Limit::Count(usize::try_from(count).unwrap_or(usize::MAX)))
            }
            _ => Err(self.lexer.expected("a whole number of at least 1, or inf, as in max(10)")),
        }
    }

    fn alias(&mut self) -> Result<(), Error> {
        self.lexer.symbol('(')?;
        let name = self.name()?;
        self.lexer.symbol(',')?;
        let before = self.parts;
        let expression = self.expression()?;
        self.aliases.insert(name, (expression, self.parts - before));
        self.lexer.symbol(')')
    }

    fn order(&mut self) -> Result<Order, Error> {
        let descending = self.lexer.take_symbol('-');
        if !descending {
            self.lexer.take_symbol('+');
        }
        Ok(Order { descending, by: self.expression()? })
    }

    fn output(&mut self) -> Result<Output, Error> {
        let expression = self.expression()?;
        let label = if self.lexer.take_word("as") { Some(self.parenthesised_name()?) } else { None };
        Ok(Output { expression, label })
    }

    fn filter(&mut self) -> Result<Filter, Error> {
        let mut left = self.filter_and()?;
        while self.lexer.take_word("or") {
            left = Filter::Or(Box::new(left), Box::new(self.filter_and()?));
            self.count()?;
        }
        Ok(left)
    }

    fn filter_and(&mut self) -> Result<Filter, Error> {
        let mut left = self.filter_primary()?;
        while self.lexer.take_word("and") {
            left = Filter::And(Box::new(left), Box::new(self.filter_primary()?));
            self.count()?;
        }
        Ok(left)
    }

    fn filter_primary(&mut self) -> Result<Filter, Error> {
        self.nested(|parser| {
            if parser.lexer.peek_symbol('(') {
                return parser.parenthesised(Self::filter);
            }
            match parser.lexer.word() {
                Some("not") => Ok(Filter::Not(Box::new(parser.filter_primary()?))),
                Some("regex") => parser.parenthesised(|parser| {
                    let pattern =
                        parser.string("a regular expression in quotes, as in regex(\"foo.*\", field)")?;
                    parser.lexer.symbol(',')?;
                    Ok(Filter::Regex(pattern, parser.expression()?))
                }),
                Some("range") => parser.parenthesised(Self::range),
                Some("istrue") => Ok(Filter::IsTrue(parser.parenthesised(Self::expression)?)),
                _ => Err(parser.lexer.expected("regex(…), range(…), istrue(…), not or '('")),
            }
        })
    }

    fn range(&mut self) -> Result<Filter, Error> {
        let from = self.lexer.float()?;
        self.lexer.symbol(',')?;
        let to = self.lexer.float()?;
        self.lexer.symbol(',')?;
        let input = self.expression()?;
        let mut inclusive = (true, false);
        if self.lexer.take_symbol(',') {
            inclusive.0 = self.boolean()?;
            self.lexer.symbol(',')?;
            inclusive.1 = self.boolean()?;
        }
        Ok(Filter::Range { from, to, inclusive, input })
    }

    fn boolean(&mut self) -> Result<bool, Error> {
        match self.lexer.word() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err(self.lexer.expected("true or false")),
        }
    }

    /// Sums; `*`, `/` and `%` bind closer.
    fn expression(&mut self) -> Result<Expression, Error> {
        self.nested(|parser| {
            let mut left = parser.product()?;
            loop {
                let name = if parser.lexer.take_symbol('+') {
                    "add"
                } else if parser.lexer.take_symbol('-') {
                    "sub"
                } else {
                    return Ok(left);
                };
                let right = parser.product()?;
                left = parser.call(name, vec![left, right])?;
            }
        })
    }

    fn product(&mut self) -> Result<Expression, Error> {
        let mut left = self.value()?;
        loop {
            let name = if self.lexer.take_symbol('*') {
                "mul"
            } else if self.lexer.take_symbol('/') {
                "div"
            } else if self.lexer.take_symbol('%') {
                "mod"
            } else {
                return Ok(left);
            };
            let right = self.value()?;
            left = self.call(name, vec![left, right])?;
        }
    }

    fn value(&mut self) -> Result<Expression, Error> {
        self.count()?;
        if self.lexer.peek_symbol('(') {
            return self.parenthesised(Self::expression);
        }
        if self.lexer.take_symbol('$') {
            return self.alias_use();
        }
        if let Some(number) = self.lexer.number()? {
            return Ok(match number {
                Number::Long(value) => Expression::Long(value),
                Number::Double(value) => Expression::Double(value),
            });
        }
        if self.lexer.take_symbol('-') {
            let operand = self.nested(Self::value)?;
            return self.call("neg", vec![operand]);
        }
        if let Some(text) = self.lexer.string()? {
            return Ok(Expression::Text(text));
        }
        let before = self.lexer.clone();
        let name = self.lexer.word().map(str::to_owned);
        match name {
            Some(name) => self.named(name, before),
            None => Err(self.lexer.expected("a field, a number, a text, a function or '('")),
        }
    }

    fn alias_use(&mut self) -> Result<Expression, Error> {
        let name = self.name()?;
        if self.lexer.take_symbol('=') {
            let before = self.parts;
            let expression = self.expression()?;
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

    /// What begins with a name, which stands at `start`: a function, an aggregate, or a field.
    fn named(&mut self, mut name: String, mut start: Lexer<'_>) -> Result<Expression, Error> {
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
        let aggregate =
            |aggregator, input| Expression::Aggregate { aggregator, input, quantiles: Vec::new() };
        let none = |parser: &mut Self| {
            parser.lexer.symbol('(')?;
            parser.lexer.symbol(')')
        };
        match name.as_str() {
            "count" => none(self).map(|()| aggregate(Aggregator::Count, None)),
            "relevance" => none(self).map(|()| Expression::Relevance),
            "now" => none(self).map(|()| Expression::Now),
            "docidnsspecific" => none(self).map(|()| Expression::DocumentName),
            "sum" | "avg" | "stddev" => {
                let aggregator = match name.as_str() {
                    "sum" => Aggregator::Sum,
                    "avg" => Aggregator::Avg,
                    _ => Aggregator::Stddev,
                };
                Ok(aggregate(aggregator, Some(Box::new(self.parenthesised(Self::expression)?))))
            }
            "quantiles" => self.parenthesised(Self::quantiles),
            "summary" => {
                self.lexer.symbol('(')?;
                let class = self.lexer.dashed_word().map(str::to_owned);
                self.lexer.symbol(')')?;
                Ok(Expression::Summary(class))
            }
            "attribute" => self.parenthesised(|parser| {
                let name = parser.name()?;
                parser.field(name, true)
            }),
            "predefined" => self.parenthesised(Self::predefined),
            "fixedwidth" => self.parenthesised(Self::fixed_width),
            "uca" => self.parenthesised(Self::collate),
            "geo_distance" => self.geo_distance(),
            // Waiting serves Vespa's own tests; the value is that of the first argument.
            "debugwait" => self.parenthesised(|parser| {
                let value = parser.expression()?;
                parser.lexer.symbol(',')?;
                parser.lexer.float()?;
                parser.lexer.symbol(',')?;
                parser.boolean()?;
                Ok(value)
            }),
            _ => match functions::find(&name) {
                Some(function) => {
                    let arguments = self.list(Self::expression)?;
                    self.check_arity(function, arguments.len())?;
                    Ok(Expression::Call { function, arguments })
                }
                None => Err(start.expected("a function or aggregate of the grouping language")),
            },
        }
    }

    fn check_arity(&self, function: &Function, given: usize) -> Result<(), Error> {
        if (function.min_arguments..=function.max_arguments).contains(&given) {
            return Ok(());
        }
        Err(self.lexer.wrong(format!(
            "'{}' takes {} argument{}, not {given}",
            function.name,
            if given < function.min_arguments { function.min_arguments } else { function.max_arguments },
            if function.max_arguments == 1 { "" } else { "s" },
        )))
    }

    fn field(&mut self, field: String, wrapped: bool) -> Result<Expression, Error> {
        let mut steps = Vec::new();
        loop {
            if self.lexer.take_symbol('.') {
                let name = self.name()?;
                if name == "at" && self.lexer.peek_symbol('(') {
                    let place = self.parenthesised(Self::expression)?;
                    let list = Expression::Field { path: FieldPath { field, steps }, wrapped };
                    return self.call("array.at", vec![list, place]);
                }
                steps.push(Step::Name(name));
            } else if self.lexer.take_symbol('{') {
                let key = match self.lexer.string()? {
                    Some(key) => Step::Key(key),
                    None if self.lexer.take_word("attribute") => Step::KeyOf(self.parenthesised_name()?),
                    None => match self.lexer.number()? {
                        Some(Number::Long(key)) => Step::Key(key.to_string()),
                        _ => {
                            return Err(self
                                .lexer
                                .expected("a key, as in map{\"key\"} or map{attribute(field)}"));
                        }
                    },
                };
                self.lexer.symbol('}')?;
                steps.push(key);
            } else {
                break;
            }
        }
        Ok(Expression::Field { path: FieldPath { field, steps }, wrapped })
    }

    fn quantiles(&mut self) -> Result<Expression, Error> {
        self.lexer.symbol('[')?;
        let mut quantiles = Vec::new();
        loop {
            let quantile = self.lexer.float()?;
            if !(0.0..=1.0).contains(&quantile) {
                return Err(self.lexer.wrong(format!("a quantile is from 0 to 1, and {quantile} is not")));
            }
            quantiles.push(quantile);
            if !self.lexer.take_symbol(',') {
                break;
            }
        }
        self.lexer.symbol(']')?;
        self.lexer.symbol(',')?;
        let input = Some(Box::new(self.expression()?));
        Ok(Expression::Aggregate { aggregator: Aggregator::Quantiles, input, quantiles })
    }

    fn predefined(&mut self) -> Result<Expression, Error> {
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
        Ok(Expression::Predefined { input, buckets })
    }

    fn bucket(&mut self) -> Result<Bucket, Error> {
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
        let from = self.bound()?;
        let to = if self.lexer.take_symbol(',') { Some(self.bound()?) } else { None };
        let to_inclusive = if self.lexer.take_symbol(']') {
            to.is_some()
        } else if self.lexer.take_symbol(')') || self.lexer.take_symbol('>') {
            false
        } else {
            return Err(self.lexer.expected("')', ']' or '>'"));
        };
        Ok(Bucket { from, from_inclusive, to, to_inclusive })
    }

    fn bound(&mut self) -> Result<Bound, Error> {
        let before = self.lexer.clone();
        let negative = self.lexer.take_symbol('-');
        if self.lexer.take_word("inf") {
            return Ok(Bound::Infinite);
        }
        if negative {
            self.lexer = before;
        }
        if let Some(text) = self.lexer.string()? {
            return Ok(Bound::Text(text));
        }
        if self.lexer.take_symbol('{') {
            return self.raw().map(Bound::Raw);
        }
        match self.lexer.number()? {
            Some(Number::Long(value)) => Ok(Bound::Long(value)),
            Some(Number::Double(value)) => Ok(Bound::Double(value)),
            None => Err(self.lexer.expected("a number, a text, {bytes}, inf or -inf")),
        }
    }

    /// Bytes as numbers and texts: `{10, 'a', 255}`.
    fn raw(&mut self) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        while !self.lexer.take_symbol('}') {
            if let Some(text) = self.lexer.string()? {
                bytes.extend_from_slice(text.as_bytes());
            } else {
                match self.lexer.number()? {
                    Some(Number::Long(byte)) if (-128..=255).contains(&byte) => bytes.push(byte as u8),
                    _ => return Err(self.lexer.expected("a byte (a number from 0 to 255) or a text")),
                }
            }
            self.lexer.take_symbol(',');
        }
        Ok(bytes)
    }

    fn fixed_width(&mut self) -> Result<Expression, Error> {
        let input = Box::new(self.expression()?);
        self.lexer.symbol(',')?;
        match self.lexer.number()? {
            Some(width @ Number::Long(1..)) => Ok(Expression::FixedWidth { input, width }),
            Some(width @ Number::Double(size)) if size > 0.0 => Ok(Expression::FixedWidth { input, width }),
            _ => Err(self.lexer.expected("a width above 0, as in fixedwidth(price, 100)")),
        }
    }

    fn collate(&mut self) -> Result<Expression, Error> {
        let input = Box::new(self.expression()?);
        self.lexer.symbol(',')?;
        let locale = self.string("a locale in quotes, as in uca(name, \"sv\")")?;
        let strength = if self.lexer.take_symbol(',') {
            Some(self.string("a strength, as in \"PRIMARY\"")?)
        } else {
            None
        };
        Ok(Expression::Collate { input, locale, strength })
    }

    fn geo_distance(&mut self) -> Result<Expression, Error> {
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
        let miles = match self.lexer.word() {
            Some("km") => false,
            Some("miles") => true,
            _ => return Err(self.lexer.expected("km or miles")),
        };
        Ok(Expression::GeoDistance { field, latitude, longitude, miles })
    }

    fn call(&mut self, name: &str, arguments: Vec<Expression>) -> Result<Expression, Error> {
        self.count()?;
        let function = functions::find(name).ok_or_else(|| self.lexer.expected("a function"))?;
        Ok(Expression::Call { function, arguments })
    }

    fn name(&mut self) -> Result<String, Error> {
        match self.lexer.word() {
            Some(name) => Ok(name.to_owned()),
            None => Err(self.lexer.expected("a name")),
        }
    }

    fn string(&mut self, what: &str) -> Result<String, Error> {
        match self.lexer.string()? {
            Some(text) => Ok(text),
            None => Err(self.lexer.expected(what)),
        }
    }

    fn parenthesised_name(&mut self) -> Result<String, Error> {
        self.lexer.symbol('(')?;
        let name = match self.lexer.dashed_word() {
            Some(name) => name.to_owned(),
            None => return Err(self.lexer.expected("a name")),
        };
        self.lexer.symbol(')')?;
        Ok(name)
    }

    fn parenthesised<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.lexer.symbol('(')?;
        let value = inner(self)?;
        self.lexer.symbol(')')?;
        Ok(value)
    }

    /// One or more of `inner`, with commas between, in parentheses.
    fn list<T>(&mut self, inner: impl Fn(&mut Self) -> Result<T, Error>) -> Result<Vec<T>, Error> {
        self.parenthesised(|parser| {
            let mut list = vec![inner(parser)?];
            while parser.lexer.take_symbol(',') {
                list.push(inner(parser)?);
            }
            Ok(list)
        })
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        if self.depth == MAX_DEPTH {
            return Err(self.lexer.wrong(format!("this is nested deeper than {MAX_DEPTH} levels")));
        }
        self.depth += 1;
        let result = inner(self);
        self.depth -= 1;
        result
    }

    fn count(&mut self) -> Result<(), Error> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(self.lexer.wrong(format!("expressions have more than {MAX_PARTS} parts")));
        }
        Ok(())
    }
}
