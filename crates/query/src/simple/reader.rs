//! Parser of the simple query language: characters to signed parts of a query.

use millrace_cursor::TextCursor;

use super::special::{self, WordPart};
use super::{Fields, SpecialTokenRules, TermEnd, any};
use crate::number_text::{self, NumberText};
use crate::{
    ItemAnnotations, PhraseWord, QueryGrammar, QueryItem, TermMatch, TermText, TextSyntax, WordComposite,
};

/// Maximum number of pieces of a text: more than the words that a plan accepts, so that the plan rejects
/// longer ones.
const PIECES_MAX: usize = 1 << 16;

/// Maximum depth of groups; parentheses further inside are ignored.
const GROUPS_MAX: usize = 32;

/// Number of hits that the `weakAnd` of an excluded group exposes to ranking.
const GROUP_HITS: u32 = 100;

/// A part of the query and whether it must or must not match.
pub(super) struct SimplePiece {
    pub sign: PieceSign,
    pub item: QueryItem,
    /// True for parts in parentheses.
    pub is_group: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceSign {
    Plus,
    Minus,
    None,
}

pub(super) struct SimpleReader<'a> {
    cursor: TextCursor<'a>,
    /// Number of open groups.
    depth: usize,
    field: &'a str,
    grammar: QueryGrammar,
    annotations: &'a ItemAnnotations,
    fields: Fields<'a>,
    special: SpecialTokenRules<'a>,
    /// Rule for the end of terms in `field`.
    end: TermEnd,
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

    /// Reads all parts, in order.
    pub fn pieces(mut self) -> Vec<SimplePiece> {
        let mut pieces: Vec<SimplePiece> = Vec::new();
        // Alternatives of the web syntax, between `OR`: each is all of its parts.
        let mut alternatives: Vec<Vec<QueryItem>> = Vec::new();
        let is_web = self.grammar.syntax == TextSyntax::Web;
        let mut has_positive = false;
        while pieces.len() < PIECES_MAX && self.skip_blanks() {
            if is_web && self.rest().starts_with("OR") && self.ends_at(2) {
                if has_positive {
                    self.cursor.skip(2);
                    has_positive = false;
                    let is_positive = |piece: &mut SimplePiece| piece.sign != PieceSign::Minus;
                    alternatives.push(pieces.extract_if(.., is_positive).map(|piece| piece.item).collect());
                    continue;
                }
                if !alternatives.is_empty() {
                    self.cursor.skip(2);
                    continue;
                }
            }
            if let Some(piece) = self.piece() {
                has_positive |= piece.sign != PieceSign::Minus;
                pieces.push(piece);
            }
        }
        if alternatives.is_empty() {
            return pieces;
        }
        let (last, mut pieces): (Vec<_>, Vec<_>) =
            pieces.into_iter().partition(|piece| piece.sign != PieceSign::Minus);
        alternatives.push(last.into_iter().map(|piece| piece.item).collect());
        let of_one = |mut items: Vec<QueryItem>| match items.len() {
            1 => items.pop(),
            0 => None,
            _ => Some(QueryItem::And(items)),
        };
        let mut items: Vec<QueryItem> = alternatives.into_iter().filter_map(of_one).collect();
        let item = if items.len() == 1 { items.remove(0) } else { QueryItem::Or(items) };
        pieces.push(SimplePiece { sign: PieceSign::None, item, is_group: false });
        pieces
    }

    /// Reads the next part, if there is one; consumes at least one character.
    fn piece(&mut self) -> Option<SimplePiece> {
        let sign = match self.peek()? {
            _ if self.is_at_special() => PieceSign::None,
            '+' => PieceSign::Plus,
            '-' => PieceSign::Minus,
            _ => PieceSign::None,
        };
        let is_number = sign == PieceSign::Minus && self.is_negative_number();
        if sign != PieceSign::None && !is_number {
            self.cursor.skip(1);
            if sign == PieceSign::Minus && self.is_any() {
                // Several signs are one.
                self.cursor.take_while(|c| c == '-');
            }
            if !self.rest().starts_with(signed_start) && !self.is_at_special() {
                return None;
            }
        }
        // Only a field or parentheses before a range exclude it, as with numbers.
        let is_range = sign == PieceSign::Minus
            && !self.is_any()
            && !self.is_at_special()
            && matches!(self.peek(), Some('[' | '<' | '>'));
        let sign = if is_number || is_range { PieceSign::None } else { sign };
        let as_it_is = sign == PieceSign::Plus && self.grammar.syntax == TextSyntax::Web;
        // The web syntax has groups after signs only.
        let is_group = self.peek() == Some('(')
            && !self.is_at_special()
            && (sign != PieceSign::None || self.grammar.syntax != TextSyntax::Web);
        let item = if is_group { self.group(sign) } else { self.term() };
        let item = item.map(|item| if as_it_is { unstemmed(item) } else { item });
        Some(SimplePiece { sign, item: item?, is_group })
    }

    /// True for `-5`, which is a number to search for; with `any` it excludes the number. A field before the
    /// number, parentheses around it, or two minus signs exclude it always.
    fn is_negative_number(&self) -> bool {
        let rest = self.rest();
        let is_end = |c: char| c.is_whitespace() || matches!(c, ')' | '!' | ']' | ';');
        let number = &rest[1..rest.find(is_end).unwrap_or(rest.len())];
        let mut parts = number.split('.');
        let is_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
        !self.is_any()
            && parts.next().is_some_and(is_digits)
            && parts.next().is_none_or(is_digits)
            && parts.next().is_none()
    }

    /// True for `type=any`.
    fn is_any(&self) -> bool {
        self.grammar.syntax != TextSyntax::Web && self.grammar.composite == WordComposite::Or
    }

    /// Parses `(a b c)`: any of them, where none has a sign ([`any`](super::any)), or with `-` before the
    /// parenthesis all of them, or a `weakAnd` where the text is one. A missing end is that of the text.
    fn group(&mut self, sign: PieceSign) -> Option<QueryItem> {
        self.cursor.skip(1);
        let mut pieces = Vec::new();
        self.depth += 1;
        while self.skip_blanks() {
            match self.peek() {
                Some(')') => {
                    self.cursor.skip(1);
                    break;
                }
                Some('(') if self.depth >= GROUPS_MAX => self.cursor.skip(1),
                _ => pieces.extend(self.piece()),
            }
        }
        self.depth -= 1;
        let is_any = self.grammar.composite == WordComposite::Or && self.grammar.syntax == TextSyntax::Simple;
        match any::combine(pieces, is_any)? {
            QueryItem::Or(children)
                if sign == PieceSign::Minus && self.grammar.composite == WordComposite::WeakAnd =>
            {
                let annotations = ItemAnnotations::default();
                Some(QueryItem::WeakAnd { children, target_hits: GROUP_HITS, annotations })
            }
            QueryItem::Or(items) if sign == PieceSign::Minus => Some(QueryItem::And(items)),
            item => Some(item),
        }
    }

    /// Parses `field:` and a core term, with its weight. `None` for meaningless text, which is skipped.
    pub(super) fn term(&mut self) -> Option<QueryItem> {
        let start = self.cursor.offset();
        let named = if self.is_at_special() { None } else { self.field_name() };
        let (field, end) = match &named {
            Some((field, end)) => (field.clone(), end.clone()),
            None => (self.field.to_owned(), self.end.clone()),
        };
        let item = match (self.peek(), end) {
            (_, TermEnd::Word) if (self.special.at_start)(self.rest()).is_some() => self.word(&field),
            (_, TermEnd::Terminator(terminator)) => self.exact(&field, &terminator),
            (_, TermEnd::Hostname) => self.hostname(&field),
            (Some('"'), TermEnd::Blank) => self.quoted(&field),
            (Some('"'), TermEnd::Word) => self.phrase(&field),
            (Some('[' | '<' | '>'), _) => self.range(&field),
            (Some('{'), _) if named.is_some() => self.same_element(&field),
            (Some('('), end) if named.is_some() => {
                let outer = (std::mem::take(&mut self.field), std::mem::replace(&mut self.end, end));
                let group = self.group(PieceSign::None);
                (self.field, self.end) = outer;
                return group.map(|item| with_field(item, &field));
            }
            (_, TermEnd::Blank) => self.whole(&field),
            _ => self.word(&field),
        };
        if self.cursor.offset() == start {
            self.cursor.take_char();
        }
        item
    }

    /// Reads a field name with its colon, if that is next; returns it with the rule for the end of its terms.
    fn field_name(&mut self) -> Option<(String, TermEnd)> {
        let rest = self.rest();
        let mut braces = 0;
        let end = rest.find(|c: char| {
            braces += i32::from(c == '{') - i32::from(c == '}');
            braces == 0 && !(c.is_alphanumeric() || matches!(c, '_' | '.' | '-' | '}'))
        })?;
        let name = &rest[..end];
        if name.is_empty() || !rest[end..].starts_with(':') {
            return None;
        }
        let term_end = (self.fields)(name)?;
        self.cursor.skip(end + 1);
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
        let rest = self.rest();
        let length = number_text::length(rest);
        self.cursor.skip(length.max(1));
        let NumberText { low, high, hit_limit } = number_text::parse(&rest[..length])?;
        let annotations = self.weighted();
        Some(QueryItem::Range { field: field.to_owned(), low, high, hit_limit, annotations })
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
        let value = self.in_quotes();
        let annotations = self.weighted();
        self.value(field, value, TermMatch::Word, annotations)
    }

    /// Reads text in quotes, without them; a missing end is that of the text.
    fn in_quotes(&mut self) -> &'a str {
        self.cursor.take_here("\"");
        let inside = self.cursor.take_while(|c| c != '"');
        self.cursor.take_here("\"");
        inside
    }

    /// Reads a value up to the next blank, with its stars and weight.
    fn whole(&mut self, field: &str) -> Option<QueryItem> {
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
        let item = if is_quoted { self.quoted(field) } else { self.whole(field) };
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

    fn value(
        &self,
        field: &str,
        value: &str,
        matching: TermMatch,
        annotations: ItemAnnotations,
    ) -> Option<QueryItem> {
        let text = TermText::from(value);
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
                _ => self.word(member),
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

    /// Reads a word with its stars and weight; `None` without a letter or digit.
    fn word(&mut self, field: &str) -> Option<QueryItem> {
        let is_part = |c: char| !c.is_whitespace() && !matches!(c, '"' | '(' | ')' | '{' | '}' | '!');
        let rest = self.rest();
        let length = special::end_of(rest, self.special, is_part);
        let chunk = &rest[..length];
        self.cursor.skip(length);
        if chunk.is_empty() {
            return None;
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

    /// Annotations with the weight that is next: `!`, `!!`, `!150`.
    fn weighted(&mut self) -> ItemAnnotations {
        let mut annotations = self.annotations.clone();
        let marks = self.cursor.take_while(|c| c == '!').len();
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

    /// Skips `length` bytes, which end between characters.
    pub(super) fn skip(&mut self, length: usize) {
        self.cursor.skip(length);
    }

    pub(super) fn peek(&self) -> Option<char> {
        self.cursor.peek()
    }

    /// True if a word ends after `length` bytes.
    fn ends_at(&self, length: usize) -> bool {
        self.rest()[length..].chars().next().is_none_or(char::is_whitespace)
    }

    /// Skips blanks; returns true if text is left.
    pub(super) fn skip_blanks(&mut self) -> bool {
        self.cursor.skip_blanks();
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
    let matching = match (chunk.starts_with('*'), chunk.ends_with('*')) {
        (true, true) => TermMatch::Substring,
        (true, false) => TermMatch::Suffix,
        (false, true) => TermMatch::Prefix,
        (false, false) => TermMatch::Word,
    };
    (chunk.trim_matches('*'), matching)
}

/// The two words of `name:word`; `None` if the first is not a name, as in an address or a time.
fn around_colon(chunk: &str) -> Option<[&str; 2]> {
    let (name, word) = chunk.split_once(':')?;
    let is_name = name.starts_with(|c: char| c.is_alphabetic() || c == '_')
        && name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '.'));
    (is_name && word.starts_with(char::is_alphanumeric)).then_some([name, word])
}

/// True for a character with which a part after a sign starts. Before any other one the sign is punctuation.
fn signed_start(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '"' | '(' | '[' | '<' | '>' | '*' | '_' | '-')
}

fn is_searchable(word: &str) -> bool {
    word.chars().any(char::is_alphanumeric)
}

/// Disables stemming of the item's terms.
fn unstemmed(mut item: QueryItem) -> QueryItem {
    if let QueryItem::Term { annotations, .. } | QueryItem::Phrase { annotations, .. } = &mut item {
        annotations.stem = false;
    }
    item
}

/// Sets `field` if the item has none.
fn with_field(mut item: QueryItem, name: &str) -> QueryItem {
    match &mut item {
        QueryItem::And(items) | QueryItem::Or(items) | QueryItem::Rank(items) => {
            *items = std::mem::take(items).into_iter().map(|item| with_field(item, name)).collect();
        }
        QueryItem::Not { positive, negatives } => {
            **positive = with_field(std::mem::replace(&mut **positive, QueryItem::True), name);
            *negatives = std::mem::take(negatives).into_iter().map(|item| with_field(item, name)).collect();
        }
        QueryItem::Term { field, .. } | QueryItem::Phrase { field, .. } | QueryItem::Range { field, .. }
            if field.is_empty() =>
        {
            *field = name.to_owned();
        }
        _ => {}
    }
    item
}
