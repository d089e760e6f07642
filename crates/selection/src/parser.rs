//! The grammar, from lowest to highest precedence. Conditions and values share parentheses, so one chain of
//! functions parses both; if one is needed and the other found, it is converted or rejected.
//!
//! ```text
//! or         = and { "or" and }
//! and        = not { "and" not }
//! not        = "not" not | comparison
//! comparison = sum [ ("==" | "!=" | "<" | "<=" | ">" | ">=" | "=" | "=~") sum | "in" "(" sum { "," sum } ")" ]
//! sum        = product { ("+" | "-") product }
//! product    = remainder { ("*" | "/") remainder }
//! remainder  = value { "%" value }
//! value      = ( literal | "id" part | type path | "now()" | "(" or ")" ) { "." function "()" }
//! ```

mod literals;

use std::ops::Range;

use millrace_cursor::{NestingDepth, TextCursor};
use regex::RegexBuilder;

use crate::expression::{
    FieldReference, IdLiteral, IdPart, SelectionArithmetic, SelectionComparison, SelectionCondition,
    SelectionFunction, SelectionOperand, SelectionOperator, SelectionStep,
};
use crate::{DocumentSelection, Error};

/// Maximum nesting of parentheses and `not`, and maximum number of value operators in one selection: each
/// nests the operands before it.
const DEPTH: usize = 64;
const OPERATORS: usize = 256;

/// Size limit of a compiled pattern, so that a hostile one cannot use much memory.
const PATTERN_BYTES: usize = 1 << 20;

impl DocumentSelection {
    /// Parses a selection. An empty text selects everything.
    ///
    /// # Errors
    /// [`Error::Syntax`] with the position of the first invalid character.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let mut parser = SelectionParser {
            cursor: TextCursor::new(text),
            depth: NestingDepth::new(DEPTH),
            operators: 0,
            last_text: 0..0,
            id_literals: Vec::new(),
        };
        parser.cursor.skip_blanks();
        let root = if parser.cursor.is_at_end() {
            SelectionCondition::Constant(true)
        } else {
            let parsed = parser.or()?;
            parser.condition(parsed)?
        };
        parser.cursor.skip_blanks();
        if !parser.cursor.is_at_end() {
            return Err(parser.fail("expected 'and', 'or' or the end"));
        }
        Ok(DocumentSelection { text: text.to_owned(), root, id_literals: parser.id_literals })
    }
}

/// A parsed condition, or a value with its start.
enum ParsedPart {
    Condition(SelectionCondition),
    Operand(SelectionOperand, usize),
}

struct SelectionParser<'t> {
    cursor: TextCursor<'t>,
    depth: NestingDepth,
    operators: usize,
    /// Position of the last text that is a value.
    last_text: Range<usize>,
    id_literals: Vec<IdLiteral>,
}

impl<'t> SelectionParser<'t> {
    fn or(&mut self) -> Result<ParsedPart, Error> {
        self.junction("or", Self::and, SelectionCondition::Or)
    }

    fn and(&mut self) -> Result<ParsedPart, Error> {
        self.junction("and", Self::not, SelectionCondition::And)
    }

    fn junction(
        &mut self,
        keyword: &str,
        part: fn(&mut Self) -> Result<ParsedPart, Error>,
        join: fn(Vec<SelectionCondition>) -> SelectionCondition,
    ) -> Result<ParsedPart, Error> {
        let first = part(self)?;
        if !self.sees_keyword(keyword) {
            return Ok(first);
        }
        let mut parts = vec![self.condition(first)?];
        while self.eat_keyword(keyword) {
            let next = part(self)?;
            parts.push(self.condition(next)?);
        }
        Ok(ParsedPart::Condition(join(parts)))
    }

    fn not(&mut self) -> Result<ParsedPart, Error> {
        if !self.eat_keyword("not") {
            return self.comparison();
        }
        self.enter_level()?;
        let inner = self.not()?;
        self.depth.leave();
        Ok(ParsedPart::Condition(SelectionCondition::Not(Box::new(self.condition(inner)?))))
    }

    fn comparison(&mut self) -> Result<ParsedPart, Error> {
        let left = self.sum()?;
        if self.eat_keyword("in") {
            return self.membership(left);
        }
        // Longest first, so that `==` is not parsed as `=`.
        let operators = [
            ("==", SelectionOperator::Equal),
            ("!=", SelectionOperator::NotEqual),
            ("<=", SelectionOperator::LessOrEqual),
            (">=", SelectionOperator::GreaterOrEqual),
            ("=~", SelectionOperator::Regex),
            ("<", SelectionOperator::Less),
            (">", SelectionOperator::Greater),
            ("=", SelectionOperator::Glob),
        ];
        let Some((_, operator)) = operators.into_iter().find(|(symbol, _)| self.cursor.take(symbol)) else {
            return Ok(left);
        };
        let left = self.operand(left)?;
        let left_text = self.last_text.clone();
        let offset = self.cursor.offset();
        let right = self.sum()?;
        let right = self.operand(right)?;
        self.note_id_literal(&left, left_text, operator, &right);
        let pattern = match (operator, &right) {
            (SelectionOperator::Regex, SelectionOperand::Text(pattern)) => {
                let built = RegexBuilder::new(pattern).size_limit(PATTERN_BYTES).build();
                Some(built.map_err(|error| {
                    // The last line holds the reason, below a drawing of the position.
                    let text = error.to_string();
                    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    self.fail_at(offset, &format!("{pattern:?} is not a regular expression: {reason}"))
                })?)
            }
            _ => None,
        };
        Ok(ParsedPart::Condition(SelectionCondition::Compare(Box::new(SelectionComparison {
            left,
            operator,
            right,
            pattern,
        }))))
    }

    /// Parses `(value, value)` after `in`: equal to one of them.
    fn membership(&mut self, left: ParsedPart) -> Result<ParsedPart, Error> {
        let left = self.operand(left)?;
        let left_text = self.last_text.clone();
        self.expect("(")?;
        let mut parts = Vec::new();
        loop {
            let right = self.sum()?;
            let right = self.operand(right)?;
            self.note_id_literal(&left, left_text.clone(), SelectionOperator::Equal, &right);
            let comparison = SelectionComparison {
                left: left.clone(),
                operator: SelectionOperator::Equal,
                right,
                pattern: None,
            };
            parts.push(SelectionCondition::Compare(Box::new(comparison)));
            if self.cursor.take(")") {
                return Ok(ParsedPart::Condition(SelectionCondition::Or(parts)));
            }
            self.expect(",")?;
        }
    }

    /// Notes the text of a comparison of it with the whole id. `left_text` is the last text before the
    /// operator, which the left operand is if it is a text.
    fn note_id_literal(
        &mut self,
        left: &SelectionOperand,
        left_text: Range<usize>,
        operator: SelectionOperator,
        right: &SelectionOperand,
    ) {
        let (text, range, is_pattern) = match (left, operator, right) {
            (_, SelectionOperator::Regex, _) => return,
            (SelectionOperand::Id(IdPart::Whole), operator, SelectionOperand::Text(text)) => {
                (text, self.last_text.clone(), operator == SelectionOperator::Glob)
            }
            (SelectionOperand::Text(text), operator, SelectionOperand::Id(IdPart::Whole))
                if operator != SelectionOperator::Glob =>
            {
                (text, left_text, false)
            }
            _ => return,
        };
        self.id_literals.push(IdLiteral { range, text: text.clone(), is_pattern });
    }

    fn sum(&mut self) -> Result<ParsedPart, Error> {
        self.chain(Self::product, &[("+", SelectionArithmetic::Add), ("-", SelectionArithmetic::Subtract)])
    }

    fn product(&mut self) -> Result<ParsedPart, Error> {
        self.chain(
            Self::remainder,
            &[("*", SelectionArithmetic::Multiply), ("/", SelectionArithmetic::Divide)],
        )
    }

    fn remainder(&mut self) -> Result<ParsedPart, Error> {
        self.chain(Self::value, &[("%", SelectionArithmetic::Remainder)])
    }

    fn chain(
        &mut self,
        part: fn(&mut Self) -> Result<ParsedPart, Error>,
        operators: &[(&str, SelectionArithmetic)],
    ) -> Result<ParsedPart, Error> {
        let offset = self.cursor.offset();
        let mut left = part(self)?;
        while let Some((_, operator)) = operators.iter().find(|(symbol, _)| self.cursor.take(symbol)) {
            self.count_operator()?;
            let (first, right) = (self.operand(left)?, part(self)?);
            let right = self.operand(right)?;
            left = ParsedPart::Operand(
                SelectionOperand::Arithmetic(*operator, Box::new(first), Box::new(right)),
                offset,
            );
        }
        Ok(left)
    }

    fn value(&mut self) -> Result<ParsedPart, Error> {
        self.cursor.skip_blanks();
        let offset = self.cursor.offset();
        let mut parsed = if self.cursor.take("(") {
            self.enter_level()?;
            let inner = self.or()?;
            self.depth.leave();
            self.expect(")")?;
            inner
        } else {
            ParsedPart::Operand(self.plain_value()?, offset)
        };
        while let Some(function) = self.function()? {
            self.count_operator()?;
            let inner = self.operand(parsed)?;
            parsed = ParsedPart::Operand(SelectionOperand::Call(function, Box::new(inner)), offset);
        }
        Ok(parsed)
    }

    fn plain_value(&mut self) -> Result<SelectionOperand, Error> {
        match self.cursor.peek() {
            Some('"' | '\'') => {
                let start = self.cursor.offset();
                let text = self.text_literal()?;
                self.last_text = start..self.cursor.offset();
                Ok(SelectionOperand::Text(text))
            }
            Some(c) if c.is_ascii_digit() || c == '-' || c == '+' || c == '.' => self.number(),
            Some(c) if c.is_alphabetic() || c == '_' => self.named_value(),
            Some('$') => Err(self.fail("a variable stands in a field path, as in music.tags[$x]")),
            Some(c) => Err(self.fail(&format!("expected a value, got '{c}'"))),
            None => Err(self.fail("expected a value before the end")),
        }
    }

    fn named_value(&mut self) -> Result<SelectionOperand, Error> {
        let start = self.cursor.offset();
        let name = self.name();
        match name.to_ascii_lowercase().as_str() {
            "null" => return Ok(SelectionOperand::Null),
            "true" => return Ok(SelectionOperand::Bool(true)),
            "false" => return Ok(SelectionOperand::Bool(false)),
            "id" => return self.id_part().map(SelectionOperand::Id),
            "and" | "or" | "not" | "in" => {
                self.cursor.go_to(start);
                return Err(self.fail(&format!("expected a value, got '{name}'")));
            }
            "now" if self.cursor.take("(") => {
                self.expect(")")?;
                return Ok(SelectionOperand::Now);
            }
            _ => {}
        }
        if !self.skip_to_dot() {
            return Ok(SelectionOperand::Type(name.to_owned()));
        }
        self.cursor.skip(1);
        self.cursor.skip_blanks();
        let offset = self.cursor.offset();
        let field = self.name();
        if field.is_empty() {
            return Err(self.fail(&format!("expected a field after '{name}.'")));
        }
        if self.cursor.take_here("()") {
            if field == "version" {
                return Ok(SelectionOperand::Version(name.to_owned()));
            }
            self.cursor.go_to(offset);
            return Err(self.fail(&format!("a document type has version(), not {field}()")));
        }
        let steps = self.steps()?;
        Ok(SelectionOperand::Field(FieldReference {
            document_type: name.to_owned(),
            heirs: Vec::new(),
            field: field.to_owned(),
            steps,
        }))
    }

    /// Parses any number of `.member`, `{key}` and `[index]`.
    fn steps(&mut self) -> Result<Vec<SelectionStep>, Error> {
        let mut steps = Vec::new();
        loop {
            if steps.len() > DEPTH {
                return Err(self.fail(&format!("a field path has more than {DEPTH} steps")));
            }
            self.skip_to_dot();
            match self.cursor.peek() {
                Some('.') => {
                    let start = self.cursor.offset();
                    self.cursor.skip(1);
                    self.cursor.skip_blanks();
                    let member = self.name();
                    if member.is_empty() || self.cursor.rest().starts_with('(') {
                        // A function of the value, not a member.
                        self.cursor.go_to(start);
                        return Ok(steps);
                    }
                    steps.push(SelectionStep::Member(member.to_owned()));
                }
                Some('{') => {
                    self.cursor.skip(1);
                    steps.push(self.key()?);
                }
                Some('[') => {
                    self.cursor.skip(1);
                    let inner = self.until(']')?.trim();
                    steps.push(match inner.strip_prefix('$') {
                        Some(variable) => self.variable(variable)?,
                        None => SelectionStep::Index(
                            inner.parse().map_err(|_| self.fail(&format!("'{inner}' is not an index")))?,
                        ),
                    });
                }
                _ => return Ok(steps),
            }
        }
    }

    /// Parses the text after `{`: a key, with or without quotes, or a variable.
    fn key(&mut self) -> Result<SelectionStep, Error> {
        self.cursor.skip_blanks();
        if self.cursor.rest().starts_with('"') {
            let key = self.text_literal()?;
            self.expect("}")?;
            return Ok(SelectionStep::Key(key));
        }
        let key = self.until('}')?.trim_end();
        match key.strip_prefix('$') {
            Some(variable) => self.variable(variable),
            None => Ok(SelectionStep::Key(key.to_owned())),
        }
    }

    fn variable(&self, name: &str) -> Result<SelectionStep, Error> {
        if name.is_empty() || name.contains(|c: char| !c.is_alphanumeric() && c != '_') {
            return Err(self.fail(&format!("'${name}' is not a variable: expected a name after '$'")));
        }
        Ok(SelectionStep::Variable(name.to_owned()))
    }

    fn until(&mut self, end: char) -> Result<&'t str, Error> {
        let rest = self.cursor.rest();
        let length = rest.find(end).ok_or_else(|| self.fail(&format!("expected '{end}'")))?;
        self.cursor.skip(length + 1);
        Ok(&rest[..length])
    }

    fn id_part(&mut self) -> Result<IdPart, Error> {
        let start = self.cursor.offset();
        if !self.cursor.take_here(".") {
            return Ok(IdPart::Whole);
        }
        let part = self.name();
        if self.cursor.rest().starts_with('(') {
            // A function of the whole id.
            self.cursor.go_to(start);
            return Ok(IdPart::Whole);
        }
        match part.to_ascii_lowercase().as_str() {
            "scheme" => Ok(IdPart::Scheme),
            "namespace" => Ok(IdPart::Namespace),
            "type" => Ok(IdPart::Type),
            "specific" => Ok(IdPart::Specific),
            "user" => Ok(IdPart::User),
            "group" => Ok(IdPart::Group),
            "bucket" => Ok(IdPart::Bucket),
            "gid" => Ok(IdPart::GlobalId),
            _ => {
                self.cursor.go_to(start + 1);
                Err(self.fail("an id has scheme, namespace, type, specific, user, group, bucket and gid"))
            }
        }
    }

    /// Parses `.name()` after a value.
    fn function(&mut self) -> Result<Option<SelectionFunction>, Error> {
        if !self.skip_to_dot() {
            return Ok(None);
        }
        let start = self.cursor.offset();
        self.cursor.skip(1);
        self.cursor.skip_blanks();
        let function = match self.name().to_ascii_lowercase().as_str() {
            "abs" => SelectionFunction::Abs,
            "hash" => SelectionFunction::Hash,
            "lowercase" => SelectionFunction::Lowercase,
            _ => {
                self.cursor.go_to(start);
                return Err(self.fail("a value has the functions abs(), hash() and lowercase()"));
            }
        };
        self.expect("(")?;
        self.expect(")")?;
        Ok(Some(function))
    }

    fn condition(&self, parsed: ParsedPart) -> Result<SelectionCondition, Error> {
        match parsed {
            ParsedPart::Condition(condition) => Ok(condition),
            ParsedPart::Operand(SelectionOperand::Bool(value), _) => Ok(SelectionCondition::Constant(value)),
            ParsedPart::Operand(SelectionOperand::Type(name), _) => Ok(SelectionCondition::Type(name)),
            ParsedPart::Operand(field @ SelectionOperand::Field(_), _) => {
                Ok(SelectionCondition::Compare(Box::new(SelectionComparison {
                    left: field,
                    operator: SelectionOperator::NotEqual,
                    right: SelectionOperand::Null,
                    pattern: None,
                })))
            }
            ParsedPart::Operand(_, offset) => {
                Err(self.fail_at(offset, "expected a comparison, got a value alone"))
            }
        }
    }

    fn operand(&self, parsed: ParsedPart) -> Result<SelectionOperand, Error> {
        match parsed {
            ParsedPart::Operand(SelectionOperand::Type(name), offset) => Err(self
                .fail_at(offset, &format!("expected a value; write {name}.field, or \"{name}\" for a text"))),
            ParsedPart::Operand(operand, _) => Ok(operand),
            ParsedPart::Condition(_) => Err(self.fail("expected a value, got a condition")),
        }
    }

    fn enter_level(&mut self) -> Result<(), Error> {
        if self.depth.enter() { Ok(()) } else { Err(self.fail(&format!("it is nested deeper than {DEPTH}"))) }
    }

    fn count_operator(&mut self) -> Result<(), Error> {
        self.operators += 1;
        if self.operators > OPERATORS {
            return Err(
                self.fail(&format!("it has more than {OPERATORS} arithmetic operators and functions"))
            );
        }
        Ok(())
    }

    /// Reads letters, digits and underscores; may be empty.
    fn name(&mut self) -> &'t str {
        self.cursor.take_while(|c| c.is_alphanumeric() || c == '_')
    }

    fn sees_keyword(&mut self, keyword: &str) -> bool {
        self.cursor.skip_blanks();
        let rest = self.cursor.rest();
        rest.get(..keyword.len()).is_some_and(|word| word.eq_ignore_ascii_case(keyword))
            && !rest[keyword.len()..].starts_with(|c: char| c.is_alphanumeric() || c == '_' || c == '.')
    }

    fn eat_keyword(&mut self, keyword: &str) -> bool {
        let seen = self.sees_keyword(keyword);
        if seen {
            self.cursor.skip(keyword.len());
        }
        seen
    }

    /// Skips spaces before a dot; returns true if one is next.
    fn skip_to_dot(&mut self) -> bool {
        let seen = self.cursor.rest().trim_start().starts_with('.');
        if seen {
            self.cursor.skip_blanks();
        }
        seen
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.cursor.take(symbol) { Ok(()) } else { Err(self.fail(&format!("expected '{symbol}'"))) }
    }

    fn fail(&self, reason: &str) -> Error {
        self.fail_at(self.cursor.offset(), reason)
    }

    fn fail_at(&self, at: usize, reason: &str) -> Error {
        Error::Syntax {
            selection: self.cursor.text().to_owned(),
            reason: reason.to_owned(),
            character: self.cursor.character_at(at),
        }
    }
}
