//! Annotations: looked up from an item outwards through its ancestors.

use super::{AnnotationScope, BuildResult, ItemBuilder};
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{Error, ItemAnnotations, QueryGrammar, QueryNumber, TextSyntax, TextTokenization, WordComposite};

/// Names of annotations that items evaluate; the others are stored in [`ItemAnnotations::other`].
const KNOWN: [&str; 57] = [
    "accentdrop",
    "allowempty",
    "annotations",
    "approximate",
    "ascending",
    "bounds",
    "connectivity",
    "defaultindex",
    "descending",
    "distance",
    "documentfrequency",
    "distancethreshold",
    "elementfilter",
    "endanchor",
    "exclusiondistance",
    "filter",
    "function",
    "grammar",
    "grammar.composite",
    "grammar.profile",
    "grammar.syntax",
    "grammar.tokenization",
    "hitlimit",
    "hnsw.approximatethreshold",
    "hnsw.explorationslack",
    "hnsw.exploreadditionalhits",
    "hnsw.filterfirstexploration",
    "hnsw.filterfirstthreshold",
    "hnsw.postfilterthreshold",
    "hnsw.targethitsmaxadjustmentfactor",
    "id",
    "implicittransforms",
    "label",
    "language",
    "locale",
    "maxeditdistance",
    "mintargethits",
    "nfkc",
    "normalizecase",
    "origin",
    "prefix",
    "prefixlength",
    "ranked",
    "scorethreshold",
    "significance",
    "startanchor",
    "stem",
    "strength",
    "substring",
    "suffix",
    "targethits",
    "targetnumhits",
    "thresholdboostfactor",
    "totaltargethits",
    "usepositiondata",
    "weight",
    "andsegmenting",
];

impl<'a> AnnotationScope<'a> {
    /// The annotation with this name (in any case) of the item itself.
    pub(super) fn own_annotation(&self, name: &str) -> Option<&'a SyntaxNode> {
        self.annotations.iter().rev().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value)
    }

    /// The annotation with this name of the item or its nearest ancestor.
    pub(super) fn annotation(&self, name: &str) -> Option<&'a SyntaxNode> {
        self.own_annotation(name).or_else(|| self.parent.and_then(|parent| parent.annotation(name)))
    }

    /// Position of the nearest annotation.
    fn annotated_at(&self) -> usize {
        match self.annotations.first() {
            Some((_, value)) => value.at,
            None => self.parent.map_or(0, AnnotationScope::annotated_at),
        }
    }
}

impl ItemBuilder<'_> {
    pub(super) fn annotations(&self, scope: &AnnotationScope<'_>) -> BuildResult<ItemAnnotations> {
        let mut all = ItemAnnotations::default();
        if scope.is_bare() {
            return Ok(all);
        }
        self.count_annotations(scope)?;
        if let Some(weight) = self.integer(scope, "weight")? {
            all.weight = i32::try_from(weight).unwrap_or(if weight < 0 { i32::MIN } else { i32::MAX });
        }
        if let Some(node) = scope.own_annotation("id") {
            all.id = Some(self.integer_32(node, "id")?);
        }
        if let Some(node) = scope.own_annotation("connectivity") {
            all.connectivity = Some(self.connectivity(node)?);
        }
        if let Some(node) = scope.own_annotation("documentFrequency") {
            all.document_frequency = Some(self.document_frequency(node)?);
        }
        all.label = self.string(scope, "label")?;
        all.language = self.string(scope, "language")?;
        all.significance = self.float(scope, "significance")?;
        all.ranked = self.flag(scope, "ranked", true)?;
        all.filter = self.flag(scope, "filter", false)?;
        all.stem = self.flag(scope, "stem", true)?;
        all.normalize_case = self.flag(scope, "normalizeCase", true)?;
        all.accent_drop = self.flag(scope, "accentDrop", true)?;
        all.implicit_transforms = self.flag(scope, "implicitTransforms", true)?;
        all.use_position_data = self.flag(scope, "usePositionData", true)?;
        for (key, value) in scope.annotations {
            if key.eq_ignore_ascii_case("annotations") {
                if let SyntaxForm::Map(entries) = &value.form {
                    all.other.extend(entries.iter().map(|(key, value)| (key.clone(), plain(value))));
                }
            } else if !KNOWN.contains(&key.to_ascii_lowercase().as_str()) {
                all.other.insert(key.clone(), plain(value));
            }
        }
        Ok(all)
    }

    /// Counts a look at all annotations of an item and its ancestors.
    pub(super) fn count_annotations(&self, scope: &AnnotationScope<'_>) -> BuildResult<()> {
        match scope.count {
            0 => Ok(()),
            count => self.context.copies.take(scope.annotated_at(), count),
        }
    }

    fn connectivity(&self, node: &SyntaxNode) -> BuildResult<(i32, f64)> {
        let wrong = || SyntaxFault::new(node.at, "expected connectivity: {id: 4, weight: 0.8}");
        let SyntaxForm::Map(entries) = &node.form else { return Err(wrong()) };
        let entry =
            |name: &str| entries.iter().find(|(key, _)| key == name).map(|(_, node)| node).ok_or_else(wrong);
        Ok((self.integer_32(entry("id")?, "id")?, self.number(entry("weight")?)?.as_f64()))
    }

    /// Document frequency, given as a count and a total, as a share.
    fn document_frequency(&self, node: &SyntaxNode) -> BuildResult<f64> {
        let wrong = || {
            SyntaxFault::new(
                node.at,
                "expected documentFrequency: {frequency: 10, count: 1000}, and no more than count",
            )
        };
        let SyntaxForm::Map(entries) = &node.form else { return Err(wrong()) };
        let entry = |name: &str| {
            let (_, node) = entries.iter().find(|(key, _)| key == name).ok_or_else(wrong)?;
            Ok(self.number(node)?.as_f64())
        };
        let share = entry("frequency")? / entry("count")?;
        if (0.0..=1.0).contains(&share) { Ok(share) } else { Err(wrong()) }
    }

    fn integer_32(&self, node: &SyntaxNode, what: &str) -> BuildResult<i32> {
        match self.number(node)? {
            QueryNumber::Integer(number) => i32::try_from(number).ok(),
            QueryNumber::Float(_) => None,
        }
        .ok_or_else(|| SyntaxFault::new(node.at, format!("expected a whole number of 32 bits for {what}")))
    }

    pub(super) fn integer(&self, scope: &AnnotationScope<'_>, name: &str) -> BuildResult<Option<i64>> {
        let Some(node) = scope.annotation(name) else { return Ok(None) };
        match self.number(node)? {
            QueryNumber::Integer(number) => Ok(Some(number)),
            QueryNumber::Float(_) => Err(SyntaxFault::new(
                node.at,
                format!("expected a whole number for {name}, found {}", node.describe()),
            )),
        }
    }

    /// A number from 0 to 2³²-1.
    pub(super) fn count(&self, scope: &AnnotationScope<'_>, name: &str) -> BuildResult<Option<u32>> {
        self.count_up_to(scope, name, u32::MAX)
    }

    /// A number from 0 to `max`.
    pub(super) fn count_up_to(
        &self,
        scope: &AnnotationScope<'_>,
        name: &str,
        max: u32,
    ) -> BuildResult<Option<u32>> {
        let Some(number) = self.integer(scope, name)? else { return Ok(None) };
        let count = u32::try_from(number).ok().filter(|count| *count <= max);
        count.map(Some).ok_or_else(|| {
            let at = scope.annotation(name).map_or(0, |node| node.at);
            SyntaxFault::new(at, format!("expected a number from 0 to {max} for {name}, found {number}"))
        })
    }

    pub(super) fn float(&self, scope: &AnnotationScope<'_>, name: &str) -> BuildResult<Option<f64>> {
        scope.annotation(name).map(|node| Ok(self.number(node)?.as_f64())).transpose()
    }

    pub(super) fn string(&self, scope: &AnnotationScope<'_>, name: &str) -> BuildResult<Option<String>> {
        let Some(node) = scope.annotation(name) else { return Ok(None) };
        let text = self.text(node)?.text;
        self.context.copies.take(node.at, text.len())?;
        Ok(Some(text))
    }

    pub(super) fn flag(&self, scope: &AnnotationScope<'_>, name: &str, default: bool) -> BuildResult<bool> {
        let Some(node) = scope.annotation(name) else { return Ok(default) };
        match &node.form {
            SyntaxForm::Bool(value) => Ok(*value),
            SyntaxForm::String(text) if text == "true" => Ok(true),
            SyntaxForm::String(text) if text == "false" => Ok(false),
            _ => Err(SyntaxFault::new(
                node.at,
                format!("expected true or false for {name}, found {}", node.describe()),
            )),
        }
    }

    /// Value of `totalTargetHits`, or of `targetHits`, or of `targetNumHits`, which is its old name.
    pub(super) fn target_hits(&self, scope: &AnnotationScope<'_>) -> BuildResult<Option<u32>> {
        match self.count(scope, "totalTargetHits")? {
            None => match self.count(scope, "targetHits")? {
                None => self.count(scope, "targetNumHits"),
                hits => Ok(hits),
            },
            total => Ok(total),
        }
    }

    /// Value of `hitLimit`; the order of `ascending` or `descending` may turn its sign.
    pub(super) fn hit_limit(&self, scope: &AnnotationScope<'_>) -> BuildResult<Option<i64>> {
        let Some(limit) = self.integer(scope, "hitLimit")? else { return Ok(None) };
        if let (Some(_), Some(descending)) = (scope.annotation("ascending"), scope.annotation("descending")) {
            return Err(SyntaxFault::new(descending.at, "expected ascending or descending, not both"));
        }
        let is_descending = self.flag(scope, "descending", false)? || !self.flag(scope, "ascending", true)?;
        Ok(Some(if is_descending { limit.saturating_neg() } else { limit }))
    }

    /// Applies `grammar` and its parts to `default`. `raw` and `segment` are not grammars but kinds of terms.
    pub(super) fn grammar(
        &self,
        scope: &AnnotationScope<'_>,
        default: QueryGrammar,
    ) -> BuildResult<TextReading> {
        let wrong = |name: &str, reason: Error| {
            SyntaxFault::new(scope.annotation(name).map_or(0, |node| node.at), reason)
        };
        let mut grammar = default;
        if let Some(name) = self.string(scope, "grammar")? {
            match name.as_str() {
                "raw" => return Ok(TextReading::Raw),
                "segment" => return Ok(TextReading::Segment),
                _ => grammar = QueryGrammar::from_type(&name).map_err(|reason| wrong("grammar", reason))?,
            }
        }
        if let Some(name) = self.string(scope, "grammar.composite")? {
            grammar.composite =
                WordComposite::from_name(&name).map_err(|reason| wrong("grammar.composite", reason))?;
        }
        if let Some(name) = self.string(scope, "grammar.syntax")? {
            grammar.syntax =
                TextSyntax::from_name(&name).map_err(|reason| wrong("grammar.syntax", reason))?;
        }
        if let Some(name) = self.string(scope, "grammar.tokenization")? {
            grammar.tokenization =
                TextTokenization::from_name(&name).map_err(|reason| wrong("grammar.tokenization", reason))?;
        }
        Ok(TextReading::Grammar(grammar))
    }
}

/// Interpretation of typed text.
pub(super) enum TextReading {
    /// One term with the exact text.
    Raw,
    /// One term, split by linguistics.
    Segment,
    Grammar(QueryGrammar),
}

impl AnnotationScope<'_> {
    fn is_bare(&self) -> bool {
        self.annotations.is_empty() && self.parent.is_none_or(AnnotationScope::is_bare)
    }
}

impl QueryNumber {
    /// The nearest 64-bit float.
    pub fn as_f64(self) -> f64 {
        match self {
            QueryNumber::Integer(number) => number as f64,
            QueryNumber::Float(number) => number,
        }
    }

    /// The number with the other sign.
    pub(super) fn negated(self) -> Self {
        match self {
            QueryNumber::Integer(number) => {
                number.checked_neg().map_or(QueryNumber::Float(-self.as_f64()), QueryNumber::Integer)
            }
            QueryNumber::Float(number) => QueryNumber::Float(-number),
        }
    }
}

/// Text of a value, for annotations that are not evaluated.
fn plain(node: &SyntaxNode) -> String {
    match &node.form {
        SyntaxForm::String(text) | SyntaxForm::Name(text) | SyntaxForm::Parameter(text) => text.clone(),
        SyntaxForm::Number(number) => number.to_string(),
        SyntaxForm::Bool(value) => value.to_string(),
        SyntaxForm::List(items) => format!("[{}]", items.iter().map(plain).collect::<Vec<_>>().join(",")),
        SyntaxForm::Map(entries) => {
            let entries: Vec<String> =
                entries.iter().map(|(key, value)| format!("{key}:{}", plain(value))).collect();
            format!("{{{}}}", entries.join(","))
        }
        _ => node.describe(),
    }
}
