//! Leaves of a plan, prepared for execution, and their matches in the documents of a chunk.

mod values;

use std::collections::BTreeMap;
use std::sync::Arc;

use millrace_column::{Column, ColumnKey, ColumnValue, ExecutionPaths, ValueLayout, layout};
use millrace_document::{DataType, EncodedLeafReader, EncodedLeafValues, LeafColumn, ValueRef};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_plan::{NumberRange, Plan, PlanLeaf, Predicate};

use crate::Error;
use crate::bits::DocumentBits;
use crate::geo::GeoCircle;
use crate::listed_words::ListedWords;
use crate::many::find_any;
use crate::matched::{MatchedValue, MatchedValues};
use crate::nearest::NearestLeaf;
use crate::nested::{NestedValue, ValueElement};
use crate::outcome::{LeafDistances, LeafOutcome};
use crate::pattern::WordMatcher;
use crate::scan::{number_weights, numbers, text_weights, texts, true_documents};
use crate::value::{ValueTest, ValueWeights, WeightSource};
use crate::words::{self, ChunkPositions};

/// A leaf prepared for all chunks.
pub(crate) struct ReadyLeaf {
    pub(crate) field: LeafPath,
    pub(crate) kind: LeafKind,
    /// Test of single values, for use inside `sameElement`.
    pub(crate) test: Option<ValueTest>,
    /// True if it finds words that are whole values of an indexed field.
    pub(crate) is_value_word: bool,
    /// True if it is a single word of which only the documents are asked for.
    pub(crate) finds_documents: bool,
    /// Reader of the values in their wire form; `None` on the plain paths.
    leaves: Option<EncodedLeafReader>,
    dot_product_above: Option<f64>,
    /// True if documents without a value match: a missing truth value is false.
    absent: bool,
    paths: ExecutionPaths,
}

/// Matching method of a leaf.
pub(crate) enum LeafKind {
    /// Words among the field's tokens.
    Words(Vec<WordMatcher>),
    /// Any of these weighted words among the field's tokens.
    WordIn(Vec<(String, i32)>),
    /// A test of the field's values, one by one.
    Values(WeightSource),
    /// A test of the field's values, each of which is one word and an element of its own.
    ValueWords,
    /// Like `Values`, with the distance of the nearest position.
    Circle(GeoCircle),
    /// Nearest neighbours, with the number of target hits.
    Nearest(Box<NearestLeaf>, u32),
    /// Every document.
    All,
}

/// Location of a leaf's values: a column, and the path inside its values.
pub(crate) struct LeafPath {
    pub(crate) key: ColumnKey,
    pub(crate) data_type: DataType,
    pub(crate) path: Vec<Arc<str>>,
}

/// Positions between two texts of one element: more than any distance that a query may ask for makes sense.
const TEXT_GAP: u32 = 1_000_000;

impl ReadyLeaf {
    pub(crate) fn new(plan: &Plan, leaf: &PlanLeaf, paths: ExecutionPaths) -> Result<Self, Error> {
        if matches!(leaf.predicate, Predicate::Labeled { .. }) {
            return Ok(ReadyLeaf::all(paths));
        }
        let (name, path) = leaf.field.split_once('.').map_or((&*leaf.field, ""), |(name, path)| (name, path));
        let fail = |reason| Error::Field {
            field: leaf.field.to_string(),
            schema: plan.schema.name.to_string(),
            reason,
        };
        let field = plan.schema.fields.get(name).ok_or_else(|| fail("the schema has no such field"))?;
        let settings = field.part(path).unwrap_or(field);
        let analyzer = || FieldAnalyzer::new(&settings.matching, TextLanguage::Unknown);
        let among_tokens = settings.is_text();
        let weighted = is_weighted(&field.data_type);
        let kind = match &leaf.predicate {
            Predicate::Words(patterns) if among_tokens => {
                let matchers = patterns.iter().map(|p| WordMatcher::new(&leaf.field, p));
                let matchers = matchers.collect::<Result<Vec<_>, _>>()?;
                LeafKind::Words(matchers)
            }
            Predicate::WordIn(words) if among_tokens => LeafKind::WordIn(words.clone()),
            Predicate::Nearest { target, metric, target_hits, threshold } => {
                if !matches!(field.data_type, DataType::Tensor(_)) {
                    return Err(fail("it is not a tensor, so nothing can be nearest to it"));
                }
                LeafKind::Nearest(Box::new(NearestLeaf::new(target, *metric, *threshold)), *target_hits)
            }
            Predicate::GeoCircle { latitude, longitude, radius_km } => {
                LeafKind::Circle(GeoCircle::new(*latitude, *longitude, *radius_km))
            }
            Predicate::Number(_) if settings.is_value_word() => LeafKind::ValueWords,
            // In a field of one text, the only position of a match is 0: nothing has to be recorded.
            Predicate::Words(_) | Predicate::Value { .. }
                if settings.is_value_word()
                    && leaf.dot_product_above.is_none()
                    && !(weighted && settings.attribute.is_some())
                    && layout(&field.data_type) != ValueLayout::Text =>
            {
                LeafKind::ValueWords
            }
            Predicate::ValueIn { .. } | Predicate::NumberIn(_) | Predicate::WordIn(_) => {
                LeafKind::Values(WeightSource::Listed)
            }
            Predicate::Words(_)
            | Predicate::Value { .. }
            | Predicate::Number(_)
            | Predicate::Bool(_)
            | Predicate::GeoBox(_)
            | Predicate::Conditions(_)
            | Predicate::Present
            | Predicate::Labeled { .. } => LeafKind::Values(WeightSource::of_field(weighted)),
        };
        let key = match kind {
            LeafKind::Words(_) | LeafKind::WordIn(_) => ColumnKey::tokens(&leaf.field),
            _ => ColumnKey::value(name),
        };
        let path: Vec<Arc<str>> = path.split('.').filter(|part| !part.is_empty()).map(Arc::from).collect();
        let leaves = match layout(&field.data_type) {
            ValueLayout::Encoded if paths.is_fast() => EncodedLeafReader::new(&field.data_type, &path),
            _ => None,
        };
        Ok(ReadyLeaf {
            field: LeafPath { key, data_type: field.data_type.clone(), path },
            leaves,
            kind,
            test: ValueTest::new(&leaf.field, &leaf.predicate, analyzer)?,
            is_value_word: settings.is_value_word() && settings.attribute.is_none(),
            finds_documents: false,
            dot_product_above: leaf.dot_product_above,
            absent: field.data_type == DataType::Bool && leaf.predicate == Predicate::Bool(false),
            paths,
        })
    }

    /// A leaf that matches every document, and reads no column.
    fn all(paths: ExecutionPaths) -> Self {
        ReadyLeaf {
            field: LeafPath { key: ColumnKey::id(), data_type: DataType::String, path: Vec::new() },
            kind: LeafKind::All,
            test: None,
            is_value_word: false,
            finds_documents: false,
            leaves: None,
            dot_product_above: None,
            absent: false,
            paths,
        }
    }

    /// The matcher of a leaf of one word among the field's tokens.
    pub(crate) fn single_word(&self) -> Option<&WordMatcher> {
        match &self.kind {
            LeafKind::Words(matchers) => matchers.first().filter(|_| matchers.len() == 1 && !self.absent),
            _ => None,
        }
    }

    /// The bounds of a leaf with a range, if its field has one whole number a document.
    pub(crate) fn whole_range(&self) -> Option<(i64, i64)> {
        let is_whole = matches!(self.field.data_type, DataType::Byte | DataType::Int | DataType::Long);
        match (&self.kind, self.test.as_ref()?.range()?) {
            (LeafKind::Values(WeightSource::Unweighted), NumberRange::Integer { low, high }) if is_whole => {
                Some((*low, *high))
            }
            _ => None,
        }
    }

    /// Approximate cost per document, used to evaluate cheap leaves first.
    pub(crate) fn cost(&self) -> u32 {
        match (&self.kind, layout(&self.field.data_type)) {
            (LeafKind::Values(_), ValueLayout::Number(_)) => 1,
            (LeafKind::Words(_) | LeafKind::WordIn(_), _) => 2,
            (LeafKind::Values(_), ValueLayout::Text | ValueLayout::Raw) => 3,
            (LeafKind::Values(_) | LeafKind::ValueWords | LeafKind::Circle(_), _) => 4,
            (LeafKind::Nearest(..), _) => 5,
            (LeafKind::All, _) => 0,
        }
    }

    /// Matches in the documents `within` of a chunk. A nearest-neighbour leaf covers all documents with a
    /// vector.
    pub(crate) fn find(&self, column: Option<&Column>, within: &DocumentBits) -> LeafOutcome {
        if self.absent {
            return LeafOutcome::Bits((*within).without(&true_documents(column)));
        }
        if matches!(self.kind, LeafKind::All) {
            return LeafOutcome::Bits(*within);
        }
        let Some(column) = column else { return self.nothing() };
        match (&self.kind, column) {
            (LeafKind::Words(matchers), Column::Tokens(tokens)) => match self.single_word() {
                Some(matcher) if self.finds_documents => {
                    LeafOutcome::Bits(find_any(&[matcher], tokens, within))
                }
                _ => LeafOutcome::Positions(words::find(matchers, tokens, within, self.paths)),
            },
            (LeafKind::WordIn(words), Column::Tokens(tokens)) => {
                let words = ListedWords::new(words, tokens, self.paths);
                LeafOutcome::Weights(words.weights(tokens, within, self.dot_product_above))
            }
            (LeafKind::Nearest(nearest, _), column) => {
                let documents = within.rows();
                let distances = nearest.distances(column, &self.field.data_type, &documents, self.paths);
                LeafOutcome::Distances(LeafDistances { documents, distances })
            }
            (LeafKind::ValueWords, column) => LeafOutcome::Positions(self.value_words(column, within)),
            (LeafKind::Circle(circle), column) => LeafOutcome::Distances(self.circle(circle, column, within)),
            (LeafKind::Values(source), column) => {
                let has_no_product = self.dot_product_above.is_none();
                let simple = self.paths.is_fast()
                    && (*source == WeightSource::Unweighted
                        || *source == WeightSource::Stored && has_no_product);
                let is_weighing = self.paths.is_fast() && has_no_product && *source == WeightSource::Listed;
                match (&self.test, column) {
                    (Some(test), Column::Fixed(column)) if is_weighing && column.width() == 1 => {
                        LeafOutcome::Weights(number_weights(test, column, within))
                    }
                    (Some(test), Column::Fixed(column)) if simple && column.width() == 1 => {
                        LeafOutcome::Bits(numbers(test, column, within))
                    }
                    (Some(test), Column::Bytes(column))
                        if simple && layout(&self.field.data_type) == ValueLayout::Text =>
                    {
                        LeafOutcome::Bits(texts(test, column, within))
                    }
                    (Some(test), Column::Bytes(column))
                        if is_weighing && layout(&self.field.data_type) == ValueLayout::Text =>
                    {
                        LeafOutcome::Weights(text_weights(test, column, within))
                    }
                    _ => self.values(column, within, *source),
                }
            }
            (LeafKind::Words(_) | LeafKind::WordIn(_) | LeafKind::All, _) => self.nothing(),
        }
    }

    fn nothing(&self) -> LeafOutcome {
        match self.kind {
            _ if self.finds_documents => LeafOutcome::Bits(DocumentBits::NONE),
            LeafKind::Words(_) | LeafKind::ValueWords => LeafOutcome::Positions(ChunkPositions::default()),
            LeafKind::WordIn(_) | LeafKind::Values(WeightSource::Stored | WeightSource::Listed) => {
                LeafOutcome::Weights(Vec::new())
            }
            LeafKind::Values(WeightSource::Unweighted) | LeafKind::All => {
                LeafOutcome::Bits(DocumentBits::NONE)
            }
            LeafKind::Nearest(..) | LeafKind::Circle(_) => LeafOutcome::Distances(LeafDistances::default()),
        }
    }

    /// Values of the documents `rows` at the end of the path, if the column has them in their wire form.
    /// Irregular ones are read in the general way ([`stored_value`]).
    pub(crate) fn leaf_column<'c>(&self, column: &'c Column, rows: &[u16]) -> Option<LeafColumn<'c>> {
        let (reader, values) = self.leaves.as_ref().zip(millrace_column::encoded_values(column))?;
        Some(reader.column(values.get_each(rows)))
    }

    /// The documents of `within` whose values have to be read, if the column has them in their wire form: the
    /// bytes of the others show that they do not match.
    pub(crate) fn narrow(&self, column: &Column, within: &DocumentBits) -> DocumentBits {
        let prefilter = self.leaves.as_ref().and(self.test.as_ref()).and_then(ValueTest::prefilter);
        match prefilter.zip(millrace_column::encoded_values(column)) {
            Some((prefilter, values)) => prefilter.narrow(values, within),
            None => *within,
        }
    }

    /// True if it tests values in their wire form, so that it can do so together with other leaves.
    pub(crate) fn tests_encoded(&self) -> bool {
        matches!(self.kind, LeafKind::Values(_)) && self.leaves.is_some() && self.test.is_some()
    }

    /// Matches of leaves of the same path in the documents `within`, whose values are read once. `None` if
    /// the column does not have them in their wire form.
    pub(crate) fn find_each(
        leaves: &[&ReadyLeaf],
        column: &Column,
        within: &DocumentBits,
    ) -> Option<Vec<LeafOutcome>> {
        let narrowed = leaves.iter().map(|leaf| leaf.narrow(column, within));
        let rows = narrowed.fold(DocumentBits::NONE, |all, one| all.or(&one)).rows();
        let values = leaves.first()?.leaf_column(column, &rows)?;
        let outcome = |leaf: &&ReadyLeaf| match leaf.kind {
            LeafKind::Values(source) => leaf.values_of(column, &rows, Some(&values), source),
            _ => leaf.nothing(),
        };
        Some(leaves.iter().map(outcome).collect())
    }

    /// True if it tests values, so that a test of equality can be made together with those of other leaves.
    pub(crate) fn takes_equality(&self) -> bool {
        matches!(self.kind, LeafKind::Values(WeightSource::Unweighted | WeightSource::Stored))
            && self.dot_product_above.is_none()
            && (self.leaves.is_some() || layout(&self.field.data_type) == ValueLayout::Text)
    }

    /// Matches of leaves that ask for one value each, in the documents `within`. This leaf asks for any of
    /// the values, and its weights are their numbers, which `asking` has the indices of the leaves for: so
    /// each value is looked up once. `None` for a column of another form.
    pub(crate) fn find_asked(
        &self,
        leaves: &[&ReadyLeaf],
        asking: &[Vec<usize>],
        column: &Column,
        within: &DocumentBits,
    ) -> Option<Vec<LeafOutcome>> {
        let test = self.test.as_ref()?;
        let mut found: Vec<Vec<(u16, i64)>> = vec![Vec::new(); leaves.len()];
        let mut add = |document: u16, number: usize, weight: i64| {
            for leaf in &asking[number] {
                match found[*leaf].last_mut() {
                    Some((last, best)) if *last == document => *best = weight.max(*best),
                    _ => found[*leaf].push((document, weight)),
                }
            }
        };
        match column {
            Column::Bytes(texts) if layout(&self.field.data_type) == ValueLayout::Text => {
                let weights = text_weights(test, texts, within);
                weights.into_iter().for_each(|(document, number)| add(document, number as usize, 1));
            }
            column => {
                let rows = within.rows();
                let values = self.leaf_column(column, &rows)?;
                test.matched(values.values()).each_row(
                    &values,
                    &mut |row: usize, matched: &[MatchedValue]| {
                        for value in matched {
                            add(rows[row], value.weight as usize, values.weight(value.index).into());
                        }
                    },
                );
                let mut buffer = String::new();
                for (leaf, found) in leaves.iter().zip(&mut found).filter(|_| !values.irregular().is_empty())
                {
                    let irregular = values.irregular().iter().map(|row| rows[*row]);
                    found.extend(irregular.filter_map(|row| {
                        Some((row, leaf.any_weight(column, row, WeightSource::Stored, &mut buffer)?))
                    }));
                    found.sort_unstable();
                }
            }
        }
        Some(leaves.iter().zip(found).map(|(leaf, found)| leaf.weighed(found)).collect())
    }

    /// The outcome of a test of values, with documents and their weights.
    fn weighed(&self, found: Vec<(u16, i64)>) -> LeafOutcome {
        if matches!(self.kind, LeafKind::Values(WeightSource::Stored | WeightSource::Listed)) {
            return LeafOutcome::Weights(found);
        }
        let mut bits = DocumentBits::NONE;
        found.iter().for_each(|(document, _)| bits.set(usize::from(*document)));
        LeafOutcome::Bits(bits)
    }

    /// Weight of a document's value of any type and form.
    fn any_weight(
        &self,
        column: &Column,
        row: u16,
        source: WeightSource,
        buffer: &mut String,
    ) -> Option<i64> {
        let document = usize::from(row);
        match (&self.test, column) {
            (Some(test), Column::Bytes(column))
                if self.dot_product_above.is_none() && layout(&self.field.data_type) == ValueLayout::Text =>
            {
                let text = column.get(document).and_then(|bytes| std::str::from_utf8(bytes).ok())?;
                test.text(text, buffer).map(i64::from)
            }
            _ => match stored_value(column, &self.field.data_type, document, self.paths)? {
                ColumnValue::InPlace(value) => {
                    self.weight(ValueElement::Value(value, 1), &self.field.path, source, buffer)
                }
                ColumnValue::Decoded(value) => {
                    self.weight(ValueElement::Value(&value, 1), &self.field.path, source, buffer)
                }
            },
        }
    }

    /// Matching values, as positions in a text with an element boundary after each value.
    fn value_words(&self, column: &Column, within: &DocumentBits) -> ChunkPositions {
        let (rows, mut by_row) = (self.narrow(column, within).rows(), BTreeMap::new());
        let encoded = self.test.as_ref().zip(self.leaf_column(column, &rows));
        let general = |row: &u16| {
            let mut found = Vec::new();
            match stored_value(column, &self.field.data_type, usize::from(*row), self.paths) {
                Some(ColumnValue::InPlace(value)) => self.value_positions(value, &mut found),
                Some(ColumnValue::Decoded(value)) => self.value_positions(&value, &mut found),
                None => {}
            }
            (!found.is_empty()).then_some((usize::from(*row), found))
        };
        let mut positions = ChunkPositions::default();
        let Some((test, leaves)) = encoded else {
            rows.iter().filter_map(general).for_each(|(row, found)| positions.push(row, found.into_iter()));
            return positions;
        };
        by_row.extend(leaves.irregular().iter().filter_map(|row| general(&rows[*row])));
        let mut push = |row: usize, matched: &[MatchedValue]| {
            let document = usize::from(rows[row]);
            while let Some(before) = by_row.first_entry().filter(|entry| *entry.key() < document) {
                let (row, found) = before.remove_entry();
                positions.push(row, found.into_iter());
            }
            let first = leaves.of_row(row).start;
            positions.push(document, matched.iter().map(|value| 2 * (value.index - first) as u32));
        };
        test.matched(leaves.values()).each_row(&leaves, &mut push);
        by_row.into_iter().for_each(|(row, found)| positions.push(row, found.into_iter()));
        positions
    }

    /// Appends the positions of matching numbers of a value, two for each number.
    fn value_positions(&self, value: impl NestedValue, found: &mut Vec<u32>) {
        let (mut position, mut buffer) = (0, String::new());
        ValueElement::Value(value, 1).at(&self.field.path, &mut |number, _| {
            if self.test.as_ref().is_some_and(|test| test.value(&number, &mut buffer).is_some()) {
                found.push(position);
            }
            position += 2;
        });
    }

    /// Weight of an element if it matches. `buffer` is reused for folded texts.
    fn weight(
        &self,
        element: ValueElement<impl NestedValue>,
        path: &[Arc<str>],
        source: WeightSource,
        buffer: &mut String,
    ) -> Option<i64> {
        let test = self.test.as_ref()?;
        let mut weighing = ValueWeights::default();
        element.at(path, &mut |value, weight| {
            if let Some(query) = test.value(&value, buffer) {
                weighing.add(query, weight, source);
            }
        });
        weighing.weight(self.dot_product_above)
    }

    /// True if the leaf matches in an element of the field that lies `depth` steps down the leaf's path.
    pub(crate) fn matches_element(&self, element: ValueElement<impl NestedValue>, depth: usize) -> bool {
        let source = match self.kind {
            LeafKind::Values(source) => source,
            LeafKind::WordIn(_) => WeightSource::Listed,
            _ => WeightSource::Unweighted,
        };
        let path = self.field.path.get(depth..).unwrap_or_default();
        self.weight(element, path, source, &mut String::new()).is_some()
    }

    /// True if [`ReadyLeaf::matched`] finds the values by which the leaf holds in elements.
    pub(crate) fn tests_elements(&self) -> bool {
        self.leaves.is_some() && self.test.is_some() && self.dot_product_above.is_none()
    }

    /// The values that match, if the leaf tests values.
    pub(crate) fn matched(&self, values: &EncodedLeafValues<'_>) -> Option<MatchedValues> {
        Some(self.test.as_ref()?.matched(values))
    }

    /// Positions of the words in an element of the field that lies `depth` steps down the leaf's path,
    /// ascending: the first word of each occurrence. With the number of positions that the element has.
    pub(crate) fn positions_in_element(
        &self,
        element: ValueElement<impl NestedValue>,
        depth: usize,
    ) -> (Vec<u32>, u32) {
        let Some(test) = &self.test else { return (Vec::new(), 0) };
        let path = self.field.path.get(depth..).unwrap_or_default();
        let (mut positions, mut start) = (Vec::new(), 0);
        element.at(path, &mut |value, _| {
            if let Some(ValueRef::String(text)) = value.single() {
                let length = test.word_positions(text, |position| positions.push(start + position));
                // Words of different texts are never near each other.
                start += length + TEXT_GAP;
            }
        });
        (positions, start.saturating_sub(TEXT_GAP))
    }

    fn circle(&self, circle: &GeoCircle, column: &Column, within: &DocumentBits) -> LeafDistances {
        let rows = within.rows();
        let encoded = self.leaf_column(column, &rows);
        let nearest = |(at, row): (usize, &u16)| {
            let nearest = match &encoded {
                Some(leaves) if leaves.irregular().binary_search(&at).is_err() => {
                    let EncodedLeafValues::Positions(positions) = leaves.values() else { return None };
                    let haversines =
                        positions[leaves.of_row(at)].iter().map(|[lat, lon]| circle.haversine_of(*lat, *lon));
                    haversines.fold(f64::INFINITY, f64::min)
                }
                _ => match stored_value(column, &self.field.data_type, usize::from(*row), self.paths)? {
                    ColumnValue::InPlace(value) => self.nearest_position(circle, value),
                    ColumnValue::Decoded(value) => self.nearest_position(circle, &value),
                },
            };
            Some((*row, circle.distance_within(nearest)?))
        };
        let (documents, distances) = rows.iter().enumerate().filter_map(nearest).unzip();
        LeafDistances { documents, distances }
    }

    /// Haversine of the nearest position of a value; infinite if it has none.
    fn nearest_position(&self, circle: &GeoCircle, value: impl NestedValue) -> f64 {
        let mut nearest = f64::INFINITY;
        ValueElement::Value(value, 1).at(&self.field.path, &mut |value, _| {
            if let Some(ValueRef::Position { latitude, longitude }) = value.single() {
                nearest = nearest.min(circle.haversine_of(latitude, longitude));
            }
        });
        nearest
    }
}

/// The value of a document, in place on the fast paths. The plain ones decode it.
pub(crate) fn stored_value<'c>(
    column: &'c Column,
    data_type: &DataType,
    document: usize,
    paths: ExecutionPaths,
) -> Option<ColumnValue<'c>> {
    match paths {
        ExecutionPaths::Fast => millrace_column::read_value(column, data_type, document),
        ExecutionPaths::Plain => {
            millrace_column::value(column, data_type, document).map(ColumnValue::Decoded)
        }
    }
}

fn is_weighted(data_type: &DataType) -> bool {
    matches!(data_type, DataType::Array(_) | DataType::WeightedSet { .. } | DataType::Map(..))
}
