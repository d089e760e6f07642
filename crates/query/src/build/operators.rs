//! Operators that are written as functions.

use super::annotations::Reading;
use super::{Builder, Built, Scope};
use crate::syntax::{Fault, Form, Node};
use crate::{
    Annotations, Bound, Composite, Grammar, Item, Match, NearestNeighbor, Number, Syntax, TermText, UserText,
    WeightedOperator,
};

/// Positions that `near` looks over where it does not say.
const NEAR_DISTANCE: u32 = 2;
/// Hits that `weakAnd` and `wand` expose to ranking where they do not say.
const TARGET_HITS: u32 = 100;
/// One degree along a meridian.
const KILOMETRES_PER_DEGREE: f64 = std::f64::consts::PI * 6356.752 / 180.0;

impl Builder<'_> {
    /// `field contains value`.
    pub(super) fn contains(&self, field: &Node, value: &Node, scope: &Scope<'_>) -> Built<Item> {
        let (name, element) = self.field(field)?;
        let item = self.value(element.map_or(name, |_| ""), value, scope)?;
        self.in_element(name, element, item)
    }

    /// What stands after `contains`.
    pub(super) fn value(&self, field: &str, node: &Node, above: &Scope<'_>) -> Built<Item> {
        let scope = &above.inside(node);
        match &node.form {
            Form::String(_) | Form::Name(_) | Form::Number(_) | Form::Bool(_) | Form::Parameter(_) => {
                Ok(Item::Term {
                    field: field.to_owned(),
                    text: self.text(node)?,
                    matching: self.matching(scope)?,
                    annotations: self.annotations(scope)?,
                })
            }
            Form::Call(name, arguments) => self.term_function(field, node.at, name, arguments, scope),
            _ => Err(Fault::new(
                node.at,
                format!(
                    "expected text or a function of text, found {}; for example: \"word\" or phrase(\"two\", \"words\")",
                    node.describe()
                ),
            )),
        }
    }

    fn term_function(
        &self,
        field: &str,
        at: usize,
        name: &str,
        arguments: &[Node],
        scope: &Scope<'_>,
    ) -> Built<Item> {
        let owned = || field.to_owned();
        let annotations = || self.annotations(scope);
        match name.to_ascii_lowercase().as_str() {
            "phrase" => {
                require(at, name, arguments, 1.., "phrase(\"new\", \"york\")")?;
                let words = arguments.iter().map(|word| self.text(word)).collect::<Built<_>>()?;
                Ok(Item::Phrase { field: owned(), words, annotations: annotations()? })
            }
            "near" | "onear" => self.near(field, at, name, arguments, scope),
            "equiv" => {
                require(at, name, arguments, 1.., "equiv(\"car\", \"automobile\")")?;
                let words =
                    arguments.iter().map(|word| self.word(field, word, scope)).collect::<Built<_>>()?;
                Ok(Item::Equiv { field: owned(), words, annotations: annotations()? })
            }
            "alternatives" => {
                require(at, name, arguments, 1..=1, "alternatives({\"sneakers\": 1.0, \"shoes\": 0.7})")?;
                let words =
                    self.weighted(&arguments[0], "alternatives({\"sneakers\": 1.0, \"shoes\": 0.7})")?;
                Ok(Item::Alternatives { field: owned(), words, annotations: annotations()? })
            }
            "fuzzy" => {
                require(
                    at,
                    name,
                    arguments,
                    1..=1,
                    "({maxEditDistance: 1, prefixLength: 2}fuzzy(\"parantesis\"))",
                )?;
                let matching = Match::Fuzzy {
                    max_edit_distance: self.count(scope, "maxEditDistance")?.unwrap_or(2),
                    prefix_length: self.count(scope, "prefixLength")?.unwrap_or(0),
                    prefix: self.truth(scope, "prefix", false)?,
                };
                let text = self.text(&arguments[0])?;
                Ok(Item::Term { field: owned(), text, matching, annotations: annotations()? })
            }
            "prefix" | "substring" | "suffix" => {
                require(at, name, arguments, 1..=1, "prefix(\"wor\")")?;
                let matching = match name.to_ascii_lowercase().as_str() {
                    "prefix" => Match::Prefix,
                    "suffix" => Match::Suffix,
                    _ => Match::Substring,
                };
                let text = self.text(&arguments[0])?;
                Ok(Item::Term { field: owned(), text, matching, annotations: annotations()? })
            }
            "uri" => {
                require(at, name, arguments, 1..=1, "uri(\"example.org/page\")")?;
                let text = self.text(&arguments[0])?;
                Ok(Item::Term { field: owned(), text, matching: Match::Word, annotations: annotations()? })
            }
            "text" => {
                require(at, name, arguments, 1..=1, "text(\"some words\") or text(@words)")?;
                self.user_text(field, &arguments[0], scope, Syntax::None)
            }
            "sameelement" => self.same_element(field, at, name, arguments, scope),
            _ => Err(Fault::new(
                at,
                format!(
                    "'{name}' is no function of text; there are phrase, near, onear, equiv, alternatives, fuzzy, prefix, \
                     substring, suffix, sameElement, text and uri"
                ),
            )),
        }
    }

    fn near(&self, field: &str, at: usize, name: &str, arguments: &[Node], scope: &Scope<'_>) -> Built<Item> {
        require(at, name, arguments, 1.., "({distance: 5}near(\"web\", \"search\"))")?;
        let (mut words, mut excluded) = (Vec::new(), Vec::new());
        for argument in arguments {
            match &argument.form {
                Form::Not(word) => excluded.push(self.word(field, word, &scope.inside(argument))?),
                _ if excluded.is_empty() => words.push(self.word(field, argument, scope)?),
                _ => {
                    return Err(Fault::new(
                        argument.at,
                        "negated terms come last; for example: near(\"sql\", \"database\", !\"nosql\")",
                    ));
                }
            }
        }
        if words.is_empty() {
            return Err(Fault::new(
                at,
                format!("expected at least one term that is not negated in {name}(…)"),
            ));
        }
        let distance = self.count(scope, "distance")?.unwrap_or(NEAR_DISTANCE);
        let exclusion_distance = self.count(scope, "exclusionDistance")?;
        Ok(Item::Near {
            field: field.to_owned(),
            words,
            excluded,
            distance,
            exclusion_distance: exclusion_distance.unwrap_or(distance.div_ceil(2)),
            ordered: name.eq_ignore_ascii_case("onear"),
            annotations: self.annotations(scope)?,
        })
    }

    /// A word, phrase or equivalents inside another operator of terms.
    fn word(&self, field: &str, node: &Node, scope: &Scope<'_>) -> Built<Item> {
        if let Form::Call(name, _) = &node.form {
            let allowed = ["phrase", "equiv", "alternatives", "fuzzy", "prefix", "substring", "suffix"];
            if !allowed.iter().any(|word| name.eq_ignore_ascii_case(word)) {
                return Err(Fault::new(
                    node.at,
                    format!("expected a word or phrase(…) here, found {}", node.describe()),
                ));
            }
        }
        self.value(field, node, scope)
    }

    fn same_element(
        &self,
        field: &str,
        at: usize,
        name: &str,
        arguments: &[Node],
        scope: &Scope<'_>,
    ) -> Built<Item> {
        const EXAMPLE: &str =
            "persons contains sameElement(first_name contains \"Joe\", year_of_birth < 1940)";
        require(at, name, arguments, 1.., EXAMPLE)?;
        let inside = &Scope { in_element: true, ..*scope };
        let mut children =
            arguments.iter().map(|child| self.item(child, inside)).collect::<Built<Vec<_>>>()?;
        // `!` among the arguments stands beside the others, as it does between `and`.
        if children.len() > 1 && children.iter().any(|child| matches!(child, Item::Not { .. })) {
            children = vec![self.and(arguments, inside)?];
        }
        let mut elements = Vec::new();
        if let Some(filter) = scope.annotation("elementFilter") {
            let index = |node: &Node| match self.number(node) {
                Ok(Number::Integer(index)) => u32::try_from(index).ok(),
                _ => None,
            };
            let indices = match &filter.form {
                Form::List(items) => items.iter().map(index).collect(),
                _ => index(filter).map(|index| vec![index]),
            };
            elements = indices.ok_or_else(|| {
                Fault::new(filter.at, "expected indices from 0, as in {elementFilter: [0, 2, 5]}")
            })?;
            elements.sort_unstable();
            elements.dedup();
        }
        Ok(Item::SameElement {
            field: field.to_owned(),
            children,
            elements,
            annotations: self.annotations(scope)?,
        })
    }

    /// An operator that is a condition by itself.
    pub(super) fn call(&self, at: usize, name: &str, arguments: &[Node], scope: &Scope<'_>) -> Built<Item> {
        let children = |from: usize| {
            arguments[from..].iter().map(|child| self.item(child, scope)).collect::<Built<Vec<_>>>()
        };
        match name.to_ascii_lowercase().as_str() {
            "range" => self.range(at, name, arguments, scope),
            "rank" => {
                require(at, name, arguments, 1.., "rank(title contains \"a\", body contains \"b\")")?;
                Ok(Item::Rank(children(0)?))
            }
            "weakand" => {
                require(
                    at,
                    name,
                    arguments,
                    1..,
                    "({targetHits: 10}weakAnd(title contains \"a\", body contains \"b\"))",
                )?;
                Ok(Item::WeakAnd {
                    children: children(0)?,
                    target_hits: self.target_hits(scope)?.unwrap_or(TARGET_HITS),
                    annotations: self.annotations(scope)?,
                })
            }
            "wand" | "dotproduct" | "weightedset" => self.weighted_operator(at, name, arguments, scope),
            "nearestneighbor" => self.nearest_neighbor(at, name, arguments, scope),
            "geolocation" => self.geo_location(at, name, arguments, scope),
            "geoboundingbox" => {
                let example =
                    "geoBoundingBox(place, 63.25, 10.01, 63.45, 10.61), which are south, west, north, east";
                require(at, name, arguments, 5..=5, example)?;
                let mut corners = [0.0; 4];
                for (corner, argument) in corners.iter_mut().zip(&arguments[1..]) {
                    *corner = self.number(argument)?.as_f64();
                }
                let field = self.field(&arguments[0])?.0.to_owned();
                Ok(Item::GeoBoundingBox { field, corners, annotations: self.annotations(scope)? })
            }
            "userinput" => {
                require(at, name, arguments, 1..=1, "userInput(@text)")?;
                let field = self.string(scope, "defaultIndex")?;
                self.user_text(
                    field.as_deref().unwrap_or(self.context.default_field),
                    &arguments[0],
                    scope,
                    self.context.input_grammar.syntax,
                )
            }
            "userquery" => {
                let Some(text) = self.context.user_query else {
                    return Err(Fault::new(
                        at,
                        "userQuery() reads the parameter 'query', which is not given; add query=…",
                    ));
                };
                Ok(Item::Text(UserText {
                    field: self.context.default_field.to_owned(),
                    text: text.to_owned(),
                    grammar: self.context.query_grammar,
                    filter: self.context.filter.map(str::to_owned),
                    allow_empty: self.truth(scope, "allowEmpty", false)?,
                    target_hits: self.target_hits(scope)?.unwrap_or(TARGET_HITS),
                    distance: self.count(scope, "distance")?.unwrap_or(NEAR_DISTANCE),
                    annotations: self.annotations(scope)?,
                }))
            }
            "nonempty" => {
                require(at, name, arguments, 1..=1, "nonEmpty(title contains @text)")?;
                let item = self.item(&arguments[0], scope)?;
                match item.find_empty() {
                    None => Ok(item),
                    Some(what) => Err(Fault::new(at, format!("nonEmpty(…) has {what} without text"))),
                }
            }
            "predicate" => self.predicate(at, name, arguments),
            _ if scope.in_element => self.term_function("", at, name, arguments, scope),
            "phrase" | "near" | "onear" | "equiv" | "alternatives" | "fuzzy" | "prefix" | "substring"
            | "suffix" | "sameelement" | "text" | "uri" => Err(Fault::new(
                at,
                format!("{name}(…) needs a field; for example: title contains {name}(\"word\")"),
            )),
            _ => Err(Fault::new(
                at,
                format!(
                    "there is no operator '{name}'; there are range, rank, weakAnd, wand, dotProduct, weightedSet, \
                     nearestNeighbor, geoLocation, geoBoundingBox, userInput, userQuery, nonEmpty and predicate"
                ),
            )),
        }
    }

    fn range(&self, at: usize, name: &str, arguments: &[Node], scope: &Scope<'_>) -> Built<Item> {
        require(at, name, arguments, 3..=3, "range(year, 2000, 2010) or range(year, 2000, Infinity)")?;
        let bounds = self.string(scope, "bounds")?.unwrap_or_else(|| "closed".to_owned());
        let (left_open, right_open) = match bounds.to_ascii_lowercase().as_str() {
            "closed" => (false, false),
            "open" => (true, true),
            "leftopen" => (true, false),
            "rightopen" => (false, true),
            _ => {
                let at = scope.annotation("bounds").map_or(at, |node| node.at);
                return Err(Fault::new(
                    at,
                    format!("bounds is one of closed, open, leftOpen, rightOpen, not {bounds:?}"),
                ));
            }
        };
        let bound = |node: &Node, open: bool| {
            Ok(match self.number(node)? {
                Number::Float(number) if number.is_infinite() => Bound::Open,
                number if open => Bound::Exclusive(number),
                number => Bound::Inclusive(number),
            })
        };
        let (field, element) = self.field(&arguments[0])?;
        let item = Item::Range {
            field: element.map_or(field.to_owned(), |_| String::new()),
            low: bound(&arguments[1], left_open)?,
            high: bound(&arguments[2], right_open)?,
            hit_limit: self.hit_limit(scope)?,
            annotations: self.annotations(scope)?,
        };
        self.in_element(field, element, item)
    }

    fn weighted_operator(&self, at: usize, name: &str, arguments: &[Node], scope: &Scope<'_>) -> Built<Item> {
        let example = format!("{name}(tags, {{\"a\": 1, \"b\": 2}}) or {name}(tags, @tokens)");
        require(at, name, arguments, 2..=2, &example)?;
        let weights = self.weighted(&arguments[1], &example)?;
        let mut tokens = Vec::with_capacity(weights.len());
        for (token, weight) in weights {
            if weight.fract() != 0.0 || weight.abs() > f64::from(i32::MAX) {
                return Err(Fault::new(
                    arguments[1].at,
                    format!("the weight {weight} of {token:?} is not a whole number of 32 bits"),
                ));
            }
            tokens.push((token, weight as i32));
        }
        let operator = match name.to_ascii_lowercase().as_str() {
            "weightedset" => WeightedOperator::WeightedSet,
            "dotproduct" => WeightedOperator::DotProduct,
            _ => WeightedOperator::Wand {
                target_hits: self.target_hits(scope)?.unwrap_or(TARGET_HITS),
                score_threshold: self.float(scope, "scoreThreshold")?.unwrap_or(f64::NEG_INFINITY),
            },
        };
        let field = self.field(&arguments[0])?.0.to_owned();
        Ok(Item::Weighted { operator, field, tokens, annotations: self.annotations(scope)? })
    }

    fn nearest_neighbor(&self, at: usize, name: &str, arguments: &[Node], scope: &Scope<'_>) -> Built<Item> {
        const EXAMPLE: &str =
            "({targetHits: 10}nearestNeighbor(embedding, q)) with the parameter input.query(q)=[…]";
        require(at, name, arguments, 2..=2, EXAMPLE)?;
        let target_hits = match self.target_hits(scope)? {
            Some(0) | None => {
                return Err(Fault::new(
                    at,
                    format!("expected targetHits of at least 1; for example: {EXAMPLE}"),
                ));
            }
            Some(hits) => hits,
        };
        Ok(Item::NearestNeighbor(NearestNeighbor {
            field: self.field(&arguments[0])?.0.to_owned(),
            query_tensor: self.text(&arguments[1])?.text,
            target_hits,
            distance_threshold: self.float(scope, "distanceThreshold")?,
            annotations: self.annotations(scope)?,
        }))
    }

    fn geo_location(&self, at: usize, name: &str, arguments: &[Node], scope: &Scope<'_>) -> Built<Item> {
        const EXAMPLE: &str = "geoLocation(place, 63.5, 10.5, \"200 km\")";
        require(at, name, arguments, 4..=4, EXAMPLE)?;
        let radius = self.text(&arguments[3])?.text;
        let radius_km = kilometres(&radius).ok_or_else(|| {
            let units = "units are km, m, miles, mi, deg, d";
            Fault::new(arguments[3].at, format!("{radius:?} is no radius; {units}; for example: {EXAMPLE}"))
        })?;
        Ok(Item::GeoLocation {
            field: self.field(&arguments[0])?.0.to_owned(),
            latitude: self.number(&arguments[1])?.as_f64(),
            longitude: self.number(&arguments[2])?.as_f64(),
            radius_km,
            annotations: self.annotations(scope)?,
        })
    }

    fn predicate(&self, at: usize, name: &str, arguments: &[Node]) -> Built<Item> {
        const EXAMPLE: &str = "predicate(conditions, {\"gender\": \"female\"}, {\"age\": 20})";
        require(at, name, arguments, 3..=3, EXAMPLE)?;
        let entries = |node: &Node| match &node.form {
            Form::Map(entries) => Ok(entries.clone()),
            Form::Number(Number::Integer(0)) => Ok(Vec::new()),
            _ => Err(Fault::new(node.at, format!("expected a map, or 0 for none; for example: {EXAMPLE}"))),
        };
        let mut attributes = Vec::new();
        for (key, value) in entries(&arguments[1])? {
            match &value.form {
                Form::List(values) => {
                    for value in values {
                        attributes.push((key.clone(), self.text(value)?.text));
                    }
                }
                _ => attributes.push((key, self.text(&value)?.text)),
            }
        }
        let mut ranges = Vec::new();
        for (key, value) in entries(&arguments[2])? {
            match self.number(&value)? {
                Number::Integer(number) => ranges.push((key, number)),
                Number::Float(_) => return Err(Fault::new(value.at, "expected a whole number")),
            }
        }
        Ok(Item::Predicate { field: self.field(&arguments[0])?.0.to_owned(), attributes, ranges })
    }

    fn user_text(&self, field: &str, text: &Node, scope: &Scope<'_>, syntax: Syntax) -> Built<Item> {
        let scope = &scope.inside(text);
        let default = Grammar { syntax, ..self.context.input_grammar };
        let annotations: Annotations = self.annotations(scope)?;
        let term = |annotations| {
            Ok(Item::Term {
                field: field.to_owned(),
                text: TermText { text: self.text(text)?.text, origin: None },
                matching: self.matching(scope)?,
                annotations,
            })
        };
        let grammar = match self.grammar(scope, default)? {
            Reading::Raw => return term(Annotations { implicit_transforms: false, ..annotations }),
            Reading::Segment => return term(annotations),
            Reading::Grammar(grammar) => grammar,
        };
        let near = matches!(grammar.composite, Composite::Near | Composite::OrderedNear);
        Ok(Item::Text(UserText {
            field: field.to_owned(),
            text: self.text(text)?.text,
            grammar,
            filter: None,
            allow_empty: self.truth(scope, "allowEmpty", false)?,
            target_hits: self.target_hits(scope)?.unwrap_or(TARGET_HITS),
            distance: if near {
                self.count(scope, "distance")?.unwrap_or(NEAR_DISTANCE)
            } else {
                NEAR_DISTANCE
            },
            annotations,
        }))
    }

    /// `prefix`, `substring` and `suffix` of a term.
    fn matching(&self, scope: &Scope<'_>) -> Built<Match> {
        Ok(if self.truth(scope, "substring", false)? {
            Match::Substring
        } else if self.truth(scope, "prefix", false)? {
            Match::Prefix
        } else if self.truth(scope, "suffix", false)? {
            Match::Suffix
        } else {
            Match::Word
        })
    }
}

fn require(
    at: usize,
    name: &str,
    arguments: &[Node],
    wanted: impl std::ops::RangeBounds<usize>,
    example: &str,
) -> Built<()> {
    if wanted.contains(&arguments.len()) {
        return Ok(());
    }
    Err(Fault::new(
        at,
        format!("{name}(…) cannot have {} arguments; for example: {example}", arguments.len()),
    ))
}

/// A distance with its unit, in kilometres.
pub(crate) fn kilometres(text: &str) -> Option<f64> {
    let text = text.trim();
    let unit_at = text.find(|c: char| c.is_ascii_alphabetic())?;
    let number: f64 = text[..unit_at].trim().parse().ok()?;
    let factor = match &text[unit_at..] {
        "km" => 1.0,
        "m" => 0.001,
        "miles" | "mi" => 1.609_344,
        "deg" | "d" => KILOMETRES_PER_DEGREE,
        _ => return None,
    };
    Some(number * factor)
}
