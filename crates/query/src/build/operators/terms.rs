//! Operators that follow `contains`, or replace a term.

use super::OperatorCall;
use crate::build::{AnnotationScope, BuildResult, ItemBuilder};
use crate::item::NEAR_DISTANCE;
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{PhraseWord, QueryItem, QueryNumber, TermMatch, TextSyntax};

/// Maximum number of phrases that the alternatives in one may make.
const PHRASES_MAX: usize = 64;
/// Number of characters that a statement has for each word of a phrase beside the word itself.
const SIGNS_OF_WORD: usize = 3;

/// `phrase("new", "york")`; its parts may be phrases and alternatives
pub(super) fn phrase(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let mut phrases = vec![Vec::new()];
    for node in call.arguments {
        let parts = phrase_parts(builder, call, node)?;
        if phrases.len() * parts.len() > PHRASES_MAX {
            return Err(SyntaxFault::new(
                node.at,
                format!("the alternatives make more than {PHRASES_MAX} phrases; give fewer"),
            ));
        }
        builder.context.copies.take(node.at, copied_bytes(&phrases, &parts))?;
        phrases = continued(phrases, &parts);
    }
    let annotations = builder.annotations(call.scope)?;
    builder.context.copies.take(call.at, annotations.text_bytes() * phrases.len())?;
    let field = call.field.to_owned();
    let phrase = |words| QueryItem::Phrase { field: field.clone(), words, annotations: annotations.clone() };
    let mut phrases: Vec<QueryItem> = phrases.into_iter().map(phrase).collect();
    Ok(if phrases.len() == 1 {
        phrases.remove(0)
    } else {
        QueryItem::Equiv { field, words: phrases, annotations }
    })
}

/// Bytes that [`continued`] copies, about.
fn copied_bytes(phrases: &[Vec<PhraseWord>], parts: &[Vec<PhraseWord>]) -> usize {
    let bytes = |texts: &[Vec<PhraseWord>]| {
        texts.iter().flatten().map(|word| word.text.text.len() + SIGNS_OF_WORD).sum::<usize>()
    };
    match (phrases, parts) {
        ([_], [_]) => 0,
        (_, [part]) => bytes(std::slice::from_ref(part)) * phrases.len(),
        _ => bytes(phrases) * parts.len() + bytes(parts) * phrases.len(),
    }
}

/// Appends each of the texts that an argument can stand for to each phrase. If it stands for one, as most do,
/// the words before it are not copied.
fn continued(mut phrases: Vec<Vec<PhraseWord>>, parts: &[Vec<PhraseWord>]) -> Vec<Vec<PhraseWord>> {
    if let [part] = parts {
        phrases.iter_mut().for_each(|phrase| phrase.extend_from_slice(part));
        return phrases;
    }
    let with_each = |phrase: &Vec<PhraseWord>| {
        parts.iter().map(|part| [phrase.as_slice(), part.as_slice()].concat()).collect::<Vec<_>>()
    };
    phrases.iter().flat_map(with_each).collect()
}

/// Texts that an argument of `phrase` can stand for, each as its words: one for a word or a phrase, one for
/// each of the `alternatives`.
fn phrase_parts(
    builder: &ItemBuilder<'_>,
    call: &OperatorCall<'_>,
    node: &SyntaxNode,
) -> BuildResult<Vec<Vec<PhraseWord>>> {
    let wrong = || SyntaxFault::new(node.at, format!("expected a word here, found {}", node.describe()));
    let SyntaxForm::Call(name, _) = &node.form else {
        let matching = builder.matching(&call.scope.inside(node))?;
        return Ok(vec![vec![PhraseWord { text: builder.text(node)?, matching }]]);
    };
    let words_of = |item| match item {
        QueryItem::Phrase { words, .. } => Ok(words),
        _ => Err(wrong()),
    };
    match builder.word(call.field, node, call.scope)? {
        QueryItem::Term { text, matching, .. } => Ok(vec![vec![PhraseWord { text, matching }]]),
        QueryItem::Alternatives { words, .. } => Ok(words
            .into_iter()
            .map(|(word, _)| vec![PhraseWord { text: word.as_str().into(), matching: TermMatch::Word }])
            .collect()),
        QueryItem::Equiv { words, .. } if name.eq_ignore_ascii_case("phrase") => {
            words.into_iter().map(words_of).collect()
        }
        item => Ok(vec![words_of(item)?]),
    }
}

/// `equiv("car", "automobile")`
pub(super) fn equiv(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let words = call.arguments.iter().map(|word| builder.word(call.field, word, call.scope));
    let words = words.collect::<BuildResult<_>>()?;
    Ok(QueryItem::Equiv {
        field: call.field.to_owned(),
        words,
        annotations: builder.annotations(call.scope)?,
    })
}

/// `alternatives({"sneakers": 1.0, "shoes": 0.7})`
pub(super) fn alternatives(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let words = builder.weighted(&call.arguments[0], call.operator.example)?;
    let annotations = builder.annotations(call.scope)?;
    Ok(QueryItem::Alternatives { field: call.field.to_owned(), words, annotations })
}

/// Letters by which the words of a `fuzzy` differ at most: each letter of a long word is compared with as
/// many around it.
const EDITS_MAX: u32 = 1000;

/// `fuzzy("word")`
pub(super) fn fuzzy(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let matching = TermMatch::Fuzzy {
        max_edit_distance: builder.count_up_to(call.scope, "maxEditDistance", EDITS_MAX)?.unwrap_or(2),
        prefix_length: builder.count(call.scope, "prefixLength")?.unwrap_or(0),
        prefix: builder.flag(call.scope, "prefix", false)?,
    };
    term(builder, call, matching)
}

/// `prefix("wor")`
pub(super) fn prefix(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    term(builder, call, TermMatch::Prefix)
}

/// `suffix("ord")`
pub(super) fn suffix(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    term(builder, call, TermMatch::Suffix)
}

/// `substring("or")`
pub(super) fn substring(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    term(builder, call, TermMatch::Substring)
}

/// `uri("example.org/page")`
pub(super) fn uri(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let end = call.scope.annotation("endAnchor").map(|_| builder.flag(call.scope, "endAnchor", false));
    let matching =
        TermMatch::Uri { start: builder.flag(call.scope, "startAnchor", false)?, end: end.transpose()? };
    term(builder, call, matching)
}

/// The only argument, as a term.
fn term(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>, matching: TermMatch) -> BuildResult<QueryItem> {
    let (text, annotations) = (builder.text(&call.arguments[0])?, builder.annotations(call.scope)?);
    Ok(QueryItem::Term { field: call.field.to_owned(), text, matching, annotations })
}

/// `text("some words")`
pub(super) fn text(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    builder.user_text(call.field, &call.arguments[0], call.scope, TextSyntax::None)
}

/// `near("web", "search")`, and `onear`, which requires the given order
pub(super) fn near(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let (mut words, mut excluded) = (Vec::new(), Vec::new());
    for argument in call.arguments {
        match &argument.form {
            SyntaxForm::Not(word) => {
                excluded.push(builder.word(call.field, word, &call.scope.inside(argument))?)
            }
            _ if excluded.is_empty() => words.push(builder.word(call.field, argument, call.scope)?),
            _ => {
                return Err(SyntaxFault::new(
                    argument.at,
                    "negated terms come last; for example: near(\"sql\", \"database\", !\"nosql\")",
                ));
            }
        }
    }
    if words.is_empty() {
        return Err(SyntaxFault::new(
            call.at,
            format!("expected at least one term that is not negated in {}(…)", call.operator.name),
        ));
    }
    let distance = builder.count(call.scope, "distance")?.unwrap_or(NEAR_DISTANCE);
    let exclusion_distance = builder.count(call.scope, "exclusionDistance")?;
    Ok(QueryItem::Near {
        field: call.field.to_owned(),
        words,
        excluded,
        distance,
        exclusion_distance: exclusion_distance.unwrap_or(distance.div_ceil(2)),
        ordered: call.operator.name == "onear",
        annotations: builder.annotations(call.scope)?,
    })
}

/// `sameElement(name contains "Joe", year < 1940)`
pub(super) fn same_element(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let inside = &AnnotationScope { in_element: true, ..*call.scope };
    let mut children =
        call.arguments.iter().map(|child| builder.item(child, inside)).collect::<BuildResult<Vec<_>>>()?;
    // Negated arguments are combined with the others like operands of `and`.
    if children.len() > 1 && children.iter().any(|child| matches!(child, QueryItem::Not { .. })) {
        children = vec![builder.and(call.arguments, inside)?];
    }
    let mut elements = Vec::new();
    if let Some(filter) = call.scope.annotation("elementFilter") {
        let index = |node: &SyntaxNode| match builder.number(node) {
            Ok(QueryNumber::Integer(index)) => u32::try_from(index).ok(),
            _ => None,
        };
        let indices = match &filter.form {
            SyntaxForm::List(items) => items.iter().map(index).collect(),
            _ => index(filter).map(|index| vec![index]),
        };
        elements = indices.ok_or_else(|| {
            SyntaxFault::new(filter.at, "expected indices from 0, as in {elementFilter: [0, 2, 5]}")
        })?;
        elements.sort_unstable();
        elements.dedup();
    }
    Ok(QueryItem::SameElement {
        field: call.field.to_owned(),
        children,
        elements,
        annotations: builder.annotations(call.scope)?,
    })
}

impl ItemBuilder<'_> {
    /// A word, phrase or equivalents inside another term operator.
    fn word(&self, field: &str, node: &SyntaxNode, scope: &AnnotationScope<'_>) -> BuildResult<QueryItem> {
        if let SyntaxForm::Call(name, _) = &node.form {
            let allowed = ["phrase", "equiv", "alternatives", "fuzzy", "prefix", "substring", "suffix"];
            if !allowed.iter().any(|word| name.eq_ignore_ascii_case(word)) {
                return Err(SyntaxFault::new(
                    node.at,
                    format!("expected a word or phrase(…) here, found {}", node.describe()),
                ));
            }
        }
        self.value(field, node, scope)
    }
}
