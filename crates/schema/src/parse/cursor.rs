//! Lexical elements shared by all constructs of a schema file: words, names, lines, blocks, with their
//! locations.

use millrace_cursor::{CommentStyle, NestingDepth, TextCursor, TextPosition};

use crate::suggest::{did_you_mean, one_of};
use crate::{Error, SourcePosition, SourcedText};

/// A name with its location.
pub(crate) type Name = SourcedText<String>;

/// Maximum nesting of blocks and of types.
const DEPTH_MAX: usize = 32;

const COMMENTS: &[CommentStyle] = &[CommentStyle::Line("#")];

/// A position in the text of one file.
pub(crate) struct SchemaCursor<'a> {
    file: &'a str,
    cursor: TextCursor<'a>,
    depth: NestingDepth,
    warnings: Vec<String>,
}

/// Form of a construct after its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ConstructBody {
    /// `: value`, to the end of the line.
    Line,
    /// `{ … }`.
    Block,
    /// No body.
    None,
}

impl<'a> SchemaCursor<'a> {
    pub(crate) fn new(file: &'a str, text: &'a str) -> Self {
        let cursor = TextCursor::with_comments(text, COMMENTS);
        SchemaCursor { file, cursor, depth: NestingDepth::new(DEPTH_MAX), warnings: Vec::new() }
    }

    /// Returns the warnings about the text so far.
    pub(crate) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }

    pub(crate) fn warn(&mut self, position: &SourcePosition, message: &str) {
        self.warnings.push(format!("{position}: {message}"));
    }

    /// Location of the next token, after white space.
    pub(crate) fn position(&mut self) -> SourcePosition {
        self.skip();
        self.position_at(self.cursor.offset())
    }

    fn position_at(&self, at: usize) -> SourcePosition {
        let TextPosition { line, column } = self.cursor.position_at(at);
        SourcePosition { file: self.file.to_owned(), line, column }
    }

    /// A syntax error at a position.
    pub(crate) fn error_at<T>(
        &self,
        position: SourcePosition,
        reason: impl Into<String>,
    ) -> Result<T, Error> {
        Err(Error::Syntax { position, reason: reason.into() })
    }

    /// A syntax error at the next token: expected and actual text.
    pub(crate) fn expected<T>(&mut self, what: &str) -> Result<T, Error> {
        let position = self.position();
        let found = self.next_text();
        self.error_at(position, format!("expected {what}, found {found}"))
    }

    /// The next word or character, for errors.
    fn next_text(&self) -> String {
        let rest = self.cursor.rest();
        let word: String = rest.chars().take_while(|c| is_word(*c)).take(40).collect();
        match rest.chars().next() {
            None => "the end of the file".to_owned(),
            Some(c) if word.is_empty() => format!("'{c}'"),
            Some(_) => format!("'{word}'"),
        }
    }

    /// Skips white space, line ends and comments.
    pub(crate) fn skip(&mut self) {
        self.cursor.skip_blanks();
    }

    /// Skips white space within the line.
    fn skip_in_line(&mut self) {
        self.cursor.take_while(|c| c.is_whitespace() && c != '\n');
    }

    /// True at the end of the text.
    pub(crate) fn at_end(&mut self) -> bool {
        self.skip();
        self.cursor.is_at_end()
    }

    /// Consumes `c` if it is next.
    pub(crate) fn eat(&mut self, c: char) -> bool {
        self.cursor.take(c.encode_utf8(&mut [0; 4]))
    }

    /// Consumes `c`, or fails if it is missing.
    pub(crate) fn expect(&mut self, c: char) -> Result<(), Error> {
        if self.eat(c) { Ok(()) } else { self.expected(&format!("'{c}'")) }
    }

    /// True if `c` is next.
    pub(crate) fn sees(&mut self, c: char) -> bool {
        self.skip();
        self.cursor.peek() == Some(c)
    }

    /// True if a character other than `:`, `{`, `}` follows in this line.
    pub(crate) fn sees_more_in_line(&mut self) -> bool {
        self.skip_in_line();
        self.cursor.peek().is_some_and(|c| !matches!(c, '\n' | ':' | '{' | '}' | '#'))
    }

    /// Consumes the word if it is next as a whole.
    pub(crate) fn eat_word(&mut self, word: &str) -> bool {
        self.cursor.take_word(word, is_word)
    }

    /// Reads the next run of letters, digits, `_`, `-`, `.` and `$`; `None` if there is none.
    pub(crate) fn word(&mut self) -> Option<Name> {
        let position = self.position();
        self.cursor.word(is_word).map(|word| Name { value: word.to_owned(), position })
    }

    /// Reads the name of a field, a profile, a summary.
    pub(crate) fn name(&mut self, what: &str) -> Result<Name, Error> {
        let Some(name) = self.word() else { return self.expected(&format!("the name of the {what}")) };
        // Names of fields are also those of other languages, in which a digit begins a number.
        let digits = !matches!(what, "schema" | "document" | "struct" | "field" | "struct-field");
        let begins_well =
            |c: char| c.is_ascii_alphabetic() || matches!(c, '_' | '$') || (digits && c.is_ascii_digit());
        if name.value.starts_with(begins_well) && name.value.is_ascii() {
            return Ok(name);
        }
        self.error_at(
            name.position,
            format!("'{}' cannot be the name of a {what}: names begin with a-z, A-Z or _, and go on with these and digits", name.value),
        )
    }

    /// Reads `a, b, c`.
    pub(crate) fn names(&mut self, what: &str) -> Result<Vec<Name>, Error> {
        let mut names = vec![self.name(what)?];
        while self.eat(',') {
            names.push(self.name(what)?);
        }
        Ok(names)
    }

    /// Reads `inherits a, b`, if it is next.
    pub(crate) fn inherits(&mut self, what: &str) -> Result<Vec<Name>, Error> {
        if self.eat_word("inherits") { self.names(what) } else { Ok(Vec::new()) }
    }

    /// Reads text in double or single quotes, with `\"` and `\\`, if a quote is next.
    pub(crate) fn quoted(&mut self) -> Result<Option<Name>, Error> {
        self.skip();
        let Some(quote @ ('"' | '\'')) = self.cursor.peek() else { return Ok(None) };
        let position = self.position_at(self.cursor.offset());
        let mut value = String::new();
        let mut chars = self.cursor.rest().char_indices().skip(1);
        while let Some((at, c)) = chars.next() {
            match c {
                c if c == quote => {
                    self.cursor.skip(at + 1);
                    return Ok(Some(Name { value, position }));
                }
                '\\' => match chars.next() {
                    Some((_, escaped)) => value.push(escaped),
                    None => break,
                },
                '\n' => break,
                c => value.push(c),
            }
        }
        self.error_at(position, format!("this text is not closed: put a {quote} before the end of the line"))
    }

    /// Reads one value: quoted text, or everything up to the next space, comma or bracket.
    pub(crate) fn value(&mut self, what: &str) -> Result<Name, Error> {
        self.skip_in_line();
        if let Some(quoted) = self.quoted()? {
            return Ok(quoted);
        }
        let position = self.position_at(self.cursor.offset());
        match self.cursor.take_while(|c| !c.is_whitespace() && !matches!(c, '{' | '}' | ',' | '#')) {
            "" => self.expected(what),
            value => Ok(Name { value: value.to_owned(), position }),
        }
    }

    /// Reads `: value` as a number.
    pub(crate) fn number<T: std::str::FromStr>(&mut self, keyword: &Name, what: &str) -> Result<T, Error> {
        self.expect(':')?;
        let value = self.value(what)?;
        value.value.parse().or_else(|_| {
            self.error_at(
                value.position,
                format!("'{}' is not {what}, which '{}' needs", value.value, keyword.value),
            )
        })
    }

    /// Reads `: true` or `: false`; `on` and `off` are also valid.
    pub(crate) fn switch(&mut self) -> Result<bool, Error> {
        self.expect(':')?;
        let value = self.value("'true' or 'false'")?;
        self.choose("value", &value, &[("true", true), ("false", false), ("on", true), ("off", false)])
    }

    /// Looks up `name` in the table; the error lists its entries.
    pub(crate) fn choose<T: Clone>(&self, what: &str, name: &Name, table: &[(&str, T)]) -> Result<T, Error> {
        match table.iter().find(|(known, _)| *known == name.value) {
            Some((_, meaning)) => Ok(meaning.clone()),
            None => {
                let known = || table.iter().map(|(known, _)| *known);
                let hint = did_you_mean(&name.value, known());
                let message =
                    format!("'{}' is not a valid {what}{hint}: expected {}", name.value, one_of(known()));
                self.error_at(name.position.clone(), message)
            }
        }
    }

    /// The error for an unknown word.
    pub(crate) fn unknown<T>(&self, what: &str, name: &Name, known: &[&str]) -> Result<T, Error> {
        let hint = did_you_mean(&name.value, known.iter().copied());
        let list = one_of(known.iter().copied());
        self.error_at(
            name.position.clone(),
            format!("unknown {what} '{}'{hint}: expected {list}", name.value),
        )
    }

    /// Form of the construct after its head; the `:` or `{` is not consumed.
    pub(crate) fn body(&mut self) -> ConstructBody {
        if self.sees(':') {
            ConstructBody::Line
        } else if self.sees('{') {
            ConstructBody::Block
        } else {
            ConstructBody::None
        }
    }

    /// Reads `{ item … }`: calls `item` with the first word of each item.
    pub(crate) fn block(
        &mut self,
        what: &str,
        mut item: impl FnMut(&mut Self, Name) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let opened = self.position();
        self.expect('{')?;
        self.nested(&opened, |this| {
            loop {
                if this.eat('}') {
                    return Ok(());
                }
                if this.at_end() {
                    let reason =
                        format!("the '{{' of this {what} is not closed: the file ends before its '}}'");
                    return this.error_at(opened.clone(), reason);
                }
                match this.word() {
                    Some(word) => item(this, word)?,
                    None => return this.expected(&format!("an element of the {what}, or '}}'")),
                }
            }
        })
    }

    /// Runs `read` one nesting level deeper.
    pub(crate) fn nested<T>(
        &mut self,
        position: &SourcePosition,
        read: impl FnOnce(&mut Self) -> Result<T, Error>,
    ) -> Result<T, Error> {
        if !self.depth.enter() {
            return self.error_at(position.clone(), format!("nested more than {DEPTH_MAX} deep"));
        }
        let result = read(self);
        self.depth.leave();
        result
    }

    /// Reads text of another language: `: text` to the end of the line, or `{ text }`. Comments become
    /// spaces, so positions stay valid.
    pub(crate) fn foreign(&mut self, keyword: &Name) -> Result<SourcedText<String>, Error> {
        match self.body() {
            ConstructBody::Line => {
                self.expect(':')?;
                self.line(&keyword.value)
            }
            ConstructBody::Block => self.block_text(&keyword.value),
            ConstructBody::None => self.expected(&format!("':' or '{{' after '{}'", keyword.value)),
        }
    }

    /// Reads the value of a constant or an input: a number, quoted text, or a tensor in brackets, which may
    /// go on over several lines.
    pub(crate) fn literal(&mut self, what: &str) -> Result<SourcedText<String>, Error> {
        self.skip();
        match self.cursor.peek() {
            Some('[' | '{') => Ok(self.scan(ForeignEnd::Bracket)),
            Some(c) if c.is_ascii_digit() || matches!(c, '-' | '+' | '.') => self.value(what),
            _ => self.line(what),
        }
    }

    /// Reads up to the end of the line, or to a `}` that closes the enclosing block; never empty.
    pub(crate) fn line(&mut self, what: &str) -> Result<SourcedText<String>, Error> {
        self.skip_in_line();
        let text = self.scan(ForeignEnd::LineEnd);
        if text.value.is_empty() {
            return self.error_at(
                text.position,
                format!("the value of '{what}' is missing: write it in the same line, or as {what} {{ … }}"),
            );
        }
        Ok(text)
    }

    /// Reads `{ text }` with balanced braces.
    pub(crate) fn block_text(&mut self, what: &str) -> Result<SourcedText<String>, Error> {
        let opened = self.position();
        self.expect('{')?;
        let text = self.scan(ForeignEnd::Brace);
        if !self.eat('}') {
            return self.error_at(
                opened,
                format!("the '{{' of this {what} is not closed: the file ends before its '}}'"),
            );
        }
        Ok(text)
    }

    /// Reads text up to its end or an unmatched `}`. Quoted text is one unit, comments become spaces,
    /// surrounding white space is dropped.
    fn scan(&mut self, until: ForeignEnd) -> SourcedText<String> {
        let start = self.cursor.offset();
        let mut kept = String::new();
        let mut open = 0_usize;
        let mut last_visible = ' ';
        while let Some(c) = self.cursor.peek() {
            let rest = self.cursor.rest();
            let length = match c {
                '}' if open == 0 => break,
                '\n' if open == 0 && until == ForeignEnd::LineEnd => {
                    let next = rest.trim_start();
                    if last_visible != '|' && !next.starts_with('|') {
                        break;
                    }
                    rest.len() - next.len()
                }
                '"' | '\'' => closing_quote(rest, c),
                '#' => {
                    let length = rest.find('\n').unwrap_or(rest.len());
                    kept.extend(std::iter::repeat_n(' ', rest[..length].chars().count()));
                    self.cursor.skip(length);
                    continue;
                }
                '[' | ']' if until != ForeignEnd::Bracket => 1,
                '{' | '[' => {
                    open += 1;
                    1
                }
                '}' | ']' => {
                    open = open.saturating_sub(1);
                    1
                }
                c => c.len_utf8(),
            };
            if !c.is_whitespace() {
                last_visible = c;
            }
            kept.push_str(&rest[..length]);
            self.cursor.skip(length);
            if until == ForeignEnd::Bracket && open == 0 {
                break;
            }
        }
        // Comments were replaced by as many spaces as they had characters, so counting characters gives the
        // start of the text.
        let lead = kept.len() - kept.trim_start().len();
        let skipped = kept[..lead].chars().count();
        let text = self.cursor.text();
        let at = text[start..].char_indices().nth(skipped).map_or(text.len(), |(at, _)| start + at);
        SourcedText {
            value: kept.trim().to_owned(),
            position: self.position_at(at.min(self.cursor.offset())),
        }
    }
}

/// End of embedded text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ForeignEnd {
    /// The line's end, or a `}` that closes the enclosing block.
    ///
    /// A line continues in the next if braces are open, or if it ends or the next one starts with `|`.
    LineEnd,
    /// A `}` that closes the enclosing block.
    Brace,
    /// The bracket, `]` or `}`, that closes the one at the start.
    Bracket,
}

/// True for characters of words: names, keywords, numbers.
fn is_word(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '-' | '.' | '$')
}

/// Length of the quoted text at the start of `rest`; 1 if the quote is not closed in its line.
pub(crate) fn closing_quote(rest: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in rest.char_indices().skip(1) {
        match c {
            '\n' => break,
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == quote => return at + 1,
            _ => {}
        }
    }
    1
}
