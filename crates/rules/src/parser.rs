//! Parser of rule bases: tokens to statements.

use std::sync::Arc;

use millrace_query::QueryNumber;
use millrace_schema::SourcePosition;

use crate::Error;
use crate::directives::{DIRECTIVES, unknown_directive};
use crate::lexer::{PlacedToken, RuleToken, tokens};
use crate::syntax::{
    ProducedBound, ProducedTerm, ProductionRule, RuleComparison, RuleCondition, RuleFile, RuleKind,
    RuleProduction, RuleStatement, TermType,
};

/// Maximum nesting of conditions.
const DEPTH_MAX: usize = 50;
/// Namespace of the request's parameters, with its dot.
const PARAMETER: &str = "parameter.";

/// Parses the rule base `name` in the file `path`.
///
/// # Errors
/// The first syntax error.
pub(crate) fn parse(path: &str, name: &str, text: &str) -> Result<RuleFile, Error> {
    let mut parser = RuleParser { tokens: tokens(path, text)?, at: 0, depth: 0 };
    let mut file = RuleFile {
        name: name.to_owned(),
        default: None,
        stemming: true,
        language: None,
        statements: Vec::new(),
    };
    while parser.peek() != &RuleToken::End {
        if parser.takes("@") {
            parser.directive(&mut file)?;
        } else {
            let statement = parser.statement()?;
            file.statements.push(statement);
        }
    }
    Ok(file)
}

pub(crate) struct RuleParser {
    tokens: Vec<PlacedToken>,
    at: usize,
    depth: usize,
}

impl RuleParser {
    fn peek(&self) -> &RuleToken {
        &self.tokens[self.at].token
    }

    fn peek_after(&self) -> &RuleToken {
        &self.tokens[(self.at + 1).min(self.tokens.len() - 1)].token
    }

    fn position(&self) -> SourcePosition {
        self.tokens[self.at].position.clone()
    }

    /// Advances to the next token, at most to the end.
    fn next(&mut self) {
        self.at = (self.at + 1).min(self.tokens.len() - 1);
    }

    fn is(&self, symbol: &str) -> bool {
        matches!(self.peek(), RuleToken::Symbol(found) if *found == symbol)
    }

    fn takes(&mut self, symbol: &str) -> bool {
        let found = self.is(symbol);
        if found {
            self.next();
        }
        found
    }

    fn expect(&mut self, symbol: &str, meaning: &str) -> Result<(), Error> {
        if self.takes(symbol) { Ok(()) } else { Err(self.expected(meaning)) }
    }

    fn expected(&self, what: &str) -> Error {
        self.wrong(format!("expected {what}, found {}", self.peek()))
    }

    fn wrong(&self, reason: String) -> Error {
        Error::Syntax { position: self.position(), reason }
    }

    fn word(&mut self, what: &str) -> Result<String, Error> {
        let RuleToken::Word(word) = self.peek() else { return Err(self.expected(what)) };
        let word = word.clone();
        self.next();
        Ok(word)
    }

    /// Parses a directive after its `@`, outside of statements.
    fn directive(&mut self, file: &mut RuleFile) -> Result<(), Error> {
        let position = self.tokens[self.at - 1].position.clone();
        let name = self.word("the name of a directive, as in '@default'")?;
        match DIRECTIVES.iter().find(|row| row.directive.name == name) {
            Some(row) => (row.read)(self, file, &position)?,
            None => return Err(unknown_directive(&name, position)),
        }
        self.takes(";");
        if self.peek() != &RuleToken::End && self.tokens[self.at].position.line == position.line {
            return Err(self.expected(&format!("the end of the line, which ends '@{name}'")));
        }
        Ok(())
    }

    pub(crate) fn argument(&mut self, what: &str) -> Result<String, Error> {
        self.expect("(", &format!("'(' and {what}"))?;
        let argument = match self.peek() {
            RuleToken::Literal(quoted) => {
                let quoted = quoted.clone();
                self.next();
                quoted
            }
            _ => self.word(what)?,
        };
        self.expect(")", "')'")?;
        Ok(argument)
    }

    fn statement(&mut self) -> Result<RuleStatement, Error> {
        let position = self.position();
        if let Some(name) = self.named_condition() {
            let condition = self.choice()?;
            self.expect(";", "',' and another condition, or ';' at the end of the condition")?;
            return Ok(RuleStatement::Condition { name, position, condition });
        }
        let mut condition = self.choice()?;
        let kind = if self.takes("->") {
            RuleKind::Replacing
        } else if self.takes("+>") {
            RuleKind::Adding
        } else if self.is(":-") {
            return Err(
                self.wrong("only a name in brackets can be defined, as in '[name] :- condition;'".to_owned())
            );
        } else {
            return Err(self.expected("a condition, '->' or '+>'"));
        };
        mark_last(&mut condition);
        let mut productions = Vec::new();
        while !self.takes(";") {
            productions.push(self.production()?);
        }
        Ok(RuleStatement::Rule(Arc::new(ProductionRule { position, condition, kind, productions })))
    }

    /// Name of the condition that a statement defines, if it is a definition.
    fn named_condition(&mut self) -> Option<String> {
        let ahead = |offset: usize| self.tokens.get(self.at + offset).map(|placed| &placed.token);
        match (ahead(0), ahead(1), ahead(2), ahead(3)) {
            (
                Some(RuleToken::Symbol("[")),
                Some(RuleToken::Word(name)),
                Some(RuleToken::Symbol("]")),
                Some(RuleToken::Symbol(":-")),
            ) => {
                let name = name.clone();
                self.at += 4;
                Some(name)
            }
            _ => None,
        }
    }

    fn choice(&mut self) -> Result<RuleCondition, Error> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(self.wrong(format!(
                "conditions are nested more than {DEPTH_MAX} deep: give an inner one a name, as in '[name] :- condition;'"
            )));
        }
        let mut conditions = vec![self.all()?];
        while self.takes(",") {
            conditions.push(self.all()?);
        }
        self.depth -= 1;
        Ok(one_or(conditions, RuleCondition::Choice))
    }

    fn all(&mut self) -> Result<RuleCondition, Error> {
        let mut conditions = vec![self.sequence()?];
        while self.takes("&") {
            conditions.push(self.sequence()?);
        }
        Ok(one_or(conditions, RuleCondition::And))
    }

    fn sequence(&mut self) -> Result<RuleCondition, Error> {
        let from_start = self.takes(".");
        let mut conditions = vec![self.comparison()?];
        while self.begins_condition() {
            conditions.push(self.comparison()?);
        }
        let to_end = self.takes(".");
        let mut condition = one_or(conditions, RuleCondition::Sequence);
        if from_start {
            condition = RuleCondition::Start(Box::new(condition));
        }
        if to_end {
            condition = RuleCondition::End(Box::new(condition));
        }
        Ok(condition)
    }

    fn begins_condition(&self) -> bool {
        match self.peek() {
            RuleToken::Word(_) | RuleToken::Literal(_) | RuleToken::Phrase(_) => true,
            RuleToken::Symbol(symbol) => matches!(*symbol, "(" | "[" | "..." | "!" | "@"),
            RuleToken::End => false,
        }
    }

    fn comparison(&mut self) -> Result<RuleCondition, Error> {
        let left = self.unary()?;
        let operator = match self.peek() {
            RuleToken::Symbol("=") => RuleComparison::Equal,
            RuleToken::Symbol("<=") => RuleComparison::AtMost,
            RuleToken::Symbol(">=") => RuleComparison::AtLeast,
            RuleToken::Symbol("<") => RuleComparison::Less,
            RuleToken::Symbol(">") => RuleComparison::More,
            RuleToken::Symbol("=~") => RuleComparison::Contains,
            RuleToken::Symbol("!=") => RuleComparison::Different,
            _ => return Ok(left),
        };
        self.next();
        let right = self.unary()?;
        Ok(RuleCondition::Comparison { left: Box::new(left), operator, right: Box::new(right) })
    }

    fn unary(&mut self) -> Result<RuleCondition, Error> {
        let mut negations = 0;
        while self.takes("!") {
            negations += 1;
            if self.depth + negations > DEPTH_MAX {
                return Err(self.wrong("'!' is repeated too often: once is enough".to_owned()));
            }
        }
        self.depth += negations;
        let condition = self.primary()?;
        self.depth -= negations;
        Ok((0..negations).fold(condition, |condition, _| RuleCondition::Not(Box::new(condition))))
    }

    fn primary(&mut self) -> Result<RuleCondition, Error> {
        let name = self.prefix("/");
        let label = self.prefix(":");
        let (condition, bracketed) = self.bare()?;
        let condition = match label {
            Some(label) => RuleCondition::Labelled(label, Box::new(condition)),
            None => condition,
        };
        let (own, all) = bracketed.map_or((None, None), |(name, all)| (Some(name), all));
        Ok(match name.or(own) {
            Some(name) => RuleCondition::Named { name, all, condition: Box::new(condition) },
            None => condition,
        })
    }

    /// Reads a word followed by this symbol.
    fn prefix(&mut self, symbol: &str) -> Option<String> {
        let (RuleToken::Word(word), RuleToken::Symbol(found)) = (self.peek(), self.peek_after()) else {
            return None;
        };
        if *found != symbol {
            return None;
        }
        let word = word.clone();
        self.at += 2;
        Some(word)
    }

    /// Parses a condition without name and label. For one in brackets, returns its content, and the condition
    /// whose terms are all meant.
    #[expect(clippy::type_complexity, reason = "the two parts have one reader, right above")]
    fn bare(&mut self) -> Result<(RuleCondition, Option<(String, Option<String>)>), Error> {
        let position = self.position();
        Ok(match self.peek() {
            RuleToken::Word(_) => (self.term()?, None),
            RuleToken::Literal(text) => {
                let literal = RuleCondition::Literal(text.clone());
                self.next();
                (literal, None)
            }
            RuleToken::Phrase(text) => {
                let phrase = RuleCondition::Phrase(words(text));
                self.next();
                (phrase, None)
            }
            RuleToken::Symbol("...") => {
                self.next();
                (RuleCondition::Ellipsis { referable: false, last: false }, None)
            }
            RuleToken::Symbol("(") => {
                self.next();
                let condition = self.choice()?;
                self.expect(")", "',' and another condition, or ')'")?;
                (condition, None)
            }
            RuleToken::Symbol("@") => {
                self.next();
                match self.word("'super'")?.as_str() {
                    "super" => (RuleCondition::Super(position), None),
                    other => {
                        let reason = format!(
                            "'@{other}' cannot stand in a condition: only @super can; is a ';' missing before it?"
                        );
                        return Err(Error::Syntax { position, reason });
                    }
                }
            }
            RuleToken::Symbol("[") => {
                self.next();
                if self.takes("...") {
                    self.expect("]", "']'")?;
                    let ellipsis = RuleCondition::Ellipsis { referable: true, last: false };
                    return Ok((ellipsis, Some(("...".to_owned(), None))));
                }
                let name = self.word("the name of a condition, or '...'")?;
                let all = self.takes("*").then(|| name.clone());
                self.expect("]", "']'")?;
                (RuleCondition::Reference { name: name.clone(), position }, Some((name, all)))
            }
            _ => {
                return Err(
                    self.expected("a condition: a term, '[name]', '(…)', '…' or a literal in single quotes")
                );
            }
        })
    }

    fn term(&mut self) -> Result<RuleCondition, Error> {
        let position = self.position();
        let word = self.word("a term")?;
        match word.strip_prefix(PARAMETER) {
            Some(name) => Ok(RuleCondition::Parameter(name.to_owned())),
            None => Ok(RuleCondition::Term(in_query(word, position)?)),
        }
    }

    fn production(&mut self) -> Result<RuleProduction, Error> {
        let term_type = match self.peek() {
            RuleToken::Symbol("?") => TermType::Or,
            RuleToken::Symbol("=") => TermType::Equiv,
            RuleToken::Symbol("+") => TermType::And,
            RuleToken::Symbol("$") => TermType::Rank,
            RuleToken::Symbol("-") => TermType::Not,
            RuleToken::Symbol("~") => TermType::WeakAnd,
            _ => TermType::Context,
        };
        if term_type != TermType::Context {
            self.next();
        }
        let label = self.prefix(":");
        let term = self.produced_term()?;
        if matches!(term, ProducedTerm::Beyond(..)) && label.is_none() {
            return Err(self.wrong("a bound is one of a field: write it as in price:<5000".to_owned()));
        }
        let weight = if self.takes("!") {
            let position = self.position();
            let text = self.word("a weight in percent, as in '!150'")?;
            let weight = text.parse::<u16>().map(i32::from).map_err(|_| Error::Syntax {
                position,
                reason: format!(
                    "a weight is a whole number from 0 to {}, as in '!150'; found '{text}'",
                    u16::MAX
                ),
            })?;
            Some(weight)
        } else {
            None
        };
        if matches!(term, ProducedTerm::Parameter { .. })
            && (term_type != TermType::Context || label.is_some() || weight.is_some())
        {
            return Err(self.wrong(
                "a parameter has neither type, label nor weight: write parameter.NAME='value'".to_owned(),
            ));
        }
        Ok(RuleProduction { term_type, label, term, weight })
    }

    fn produced_term(&mut self) -> Result<ProducedTerm, Error> {
        let bound = match self.peek() {
            RuleToken::Symbol("<") => Some(ProducedBound::Below),
            RuleToken::Symbol(">") => Some(ProducedBound::Above),
            _ => None,
        };
        if bound.is_some() {
            self.next();
        }
        let position = self.position();
        if let (Some(bound), RuleToken::Word(word)) = (bound, self.peek()) {
            let number = number(word).ok_or_else(|| self.expected("a number, as in price:<5000"))?;
            self.next();
            return Ok(ProducedTerm::Beyond(bound, number));
        }
        match self.peek() {
            RuleToken::Phrase(text) if bound.is_none() => {
                let words = words(text);
                self.next();
                Ok(ProducedTerm::Phrase(words))
            }
            RuleToken::Symbol("[") => {
                self.next();
                let name = if self.takes("...") {
                    "...".to_owned()
                } else {
                    self.word("the name of a condition, or '...'")?
                };
                let all = self.takes("*");
                self.expect("]", "']'")?;
                Ok(ProducedTerm::Reference { name, all, bound, position })
            }
            _ if bound.is_some() => Err(self.expected("a number, as in price:<5000")),
            RuleToken::Word(_) => {
                let word = self.word("a term")?;
                let value = match self.peek_after() {
                    RuleToken::Literal(value) if self.is("=") => Some(value.clone()),
                    // After a term it is an equivalent of that.
                    RuleToken::Word(value) if self.is("=") && word.starts_with(PARAMETER) => {
                        Some(value.clone())
                    }
                    _ => None,
                };
                match (word.strip_prefix(PARAMETER), value) {
                    (Some(name), Some(value)) => {
                        self.at += 2;
                        Ok(ProducedTerm::Parameter { name: name.to_owned(), value })
                    }
                    (Some(name), None) => {
                        let reason =
                            format!("expected a value for the parameter, as in parameter.{name}='value'");
                        Err(Error::Syntax { position, reason })
                    }
                    (None, Some(_)) => {
                        let reason = format!(
                            "only parameters have values, as in parameter.{word}='value'; a term has none"
                        );
                        Err(Error::Syntax { position, reason })
                    }
                    (None, None) => Ok(ProducedTerm::Term(in_query(word, position)?)),
                }
            }
            _ => Err(self.expected(
                "a production: a term, '[name]' or parameter.NAME='value'; or ';' at the end of the rule",
            )),
        }
    }
}

/// Checks a term of the query; a dot would put it into another namespace.
fn in_query(word: String, position: SourcePosition) -> Result<String, Error> {
    match word.split_once('.') {
        Some((namespace, _)) => {
            let reason = format!(
                "no namespace '{namespace}': there are the query's terms, which need none, and 'parameter'; terms have no dots"
            );
            Err(Error::Syntax { position, reason })
        }
        None => Ok(word),
    }
}

/// The number that a word is.
pub(crate) fn number(word: &str) -> Option<QueryNumber> {
    let float = || word.parse().ok().filter(|number: &f64| number.is_finite()).map(QueryNumber::Float);
    word.parse().ok().map(QueryNumber::Integer).or_else(float)
}

fn words(text: &str) -> Vec<String> {
    text.split_whitespace().map(str::to_owned).collect()
}

fn one_or(
    mut conditions: Vec<RuleCondition>,
    many: impl FnOnce(Vec<RuleCondition>) -> RuleCondition,
) -> RuleCondition {
    if conditions.len() == 1 { conditions.remove(0) } else { many(conditions) }
}

/// Marks a final ellipsis, which matches everything up to the end.
fn mark_last(condition: &mut RuleCondition) {
    match condition {
        RuleCondition::Ellipsis { last, .. } => *last = true,
        RuleCondition::Named { condition, .. }
        | RuleCondition::Labelled(_, condition)
        | RuleCondition::Start(condition)
        | RuleCondition::End(condition) => mark_last(condition),
        RuleCondition::Sequence(conditions) | RuleCondition::And(conditions) => {
            conditions.last_mut().into_iter().for_each(mark_last);
        }
        RuleCondition::Choice(conditions) => conditions.iter_mut().for_each(mark_last),
        RuleCondition::Comparison { left, .. } => mark_last(left),
        _ => {}
    }
}
