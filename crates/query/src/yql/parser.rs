//! YQL's grammar: tokens to a statement.

use millrace_cursor::NestingDepth;

use super::lexer::{YqlLexer, YqlToken};
use super::{MAX_DEPTH, YqlStatement, grouping};
use crate::syntax::{NumberComparison, SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{QuerySources, SortOrder};

pub(super) struct YqlParser<'a> {
    lexer: YqlLexer<'a>,
    token: YqlToken<'a>,
    /// Start of [`YqlParser::token`].
    at: usize,
    /// End of the previous token.
    previous_end: usize,
    depth: NestingDepth,
    /// Tokens read so far.
    tokens: usize,
    tokens_max: usize,
}

type Parsed<T> = Result<T, SyntaxFault>;

impl<'a> YqlParser<'a> {
    pub fn new(text: &'a str, tokens_max: usize) -> Parsed<Self> {
        let mut lexer = YqlLexer::new(text);
        let (at, token) = lexer.next()?;
        Ok(YqlParser {
            lexer,
            token,
            at,
            previous_end: 0,
            depth: NestingDepth::new(MAX_DEPTH),
            tokens: 1,
            tokens_max,
        })
    }

    pub fn statement(mut self) -> Parsed<YqlStatement> {
        const EXAMPLE: &str = "select * from sources * where title contains \"word\"";
        self.keyword("select", EXAMPLE)?;
        let fields = self.fields()?;
        self.keyword("from", EXAMPLE)?;
        let sources = self.sources()?;
        self.keyword("where", "… where title contains \"word\", or … where true for all documents")?;
        let root = self.expression()?;
        let mut statement = YqlStatement {
            fields,
            sources,
            root,
            order: Vec::new(),
            limit: None,
            offset: None,
            timeout: None,
            grouping: Vec::new(),
        };
        loop {
            let at = self.at;
            if self.take_keyword("order")? {
                self.keyword("by", "… order by date desc")?;
                statement.order = self.order()?;
            } else if self.take_keyword("limit")? {
                statement.limit = Some(self.amount("limit 10")?);
            } else if self.take_keyword("offset")? {
                statement.offset = Some(self.amount("offset 20")?);
            } else if self.take_keyword("timeout")? {
                statement.timeout = Some(self.amount("timeout 500, in milliseconds")?);
            } else if self.token == YqlToken::Mark("|") {
                statement.grouping = grouping::split(self.lexer.cursor.text(), self.lexer.cursor.offset())?;
                return Ok(statement);
            } else {
                let at = if self.take_mark(";")? { self.at } else { at };
                if self.token == YqlToken::End {
                    return Ok(statement);
                }
                let reason = match &self.token {
                    YqlToken::Word(word) if is_operator_typo(word) => format!(
                        "found '{word}'; the operators are contains, matches, in, =, <, >, <=, >=, and, or, !"
                    ),
                    token => format!(
                        "expected 'and', 'or', 'order by', 'limit', 'offset', 'timeout', '|' with grouping, or the end, found {token}"
                    ),
                };
                return Err(SyntaxFault::new(at, reason));
            }
        }
    }

    fn fields(&mut self) -> Parsed<Vec<String>> {
        if self.take_mark("*")? {
            return Ok(Vec::new());
        }
        let mut fields = vec![self.name("select title, date from …")?];
        while self.take_mark(",")? {
            fields.push(self.name("select title, date from …")?);
        }
        Ok(fields)
    }

    fn sources(&mut self) -> Parsed<QuerySources> {
        if self.take_mark("*")? {
            return Ok(QuerySources::All);
        }
        if self.take_keyword("sources")? && (self.take_mark("*")? || self.is_keyword("where")) {
            return Ok(QuerySources::All);
        }
        let mut names = vec![self.source()?];
        while self.take_mark(",")? {
            names.push(self.source()?);
        }
        Ok(QuerySources::Named(names))
    }

    /// A source by name; `name.*` is the same.
    fn source(&mut self) -> Parsed<String> {
        let mut name = self.word("from sources mail, notes")?.to_owned();
        while self.at == self.previous_end && self.take_mark(".")? {
            if self.take_mark("*")? {
                break;
            }
            name.push('.');
            name.push_str(self.word("from sources mail.*, notes")?);
        }
        Ok(name)
    }

    /// Sort keys of `order by`, each a name or call with its annotations.
    fn order(&mut self) -> Parsed<Vec<(SyntaxNode, SortOrder)>> {
        let mut keys = Vec::new();
        loop {
            let node = self.annotated(Self::sort_object)?;
            let order = if self.take_keyword("desc")? {
                SortOrder::Descending
            } else {
                self.take_keyword("asc")?;
                SortOrder::Ascending
            };
            keys.push((node, order));
            if !self.take_mark(",")? {
                return Ok(keys);
            }
        }
    }

    fn sort_object(&mut self) -> Parsed<SyntaxNode> {
        let at = self.at;
        if let YqlToken::String(text) = &self.token {
            let name = text.to_string();
            self.advance()?;
            return Ok(SyntaxNode::new(at, SyntaxForm::Name(name)));
        }
        let name = self.name("order by date desc, or order by \"[relevance]\" desc")?;
        if self.token != YqlToken::Mark("(") {
            return Ok(SyntaxNode::new(at, SyntaxForm::Name(name)));
        }
        let arguments = self.arguments(Self::sort_argument)?;
        Ok(SyntaxNode::new(at, SyntaxForm::Call(name, arguments)))
    }

    fn sort_argument(&mut self) -> Parsed<SyntaxNode> {
        if let YqlToken::Number(number) = self.token {
            let at = self.at;
            self.advance()?;
            return Ok(SyntaxNode::new(at, SyntaxForm::Number(number)));
        }
        self.nested(Self::sort_object)
    }

    fn amount(&mut self, example: &str) -> Parsed<SyntaxNode> {
        let at = self.at;
        let form = match &self.token {
            YqlToken::Number(number) => SyntaxForm::Number(*number),
            YqlToken::Parameter(name) => SyntaxForm::Parameter((*name).to_owned()),
            token => {
                return Err(SyntaxFault::new(
                    at,
                    format!("expected a whole number, found {token}; for example: {example}"),
                ));
            }
        };
        self.advance()?;
        Ok(SyntaxNode::new(at, form))
    }

    /// Parses conditions joined by `or` and `and`; annotations at the start apply to all of it.
    fn expression(&mut self) -> Parsed<SyntaxNode> {
        self.nested(|this| this.annotated(Self::disjunction))
    }

    fn disjunction(&mut self) -> Parsed<SyntaxNode> {
        let at = self.at;
        let first = self.conjunction()?;
        if !self.is_keyword("or") {
            return Ok(first);
        }
        let mut children = vec![first];
        while self.take_keyword("or")? {
            children.push(self.conjunction()?);
        }
        Ok(SyntaxNode::new(at, SyntaxForm::Or(children)))
    }

    fn conjunction(&mut self) -> Parsed<SyntaxNode> {
        let at = self.at;
        let first = self.condition()?;
        if !self.is_keyword("and") {
            return Ok(first);
        }
        let mut children = vec![first];
        while self.take_keyword("and")? {
            children.push(self.condition()?);
        }
        Ok(SyntaxNode::new(at, SyntaxForm::And(children)))
    }

    /// Parses one operand, or two with an operator between them.
    fn condition(&mut self) -> Parsed<SyntaxNode> {
        let at = self.at;
        let mut bangs = 0;
        while self.take_mark("!")? {
            bangs += 1;
        }
        let left = self.operand()?;
        let boxed = |left: SyntaxNode, right: SyntaxNode| (Box::new(left), Box::new(right));
        let form = match self.token {
            YqlToken::Word(word) if word.eq_ignore_ascii_case("contains") => {
                self.advance()?;
                let (left, right) = boxed(left, self.operand()?);
                SyntaxForm::Contains(left, right)
            }
            YqlToken::Word(word) if word.eq_ignore_ascii_case("matches") => {
                self.advance()?;
                let (left, right) = boxed(left, self.operand()?);
                SyntaxForm::Matches(left, right)
            }
            YqlToken::Word(word) if word.eq_ignore_ascii_case("in") => {
                self.advance()?;
                let values = if let YqlToken::Parameter(_) = self.token {
                    vec![self.operand()?]
                } else {
                    if self.token != YqlToken::Mark("(") {
                        return Err(self.unexpected(
                            "'(' with values",
                            "folder in (\"inbox\", \"sent\"), year in (2001, 2002) or folder in (@folders)",
                        ));
                    }
                    self.arguments(Self::operand)?
                };
                SyntaxForm::In(Box::new(left), values)
            }
            YqlToken::Mark(mark @ ("=" | "<" | ">" | "<=" | ">=")) => {
                self.advance()?;
                let comparison = match mark {
                    "=" => NumberComparison::Equal,
                    "<" => NumberComparison::Less,
                    ">" => NumberComparison::Greater,
                    "<=" => NumberComparison::LessOrEqual,
                    _ => NumberComparison::GreaterOrEqual,
                };
                let (left, right) = boxed(left, self.operand()?);
                SyntaxForm::Compare(comparison, left, right)
            }
            YqlToken::Word(_) if matches!(&left.form, SyntaxForm::Name(name) if is_negation(name)) => {
                return Err(SyntaxFault::new(at, NEGATION));
            }
            _ => return Ok(negated(at, bangs, left)),
        };
        Ok(negated(at, bangs, SyntaxNode::new(at, form)))
    }

    fn operand(&mut self) -> Parsed<SyntaxNode> {
        self.nested(|this| this.annotated(Self::bare_operand))
    }

    fn bare_operand(&mut self) -> Parsed<SyntaxNode> {
        let at = self.at;
        let form = match &self.token {
            YqlToken::Number(number) => SyntaxForm::Number(*number),
            YqlToken::String(text) => SyntaxForm::String(text.to_string()),
            YqlToken::Parameter(name) => SyntaxForm::Parameter((*name).to_owned()),
            YqlToken::Mark("(") => {
                self.advance()?;
                let inner = self.expression()?;
                self.mark(")", "( a contains \"x\" or b contains \"y\" )")?;
                return Ok(inner);
            }
            YqlToken::Mark("!") => {
                self.advance()?;
                return Ok(negated(at, 1, self.operand()?));
            }
            // A sign beside its number is part of that token: this one stands apart, or before a parameter.
            YqlToken::Mark("-") => {
                self.advance()?;
                let number = self.nested(Self::bare_operand)?;
                return Ok(SyntaxNode::new(at, SyntaxForm::Negative(Box::new(number))));
            }
            YqlToken::Word(word) if word.eq_ignore_ascii_case("true") => SyntaxForm::Bool(true),
            YqlToken::Word(word) if word.eq_ignore_ascii_case("false") => SyntaxForm::Bool(false),
            YqlToken::Word(word) if word.eq_ignore_ascii_case("infinity") => {
                SyntaxForm::Number(crate::QueryNumber::Float(f64::INFINITY))
            }
            YqlToken::Word(_) => return self.name_or_call(),
            _ => {
                return Err(self.unexpected(
                    "a condition or a value",
                    "title contains \"word\" and (year > 2000 or !(folder contains \"spam\"))",
                ));
            }
        };
        self.advance()?;
        Ok(SyntaxNode::new(at, form))
    }

    /// Parses `field`, `field.member`, `field{key}`, `field[2]`, or `function(…)`.
    fn name_or_call(&mut self) -> Parsed<SyntaxNode> {
        let at = self.at;
        let mut name = self.name("title contains \"word\"")?;
        if self.token == YqlToken::Mark("(") {
            if is_negation(&name) {
                return Err(SyntaxFault::new(at, NEGATION));
            }
            let arguments = self.arguments(Self::expression)?;
            return Ok(SyntaxNode::new(at, SyntaxForm::Call(name, arguments)));
        }
        while self.at == self.previous_end && self.token == YqlToken::Mark("{") {
            self.advance()?;
            let key = match &self.token {
                YqlToken::String(key) => key.to_string(),
                YqlToken::Word(key) => (*key).to_owned(),
                YqlToken::Number(key) => key.to_string(),
                _ => return Err(self.unexpected("a key", "properties{\"color\"} contains \"red\"")),
            };
            self.advance()?;
            self.mark("}", "properties{\"color\"} contains \"red\"")?;
            name = format!("{name}{{{key}}}");
            while self.at == self.previous_end && self.take_mark(".")? {
                name = format!("{name}.{}", self.word("properties{\"color\"}.name")?);
            }
        }
        if self.at == self.previous_end && self.token == YqlToken::Mark("[") {
            self.advance()?;
            let index = match self.token {
                YqlToken::Number(crate::QueryNumber::Integer(index)) => u32::try_from(index).ok(),
                _ => None,
            };
            let Some(index) = index else {
                return Err(self.unexpected("an index from 0", "numbers[2] = 42"));
            };
            self.advance()?;
            self.mark("]", "numbers[2] = 42")?;
            return Ok(SyntaxNode::new(at, SyntaxForm::Element(name, index)));
        }
        Ok(SyntaxNode::new(at, SyntaxForm::Name(name)))
    }

    fn arguments(&mut self, argument: fn(&mut Self) -> Parsed<SyntaxNode>) -> Parsed<Vec<SyntaxNode>> {
        self.mark("(", "phrase(\"new\", \"york\")")?;
        let mut arguments = Vec::new();
        if self.take_mark(")")? {
            return Ok(arguments);
        }
        loop {
            arguments.push(argument(self)?);
            if self.take_mark(")")? {
                return Ok(arguments);
            }
            if !self.take_mark(",")? {
                return Err(self.unexpected("',' or ')'", "phrase(\"new\", \"york\")"));
            }
        }
    }

    /// Parses `inner` with the annotations before it: `{…}`, or the older `[{…}]`. A list or map without a
    /// following operand is a value.
    fn annotated(&mut self, inner: fn(&mut Self) -> Parsed<SyntaxNode>) -> Parsed<SyntaxNode> {
        let at = self.at;
        if !matches!(self.token, YqlToken::Mark("{" | "[")) {
            return inner(self);
        }
        let literal = self.literal()?;
        if matches!(self.token, YqlToken::Mark("," | ")" | "]" | "}" | ";" | "|") | YqlToken::End) {
            return Ok(literal);
        }
        let annotations = match literal.form {
            SyntaxForm::Map(entries) => entries,
            SyntaxForm::List(items) => {
                let mut entries = Vec::new();
                for item in items {
                    match item.form {
                        SyntaxForm::Map(more) => entries.extend(more),
                        _ => {
                            return Err(SyntaxFault::new(
                                item.at,
                                "expected an annotation, as in {stem: false}\"word\"",
                            ));
                        }
                    }
                }
                entries
            }
            _ => return Err(SyntaxFault::new(at, "expected an annotation, as in {stem: false}\"word\"")),
        };
        let mut node = self.nested(|this| this.annotated(inner))?;
        node.annotations.splice(0..0, annotations);
        Ok(node)
    }

    /// Parses a number, string, truth value, parameter, name, list or map.
    fn literal(&mut self) -> Parsed<SyntaxNode> {
        self.nested(Self::bare_literal)
    }

    fn bare_literal(&mut self) -> Parsed<SyntaxNode> {
        let at = self.at;
        if self.take_mark("[")? {
            let mut items = Vec::new();
            if self.take_mark("]")? {
                return Ok(SyntaxNode::new(at, SyntaxForm::List(items)));
            }
            loop {
                items.push(self.literal()?);
                if self.take_mark("]")? {
                    return Ok(SyntaxNode::new(at, SyntaxForm::List(items)));
                }
                if !self.take_mark(",")? {
                    return Err(self.unexpected("',' or ']'", "[[11, 1], [37, 2]]"));
                }
            }
        }
        if self.take_mark("{")? {
            return self.map(at);
        }
        let form = match &self.token {
            YqlToken::Number(number) => SyntaxForm::Number(*number),
            YqlToken::String(text) => SyntaxForm::String(text.to_string()),
            YqlToken::Parameter(name) => SyntaxForm::Parameter((*name).to_owned()),
            YqlToken::Word(word) => match word.to_ascii_lowercase().as_str() {
                "true" => SyntaxForm::Bool(true),
                "false" => SyntaxForm::Bool(false),
                "infinity" => SyntaxForm::Number(crate::QueryNumber::Float(f64::INFINITY)),
                _ => SyntaxForm::Name((*word).to_owned()),
            },
            _ => return Err(self.unexpected("a value", "{weight: 200, stem: false, label: \"title\"}")),
        };
        self.advance()?;
        Ok(SyntaxNode::new(at, form))
    }

    /// Parses the entries of a map after its `{`.
    fn map(&mut self, at: usize) -> Parsed<SyntaxNode> {
        const EXAMPLE: &str = "{weight: 200, \"stem\": false}";
        let mut entries = Vec::new();
        if self.take_mark("}")? {
            return Ok(SyntaxNode::new(at, SyntaxForm::Map(entries)));
        }
        loop {
            let key = match &self.token {
                YqlToken::String(key) => {
                    let key = key.to_string();
                    self.advance()?;
                    key
                }
                YqlToken::Number(key) => {
                    let key = key.to_string();
                    self.advance()?;
                    key
                }
                _ => self.name(EXAMPLE)?,
            };
            self.mark(":", EXAMPLE)?;
            entries.push((key, self.literal()?));
            if self.take_mark("}")? {
                return Ok(SyntaxNode::new(at, SyntaxForm::Map(entries)));
            }
            if !self.take_mark(",")? {
                return Err(self.unexpected("',' or '}'", EXAMPLE));
            }
        }
    }

    /// Parses words joined by dots.
    fn name(&mut self, example: &str) -> Parsed<String> {
        let mut name = self.word(example)?.to_owned();
        while self.at == self.previous_end && self.take_mark(".")? {
            name.push('.');
            name.push_str(self.word(example)?);
        }
        Ok(name)
    }

    fn word(&mut self, example: &str) -> Parsed<&'a str> {
        match self.token {
            YqlToken::Word(word) => {
                self.advance()?;
                Ok(word)
            }
            _ => Err(self.unexpected("a name", example)),
        }
    }

    fn nested<T>(&mut self, inner: impl FnOnce(&mut Self) -> Parsed<T>) -> Parsed<T> {
        if !self.depth.enter() {
            return Err(SyntaxFault::new(
                self.at,
                "nested too deeply; a list of many alternatives is shorter as: folder in (\"a\", \"b\")",
            ));
        }
        let result = inner(self);
        self.depth.leave();
        result
    }

    fn advance(&mut self) -> Parsed<()> {
        self.previous_end = self.lexer.cursor.offset();
        self.tokens += 1;
        let tokens_max = self.tokens_max;
        if self.tokens > tokens_max {
            let reason =
                format!("the statement has more than {tokens_max} words and signs; ask in several queries");
            return Err(SyntaxFault::new(self.at, reason));
        }
        (self.at, self.token) = self.lexer.next()?;
        Ok(())
    }

    fn is_keyword(&self, keyword: &str) -> bool {
        matches!(self.token, YqlToken::Word(word) if word.eq_ignore_ascii_case(keyword))
    }

    fn take_keyword(&mut self, keyword: &str) -> Parsed<bool> {
        let found = self.is_keyword(keyword);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn keyword(&mut self, keyword: &str, example: &str) -> Parsed<()> {
        if self.take_keyword(keyword)? {
            Ok(())
        } else {
            Err(self.unexpected(&format!("'{keyword}'"), example))
        }
    }

    fn take_mark(&mut self, mark: &'static str) -> Parsed<bool> {
        let found = self.token == YqlToken::Mark(mark);
        if found {
            self.advance()?;
        }
        Ok(found)
    }

    fn mark(&mut self, mark: &'static str, example: &str) -> Parsed<()> {
        if self.take_mark(mark)? { Ok(()) } else { Err(self.unexpected(&format!("'{mark}'"), example)) }
    }

    fn unexpected(&self, expected: &str, example: &str) -> SyntaxFault {
        SyntaxFault::new(
            self.at,
            format!("expected {expected}, found {}; for example: {example}", self.token),
        )
    }
}

fn negated(at: usize, bangs: usize, node: SyntaxNode) -> SyntaxNode {
    if bangs % 2 == 1 { SyntaxNode::new(at, SyntaxForm::Not(Box::new(node))) } else { node }
}

/// Error for the negation of other languages.
const NEGATION: &str = "a condition is negated by '!', as in: true and !(folder contains \"spam\")";

/// True for the negation of other languages.
fn is_negation(word: &str) -> bool {
    word.eq_ignore_ascii_case("not")
}

/// True for operators of other languages that are spelled differently in YQL.
fn is_operator_typo(word: &str) -> bool {
    ["like", "not", "is", "between", "has", "contain", "match", "equals", "having", "group"]
        .iter()
        .any(|other| word.eq_ignore_ascii_case(other))
}
