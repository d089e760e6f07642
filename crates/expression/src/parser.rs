//! Parser from text to syntax tree, by precedence climbing.

use millrace_cursor::{CommentStyle, NestingDepth, TextCursor};
use millrace_tensor::{TensorType, WrittenOrder};

use crate::literal::TypedGenerator;
use crate::operators::BinaryNumberOp;
use crate::syntax::{
    ExpressionKind, ExpressionNode, FunctionArgument, NameArgument, ParsedExpression, QualifiedName,
};
use crate::{Error, ExpressionSpot, function};

/// Maximum nesting of expressions. Chains of operators do not count.
const DEPTH: usize = 96;

/// Maximum number, in a whole expression, of repeated slices, repeated set comparisons and nested exponents.
/// Each is a level of the tree, but not of parentheses.
const STACKED: usize = 1000;

const COMMENTS: &[CommentStyle] = &[CommentStyle::Line("#")];

pub(crate) fn parse(text: &str) -> Result<ParsedExpression, Error> {
    let cursor = TextCursor::with_comments(text, COMMENTS);
    let mut parser = ExpressionParser { cursor, depth: NestingDepth::new(DEPTH), stacked: 0 };
    let root = parser.expression()?;
    parser.cursor.skip_blanks();
    if !parser.cursor.is_at_end() {
        return Err(parser.expected("an operator or the end of the expression"));
    }
    Ok(ParsedExpression { source: text.into(), root })
}

pub(crate) struct ExpressionParser<'a> {
    pub(crate) cursor: TextCursor<'a>,
    depth: NestingDepth,
    stacked: usize,
}

impl<'a> ExpressionParser<'a> {
    pub(crate) fn error_at(&self, at: usize, reason: impl Into<String>) -> Error {
        Error::Syntax { spot: ExpressionSpot::of(self.cursor.text(), at, None), reason: reason.into() }
    }

    pub(crate) fn expected(&self, what: &str) -> Error {
        self.error_at(self.cursor.offset(), format!("expected {what}, found {}", self.cursor.found()))
    }

    pub(crate) fn expect(&mut self, symbol: &str) -> Result<(), Error> {
        if self.cursor.take(symbol) { Ok(()) } else { Err(self.expected(&format!("'{symbol}'"))) }
    }

    /// Consumes a word of letters, digits, `_`, `@` and `$` if one is next.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        self.cursor.word(|c| c.is_alphanumeric() || c == '_' || c == '@' || c == '$')
    }

    fn peek_word(&mut self) -> Option<&'a str> {
        let at = self.cursor.offset();
        let word = self.word();
        self.cursor.go_to(at);
        word
    }

    /// Parses an expression, with the check of the nesting depth. All nested constructs use this function.
    pub(crate) fn expression(&mut self) -> Result<ExpressionNode, Error> {
        if !self.depth.enter() {
            return Err(self.error_at(
                self.cursor.offset(),
                format!("nested deeper than {DEPTH} levels; move parts into functions"),
            ));
        }
        let expr = self.operators(0);
        self.depth.leave();
        expr
    }

    /// Counts a tree level that has no parentheses.
    fn stack(&mut self) -> Result<(), Error> {
        self.stacked += 1;
        if self.stacked > STACKED {
            let reason =
                "too many slices of slices, sets after sets or powers of powers; move parts into functions";
            return Err(self.error_at(self.cursor.offset(), reason));
        }
        Ok(())
    }

    fn operators(&mut self, lowest: u8) -> Result<ExpressionNode, Error> {
        let mut left = self.operand()?;
        // Precedence of the chain in `left`, if it is one that may still grow.
        let mut chain = None;
        loop {
            if lowest <= BinaryNumberOp::COMPARISON && self.peek_word() == Some("in") {
                self.word();
                if matches!(left.kind, ExpressionKind::In(..) | ExpressionKind::Chain(..)) {
                    self.stack()?;
                }
                self.expect("[")?;
                let set = self.list("]")?;
                left = ExpressionNode { at: left.at, kind: ExpressionKind::In(Box::new(left), set) };
                chain = None;
                continue;
            }
            self.cursor.skip_blanks();
            let Some((symbol, operator)) = BinaryNumberOp::of_prefix(self.cursor.rest()) else {
                return Ok(left);
            };
            let precedence = operator.precedence();
            if precedence < lowest {
                return Ok(left);
            }
            self.cursor.skip(symbol.len());
            if operator == BinaryNumberOp::Pow && lowest == precedence {
                self.stack()?;
            }
            let right =
                self.operators(if operator == BinaryNumberOp::Pow { precedence } else { precedence + 1 })?;
            match &mut left.kind {
                ExpressionKind::Chain(_, rest) if chain == Some(precedence) => rest.push((operator, right)),
                _ => {
                    left = ExpressionNode {
                        at: left.at,
                        kind: ExpressionKind::Chain(Box::new(left), vec![(operator, right)]),
                    }
                }
            }
            chain = Some(precedence);
        }
    }

    fn list(&mut self, end: &str) -> Result<Vec<ExpressionNode>, Error> {
        let mut list = Vec::new();
        if self.cursor.take(end) {
            return Ok(list);
        }
        loop {
            list.push(self.expression()?);
            if self.cursor.take(end) {
                return Ok(list);
            }
            if !self.cursor.take(",") {
                return Err(self.expected(&format!("',' or '{end}'")));
            }
        }
    }

    fn operand(&mut self) -> Result<ExpressionNode, Error> {
        // A sequence of signs is handled by a loop: `------x` does not nest.
        let mut signs = Vec::new();
        loop {
            self.cursor.skip_blanks();
            let at = self.cursor.offset();
            if self.cursor.take("-") {
                signs.push((at, true));
            } else if self.cursor.take("!") {
                signs.push((at, false));
            } else {
                break;
            }
            if signs.len() > DEPTH {
                return Err(self.expected("a value"));
            }
        }
        let mut operand = self.primary()?;
        while matches!(self.cursor.peek(), Some('{' | '[')) {
            if matches!(operand.kind, ExpressionKind::Slice(..)) {
                self.stack()?;
            }
            operand = self.slice(operand)?;
        }
        for (at, minus) in signs.into_iter().rev() {
            operand = match (minus, operand.kind) {
                (true, ExpressionKind::Number(number)) => {
                    ExpressionNode { at, kind: ExpressionKind::Number(-number) }
                }
                (true, kind) => ExpressionNode {
                    at,
                    kind: ExpressionKind::Negate(Box::new(ExpressionNode { at: operand.at, kind })),
                },
                (false, kind) => ExpressionNode {
                    at,
                    kind: ExpressionKind::Not(Box::new(ExpressionNode { at: operand.at, kind })),
                },
            };
        }
        Ok(operand)
    }

    fn primary(&mut self) -> Result<ExpressionNode, Error> {
        self.cursor.skip_blanks();
        let at = self.cursor.offset();
        let kind = match self.cursor.peek() {
            Some('(') => {
                self.cursor.skip(1);
                let inner = self.expression()?;
                self.expect(")")?;
                // A chain inside parentheses must not grow: as an operand it is wrapped, which `operators`
                // respects.
                return Ok(inner);
            }
            Some('"' | '\'') => ExpressionKind::Text(self.quoted()?),
            Some(c) if c.is_ascii_digit() || c == '.' => ExpressionKind::Number(self.number()?),
            Some('$') => return self.query_input(at),
            Some(c) if c.is_alphabetic() || c == '_' || c == '@' => return self.named(at),
            _ => return Err(self.expected("a number, a name, a quoted string or '('")),
        };
        Ok(ExpressionNode { at, kind })
    }

    pub(crate) fn number(&mut self) -> Result<f64, Error> {
        let bytes = self.cursor.rest().as_bytes();
        let digits = |from: usize| bytes[from..].iter().take_while(|b| b.is_ascii_digit()).count();
        let mut end = digits(0);
        if bytes.get(end) == Some(&b'.') {
            end += 1 + digits(end + 1);
        }
        if matches!(bytes.get(end), Some(b'e' | b'E')) {
            let sign = usize::from(matches!(bytes.get(end + 1), Some(b'+' | b'-')));
            let exponent = digits(end + 1 + sign);
            if exponent > 0 {
                end += 1 + sign + exponent;
            }
        }
        let number = self.cursor.rest()[..end].parse().map_err(|_| self.expected("a number"))?;
        self.cursor.skip(end);
        Ok(number)
    }

    /// Parses the quoted string that is next; `\` makes the following character literal.
    pub(crate) fn quoted(&mut self) -> Result<String, Error> {
        let begin = self.cursor.offset();
        let mut chars = self.cursor.rest().char_indices();
        let quote = chars.next().map(|(_, quote)| quote);
        let mut text = String::new();
        while let Some((i, c)) = chars.next() {
            match c {
                _ if Some(c) == quote => {
                    self.cursor.skip(i + c.len_utf8());
                    return Ok(text);
                }
                '\\' => text.extend(chars.next().map(|(_, escaped)| match escaped {
                    'n' => '\n',
                    't' => '\t',
                    other => other,
                })),
                _ => text.push(c),
            }
        }
        Err(self.error_at(begin, "this quote is not closed"))
    }

    /// Parses an expression that starts with a word: literals, `if`, `switch`, tensors, built-in functions,
    /// features.
    fn named(&mut self, at: usize) -> Result<ExpressionNode, Error> {
        let word = self.word().unwrap_or_default();
        let expr = |kind| Ok(ExpressionNode { at, kind });
        if word == "tensor" && matches!(self.cursor.rest().trim_start().chars().next(), Some('<' | '(')) {
            return self.tensor(at);
        }
        if let Some(generator) = TypedGenerator::of(word)
            && let Some(tensor_type) = self.dimensions()
        {
            return self.generated(at, generator, tensor_type);
        }
        if self.cursor.rest().trim_start().starts_with('(') {
            match word {
                "if" => return self.conditional(at),
                "switch" => return self.switch(at),
                _ => {}
            }
            if let Some(function) = function(word) {
                let before = self.cursor.offset();
                let arguments = self.arguments()?;
                if !self.cursor.rest().starts_with('.') {
                    if !function.arity.contains(&arguments.len()) {
                        let reason = format!(
                            "{word} is called as {}; found {} arguments",
                            function.usage,
                            arguments.len()
                        );
                        return Err(self.error_at(at, reason));
                    }
                    return expr(ExpressionKind::Call(function, arguments));
                }
                self.cursor.go_to(before);
            }
        }
        match word {
            "true" => return expr(ExpressionKind::Number(1.0)),
            "false" => return expr(ExpressionKind::Number(0.0)),
            _ => {}
        }
        let mut arguments = Vec::new();
        let before = self.cursor.offset();
        if self.cursor.take("(") {
            arguments = self.name_arguments()?;
        } else {
            self.cursor.go_to(before);
        }
        let mut output = String::new();
        while self.cursor.rest().starts_with('.')
            && self.cursor.rest()[1..].starts_with(|c: char| c.is_alphanumeric() || c == '_')
        {
            self.cursor.skip(1);
            if !output.is_empty() {
                output.push('.');
            }
            output.push_str(self.word().unwrap_or_default());
        }
        let output = (!output.is_empty()).then_some(output);
        expr(ExpressionKind::Name(QualifiedName { name: word.to_owned(), arguments, output }))
    }

    /// Parses `$name`, the old writing of `query(name)`.
    fn query_input(&mut self, at: usize) -> Result<ExpressionNode, Error> {
        self.cursor.skip(1);
        let Some(input) = self.word() else { return Err(self.expected("the name of a query input")) };
        let argument = NameArgument { text: input.to_owned(), tree: None };
        let name = QualifiedName { name: "query".to_owned(), arguments: vec![argument], output: None };
        Ok(ExpressionNode { at, kind: ExpressionKind::Name(name) })
    }

    fn conditional(&mut self, at: usize) -> Result<ExpressionNode, Error> {
        self.expect("(")?;
        let condition = self.expression()?;
        self.expect(",")?;
        let then = self.expression()?;
        self.expect(",")?;
        let otherwise = self.expression()?;
        if self.cursor.take(",") {
            // Expected probability of the condition: used when training models, not in evaluation.
            self.expression()?;
        }
        self.expect(")")?;
        Ok(ExpressionNode { at, kind: ExpressionKind::If(Box::new([condition, then, otherwise])) })
    }

    fn switch(&mut self, at: usize) -> Result<ExpressionNode, Error> {
        self.expect("(")?;
        let discriminant = self.expression()?;
        self.expect(")")?;
        self.expect("{")?;
        let mut cases = Vec::new();
        let mut default = None;
        while !self.cursor.take("}") {
            match self.word() {
                Some("case") => {
                    let value = self.expression()?;
                    self.expect(":")?;
                    cases.push((value, self.expression()?));
                }
                Some("default") => {
                    self.expect(":")?;
                    default = Some(self.expression()?);
                }
                _ => return Err(self.expected("'case value: result', 'default: result' or '}'")),
            }
            self.cursor.take(",");
        }
        let Some(mut result) = default else {
            return Err(
                self.error_at(at, "a switch needs a default, as in switch (x) { case 1: a, default: b }")
            );
        };
        if cases.is_empty() || cases.len() > DEPTH {
            return Err(self.error_at(at, format!("a switch has 1 to {DEPTH} cases, found {}", cases.len())));
        }
        for (value, then) in cases.into_iter().rev() {
            let equal =
                ExpressionKind::Chain(Box::new(discriminant.clone()), vec![(BinaryNumberOp::Equal, value)]);
            let condition = ExpressionNode { at: discriminant.at, kind: equal };
            result = ExpressionNode { at, kind: ExpressionKind::If(Box::new([condition, then, result])) };
        }
        Ok(result)
    }

    /// Parses the arguments of a built-in function.
    fn arguments(&mut self) -> Result<Vec<FunctionArgument>, Error> {
        self.expect("(")?;
        let mut arguments = Vec::new();
        if self.cursor.take(")") {
            return Ok(arguments);
        }
        loop {
            arguments.push(self.argument()?);
            if self.cursor.take(")") {
                return Ok(arguments);
            }
            if !self.cursor.take(",") {
                return Err(self.expected("',' or ')'"));
            }
        }
    }

    fn argument(&mut self) -> Result<FunctionArgument, Error> {
        let before = self.cursor.offset();
        if self.word() == Some("f")
            && let Some(parameters) = self.names()
            && self.cursor.take("(")
        {
            let body = self.expression()?;
            self.expect(")")?;
            return Ok(FunctionArgument::Lambda(parameters, body));
        }
        self.cursor.go_to(before);
        if let Some(names) = self.names()
            && names.len() != 1
        {
            return Ok(FunctionArgument::Names(names));
        }
        self.cursor.go_to(before);
        self.expression().map(FunctionArgument::Value)
    }

    /// Parses `(a,b)`, if that is next.
    fn names(&mut self) -> Option<Vec<String>> {
        if !self.cursor.take("(") {
            return None;
        }
        let mut names = Vec::new();
        loop {
            let name = self.word()?;
            if name.starts_with(|c: char| c.is_ascii_digit()) {
                return None;
            }
            names.push(name.to_owned());
            if self.cursor.take(")") {
                return Some(names);
            }
            if !self.cursor.take(",") {
                return None;
            }
        }
    }

    /// Parses the arguments of a feature or of a profile's function, after the `(`.
    fn name_arguments(&mut self) -> Result<Vec<NameArgument>, Error> {
        let begin = self.cursor.offset();
        let mut arguments = Vec::new();
        if self.cursor.take(")") {
            return Ok(arguments);
        }
        loop {
            self.cursor.skip_blanks();
            let from = self.cursor.offset();
            let depth = self.depth;
            let tree = self.expression().ok().filter(|_| {
                self.cursor.skip_blanks();
                matches!(self.cursor.peek(), Some(',' | ')'))
            });
            self.depth = depth;
            if tree.is_none() {
                self.cursor.go_to(from);
                self.skip_argument(begin)?;
            }
            let text = match &tree {
                Some(ExpressionNode { kind: ExpressionKind::Text(text), .. }) => text.clone(),
                _ => without_space(&self.cursor.text()[from..self.cursor.offset()]),
            };
            arguments.push(NameArgument { text, tree });
            if self.cursor.take(")") {
                return Ok(arguments);
            }
            if !self.cursor.take(",") {
                return Err(self.expected("',' or ')'"));
            }
        }
    }

    /// Skips to the `,` or `)` after an argument that is not an expression.
    fn skip_argument(&mut self, begin: usize) -> Result<(), Error> {
        let mut depth = 0usize;
        while let Some(c) = self.cursor.peek() {
            match c {
                '"' => {
                    self.quoted()?;
                    continue;
                }
                '(' | '{' | '[' => depth += 1,
                ',' | ')' if depth == 0 => return Ok(()),
                ')' | '}' | ']' => depth = depth.saturating_sub(1),
                _ => {}
            }
            self.cursor.skip(c.len_utf8());
        }
        Err(self.error_at(begin, "this parenthesis is not closed"))
    }

    /// Parses the type of a tensor, after the word `tensor`.
    pub(crate) fn tensor_type(&mut self) -> Result<TensorType, Error> {
        self.written_type().map(|(tensor_type, _)| tensor_type)
    }

    /// [`ExpressionParser::tensor_type`] with the order in which its dimensions are written.
    pub(crate) fn written_type(&mut self) -> Result<(TensorType, WrittenOrder), Error> {
        let begin = self.cursor.offset();
        let end = self
            .cursor
            .rest()
            .find(')')
            .ok_or_else(|| self.expected("a tensor type such as tensor<float>(x[3])"))?;
        self.cursor.skip(end + 1);
        let spec = format!("tensor{}", &self.cursor.text()[begin..self.cursor.offset()]);
        let tensor_type =
            TensorType::parse(&spec).map_err(|error| self.error_at(begin, error.to_string()))?;
        let order = WrittenOrder::parse(&spec, &tensor_type);
        Ok((tensor_type, order))
    }
}

/// Canonical text of a parameter: without white space outside of quotes.
fn without_space(text: &str) -> String {
    let mut quote = None;
    text.chars()
        .filter(|&c| {
            match quote {
                None if c == '"' || c == '\'' => quote = Some(c),
                Some(open) if c == open => quote = None,
                _ => {}
            }
            quote.is_some() || !c.is_whitespace()
        })
        .collect()
}
