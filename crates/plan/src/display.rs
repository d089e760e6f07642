//! Text form of plans, for traces and tests.

use std::fmt::{self, Display, Formatter};

use millrace_document::DocumentGroup;

use crate::{
    FeatureInput, LeafId, MissingOrder, NumberRange, Plan, PlanLeaf, PlanNode, Predicate, SortBy, SortColumn,
    StreamedScope, TermId, TextOrder, WordPattern,
};

/// The tree, then the settings that differ from their defaults, one per line.
impl Display for Plan {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        self.write_node(f, &self.root)?;
        if !self.joined_ranges.is_empty() {
            write!(f, "\nOptimized query ranges of {}", self.joined_ranges.join(", "))?;
        }
        match &self.scope {
            StreamedScope::Groups(groups) => {
                let names: Vec<String> = groups.iter().map(DocumentGroup::to_string).collect();
                write!(f, "\nin {}", names.join(" "))?;
            }
            StreamedScope::All { selection: None } => f.write_str("\nin all")?,
            StreamedScope::All { selection: Some(selection) } => {
                write!(f, "\nin all where {}", selection.text())?;
            }
        }
        if self.profile != "default" {
            write!(f, "\nprofile {}", self.profile)?;
        }
        for (name, value) in &self.inputs {
            match value {
                FeatureInput::String(text) => write!(f, "\nquery({name}) {text:?}")?,
                FeatureInput::Tensor(tensor) => {
                    let cells: Vec<String> = tensor.cells().iter().map(|cell| cell.to_string()).collect();
                    write!(f, "\nquery({name}) {} {}", tensor.tensor_type(), cells.join(" "))?;
                }
            }
        }
        self.sorting.iter().try_for_each(|column| write!(f, "\nsort {column}"))?;
        if self.summary.name != "default" {
            write!(f, "\nsummary {}", self.summary.name)?;
        }
        Ok(())
    }
}

impl Plan {
    fn write_node(&self, f: &mut Formatter<'_>, node: &PlanNode) -> fmt::Result {
        match node {
            PlanNode::True => f.write_str("TRUE"),
            PlanNode::False => f.write_str("FALSE"),
            PlanNode::And(children) => self.write_nodes(f, "AND", children.iter()),
            PlanNode::Or(children) => self.write_nodes(f, "OR", children.iter()),
            PlanNode::AndNot(positive, negatives) => {
                self.write_nodes(f, "NOT", std::iter::once(&**positive).chain(negatives))
            }
            PlanNode::Rank(first, others) => {
                self.write_nodes(f, "RANK", std::iter::once(&**first).chain(others))
            }
            PlanNode::Leaf(id) => self.write_leaf(f, *id),
            PlanNode::Near { leaves, excluded, distance, exclusion_distance, ordered } => {
                write!(f, "{}/{distance}", if *ordered { "ONEAR" } else { "NEAR" })?;
                self.write_leaves(f, leaves)?;
                if !excluded.is_empty() {
                    write!(f, "!{exclusion_distance}")?;
                    self.write_leaves(f, excluded)?;
                }
                Ok(())
            }
            PlanNode::SameElement { field, child, elements } => {
                write!(f, "{field}:ELEMENT")?;
                if !elements.is_empty() {
                    write!(f, "{elements:?}")?;
                }
                f.write_str("(")?;
                self.write_node(f, child)?;
                f.write_str(")")
            }
        }
    }

    fn write_nodes<'n>(
        &self,
        f: &mut Formatter<'_>,
        operator: &str,
        nodes: impl Iterator<Item = &'n PlanNode>,
    ) -> fmt::Result {
        write!(f, "{operator}(")?;
        for (index, node) in nodes.enumerate() {
            f.write_str(if index > 0 { " " } else { "" })?;
            self.write_node(f, node)?;
        }
        f.write_str(")")
    }

    fn write_leaves(&self, f: &mut Formatter<'_>, leaves: &[LeafId]) -> fmt::Result {
        f.write_str("(")?;
        for (index, leaf) in leaves.iter().enumerate() {
            f.write_str(if index > 0 { " " } else { "" })?;
            self.write_leaf(f, *leaf)?;
        }
        f.write_str(")")
    }

    fn write_leaf(&self, f: &mut Formatter<'_>, LeafId(id): LeafId) -> fmt::Result {
        match self.leaves.get(id) {
            Some(leaf) => write!(f, "{leaf}"),
            None => write!(f, "?{id}"),
        }
    }
}

/// `field:predicate#term`.
impl Display for PlanLeaf {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.field, self.predicate)?;
        match self.dot_product_above {
            Some(above) if above.is_finite() => write!(f, "*>{above}")?,
            Some(_) => f.write_str("*")?,
            None => {}
        }
        match self.term {
            Some(TermId(term)) => write!(f, "#{term}"),
            None => Ok(()),
        }
    }
}

impl Display for Predicate {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            Predicate::Words(words) => {
                f.write_str("(")?;
                for (index, word) in words.iter().enumerate() {
                    write!(f, "{}{word}", if index > 0 { " " } else { "" })?;
                }
                f.write_str(")")
            }
            Predicate::Value { pattern, cased } => {
                write!(f, "={pattern}{}", if *cased { " cased" } else { "" })
            }
            Predicate::ValueIn { values, cased } => {
                write!(f, "=in{}{}", weights(values), if *cased { " cased" } else { "" })
            }
            Predicate::WordIn(words) => write!(f, "in{}", weights(words)),
            Predicate::NumberIn(numbers) => write!(f, "in{}", weights(numbers)),
            Predicate::Number(range) => write!(f, "{range}"),
            Predicate::Bool(value) => write!(f, "{value}"),
            Predicate::Nearest { target, metric, target_hits, threshold } => {
                write!(f, "NEAREST/{target_hits}({} {metric:?}", target.tensor_type())?;
                if let Some(threshold) = threshold {
                    write!(f, " <={threshold}")?;
                }
                f.write_str(")")
            }
            Predicate::GeoCircle { latitude, longitude, radius_km } => {
                write!(f, "CIRCLE({latitude} {longitude}")?;
                if let Some(radius) = radius_km {
                    write!(f, " {radius:.3}km")?;
                }
                f.write_str(")")
            }
            Predicate::GeoBox([south, west, north, east]) => write!(f, "BOX({south} {west} {north} {east})"),
            Predicate::Conditions(attributes) => {
                write!(f, "PREDICATE({attributes})")
            }
            Predicate::Present => f.write_str("PRESENT"),
            Predicate::Labeled { label, score } => write!(f, "LABEL({label}={score})"),
        }
    }
}

impl Display for NumberRange {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            NumberRange::Integer { low, high } if low == high => write!(f, "{low}"),
            NumberRange::Integer { low, high } => {
                let bound =
                    |number: i64, open: i64| if number == open { String::new() } else { number.to_string() };
                write!(f, "[{};{}]", bound(*low, i64::MIN), bound(*high, i64::MAX))
            }
            NumberRange::Float { low, low_inclusive, high, high_inclusive } => {
                let bound =
                    |number: f64| if number.is_finite() { format!("{number:?}") } else { String::new() };
                let (open, close) =
                    (if *low_inclusive { '[' } else { '<' }, if *high_inclusive { ']' } else { '>' });
                write!(f, "{open}{};{}{close}", bound(*low), bound(*high))
            }
        }
    }
}

impl Display for WordPattern {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        match self {
            WordPattern::Exact(word) => write!(f, "{word:?}"),
            WordPattern::Any(words) => write!(f, "any{words:?}"),
            WordPattern::Written(word) => write!(f, "={word:?}"),
            WordPattern::Word { written, stems } => write!(f, "={written:?} or any{stems:?}"),
            WordPattern::Prefix(word) => write!(f, "{word:?}*"),
            WordPattern::Suffix(word) => write!(f, "*{word:?}"),
            WordPattern::Substring(word) => write!(f, "*{word:?}*"),
            WordPattern::Regex(pattern) => write!(f, "/{pattern}/"),
            WordPattern::Fuzzy { word, max_edits, prefix_length, prefix } => {
                write!(f, "{word:?}~{max_edits}/{prefix_length}{}", if *prefix { "*" } else { "" })
            }
        }
    }
}

impl Display for SortColumn {
    fn fmt(&self, f: &mut Formatter<'_>) -> fmt::Result {
        f.write_str(if self.descending { "-" } else { "+" })?;
        match &self.by {
            SortBy::Relevance => f.write_str("[relevance]")?,
            SortBy::DocumentId => f.write_str("[docid]")?,
            SortBy::Source => f.write_str("[source]")?,
            SortBy::Number(field) | SortBy::Bytes(field) => f.write_str(field)?,
            SortBy::Elsewhere(field) => write!(f, "elsewhere({field})")?,
            SortBy::Text(field, TextOrder::Raw) => write!(f, "raw({field})")?,
            SortBy::Text(field, TextOrder::Lowercase) => write!(f, "lowercase({field})")?,
            SortBy::Text(field, TextOrder::Collated(collation)) => write!(f, "uca({field},{collation})")?,
        }
        match &self.missing {
            None => Ok(()),
            Some(MissingOrder::First) => f.write_str(" missing first"),
            Some(MissingOrder::Last) => f.write_str(" missing last"),
            Some(MissingOrder::As(value)) => write!(f, " missing as {value}"),
        }
    }
}

fn weights<T: fmt::Debug>(values: &[(T, i32)]) -> String {
    let values = values.iter().map(|(value, weight)| match weight {
        1 => format!("{value:?}"),
        weight => format!("{value:?}={weight}"),
    });
    format!("({})", values.collect::<Vec<_>>().join(" "))
}
