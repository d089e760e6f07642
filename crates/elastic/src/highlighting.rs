//! Highlighting: parts of the texts of hits, with the words that the query finds between tags.
//!
//! The words are compared as the query compares them. A text is cut around them: a fragment begins and ends
//! where a sentence does, if it is not too long, and otherwise between words.

mod fragments;
mod terms;

use std::collections::HashMap;
use std::sync::Arc;

use serde_json::{Map, Value};

use self::fragments::{TextFragment, cut, fragments_of};
use self::terms::{HighlightedTerm, TermMarks, terms_of};
use crate::fields::all_at;
use crate::hit_scan::searched;
use crate::mapping::{all_fields, is_searched, type_of};
use crate::patterns::glob;
use crate::query::{self, SearchQuery, text_of};
use crate::search::SearchHit;
use crate::{Error, scan_limit};

/// Types of fields that a pattern of names finds.
const TEXT_TYPES: [&str; 6] =
    ["text", "match_only_text", "search_as_you_type", "keyword", "constant_keyword", "wildcard"];

/// Members that change nothing here: there is one way to highlight, and no limit of what it reads.
const WITHOUT_EFFECT: [&str; 11] = [
    "type",
    "force_source",
    "phrase_limit",
    "max_analyzed_offset",
    "fragmenter",
    "fragment_offset",
    "boundary_scanner",
    "boundary_scanner_locale",
    "boundary_chars",
    "boundary_max_scan",
    "options",
];

/// Fields and patterns of fields, at most.
const FIELDS_MAX: usize = 1_000;

/// Bytes of a tag, at most: each field has its own ones.
const TAG_BYTES_MAX: usize = 1_000;

/// Highlighting as it is asked for.
#[derive(Debug, Clone)]
pub(crate) struct HitHighlighting {
    /// Names or patterns of fields, each with its options.
    fields: Vec<(String, HighlightOptions)>,
}

/// Options of a field.
#[derive(Debug, Clone)]
struct HighlightOptions {
    before: String,
    after: String,
    /// Letters of a fragment, and most fragments. 0: a text is shown as a whole.
    fragment_size: usize,
    fragments: usize,
    /// True if words count that the query seeks in this field alone.
    needs_field: bool,
    /// True if fragments with the most words come first.
    is_by_score: bool,
    /// Letters that are shown of a text without such words.
    no_match_size: usize,
    escapes_html: bool,
    /// Query whose words are shown, in place of that of the search.
    query: Option<Arc<SearchQuery>>,
}

impl Default for HighlightOptions {
    fn default() -> Self {
        HighlightOptions {
            before: "<em>".to_owned(),
            after: "</em>".to_owned(),
            fragment_size: 100,
            fragments: 5,
            needs_field: true,
            is_by_score: false,
            no_match_size: 0,
            escapes_html: false,
            query: None,
        }
    }
}

impl HitHighlighting {
    /// Parses the member `highlight` of a search.
    ///
    /// # Errors
    /// It is malformed, or has an unknown member.
    pub(crate) fn parse(value: &Value) -> Result<Self, Error> {
        let Value::Object(members) = value else {
            return Err(Error::Parsing("[highlight] must be an object".to_owned()));
        };
        let mut shared = HighlightOptions::default();
        for (name, value) in members.iter().filter(|(name, _)| *name != "fields") {
            shared.member(name, value)?;
        }
        let of_one = |(name, options): (&String, &Value)| -> Result<(String, HighlightOptions), Error> {
            let Value::Object(members) = options else {
                return Err(Error::Parsing(format!("[highlight] of [{name}] must be an object")));
            };
            let mut own = shared.clone();
            members.iter().try_for_each(|(name, value)| own.member(name, value))?;
            Ok((name.clone(), own))
        };
        let fields: Result<Vec<_>, Error> = match members.get("fields") {
            None => Ok(Vec::new()),
            Some(Value::Object(fields)) => fields.iter().map(of_one).collect(),
            Some(Value::Array(all)) => {
                all.iter().filter_map(Value::as_object).flatten().map(of_one).collect()
            }
            Some(_) => Err(Error::Parsing("[fields] of [highlight] must be an object".to_owned())),
        };
        let fields = fields?;
        match fields.len() > FIELDS_MAX {
            true => Err(Error::IllegalArgument(format!(
                "[highlight] may have {FIELDS_MAX} fields and patterns at most, found {}: use a pattern with a star",
                fields.len()
            ))),
            false => Ok(HitHighlighting { fields }),
        }
    }

    /// Bytes that regular expressions take, about.
    pub(crate) fn pattern_bytes(&self) -> usize {
        let queries = self.fields.iter().filter_map(|(_, options)| options.query.as_deref());
        queries.map(SearchQuery::pattern_bytes).sum()
    }

    /// A highlighter of the hits of a query.
    pub(crate) fn highlighter<'q>(&'q self, query: &'q SearchQuery) -> HitHighlighter<'q> {
        // A query of many words is gone through once for all of its fields.
        let mut by_query: HashMap<usize, Arc<Vec<HighlightedTerm<'q>>>> = HashMap::new();
        let fields = self.fields.iter().map(|(name, options)| {
            let query = options.query.as_deref().unwrap_or(query);
            let known = by_query.entry(std::ptr::from_ref(query).addr());
            let terms = known.or_insert_with(|| Arc::new(terms_of(query)));
            HighlighterField { name, options, terms: Arc::clone(terms), marks: HashMap::new() }
        });
        HitHighlighter { fields: fields.collect() }
    }
}

impl HighlightOptions {
    fn member(&mut self, name: &str, value: &Value) -> Result<(), Error> {
        let number = || {
            let number = value.as_u64().and_then(|number| usize::try_from(number).ok());
            number.ok_or_else(|| {
                Error::IllegalArgument(format!(
                    "[{name}] of [highlight] must be a number that is not negative"
                ))
            })
        };
        // All words have the first of several tags.
        let tag = || {
            let tag = match value {
                Value::Array(tags) => tags.first().map(text_of).unwrap_or_default(),
                tag => text_of(tag),
            };
            match tag.len() > TAG_BYTES_MAX {
                true => Err(Error::IllegalArgument(format!(
                    "[{name}] of [highlight] has {} bytes, and may have {TAG_BYTES_MAX}",
                    tag.len()
                ))),
                false => Ok(tag),
            }
        };
        match name {
            "pre_tags" => self.before = tag()?,
            "post_tags" => self.after = tag()?,
            "fragment_size" => self.fragment_size = number()?,
            "number_of_fragments" => self.fragments = number()?,
            "no_match_size" => self.no_match_size = number()?,
            "require_field_match" => self.needs_field = *value != Value::Bool(false),
            "order" => self.is_by_score = text_of(value) == "score",
            "encoder" => self.escapes_html = text_of(value) == "html",
            "highlight_query" => self.query = Some(Arc::new(query::parse(value)?)),
            "tags_schema" if *value == "styled" => {
                (self.before, self.after) = (r#"<em class="hlt1">"#.to_owned(), "</em>".to_owned());
            }
            "tags_schema" if *value == "default" => {}
            known if WITHOUT_EFFECT.contains(&known) => {}
            other => return Err(Error::unsupported(&format!("[{other}] in [highlight]"))),
        }
        Ok(())
    }

    /// Text of a part of a field.
    fn written(&self, text: &str, fragment: &TextFragment) -> String {
        let mut written = String::with_capacity(fragment.range.len() + 32);
        let mut at = fragment.range.start;
        for mark in &fragment.marks {
            self.write_plain(&text[at..mark.start], &mut written);
            written.push_str(&self.before);
            self.write_plain(&text[mark.clone()], &mut written);
            written.push_str(&self.after);
            at = mark.end;
        }
        self.write_plain(&text[at..fragment.range.end], &mut written);
        written
    }

    fn write_plain(&self, text: &str, written: &mut String) {
        if !self.escapes_html {
            return written.push_str(text);
        }
        for letter in text.chars() {
            match letter {
                '&' => written.push_str("&amp;"),
                '<' => written.push_str("&lt;"),
                '>' => written.push_str("&gt;"),
                '"' => written.push_str("&quot;"),
                '\'' => written.push_str("&#x27;"),
                '/' => written.push_str("&#x2F;"),
                other => written.push(other),
            }
        }
    }

    /// Fragments of the texts of a field.
    fn shown(&self, texts: &[String], marks: &TermMarks<'_>) -> Vec<String> {
        let is_whole = self.fragments == 0 || self.fragment_size == 0;
        let mut found: Vec<(&str, TextFragment)> = Vec::new();
        for text in texts {
            let marks = marks.of(text);
            if marks.is_empty() {
                continue;
            }
            match is_whole {
                true => found.push((text.as_str(), TextFragment { range: 0..text.len(), marks })),
                false => {
                    let fragments = fragments_of(text, marks, self.fragment_size);
                    found.extend(fragments.into_iter().map(|fragment| (text.as_str(), fragment)));
                }
            }
        }
        if found.is_empty() {
            let first = texts.first().filter(|_| self.no_match_size > 0);
            let beginning = first.map(|text| cut(text, self.no_match_size));
            return beginning
                .map(|(text, range)| self.written(text, &TextFragment { range, marks: Vec::new() }))
                .into_iter()
                .collect();
        }
        let mut order: Vec<usize> = (0..found.len()).collect();
        if !is_whole {
            order.sort_by_key(|at| std::cmp::Reverse(found[*at].1.marks.len()));
            order.truncate(self.fragments);
        }
        if !self.is_by_score {
            order.sort_unstable();
        }
        order.into_iter().map(|at| self.written(found[at].0, &found[at].1)).collect()
    }
}

/// Highlighter of the hits of a search.
pub(crate) struct HitHighlighter<'q> {
    fields: Vec<HighlighterField<'q>>,
}

/// A field, or a pattern of fields, with the words that are shown in it.
struct HighlighterField<'q> {
    name: &'q str,
    options: &'q HighlightOptions,
    terms: Arc<Vec<HighlightedTerm<'q>>>,
    /// The words by the field, and the type that it has.
    marks: HashMap<(String, String), TermMarks<'q>>,
}

impl HitHighlighter<'_> {
    /// Member `highlight` of a hit, if it has any.
    pub(crate) fn of(&mut self, hit: &SearchHit) -> Option<Value> {
        // It costs about as much as finding the hit did.
        scan_limit::pause();
        let mut shown = Map::new();
        for field in &mut self.fields {
            for path in field.paths(hit) {
                let Some(fragments) = field.fragments(hit, &path).filter(|found| !found.is_empty()) else {
                    continue;
                };
                shown.insert(path, fragments.into());
            }
        }
        (!shown.is_empty()).then_some(Value::Object(shown))
    }
}

impl HighlighterField<'_> {
    /// Fields of a hit that the name finds.
    fn paths(&self, hit: &SearchHit) -> Vec<String> {
        if !self.name.contains('*') {
            return vec![self.name.to_owned()];
        }
        let all = all_fields(&hit.index.entry.mappings).into_iter();
        let texts = all.filter(|(path, field)| glob(self.name, path) && TEXT_TYPES.contains(&type_of(field)));
        texts.map(|(path, _)| path).collect()
    }

    /// Fragments of a field of a hit; `None` if there is no such field.
    fn fragments(&mut self, hit: &SearchHit, path: &str) -> Option<Vec<String>> {
        let document = searched(hit);
        let (definition, source_path) = document.field(path)?;
        let analyzers = document.analyzers;
        let division = (
            analyzers.of_field(&definition),
            analyzers.of_search(&definition),
            analyzers.of_phrases(&definition),
        );
        let form = format!("{} {division:?}", type_of(&definition));
        let values = all_at(hit.searched_members(), &source_path).into_iter();
        let texts: Vec<String> =
            values.filter(|value| is_searched(&definition, value)).map(text_of).collect();
        let HighlighterField { options, terms, marks, .. } = self;
        let marks = marks.entry((path.to_owned(), form)).or_insert_with(|| {
            let of_field = terms.iter().filter(|term| !options.needs_field || term.is_of(path));
            TermMarks::new(of_field, &definition, analyzers)
        });
        Some(options.shown(&texts, marks))
    }
}
