//! Recursive-descent parser for the grouping language.

mod expression;
mod forms;

pub use forms::{FORMS, SpecialForm};

use std::collections::HashMap;

use millrace_cursor::NestingDepth;

use crate::Error;
use crate::lexer::GroupingLexer;
use crate::request::{
    GroupLimit, GroupingExpression, GroupingNumber, GroupingOperation, GroupingRequest, OperationTarget,
    OrderKey, OutputEntry, ValueFilter,
};

/// Maximum nesting of operations and expressions.
pub(crate) const MAX_DEPTH: usize = 64;
/// Maximum number of parts of all expressions in a text, after alias expansion.
const MAX_PARTS: usize = 10_000;

impl GroupingRequest {
    /// Parses one or several requests, with `|`, `;` or nothing between them:
    /// `all(group(a) each(output(count()))) | all(…)`. A request may begin with its continuations:
    /// `{ 'continuations': ['BGAAABEBCA'] } all(…)`.
    ///
    /// # Errors
    /// [`Error::Syntax`].
    ///
    /// ```
    /// use millrace_grouping::GroupingRequest;
    /// let requests = GroupingRequest::parse("all(group(sender) max(5) each(output(count())))")?;
    /// assert_eq!(requests.len(), 1);
    /// let error = GroupingRequest::parse("all(group(sender) each(output(count()))").unwrap_err();
    /// assert!(error.to_string().starts_with("grouping, line 1, column 40: expected ')'"));
    /// # Ok::<(), millrace_grouping::Error>(())
    /// ```
    pub fn parse(text: &str) -> Result<Vec<GroupingRequest>, Error> {
        let mut parser = GroupingParser {
            lexer: GroupingLexer::new(text),
            aliases: HashMap::new(),
            depth: NestingDepth::new(MAX_DEPTH),
            parts: 0,
        };
        let mut requests = Vec::new();
        loop {
            while parser.lexer.take_symbol('|') || parser.lexer.take_symbol(';') {}
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

struct GroupingParser<'a> {
    lexer: GroupingLexer<'a>,
    /// Expression of each alias, and its number of parts.
    aliases: HashMap<String, (GroupingExpression, usize)>,
    depth: NestingDepth,
    parts: usize,
}

impl GroupingParser<'_> {
    fn request(&mut self) -> Result<GroupingRequest, Error> {
        self.aliases.clear();
        let continuations = self.annotation()?;
        let root = if self.lexer.take_word("all") {
            self.operation(OperationTarget::All)?
        } else if self.lexer.take_word("each") {
            self.operation(OperationTarget::Each)?
        } else {
            return Err(self.lexer.expected("all(…) or each(…)"));
        };
        let mut root = root;
        if self.lexer.take_word("where") {
            root.all_documents |= self.parenthesised(Self::where_clause)?;
        }
        Ok(GroupingRequest { root, continuations })
    }

    /// Parses `{ 'continuations': ['…', …] }`, any number of times, also in the old form with brackets around
    /// it.
    fn annotation(&mut self) -> Result<Vec<String>, Error> {
        let mut continuations = Vec::new();
        let bracket = self.lexer.take_symbol('[');
        while self.lexer.take_symbol('{') {
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

    fn operation(&mut self, each: OperationTarget) -> Result<GroupingOperation, Error> {
        self.nested(|parser| {
            let mut operation = GroupingOperation::new(each);
            parser.lexer.symbol('(')?;
            while !parser.lexer.take_symbol(')') {
                parser.clause(&mut operation)?;
            }
            if parser.lexer.take_word("as") {
                if each == OperationTarget::All {
                    return Err(parser
                        .lexer
                        .error("as(…) names what an each(…) lists, not all(…)".to_owned()));
                }
                operation.label = Some(parser.parenthesised_name()?);
            }
            Ok(operation)
        })
    }

    fn clause(&mut self, operation: &mut GroupingOperation) -> Result<(), Error> {
        let before = self.lexer.clone();
        match self.lexer.word() {
            Some("all") => operation.children.push(self.operation(OperationTarget::All)?),
            Some("each") => operation.children.push(self.operation(OperationTarget::Each)?),
            Some("group") if operation.group_by.is_some() => {
                return Err(self.lexer.error(
                    "an operation groups once; write group(…) in an all(…) or each(…) of its own".to_owned(),
                ));
            }
            Some("group") => operation.group_by = Some(self.parenthesised(Self::expression)?),
            Some("filter" | "keep") => operation.filter = Some(self.parenthesised(Self::filter)?),
            Some("order") => operation.order = self.list(Self::order)?,
            Some("output") => operation.outputs.extend(self.list(Self::output)?),
            Some("max") => operation.max = Some(self.parenthesised(Self::limit)?),
            Some("where") => operation.all_documents = self.parenthesised(Self::where_clause)?,
            Some("precision" | "accuracy") => {
                // Counts are always exact, so the precision has no effect; it must still be a number.
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

    fn limit(&mut self) -> Result<GroupLimit, Error> {
        if self.lexer.take_word("inf") {
            return Ok(GroupLimit::Unlimited);
        }
        match self.lexer.number()? {
            Some(GroupingNumber::Long(count)) if count > 0 => {
                Ok(GroupLimit::Count(usize::try_from(count).unwrap_or(usize::MAX)))
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

    fn order(&mut self) -> Result<OrderKey, Error> {
        let descending = self.lexer.take_symbol('-');
        if !descending {
            self.lexer.take_symbol('+');
        }
        Ok(OrderKey { descending, by: self.expression()? })
    }

    fn output(&mut self) -> Result<OutputEntry, Error> {
        let (expression, label) = self.labelled()?;
        Ok(OutputEntry { expression, label })
    }

    fn filter(&mut self) -> Result<ValueFilter, Error> {
        let mut left = self.filter_and()?;
        while self.lexer.take_word("or") {
            left = ValueFilter::Or(Box::new(left), Box::new(self.filter_and()?));
            self.count()?;
        }
        Ok(left)
    }

    fn filter_and(&mut self) -> Result<ValueFilter, Error> {
        let mut left = self.filter_primary()?;
        while self.lexer.take_word("and") {
            left = ValueFilter::And(Box::new(left), Box::new(self.filter_primary()?));
            self.count()?;
        }
        Ok(left)
    }

    fn filter_primary(&mut self) -> Result<ValueFilter, Error> {
        self.nested(|parser| {
            if parser.lexer.peek_symbol('(') {
                return parser.parenthesised(Self::filter);
            }
            match parser.lexer.word() {
                Some("not") => Ok(ValueFilter::Not(Box::new(parser.filter_primary()?))),
                Some("regex") => parser.parenthesised(|parser| {
                    let pattern =
                        parser.text_or_name("a regular expression, as in regex(\"foo.*\", field)")?;
                    parser.lexer.symbol(',')?;
                    Ok(ValueFilter::Regex(pattern, parser.expression()?))
                }),
                Some("range") => parser.parenthesised(Self::range),
                Some("istrue") => Ok(ValueFilter::IsTrue(parser.parenthesised(Self::expression)?)),
                _ => Err(parser.lexer.expected("regex(…), range(…), istrue(…), not or '('")),
            }
        })
    }

    fn range(&mut self) -> Result<ValueFilter, Error> {
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
        Ok(ValueFilter::Range { from, to, inclusive, input })
    }

    fn boolean(&mut self) -> Result<bool, Error> {
        match self.lexer.word() {
            Some("true") => Ok(true),
            Some("false") => Ok(false),
            _ => Err(self.lexer.expected("true or false")),
        }
    }

    fn name(&mut self) -> Result<String, Error> {
        match self.lexer.word() {
            Some(name) => Ok(name.to_owned()),
            None => Err(self.lexer.expected("a name")),
        }
    }

    /// Parses a text in quotes, or a name.
    fn text_or_name(&mut self, what: &str) -> Result<String, Error> {
        match self.lexer.string()? {
            Some(text) => Ok(text),
            None => match self.lexer.dashed_word() {
                Some(name) => Ok(name.to_owned()),
                None => Err(self.lexer.expected(what)),
            },
        }
    }

    fn parenthesised_name(&mut self) -> Result<String, Error> {
        self.parenthesised(|parser| parser.text_or_name("a name"))
    }

    fn parenthesised<T>(&mut self, inner: impl FnOnce(&mut Self) -> Result<T, Error>) -> Result<T, Error> {
        self.lexer.symbol('(')?;
        let value = inner(self)?;
        self.lexer.symbol(')')?;
        Ok(value)
    }

    /// Parses one or more of `inner`, separated by commas, in parentheses.
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
        if !self.depth.enter() {
            return Err(self.lexer.error(format!("this is nested deeper than {MAX_DEPTH} levels")));
        }
        let result = inner(self);
        self.depth.leave();
        result
    }

    fn count(&mut self) -> Result<(), Error> {
        self.parts += 1;
        if self.parts > MAX_PARTS {
            return Err(self.lexer.error(format!("expressions have more than {MAX_PARTS} parts")));
        }
        Ok(())
    }
}
