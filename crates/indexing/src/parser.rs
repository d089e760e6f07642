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

use millrace_document::{DataType, DocumentValue};
use millrace_schema::{SourcePosition, SourcedText};
use millrace_tensor::TensorType;
use regex::Regex;

use crate::lexer::{self, IndexingToken, IndexingTokenKind};
use crate::script::{
    BinaryOperator, DocumentIdPart, IfComparison, IfExpression, IndexingExpression, IndexingScript,
    IndexingStatement, IndexingStep, SwitchExpression, ValueFunction,
};
use crate::{ComponentCall, Error, GeneratorTarget};

/// Maximum nesting of parentheses and braces, and maximum number of operators in one script: each nests the
/// operands before it.
const DEPTH: usize = 64;
const OPERATORS: usize = 256;
const STEPS: usize = 256;

/// Parses the statements of the field `field`; outputs without a name write to it.
pub(crate) fn parse(source: &SourcedText<String>, field: &str) -> Result<IndexingScript, Error> {
    let fail = |(offset, reason)| Error::Script {
        place: lexer::place(source, offset),
        field: field.to_owned(),
        reason,
    };
    let tokens = lexer::tokens(&source.value).map_err(fail)?;
    let mut parser = IndexingParser { source, field, tokens, at: 0, depth: 0, operators: 0 };
    let script = parser.script()?;
    parser.expect_end()?;
    Ok(script)
}

struct IndexingParser<'a> {
    source: &'a SourcedText<String>,
    field: &'a str,
    tokens: Vec<IndexingToken>,
    at: usize,
    depth: usize,
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
        let place = self.place();
        let mut steps = vec![self.concat()?];
        while self.eat("||") {
            steps.push(self.concat()?);
        }
        match steps.pop() {
            Some(only) if steps.is_empty() => Ok(only),
            last => {
                steps.extend(last);
                Ok(IndexingStep { expression: IndexingExpression::Choice(steps), place })
            }
        }
    }

    fn concat(&mut self) -> Result<IndexingStep, Error> {
        let mut left = self.sum()?;
        while self.sees(".") {
            let place = self.operator()?;
            let right = self.sum()?;
            left = IndexingStep {
                expression: IndexingExpression::Concat(Box::new(left), Box::new(right)),
                place,
            };
        }
        Ok(left)
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
            let place = self.operator()?;
            let right = operand(self)?;
            left = IndexingStep {
                expression: IndexingExpression::Binary(*operator, Box::new(left), Box::new(right)),
                place,
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
        let place = self.place();
        self.at += 1;
        Ok(place)
    }

    fn primary(&mut self) -> Result<IndexingStep, Error> {
        self.depth += 1;
        if self.depth > DEPTH {
            return Err(self.fail(format!("expressions are nested deeper than {DEPTH}")));
        }
        let place = self.place();
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
        self.depth -= 1;
        Ok(IndexingStep { expression, place })
    }

    /// Parses an expression after its name.
    fn named(&mut self, name: &str) -> Result<IndexingExpression, Error> {
        let apply = |function| Ok(IndexingExpression::Apply(function));
        match name {
            "_" | "this" => Ok(IndexingExpression::This),
            "true" | "false" => Ok(IndexingExpression::Constant(DocumentValue::Bool(name == "true"))),
            "input" => Ok(IndexingExpression::Input(self.path()?)),
            "attribute" | "index" | "summary" | "passthrough" => {
                let field = self.optional_name().unwrap_or_else(|| self.field.to_owned());
                Ok(IndexingExpression::Output(field))
            }
            "get_field" => Ok(IndexingExpression::GetField(self.name("a field name")?)),
            "get_value" => Ok(IndexingExpression::GetValue(self.word("a key")?)),
            "get_var" => Ok(IndexingExpression::GetVariable(self.name("a variable name")?)),
            "set_var" => Ok(IndexingExpression::SetVariable(self.name("a variable name")?)),
            "for_each" => Ok(IndexingExpression::ForEach(self.block()?)),
            "guard" => Ok(IndexingExpression::Nested(self.block()?)),
            "if" => self.condition(),
            "switch" => self.switch(),
            "select_input" => self.select_input(),
            "set_language" => Ok(IndexingExpression::SetLanguage),
            "get_language" => Ok(IndexingExpression::GetLanguage),
            "now" => Ok(IndexingExpression::Now),
            "hostname" => Ok(IndexingExpression::Hostname),
            "documentid" => self.document_id(),
            "clear_state" => Ok(IndexingExpression::ClearState),
            "echo" => Ok(IndexingExpression::Echo),
            // Pauses and the form of predicates have no effect on the value.
            "sleep" | "busy_wait" | "optimize_predicate" => Ok(IndexingExpression::This),
            "zcurve" => apply(ValueFunction::ZCurve),
            "random" => Ok(IndexingExpression::Random(match self.peek().kind {
                IndexingTokenKind::Integer(_) => Some(self.count("a number")? as u32),
                _ => None,
            })),
            "hash" => Ok(IndexingExpression::Hash { long: true }),
            "embed" => Ok(IndexingExpression::Embed { call: self.call()?, target: TensorType::scalar() }),
            "chunk" => match self.call()? {
                ComponentCall { id: None, .. } => Err(self.unexpected("the id of a chunker")),
                call => Ok(IndexingExpression::Chunk(call)),
            },
            "generate" => {
                let wanted = GeneratorTarget { data_type: DataType::String, name: String::new() };
                Ok(IndexingExpression::Generate { call: self.call()?, wanted })
            }
            "to_byte" => apply(ValueFunction::Convert(DataType::Byte)),
            "to_int" => apply(ValueFunction::Convert(DataType::Int)),
            "to_long" => apply(ValueFunction::Convert(DataType::Long)),
            "to_float" => apply(ValueFunction::Convert(DataType::Float)),
            "to_double" => apply(ValueFunction::Convert(DataType::Double)),
            "to_bool" => apply(ValueFunction::Convert(DataType::Bool)),
            "to_string" => apply(ValueFunction::Convert(DataType::String)),
            "to_uri" | "uri" => apply(ValueFunction::Convert(DataType::Uri)),
            "to_array" => apply(ValueFunction::ToArray),
            "to_wset" => {
                let mut create_if_nonexistent = false;
                let mut remove_if_zero = false;
                loop {
                    if self.eat_name("create_if_non_existent") {
                        create_if_nonexistent = true;
                    } else if self.eat_name("remove_if_zero") {
                        remove_if_zero = true;
                    } else {
                        return apply(ValueFunction::ToWeightedSet { create_if_nonexistent, remove_if_zero });
                    }
                }
            }
            "to_pos" => apply(ValueFunction::ToPosition),
            "to_epoch_second" => apply(ValueFunction::ToEpochSecond),
            "lowercase" => apply(ValueFunction::Lowercase),
            "normalize" => apply(ValueFunction::Normalize),
            "trim" => apply(ValueFunction::Trim),
            "substring" => {
                let from = self.count("where the substring begins")?;
                apply(ValueFunction::Substring(from, self.count("where the substring ends")?))
            }
            "split" => {
                let place = self.peek().start;
                let pattern = self.text("a regular expression in quotes")?;
                let pattern = Regex::new(&pattern).map_err(|error| {
                    // The last line holds the reason, below a drawing of the position.
                    let text = error.to_string();
                    let reason = text.lines().last().unwrap_or_default().trim_start_matches("error: ");
                    self.fail_at(place, format!("{pattern:?} is not a regular expression: {reason}"))
                })?;
                apply(ValueFunction::Split(pattern))
            }
            "join" => apply(ValueFunction::Join(self.text("a delimiter in quotes")?)),
            "base64decode" => apply(ValueFunction::Base64Decode),
            "base64encode" => apply(ValueFunction::Base64Encode),
            "hex_decode" | "hexdecode" => apply(ValueFunction::HexDecode),
            "hex_encode" | "hexencode" => apply(ValueFunction::HexEncode),
            "binarize" => {
                let threshold = match self.peek().kind {
                    IndexingTokenKind::Integer(value) => value as f64,
                    IndexingTokenKind::Double(value) => value,
                    IndexingTokenKind::Float(value) => f64::from(value),
                    _ => return apply(ValueFunction::Binarize(0.0)),
                };
                self.at += 1;
                apply(ValueFunction::Binarize(threshold))
            }
            "pack_bits" => apply(ValueFunction::PackBits),
            "ngram" => {
                self.count("the size of grams")?;
                apply(ValueFunction::Annotate)
            }
            "tokenize" | "exact" => {
                self.annotation_options()?;
                apply(ValueFunction::Annotate)
            }
            "flatten" => apply(ValueFunction::Annotate),
            _ => {
                self.at -= 1;
                Err(self.fail(format!(
                    "unknown expression '{name}'; a pipe is written as in: input title | lowercase | index"
                )))
            }
        }
    }

    /// Parses the part after `documentid`, if there is one.
    fn document_id(&mut self) -> Result<IndexingExpression, Error> {
        let Some(name) = self.optional_name() else {
            return Ok(IndexingExpression::DocumentId(DocumentIdPart::Whole));
        };
        match DocumentIdPart::NAMED.iter().find(|(known, _)| *known == name) {
            Some((_, part)) => Ok(IndexingExpression::DocumentId(*part)),
            None => {
                self.at -= 1;
                Err(self.unexpected("namespace, documenttype, group, number or specific"))
            }
        }
    }

    /// Parses the options of `tokenize` and `exact`, which have no effect: the field's `match` counts.
    fn annotation_options(&mut self) -> Result<(), Error> {
        const OPTIONS: &str =
            "normalize, stem, keep-case, profile, max-length, max-occurrences or max-token-length";
        while let IndexingTokenKind::Name(_) = self.peek().kind {
            match self.name(OPTIONS)?.as_str() {
                "normalize" | "keep-case" => {}
                "stem" => {
                    if self.eat(":") {
                        self.word("a stemming mode")?;
                    }
                }
                "profile" => {
                    self.expect(":")?;
                    self.word("a profile")?;
                }
                "max-length" | "max-occurrences" | "max-token-length" => {
                    self.expect(":")?;
                    self.count("a number")?;
                }
                _ => return Err(self.unexpected(OPTIONS)),
            }
        }
        Ok(())
    }

    /// Parses `if (left == right) { … } else { … }`.
    fn condition(&mut self) -> Result<IndexingExpression, Error> {
        self.expect("(")?;
        let left = self.choice()?;
        let comparisons = [
            ("==", IfComparison::Equal),
            ("!=", IfComparison::NotEqual),
            ("<=", IfComparison::LessOrEqual),
            (">=", IfComparison::GreaterOrEqual),
            ("<", IfComparison::Less),
            (">", IfComparison::Greater),
        ];
        let Some((_, comparison)) = comparisons.into_iter().find(|(symbol, _)| self.sees(symbol)) else {
            return Err(self.unexpected("==, !=, <, <=, > or >="));
        };
        self.at += 1;
        let right = self.choice()?;
        self.expect(")")?;
        let then = self.block()?;
        let otherwise = match self.eat_name("else") {
            true if matches!(&self.peek().kind, IndexingTokenKind::Name(name) if name == "if") => {
                let statements = vec![IndexingStatement { steps: vec![self.primary()?] }];
                Some(IndexingScript { statements })
            }
            true => Some(self.block()?),
            false => None,
        };
        Ok(IndexingExpression::If(Box::new(IfExpression { left, comparison, right, then, otherwise })))
    }

    /// Parses `switch { case 'a': …; default: …; }`.
    fn switch(&mut self) -> Result<IndexingExpression, Error> {
        self.expect("{")?;
        let mut switch = SwitchExpression { cases: Vec::new(), default: None };
        while !self.eat("}") {
            if self.eat_name("case") {
                let value = self.text("a value in quotes")?;
                self.expect(":")?;
                switch.cases.push((value, self.statement()?));
            } else if self.eat_name("default") {
                self.expect(":")?;
                switch.default = Some(self.statement()?);
            } else {
                return Err(self.unexpected("case, default or '}'"));
            }
            if !self.sees("}") {
                self.expect(";")?;
            }
        }
        Ok(IndexingExpression::Switch(switch))
    }

    /// Parses `select_input { field: …; }`; `case` before the field is optional.
    fn select_input(&mut self) -> Result<IndexingExpression, Error> {
        self.expect("{")?;
        let mut cases = Vec::new();
        while !self.eat("}") {
            self.eat_name("case");
            let field = self.name("a field name")?;
            self.expect(":")?;
            cases.push((field, self.statement()?));
            if !self.sees("}") {
                self.expect(";")?;
            }
        }
        Ok(IndexingExpression::SelectInput(cases))
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

    /// Parses a field name with struct members. A dot without spaces selects a member; a dot between spaces
    /// concatenates texts.
    fn path(&mut self) -> Result<Vec<String>, Error> {
        let mut path = vec![self.name("a field name")?];
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
        Ok(path)
    }

    fn optional_name(&mut self) -> Option<String> {
        let IndexingTokenKind::Name(name) = &self.peek().kind else { return None };
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

    fn place(&self) -> SourcePosition {
        lexer::place(self.source, self.peek().start)
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
        Error::Script { place: lexer::place(self.source, offset), field: self.field.to_owned(), reason }
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
