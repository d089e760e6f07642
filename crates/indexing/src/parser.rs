//! The grammar, from lowest to highest precedence:
//!
//! ```text
//! script     = statement { ";" statement }
//! statement  = choice { "|" choice }
//! choice     = concat { "||" concat }
//! concat     = sum { "." sum }
//! sum        = product { ("+" | "-") product }
//! product    = primary { ("*" | "/" | "%") primary }
//! primary    = literal | "_" | "(" statement ")" | "{" script "}" | name arguments
//! ```

mod expressions;

use millrace_cursor::NestingDepth;
use millrace_document::DocumentValue;
use millrace_schema::{SourcePosition, SourcedText};

use self::expressions::EXPRESSIONS;
pub use self::expressions::{IndexingKeyword, indexing_keywords};
use crate::lexer::{self, IndexingToken, IndexingTokenKind};
use crate::script::{BinaryOperator, IndexingExpression, IndexingScript, IndexingStatement, IndexingStep};
use crate::{ComponentCall, Error};

/// Maximum nesting of parentheses and braces, and maximum number of operators in one script: each nests the
/// operands before it.
const DEPTH: usize = 64;
const OPERATORS: usize = 256;
const STEPS: usize = 256;

/// Parses the statements of the field `field`; outputs without a name write to it.
pub(crate) fn parse(source: &SourcedText<String>, field: &str) -> Result<IndexingScript, Error> {
    let fail = |(offset, reason)| Error::Script {
        position: lexer::position(source, offset),
        field: field.to_owned(),
        reason,
    };
    let tokens = lexer::tokens(&source.value).map_err(fail)?;
    let mut parser =
        IndexingParser { source, field, tokens, at: 0, depth: NestingDepth::new(DEPTH), operators: 0 };
    let script = parser.script()?;
    parser.expect_end()?;
    Ok(script)
}

pub(crate) struct IndexingParser<'a> {
    source: &'a SourcedText<String>,
    field: &'a str,
    tokens: Vec<IndexingToken>,
    at: usize,
    depth: NestingDepth,
    operators: usize,
}

impl IndexingParser<'_> {
    fn script(&mut self) -> Result<IndexingScript, Error> {
        let mut script = IndexingScript::default();
        loop {
            while self.eat(";") {}
            if self.sees("}") || self.peek().kind == IndexingTokenKind::End {
                return Ok(script);
            }
            script.statements.push(self.statement()?);
            if !self.sees("}") && self.peek().kind != IndexingTokenKind::End {
                // A block ends its statement like a semicolon.
                let after_block =
                    self.at > 0 && self.tokens[self.at - 1].kind == IndexingTokenKind::Symbol("}");
                if !self.eat(";") && !after_block {
                    return Err(self.unexpected("'|' or ';'"));
                }
            }
        }
    }

    fn statement(&mut self) -> Result<IndexingStatement, Error> {
        let mut steps = vec![self.choice()?];
        while self.eat("|") {
            if steps.len() >= STEPS {
                return Err(self.fail(format!("a statement has more than {STEPS} steps; what is it to do?")));
            }
            steps.push(self.choice()?);
        }
        Ok(IndexingStatement { steps })
    }

    fn choice(&mut self) -> Result<IndexingStep, Error> {
        let position = self.position();
        let mut steps = vec![self.concat()?];
        while self.eat("||") {
            steps.push(self.concat()?);
        }
        match steps.pop() {
            Some(only) if steps.is_empty() => Ok(only),
            last => {
                steps.extend(last);
                Ok(IndexingStep { expression: IndexingExpression::Choice(steps), position })
            }
        }
    }

    fn concat(&mut self) -> Result<IndexingStep, Error> {
        let position = self.position();
        let first = self.sum()?;
        if !self.sees(".") {
            return Ok(first);
        }
        let mut parts = vec![first];
        while self.sees(".") {
            self.operator()?;
            parts.push(self.sum()?);
        }
        Ok(IndexingStep { expression: IndexingExpression::Concat { parts, collects: false }, position })
    }

    fn sum(&mut self) -> Result<IndexingStep, Error> {
        self.chain(Self::product, &[("+", BinaryOperator::Add), ("-", BinaryOperator::Subtract)])
    }

    fn product(&mut self) -> Result<IndexingStep, Error> {
        let operators = [
            ("*", BinaryOperator::Multiply),
            ("/", BinaryOperator::Divide),
            ("%", BinaryOperator::Remainder),
        ];
        self.chain(Self::primary, &operators)
    }

    fn chain(
        &mut self,
        operand: fn(&mut Self) -> Result<IndexingStep, Error>,
        operators: &[(&str, BinaryOperator)],
    ) -> Result<IndexingStep, Error> {
        let mut left = operand(self)?;
        while let Some((_, operator)) = operators.iter().find(|(symbol, _)| self.sees(symbol)) {
            let position = self.operator()?;
            let right = operand(self)?;
            left = IndexingStep {
                expression: IndexingExpression::Binary(*operator, Box::new(left), Box::new(right)),
                position,
            };
        }
        Ok(left)
    }

    /// Consumes an operator; returns its location.
    fn operator(&mut self) -> Result<SourcePosition, Error> {
        self.operators += 1;
        if self.operators > OPERATORS {
            return Err(self.fail(format!("there are more than {OPERATORS} operators; use for_each or join")));
        }
        let position = self.position();
        self.at += 1;
        Ok(position)
    }

    fn primary(&mut self) -> Result<IndexingStep, Error> {
        if !self.depth.enter() {
            return Err(self.fail(format!("expressions are nested deeper than {DEPTH}")));
        }
        let position = self.position();
        let token = self.peek().clone();
        self.at += 1;
        let expression = match token.kind {
            IndexingTokenKind::Text(text) => IndexingExpression::Constant(DocumentValue::String(text)),
            IndexingTokenKind::Symbol(sign @ ("-" | "+")) => {
                let negated =
                    number(&self.peek().kind, sign == "-").ok_or_else(|| self.unexpected("a number"))?;
                self.at += 1;
                IndexingExpression::Constant(negated)
            }
            IndexingTokenKind::Symbol("(") => {
                let statement = self.statement()?;
                self.expect(")")?;
                IndexingExpression::Nested(IndexingScript { statements: vec![statement] })
            }
            IndexingTokenKind::Symbol("{") => {
                let script = self.script()?;
                self.expect("}")?;
                IndexingExpression::Nested(script)
            }
            IndexingTokenKind::Name(name) => self.named(&name)?,
            kind => match number(&kind, false) {
                Some(number) => IndexingExpression::Constant(number),
                None => {
                    self.at -= 1;
                    return Err(self.unexpected("an expression, such as 'input title'"));
                }
            },
        };
        self.depth.leave();
        Ok(IndexingStep { expression, position })
    }

    /// Parses an expression after its name.
    fn named(&mut self, name: &str) -> Result<IndexingExpression, Error> {
        match expressions::reader(EXPRESSIONS, name) {
            Some(expression) => (expression.read)(self),
            None => {
                self.at -= 1;
                Err(self.fail(format!(
                    "unknown expression '{name}'; a pipe is written as in: input title | lowercase | index"
                )))
            }
        }
    }

    fn block(&mut self) -> Result<IndexingScript, Error> {
        self.expect("{")?;
        let script = self.script()?;
        self.expect("}")?;
        Ok(script)
    }

    /// Parses a component's id and arguments: names, numbers and texts up to the next symbol.
    fn call(&mut self) -> Result<ComponentCall, Error> {
        let mut words = Vec::new();
        while !matches!(self.peek().kind, IndexingTokenKind::Symbol(_) | IndexingTokenKind::End) {
            words.push(self.word("a component's id or argument")?);
        }
        let mut words = words.into_iter();
        Ok(ComponentCall { id: words.next(), arguments: words.collect() })
    }

    /// Parses a field name with struct members; the field of the statements, if there is none. A dot without
    /// spaces, or within quotes, selects a member; a dot between spaces concatenates texts.
    fn path(&mut self) -> Vec<String> {
        let Some(name) = self.optional_name() else { return vec![self.field.to_owned()] };
        let mut path: Vec<String> = name.split('.').map(str::to_owned).collect();
        while let [name, dot, member, ..] = &self.tokens[self.at - 1..] {
            let touches = name.end == dot.start && dot.end == member.start;
            match &member.kind {
                IndexingTokenKind::Name(member) if touches && dot.kind == IndexingTokenKind::Symbol(".") => {
                    path.push(member.clone())
                }
                _ => break,
            }
            self.at += 2;
        }
        path
    }

    /// Reads a name, which may be in quotes.
    fn optional_name(&mut self) -> Option<String> {
        let (IndexingTokenKind::Name(name) | IndexingTokenKind::Text(name)) = &self.peek().kind else {
            return None;
        };
        let name = name.clone();
        self.at += 1;
        Some(name)
    }

    fn name(&mut self, what: &str) -> Result<String, Error> {
        self.optional_name().ok_or_else(|| self.unexpected(what))
    }

    fn text(&mut self, what: &str) -> Result<String, Error> {
        let IndexingTokenKind::Text(text) = &self.peek().kind else { return Err(self.unexpected(what)) };
        let text = text.clone();
        self.at += 1;
        Ok(text)
    }

    /// Reads a name, text or number as text.
    fn word(&mut self, what: &str) -> Result<String, Error> {
        let token = self.peek();
        let word = match &token.kind {
            IndexingTokenKind::Name(text) | IndexingTokenKind::Text(text) => text.clone(),
            IndexingTokenKind::Symbol(_) | IndexingTokenKind::End => return Err(self.unexpected(what)),
            _ => self.source.value[token.start..token.end].to_owned(),
        };
        self.at += 1;
        Ok(word)
    }

    /// Reads a non-negative 32-bit number.
    fn count(&mut self, what: &str) -> Result<usize, Error> {
        let IndexingTokenKind::Integer(number) = self.peek().kind else { return Err(self.unexpected(what)) };
        self.at += 1;
        // Integers are tokenized without a sign, and larger ones are longs.
        Ok(number as usize)
    }

    fn peek(&self) -> &IndexingToken {
        // The last token is the end, which is never consumed: only names, texts, numbers and symbols are.
        &self.tokens[self.at.min(self.tokens.len() - 1)]
    }

    fn sees(&self, symbol: &str) -> bool {
        matches!(self.peek().kind, IndexingTokenKind::Symbol(seen) if seen == symbol)
    }

    fn eat(&mut self, symbol: &str) -> bool {
        let seen = self.sees(symbol);
        self.at += usize::from(seen);
        seen
    }

    fn eat_name(&mut self, wanted: &str) -> bool {
        let seen = matches!(&self.peek().kind, IndexingTokenKind::Name(name) if name == wanted);
        self.at += usize::from(seen);
        seen
    }

    fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.eat(symbol) { Ok(()) } else { Err(self.unexpected(&format!("'{symbol}'"))) }
    }

    fn expect_end(&self) -> Result<(), Error> {
        if self.peek().kind == IndexingTokenKind::End {
            Ok(())
        } else {
            Err(self.unexpected("'|', ';' or the end"))
        }
    }

    fn position(&self) -> SourcePosition {
        lexer::position(self.source, self.peek().start)
    }

    fn unexpected(&self, wanted: &str) -> Error {
        let token = self.peek();
        match token.kind {
            IndexingTokenKind::End => self.fail(format!("expected {wanted} before the end")),
            _ => {
                self.fail(format!("expected {wanted}, got '{}'", &self.source.value[token.start..token.end]))
            }
        }
    }

    fn fail(&self, reason: String) -> Error {
        self.fail_at(self.peek().start, reason)
    }

    fn fail_at(&self, offset: usize, reason: String) -> Error {
        Error::Script { position: lexer::position(self.source, offset), field: self.field.to_owned(), reason }
    }
}

/// Value of a number; `None` for other tokens.
fn number(kind: &IndexingTokenKind, negative: bool) -> Option<DocumentValue> {
    Some(match *kind {
        IndexingTokenKind::Integer(number) => {
            let number = if negative { -number } else { number };
            // Integers are tokenized as such only if they fit.
            i32::try_from(number).map_or(DocumentValue::Long(number), DocumentValue::Int)
        }
        IndexingTokenKind::Long(number) => DocumentValue::Long(if negative { -number } else { number }),
        IndexingTokenKind::Float(number) => DocumentValue::Float(if negative { -number } else { number }),
        IndexingTokenKind::Double(number) => DocumentValue::Double(if negative { -number } else { number }),
        _ => return None,
    })
}
