//! Parser of the simple query language: characters to terms.

use std::iter;

use millrace_cursor::TextCursor;

use super::punctuation::{ends_number, is_blank, sign};
use super::special::{self, WordPart};
use super::{Fields, SpecialTokenRules, TermEnd};
use crate::number_text::{self, NumberText};
use crate::{ItemAnnotations, PhraseWord, QueryGrammar, QueryItem, RangeBound, TermMatch, TermText};

/// Maximum depth of groups; parentheses further inside are ignored.
pub(super) const GROUPS_MAX: usize = 32;

/// Signs that end a word.
const WORD_ENDS: &str = "\"()![]<>;";

/// Signs that end a word among the members of an element.
const ELEMENT_ENDS: &str = "\"()![]<>;{}";

/// A term, and how it was written.
pub(super) struct SimpleTerm {
    pub item: QueryItem,
    /// True if its field was typed before it.
    pub has_field: bool,
}

pub(super) struct SimpleReader<'a> {
    pub(super) cursor: TextCursor<'a>,
    /// Number of open groups.
    pub(super) depth: usize,
    field: &'a str,
    pub(super) grammar: QueryGrammar,
    annotations: &'a ItemAnnotations,
    fields: Fields<'a>,
    special: SpecialTokenRules<'a>,
    /// Rule for the end of terms in `field`.
    pub(super) end: TermEnd,
}

impl<'a> SimpleReader<'a> {
    pub fn new(
        text: &'a str,
        field: &'a str,
        grammar: QueryGrammar,
        annotations: &'a ItemAnnotations,
        fields: Fields<'a>,
        special: SpecialTokenRules<'a>,
    ) -> Self {
        let end = fields(field).unwrap_or_default();
        SimpleReader {
            cursor: TextCursor::new(text),
            depth: 0,
            field,
            grammar,
            annotations,
            fields,
            special,
            end,
        }
    }

    /// Reads `field:` and a core term, with its weight; `None`, and no character is taken, where none begins.
    pub(super) fn term(&mut self) -> Option<SimpleTerm> {
        let start = self.cursor.offset();
        let named = self.term_field();
        let has_field = named.is_some();
        let item = match named {
            Some((field, end)) => {
                let after_name = self.cursor.offset();
                self.core_term(&field, end, true).or_else(|| {
                    self.cursor.go_to(after_name);
                    self.word_after_punctuation(&field)
                })
            }
            None if self.begins_term() => self.core_term(self.field, self.end.clone(), false),
            None => None,
        };
        if item.is_none() {
            self.cursor.go_to(start);
        }
        item.map(|item| SimpleTerm { item, has_field })
    }

    fn core_term(&mut self, field: &str, end: TermEnd, has_field: bool) -> Option<QueryItem> {
        match (self.peek(), end) {
            (_, TermEnd::Word) if (self.special.at_start)(self.rest()).is_some() => {
                self.word(field, WORD_ENDS)
            }
            (_, TermEnd::Terminator(terminator)) => self.exact(field, &terminator),
            (_, TermEnd::Hostname) => self.hostname(field),
            (_, TermEnd::Blank) if self.rest().starts_with('"') => self.quoted(field),
            (Some('"'), TermEnd::Word) => self.phrase(field),
            (Some('[' | '<' | '>'), _) => self.range(field).or_else(|| self.number_in_bracket(field)),
            (Some('{'), _) if has_field => self.same_element(field),
            (_, TermEnd::Blank) => self.unquoted(field),
            _ => self.word(field, WORD_ENDS),
        }
    }

    /// True if a term without a field may begin here. Other characters mean nothing by themselves, and end a
    /// group.
    fn begins_term(&self) -> bool {
        if self.end != TermEnd::Word {
            return self.peek() != Some('(');
        }
        if self.is_at_special() || self.is_negative() {
            return true;
        }
        match self.peek() {
            Some('"' | '[' | '<' | '>') => true,
            first => {
                let star = if first == Some('*') { self.cursor.peek().map_or(0, char::len_utf8) } else { 0 };
                begins_word(&self.rest()[star..])
            }
        }
    }

    /// True for `-5` and `-1.5`, before a blank or the end of a group.
    pub(super) fn is_negative(&self) -> bool {
        let mut chars = self.rest().chars();
        chars.next().is_some_and(|c| sign(c) == '-') && number_length(chars.as_str()).is_some()
    }

    /// Reads names of fields with their colons; returns the last one with the rule for the end of its terms.
    /// A name that only punctuation follows means nothing.
    fn term_field(&mut self) -> Option<(String, TermEnd)> {
        loop {
            if self.is_at_special() {
                return None;
            }
            let (field, end) = self.field_name()?;
            let is_special = end == TermEnd::Word && (self.special.at_start)(self.rest()).is_some();
            if end != TermEnd::Word || is_special || !is_followed_by_nothing(self.rest()) {
                return Some((field, end));
            }
            self.cursor.take_while(|c| !is_blank(c));
            self.skip_blanks();
        }
    }

    /// Reads the next word up to the next blank, punctuation included: `field:(word` searches for the word
    /// in the field.
    fn word_after_punctuation(&mut self, field: &str) -> Option<QueryItem> {
        self.cursor.take_while(|c| !c.is_alphanumeric() && !is_blank(c));
        self.word(field, WORD_ENDS)
    }

    /// Skips what means nothing by itself: a word, or punctuation.
    pub(super) fn skip_meaningless(&mut self) {
        let Some(first) = self.cursor.take_char() else { return };
        if first.is_alphanumeric() {
            self.cursor.take_while(char::is_alphanumeric);
        } else if sign(first) == '(' {
            // What is in the last of several parentheses is in each, and was looked at.
            while self.take_sign('(') {}
        } else if !matches!(sign(first), '-' | ')' | '*' | '"' | '[' | '<' | '>') {
            self.cursor.take_while(|c| c == first);
        }
    }

    /// Reads a field name with its colon, if that is next; returns it with the rule for the end of its terms.
    fn field_name(&mut self) -> Option<(String, TermEnd)> {
        let rest = self.rest();
        if !rest.starts_with(|c: char| c.is_alphanumeric() || c == '_') {
            return None;
        }
        let mut braces = 0;
        let end = rest.find(|c: char| {
            braces += i32::from(c == '{') - i32::from(c == '}');
            braces == 0 && !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '}'))
        })?;
        let name = &rest[..end];
        let colon = rest[end..].chars().next().filter(|c| sign(*c) == ':')?;
        let term_end = (self.fields)(name)?;
        self.cursor.skip(end + colon.len_utf8());
        Some((name.to_owned(), term_end))
    }

    fn phrase(&mut self, field: &str) -> Option<QueryItem> {
        let body = self.in_quotes();
        let parts = special::parts(body, self.special);
        let words: Vec<TermText> = parts
            .iter()
            .flat_map(|part| match part {
                WordPart::Special(word) => vec![TermText::from(word.as_str())],
                WordPart::Text(text) => {
                    text.split_whitespace().filter(|word| is_searchable(word)).map(TermText::from).collect()
                }
            })
            .collect();
        let is_special = matches!(parts.as_slice(), [WordPart::Special(_)]);
        let mut annotations = self.weighted();
        match words.len() {
            0 => None,
            1 => {
                let text = TermText { together: true, ..words.into_iter().next()? };
                annotations.stem &= !is_special;
                Some(QueryItem::Term {
                    field: field.to_owned(),
                    text,
                    matching: TermMatch::Word,
                    annotations,
                })
            }
            _ => {
                let words = words.into_iter().map(PhraseWord::from).collect();
                Some(QueryItem::Phrase { field: field.to_owned(), words, annotations })
            }
        }
    }

    /// Parses `[low;high;limit]`, `<number` or `>number`; `None` without a number.
    fn range(&mut self, field: &str) -> Option<QueryItem> {
        let rest = range_text(self.rest());
        let length = number_text::length(rest);
        let closed = number_text::parse(&rest[..length]).map(|range| (range, length));
        let (NumberText { low, high, hit_limit }, length) = closed.or_else(|| open_range(self.rest()))?;
        if (low, high) == (RangeBound::Open, RangeBound::Open) {
            return None;
        }
        self.cursor.skip(length);
        let annotations = self.weighted();
        Some(QueryItem::Range { field: field.to_owned(), low, high, hit_limit, annotations })
    }

    /// Reads the number of `[5]`: what is after it means nothing.
    fn number_in_bracket(&mut self, field: &str) -> Option<QueryItem> {
        self.cursor.take_here("[").then_some(())?;
        self.cursor.skip_blanks();
        let minus = usize::from(self.rest().starts_with('-'));
        let number = &self.rest()[..minus + number_length(&self.rest()[minus..])?];
        self.cursor.skip(number.len());
        let annotations = self.weighted();
        self.value(field, number, TermMatch::Word, annotations)
    }

    /// Reads the text up to the terminator, which may be any text; a star after it makes it a prefix.
    fn exact(&mut self, field: &str, terminator: &str) -> Option<QueryItem> {
        let rest = self.rest();
        let length = rest.find(terminator).unwrap_or(rest.len());
        self.cursor.skip((length + terminator.len()).min(rest.len()));
        let matching = if self.peek() == Some('*') { TermMatch::Prefix } else { TermMatch::Word };
        if matching == TermMatch::Prefix {
            self.cursor.skip(1);
        }
        let annotations = self.weighted();
        self.value(field, &rest[..length], matching, annotations)
    }

    /// Reads a value in quotes.
    fn quoted(&mut self, field: &str) -> Option<QueryItem> {
        self.cursor.take_here("\"");
        let value = self.cursor.take_while(|c| c != '"');
        self.cursor.take_here("\"");
        let annotations = self.weighted();
        self.value(field, value, TermMatch::Word, annotations)
    }

    /// Reads text in quotes, without them; a missing end is that of the text.
    fn in_quotes(&mut self) -> &'a str {
        self.cursor.take_char();
        let inside = self.cursor.take_while(|c| sign(c) != '"');
        self.cursor.take_char();
        inside
    }

    /// Reads a value without quotes, up to the next blank, with its stars and weight.
    fn unquoted(&mut self, field: &str) -> Option<QueryItem> {
        let rest = self.rest();
        let length = rest.find(char::is_whitespace).unwrap_or(rest.len());
        let chunk = &rest[..length];
        let without_percent = chunk.trim_end_matches(|c: char| c.is_ascii_digit());
        let marked = if without_percent.ends_with('!') { without_percent } else { chunk };
        let chunk = marked.trim_end_matches('!');
        // Parentheses around the term are not part of it.
        let chunk = if chunk.contains('(') { chunk } else { chunk.trim_end_matches(')') };
        self.cursor.skip(chunk.len());
        let annotations = self.weighted();
        let (value, matching) = stars(chunk);
        self.value(field, value, matching, annotations)
    }

    /// Reads a hostname, in quotes or up to the next blank, with its anchors and weight.
    fn hostname(&mut self, field: &str) -> Option<QueryItem> {
        let is_quoted = self.peek() == Some('"');
        let item = if is_quoted { self.quoted(field) } else { self.unquoted(field) };
        let Some(QueryItem::Term { field, text, matching, annotations }) = item else { return item };
        let name = text.text.trim_end_matches('$');
        let is_open = matches!(matching, TermMatch::Prefix | TermMatch::Substring);
        let matching = TermMatch::Uri { start: name.starts_with('^'), end: Some(!is_open) };
        let name = name.trim_start_matches('^');
        is_searchable(name).then(|| QueryItem::Term {
            field,
            text: TermText::from(name),
            matching,
            annotations,
        })
    }

    /// A value that was read in one piece, with any characters in it.
    fn value(
        &self,
        field: &str,
        value: &str,
        matching: TermMatch,
        annotations: ItemAnnotations,
    ) -> Option<QueryItem> {
        let text = TermText { together: true, ..TermText::from(value) };
        (!value.is_empty()).then(|| QueryItem::Term { field: field.to_owned(), text, matching, annotations })
    }

    /// Parses `{member:term member:term}`: all must match in one element.
    fn same_element(&mut self, field: &str) -> Option<QueryItem> {
        self.cursor.skip(1);
        let mut children = Vec::new();
        while self.skip_blanks() {
            if self.peek() == Some('}') {
                self.cursor.skip(1);
                break;
            }
            let rest = self.rest();
            let end =
                rest.find(|c: char| !(c.is_alphanumeric() || matches!(c, '_' | '.'))).unwrap_or(rest.len());
            let member = if rest[end..].starts_with(':') {
                self.cursor.skip(end + 1);
                &rest[..end]
            } else {
                ""
            };
            let before = self.cursor.offset();
            children.extend(match self.peek() {
                Some('"') => self.phrase(member),
                Some('[' | '<' | '>') => self.range(member),
                _ => self.word(member, ELEMENT_ENDS),
            });
            if self.cursor.offset() == before {
                self.cursor.take_char();
            }
        }
        (!children.is_empty()).then(|| QueryItem::SameElement {
            field: field.to_owned(),
            children,
            elements: Vec::new(),
            annotations: self.annotations.clone(),
        })
    }

    /// Reads a word with its stars and weight, up to one of `ends`; `None` without a letter or digit.
    fn word(&mut self, field: &str, ends: &str) -> Option<QueryItem> {
        let is_part = |c: char| !is_blank(c) && !ends.contains(sign(c));
        let rest = self.rest();
        let length = special::end_of(rest, self.special, is_part);
        let chunk = &rest[..length];
        self.cursor.skip(length);
        if chunk.is_empty() {
            return None;
        }
        if self.peek() == Some('"') && is_joined(chunk) {
            return Some(self.joined_quotes(field, chunk));
        }
        let annotations = self.weighted();
        let parts = special::parts(chunk, self.special);
        if parts.iter().any(|part| matches!(part, WordPart::Special(_))) {
            return Some(special_words(field, &parts, &annotations));
        }
        let (word, matching) = stars(chunk);
        if !is_searchable(word) {
            return None;
        }
        if let (TermMatch::Word, Some(words)) = (&matching, around_colon(word)) {
            // The text before the colon is not a field: it is a word, too.
            let term = |word: &str| QueryItem::Term {
                field: field.to_owned(),
                text: word.into(),
                matching: TermMatch::Word,
                annotations: annotations.clone(),
            };
            return Some(QueryItem::And(words.into_iter().map(term).collect()));
        }
        Some(QueryItem::Term { field: field.to_owned(), text: word.into(), matching, annotations })
    }

    /// Reads quotes that punctuation joins to the text before them. With one word there, all of it is a
    /// phrase; else all words must match.
    fn joined_quotes(&mut self, field: &str, before: &str) -> QueryItem {
        let inside = self.in_quotes();
        let annotations = self.weighted();
        let word = before.trim_matches(|c: char| !c.is_alphanumeric());
        let quoted = inside.split_whitespace().filter(|word| is_searchable(word));
        let words: Vec<TermText> = iter::once(word).chain(quoted).map(TermText::from).collect();
        let is_phrase = words.len() > 1 && word.chars().all(char::is_alphanumeric);
        let term = |text| QueryItem::Term {
            field: field.to_owned(),
            text,
            matching: TermMatch::Word,
            annotations: annotations.clone(),
        };
        if is_phrase {
            let words = words.into_iter().map(PhraseWord::from).collect();
            return QueryItem::Phrase { field: field.to_owned(), words, annotations };
        }
        let mut items: Vec<QueryItem> = words.into_iter().map(term).collect();
        if items.len() == 1 { items.remove(0) } else { QueryItem::And(items) }
    }

    /// Annotations with the weight that is next: `!`, `!!`, `!150`.
    fn weighted(&mut self) -> ItemAnnotations {
        let mut annotations = self.annotations.clone();
        let marks = self.cursor.take_while(|c| sign(c) == '!').chars().count();
        if marks > 0 {
            let percent = self.cursor.take_digits().parse().ok();
            let raised = i32::try_from(marks).unwrap_or(i32::MAX).saturating_mul(50).saturating_add(100);
            annotations.weight = percent.unwrap_or(raised);
        }
        annotations
    }

    /// True at a special token, if terms of the default field end with words.
    pub(super) fn is_at_special(&self) -> bool {
        self.end == TermEnd::Word && (self.special.at_start)(self.rest()).is_some()
    }

    pub(super) fn rest(&self) -> &'a str {
        self.cursor.rest()
    }

    /// The next character; a sign in its form of ASCII.
    pub(super) fn peek(&self) -> Option<char> {
        self.cursor.peek().map(sign)
    }

    /// Takes a sign if it is next, after blanks.
    pub(super) fn take_sign(&mut self, expected: char) -> bool {
        let start = self.cursor.offset();
        self.cursor.take_while(is_blank);
        let is_next = self.peek() == Some(expected);
        if is_next {
            self.cursor.take_char();
        } else {
            self.cursor.go_to(start);
        }
        is_next
    }

    /// Skips blanks, and parentheses that are too deep; returns true if text is left.
    pub(super) fn skip_blanks(&mut self) -> bool {
        while self.depth >= GROUPS_MAX && self.take_sign('(') {}
        self.cursor.take_while(is_blank);
        !self.cursor.is_at_end()
    }
}

/// The terms of text with special tokens. Stars around a text that is one special token specify its match
/// type.
fn special_words(field: &str, parts: &[WordPart<'_>], annotations: &ItemAnnotations) -> QueryItem {
    let is_star = |part: Option<&WordPart<'_>>| matches!(part, Some(WordPart::Text(text)) if text.trim_matches('*').is_empty());
    let term = |text: &str, matching, is_special: bool| QueryItem::Term {
        field: field.to_owned(),
        text: TermText { together: is_special, ..text.into() },
        matching,
        annotations: ItemAnnotations { stem: !is_special && annotations.stem, ..annotations.clone() },
    };
    let of_part = |part: &WordPart<'_>| match part {
        WordPart::Special(word) => {
            let matching = match (is_star(parts.first()), is_star(parts.last())) {
                _ if parts.len() > 3 => TermMatch::Word,
                (true, true) => TermMatch::Substring,
                (true, false) => TermMatch::Suffix,
                (false, true) => TermMatch::Prefix,
                (false, false) => TermMatch::Word,
            };
            Some(term(word, matching, true))
        }
        WordPart::Text(text) => is_searchable(text).then(|| term(text, TermMatch::Word, false)),
    };
    let mut items: Vec<QueryItem> = parts.iter().filter_map(of_part).collect();
    if items.len() == 1 { items.remove(0) } else { QueryItem::And(items) }
}

/// A word without surrounding stars, with the match type that they specify.
fn stars(chunk: &str) -> (&str, TermMatch) {
    let is_star = |c| sign(c) == '*';
    let matching = match (chunk.starts_with(is_star), chunk.ends_with(is_star)) {
        (true, true) => TermMatch::Substring,
        (true, false) => TermMatch::Suffix,
        (false, true) => TermMatch::Prefix,
        (false, false) => TermMatch::Word,
    };
    (chunk.trim_matches(is_star), matching)
}

/// True if a text begins with a word.
fn begins_word(text: &str) -> bool {
    text.trim_start_matches('\'').starts_with(char::is_alphanumeric)
}

/// True if a text ends with punctuation that joins it to what follows. A star after a word is a mark.
fn is_joined(chunk: &str) -> bool {
    let word = chunk.trim_start_matches('*');
    let after = word.trim_start_matches(|c: char| c.is_alphanumeric() || c == '\'');
    is_searchable(word) && !chunk.ends_with(char::is_alphanumeric) && !matches!(after, "" | "*")
}

/// The two words of `name:word`; `None` if the first is not a name, as in an address or a time.
fn around_colon(chunk: &str) -> Option<[&str; 2]> {
    let (name, word) = chunk.split_once(':')?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    (is_name && word.starts_with(char::is_alphanumeric)).then_some([name, word])
}

fn is_searchable(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

/// True for `5` and `1.5`.
pub(super) fn is_digits(text: &str) -> bool {
    let mut parts = text.split('.');
    let is_part = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    parts.next().is_some_and(is_part) && parts.next().is_none_or(is_part) && parts.next().is_none()
}

/// True if a text has no word before its first blank, but for blanks in quotes.
fn is_followed_by_nothing(text: &str) -> bool {
    let mut is_quoted = false;
    for c in text.chars() {
        is_quoted ^= sign(c) == '"';
        if c.is_alphanumeric() {
            return false;
        }
        if is_blank(c) && !is_quoted {
            break;
        }
    }
    true
}

/// Length of the number at the start of a text, `5` or `1.5`, if nothing else is joined to it.
fn number_length(text: &str) -> Option<usize> {
    let length = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let is_number = is_digits(&text[..length]) && text[length..].chars().next().is_none_or(ends_number);
    is_number.then_some(length)
}

/// A range without its last bracket, as in `[1;5`, at the start of a text, and its length.
fn open_range(text: &str) -> Option<(NumberText, usize)> {
    let mut cursor = TextCursor::new(text);
    let number = |cursor: &mut TextCursor<'_>| {
        cursor.take("-");
        cursor.word(|c| c.is_ascii_digit());
        let whole = cursor.offset();
        if !cursor.take_here(".") || cursor.take_digits().is_empty() {
            cursor.go_to(whole);
        }
    };
    cursor.take_here("[").then_some(())?;
    number(&mut cursor);
    cursor.take(";").then_some(())?;
    number(&mut cursor);
    if cursor.take(";") {
        number(&mut cursor);
    }
    let length = text[..cursor.offset()].trim_end().len();
    let ends = text[length..].chars().next().is_none_or(ends_number);
    let range = number_text::parse(&format!("{}]", &text[..length]))?;
    ends.then_some((range, length))
}

/// The characters at the start of a text of which a range can be made.
fn range_text(text: &str) -> &str {
    let is_inside =
        |c: char| c.is_ascii_digit() || c.is_whitespace() || matches!(c, '-' | '+' | '.' | ';' | 'e' | 'E');
    let inside = text.find(|c| !matches!(c, '[' | '<' | '>' | '=')).unwrap_or(text.len()).min(2);
    let end = inside + text[inside..].find(|c| !is_inside(c)).unwrap_or(text.len() - inside);
    let is_closed = text[end..].starts_with([']', '>']);
    &text[..end + usize::from(is_closed)]
}
