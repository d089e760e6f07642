//! Queries written by programs: `type=prog`. An item is a list in parentheses: its name, properties, and
//! content.
//!
//! ```text
//! (AND (WORD {"index" "title"} "quick") (PHRASE {"index" "body"} (WORD "brown") (WORD "fox")))
//! ```
//!
//! The text of a word is used literally: the syntax of typed text has no meaning in it. An item may have an
//! identifier after `%`, which is ignored.

use crate::build::check_name;
use crate::item::{NEAR_DISTANCE, TARGET_HITS};
use crate::syntax::SyntaxFault;
use crate::{Error, ItemAnnotations, PhraseWord, QueryItem, TermMatch};

/// Maximum nesting of items.
const DEPTH_MAX: usize = 64;

/// Parses the text; terms without an index search `field`.
pub(crate) fn parse(text: &str, field: &str) -> Result<QueryItem, SyntaxFault> {
    let mut reader = ProgrammaticReader { text, at: 0 };
    let item = reader.item(0, field)?;
    reader.skip_blanks();
    match text.len() - reader.at {
        0 => Ok(item),
        _ => Err(reader.expected("the end of the query")),
    }
}

struct ProgrammaticReader<'t> {
    text: &'t str,
    at: usize,
}

/// An item as written.
struct WrittenItem<'t> {
    name: &'t str,
    field: String,
    annotations: ItemAnnotations,
    distance: u32,
    hits: u32,
    items: Vec<QueryItem>,
    texts: Vec<String>,
}

impl<'t> ProgrammaticReader<'t> {
    /// Parses an item; `field` is its default field, and that of its content.
    fn item(&mut self, depth: usize, field: &str) -> Result<QueryItem, SyntaxFault> {
        self.expect('(')?;
        if depth > DEPTH_MAX {
            return Err(SyntaxFault::new(self.at, format!("items are nested more than {DEPTH_MAX} deep")));
        }
        let at = self.at;
        let mut written = WrittenItem {
            name: self.name("the name of an item, as in (WORD \"text\")")?,
            field: field.to_owned(),
            annotations: ItemAnnotations::default(),
            distance: NEAR_DISTANCE,
            hits: TARGET_HITS,
            items: Vec::new(),
            texts: Vec::new(),
        };
        if self.peek() == Some('%') {
            self.at += 1;
            self.name("a name after '%'")?;
        }
        self.properties(&mut written)?;
        loop {
            match self.peek() {
                Some('(') => {
                    let item = self.item(depth + 1, &written.field)?;
                    written.items.push(item);
                }
                Some('"') => written.texts.push(self.quoted()?),
                Some(')') => break,
                _ => return Err(self.expected("an item, a text in quotes or ')'")),
            }
        }
        self.at += 1;
        written.into_item().map_err(|reason| SyntaxFault::new(at, reason))
    }

    /// Parses `{"name" "value" …}`, if present.
    fn properties(&mut self, of: &mut WrittenItem<'t>) -> Result<(), SyntaxFault> {
        if self.peek() != Some('{') {
            return Ok(());
        }
        self.at += 1;
        while self.peek() != Some('}') {
            let name = self.quoted()?;
            self.skip_blanks();
            let at = self.at;
            let value = match self.peek() {
                Some('"') => self.quoted()?,
                _ => self.name("the value of the property")?.to_owned(),
            };
            let wrong = || SyntaxFault::new(at, format!("{value:?} is not a value of '{name}'"));
            let whole = || value.parse::<u32>().map_err(|_| wrong());
            match name.as_str() {
                "index" => {
                    check_name(&value).map_err(|reason| SyntaxFault::new(at, reason))?;
                    of.field = value;
                }
                "weight" => of.annotations.weight = value.parse().map_err(|_| wrong())?,
                "significance" => of.annotations.significance = Some(value.parse().map_err(|_| wrong())?),
                "label" => of.annotations.label = Some(value),
                "distance" => of.distance = whole()?,
                "targetHits" | "N" => of.hits = whole()?,
                // Other properties describe the origin of an item.
                _ => {}
            }
        }
        self.at += 1;
        Ok(())
    }

    /// Reads a text in quotes, in which `\` escapes a quote or another `\`.
    fn quoted(&mut self) -> Result<String, SyntaxFault> {
        self.expect('"')?;
        let start = self.at;
        let mut text = String::new();
        let mut characters = self.text[start..].char_indices();
        while let Some((at, character)) = characters.next() {
            match character {
                '"' => {
                    self.at = start + at + 1;
                    return Ok(text);
                }
                '\\' => text.extend(characters.next().map(|(_, escaped)| escaped)),
                other => text.push(other),
            }
        }
        Err(SyntaxFault::new(start, "this text is not closed; expected '\"' before the end"))
    }

    fn name(&mut self, wanted: &str) -> Result<&'t str, SyntaxFault> {
        self.skip_blanks();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !(c.is_alphanumeric() || "_-.".contains(c))).unwrap_or(rest.len());
        if end == 0 {
            return Err(self.expected(wanted));
        }
        self.at += end;
        Ok(&rest[..end])
    }

    fn expect(&mut self, wanted: char) -> Result<(), SyntaxFault> {
        if self.peek() != Some(wanted) {
            return Err(self.expected(&format!("'{wanted}'")));
        }
        self.at += wanted.len_utf8();
        Ok(())
    }

    fn expected(&self, wanted: &str) -> SyntaxFault {
        let found = match self.text[self.at..].chars().next() {
            Some(character) => format!("'{character}'"),
            None => "the end".to_owned(),
        };
        SyntaxFault::new(self.at, format!("expected {wanted}, found {found}"))
    }

    fn peek(&mut self) -> Option<char> {
        self.skip_blanks();
        self.text[self.at..].chars().next()
    }

    fn skip_blanks(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }
}

impl WrittenItem<'_> {
    /// Converts to an item.
    fn into_item(self) -> Result<QueryItem, Error> {
        match self.name.to_ascii_uppercase().as_str() {
            "AND" => Ok(QueryItem::And(self.some_items()?.items)),
            "OR" => Ok(QueryItem::Or(self.some_items()?.items)),
            "RANK" => Ok(QueryItem::Rank(self.some_items()?.items)),
            "NOT" => {
                let mut items = self.some_items()?.items;
                Ok(QueryItem::Not { positive: Box::new(items.remove(0)), negatives: items })
            }
            "WEAKAND" => {
                let WrittenItem { items, hits, annotations, .. } = self.some_items()?;
                Ok(QueryItem::WeakAnd { children: items, target_hits: hits, annotations })
            }
            "EQUIV" => {
                let WrittenItem { field, items, annotations, .. } = self.some_items()?;
                Ok(QueryItem::Equiv { field, words: items, annotations })
            }
            "PHRASE" => self.phrase(),
            "NEAR" => self.near(false),
            "ONEAR" => self.near(true),
            "WORD" | "EXACT" | "INT" => self.term(TermMatch::Word),
            "PREFIX" => self.term(TermMatch::Prefix),
            "SUFFIX" => self.term(TermMatch::Suffix),
            "SUBSTRING" => self.term(TermMatch::Substring),
            _ => Err(Error::value(format!(
                "no item '{}'; there are AND, OR, NOT, RANK, WEAKAND, EQUIV, PHRASE, NEAR, ONEAR, WORD, EXACT, INT, PREFIX, SUFFIX and SUBSTRING",
                self.name
            ))),
        }
    }

    /// Checks that it contains items and no text. The words of an item search the field of the first.
    fn some_items(mut self) -> Result<Self, Error> {
        match (self.items.first(), self.texts.is_empty()) {
            (Some(first), true) => {
                self.field = first.field().unwrap_or(&self.field).to_owned();
                Ok(self)
            }
            _ => Err(Error::value(format!(
                "{0} has items in it, as in ({0} (WORD \"a\") (WORD \"b\"))",
                self.name
            ))),
        }
    }

    fn term(self, matching: TermMatch) -> Result<QueryItem, Error> {
        let WrittenItem { name, field, annotations, items, texts, .. } = self;
        match (items.as_slice(), texts.as_slice()) {
            ([], [text]) => Ok(QueryItem::Term { field, text: text.as_str().into(), matching, annotations }),
            _ => Err(Error::value(format!("{name} has one text in it, as in ({name} \"text\")"))),
        }
    }

    fn phrase(self) -> Result<QueryItem, Error> {
        let WrittenItem { field, items, annotations, .. } = self.some_items()?;
        let word = |item: QueryItem| match item {
            QueryItem::Term { text, matching, .. } => Ok(PhraseWord { text, matching }),
            _ => Err(Error::value("PHRASE is of words, as in (PHRASE (WORD \"a\") (WORD \"b\"))")),
        };
        let words = items.into_iter().map(word).collect::<Result<_, Error>>()?;
        Ok(QueryItem::Phrase { field, words, annotations })
    }

    fn near(self, ordered: bool) -> Result<QueryItem, Error> {
        let WrittenItem { field, items, annotations, distance, .. } = self.some_items()?;
        Ok(QueryItem::Near {
            field,
            words: items,
            excluded: Vec::new(),
            distance,
            exclusion_distance: distance.div_ceil(2),
            ordered,
            annotations,
        })
    }
}
