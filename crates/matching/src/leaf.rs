//! Leaves of a plan, prepared for execution, and their matches in the documents of a chunk.

use std::sync::Arc;

use millrace_column::{
    BytesColumn, Column, ColumnKey, ColumnValue, ExecutionPaths, FixedColumn, TokensColumn, ValueLayout,
    layout,
};
use millrace_document::{DataType, EncodedLeaf, EncodedLeafReader, ValueRef};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use millrace_plan::{Plan, PlanLeaf, Predicate};
use regex::Regex;

use crate::Error;
use crate::bits::DocumentBits;
use crate::geo::GeoCircle;
use crate::nearest::NearestLeaf;
use crate::nested::{NestedValue, ValueElement};
use crate::outcome::{LeafDistances, LeafOutcome};
use crate::pattern::WordMatcher;
use crate::value::{ValueTest, ValueWeights};
use crate::words::{self, ChunkPositions, TokenNumbers};

/// A leaf prepared for all chunks.
pub(crate) struct ReadyLeaf {
    pub(crate) field: LeafPath,
    pub(crate) kind: LeafKind,
    /// Test of single values, for use inside `sameElement`.
    pub(crate) test: Option<ValueTest>,
    /// True if it finds words that are whole values of an indexed field.
    pub(crate) is_value_word: bool,
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
    Values { weighted: bool, listed: bool },
    /// A test of the field's values, each of which is one word and an element of its own.
    ValueWords,
    /// Like `Values`, with the distance of the nearest position.
    Circle(GeoCircle),
    /// Nearest neighbours, with the number of target hits.
    Nearest(Box<NearestLeaf>, u32),
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
                let matchers = patterns.iter().map(|p| WordMatcher::new(&leaf.field, p, false));
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
            Predicate::GeoCircle { latitude, longitude, radius_km } => LeafKind::Circle(GeoCircle {
                latitude: *latitude,
                longitude: *longitude,
                radius_km: *radius_km,
            }),
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
                LeafKind::Values { weighted: true, listed: true }
            }
            Predicate::Words(_)
            | Predicate::Value { .. }
            | Predicate::Number(_)
            | Predicate::Bool(_)
            | Predicate::GeoBox(_)
            | Predicate::Conditions(_)
            | Predicate::Present => LeafKind::Values { weighted, listed: false },
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
            dot_product_above: leaf.dot_product_above,
            absent: field.data_type == DataType::Bool && leaf.predicate == Predicate::Bool(false),
            paths,
        })
    }

    /// The matcher of a leaf of one word among the field's tokens.
    pub(crate) fn single_word(&self) -> Option<&WordMatcher> {
        match &self.kind {
            LeafKind::Words(matchers) => matchers.first().filter(|_| matchers.len() == 1 && !self.absent),
            _ => None,
        }
    }

    /// Approximate cost per document, used to evaluate cheap leaves first.
    pub(crate) fn cost(&self) -> u32 {
        match (&self.kind, layout(&self.field.data_type)) {
            (LeafKind::Values { .. }, ValueLayout::Number(_)) => 1,
            (LeafKind::Words(_) | LeafKind::WordIn(_), _) => 2,
            (LeafKind::Values { .. }, ValueLayout::Text | ValueLayout::Raw) => 3,
            (LeafKind::Values { .. } | LeafKind::ValueWords | LeafKind::Circle(_), _) => 4,
            (LeafKind::Nearest(..), _) => 5,
        }
    }

    /// Matches in the documents `within` of a chunk. A nearest-neighbour leaf covers all documents with a
    /// vector.
    pub(crate) fn find(&self, column: Option<&Column>, within: &DocumentBits) -> LeafOutcome {
        if self.absent {
            return LeafOutcome::Bits((*within).without(&truths(column)));
        }
        let Some(column) = column else { return self.nothing() };
        match (&self.kind, column) {
            (LeafKind::Words(matchers), Column::Tokens(tokens)) => {
                LeafOutcome::Places(words::find(matchers, tokens, within, self.paths))
            }
            (LeafKind::WordIn(words), Column::Tokens(tokens)) => {
                LeafOutcome::Weights(self.word_in(words, tokens, within))
            }
            (LeafKind::Nearest(nearest, _), column) => {
                let documents = within.rows();
                let distances = nearest.distances(column, &self.field.data_type, &documents, self.paths);
                LeafOutcome::Distances(LeafDistances { documents, distances })
            }
            (LeafKind::ValueWords, column) => LeafOutcome::Places(self.value_words(column, within)),
            (LeafKind::Circle(circle), column) => LeafOutcome::Distances(self.circle(circle, column, within)),
            (LeafKind::Values { weighted, listed }, column) => {
                let simple =
                    self.paths.is_fast() && (!weighted || self.dot_product_above.is_none() && !listed);
                let is_weighing = self.paths.is_fast() && self.dot_product_above.is_none() && *listed;
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
                    _ => self.values(column, within, *weighted, *listed),
                }
            }
            (LeafKind::Words(_) | LeafKind::WordIn(_), _) => self.nothing(),
        }
    }

    fn nothing(&self) -> LeafOutcome {
        match self.kind {
            LeafKind::Words(_) | LeafKind::ValueWords => LeafOutcome::Places(ChunkPositions::default()),
            LeafKind::WordIn(_) | LeafKind::Values { weighted: true, .. } => LeafOutcome::Weights(Vec::new()),
            LeafKind::Values { .. } => LeafOutcome::Bits(DocumentBits::NONE),
            LeafKind::Nearest(..) | LeafKind::Circle(_) => LeafOutcome::Distances(LeafDistances::default()),
        }
    }

    /// The column's values in their wire form, with the reader for them. A value that the reader does not
    /// take is read in the general way ([`stored_value`]).
    fn encoded<'c>(&'c self, column: &'c Column) -> Option<(&'c EncodedLeafReader, &'c BytesColumn)> {
        self.leaves.as_ref().zip(millrace_column::encoded_values(column))
    }

    /// Matches values of any type, one by one.
    fn values(&self, column: &Column, within: &DocumentBits, weighted: bool, listed: bool) -> LeafOutcome {
        let mut buffer = String::new();
        let encoded = self.encoded(column);
        let mut weight = |document| {
            if let (Some((reader, values)), Some(test)) = (encoded, &self.test) {
                let mut weighing = ValueWeights::default();
                let mut add = |leaf: EncodedLeaf<'_>| {
                    if let Some(query) = test.leaf(&leaf, &mut buffer) {
                        weighing.add(query, leaf.weight, listed);
                    }
                };
                if reader.read(values.get(document)?, &mut add) {
                    return weighing.weight(self.dot_product_above);
                }
            }
            match (&self.test, column) {
                (Some(test), Column::Bytes(column))
                    if self.dot_product_above.is_none()
                        && layout(&self.field.data_type) == ValueLayout::Text =>
                {
                    let text = column.get(document).and_then(|bytes| std::str::from_utf8(bytes).ok())?;
                    test.text(text, &mut buffer).map(i64::from)
                }
                _ => {
                    let value = stored_value(column, &self.field.data_type, document, self.paths)?;
                    match &value {
                        ColumnValue::InPlace(value) => {
                            self.weight(ValueElement::Value(*value, 1), &self.field.path, listed, &mut buffer)
                        }
                        ColumnValue::Decoded(value) => {
                            self.weight(ValueElement::Value(value, 1), &self.field.path, listed, &mut buffer)
                        }
                    }
                }
            }
        };
        let found: Vec<(u16, i64)> =
            within.iter().filter_map(|document| Some((document as u16, weight(document)?))).collect();
        if weighted {
            return LeafOutcome::Weights(found);
        }
        let mut bits = DocumentBits::NONE;
        found.iter().for_each(|(document, _)| bits.set(usize::from(*document)));
        LeafOutcome::Bits(bits)
    }

    /// Matching values, as positions in a text with an element boundary after each value.
    fn value_words(&self, column: &Column, within: &DocumentBits) -> ChunkPositions {
        let mut places = ChunkPositions::default();
        let (mut found, mut buffer) = (Vec::new(), String::new());
        let encoded = self.encoded(column);
        for document in within.iter() {
            if let (Some((reader, values)), Some(test)) = (encoded, &self.test) {
                let Some(bytes) = values.get(document) else { continue };
                let mut place = 0;
                let mut add = |leaf: EncodedLeaf<'_>| {
                    if test.leaf(&leaf, &mut buffer).is_some() {
                        found.push(place);
                    }
                    place += 2;
                };
                if reader.read(bytes, &mut add) {
                    places.push(document, found.drain(..));
                    continue;
                }
                found.clear();
            }
            match stored_value(column, &self.field.data_type, document, self.paths) {
                Some(ColumnValue::InPlace(value)) => self.value_places(value, &mut found),
                Some(ColumnValue::Decoded(value)) => self.value_places(&value, &mut found),
                None => continue,
            }
            places.push(document, found.drain(..));
        }
        places
    }

    /// Appends the places of matching numbers of a value, two for each number.
    fn value_places(&self, value: impl NestedValue, found: &mut Vec<u32>) {
        let (mut place, mut buffer) = (0, String::new());
        ValueElement::Value(value, 1).at(&self.field.path, &mut |number, _| {
            if self.test.as_ref().is_some_and(|test| test.value(&number, &mut buffer).is_some()) {
                found.push(place);
            }
            place += 2;
        });
    }

    /// Weight of an element if it matches. `buffer` is reused for folded texts.
    fn weight(
        &self,
        element: ValueElement<impl NestedValue>,
        path: &[Arc<str>],
        listed: bool,
        buffer: &mut String,
    ) -> Option<i64> {
        let test = self.test.as_ref()?;
        let mut weighing = ValueWeights::default();
        element.at(path, &mut |value, weight| {
            if let Some(query) = test.value(&value, buffer) {
                weighing.add(query, weight, listed);
            }
        });
        weighing.weight(self.dot_product_above)
    }

    /// True if the leaf matches in an element of the field that lies `depth` steps down the leaf's path.
    pub(crate) fn matches_element(&self, element: ValueElement<impl NestedValue>, depth: usize) -> bool {
        let listed = matches!(self.kind, LeafKind::Values { listed: true, .. } | LeafKind::WordIn(_));
        let path = self.field.path.get(depth..).unwrap_or_default();
        self.weight(element, path, listed, &mut String::new()).is_some()
    }

    /// True if [`ReadyLeaf::matching_elements`] finds the elements in which the leaf holds.
    pub(crate) fn tests_elements(&self) -> bool {
        self.leaves.is_some() && self.test.is_some() && self.dot_product_above.is_none()
    }

    /// Sets the bits of the elements of the field in which the leaf holds, for a value in its wire form.
    /// Returns false if the value has to be read in the general way.
    pub(crate) fn matching_elements(&self, bytes: &[u8], found: &mut Vec<u64>, buffer: &mut String) -> bool {
        let (Some(reader), Some(test)) = (&self.leaves, &self.test) else { return false };
        reader.read(bytes, &mut |leaf| {
            if test.leaf(&leaf, buffer).is_some() {
                let word = leaf.element / 64;
                if found.len() <= word {
                    found.resize(word + 1, 0);
                }
                found[word] |= 1 << (leaf.element % 64);
            }
        })
    }

    /// Positions of the words in an element of the field that lies `depth` steps down the leaf's path,
    /// ascending: the first word of each occurrence.
    pub(crate) fn places_in_element(
        &self,
        element: ValueElement<impl NestedValue>,
        depth: usize,
    ) -> Vec<u32> {
        let Some(test) = &self.test else { return Vec::new() };
        let path = self.field.path.get(depth..).unwrap_or_default();
        let (mut places, mut start) = (Vec::new(), 0);
        element.at(path, &mut |value, _| {
            if let Some(ValueRef::String(text)) = value.single() {
                let length = test.places(text, |place| places.push(start + place));
                // Words of different texts are never near each other.
                start += length + TEXT_GAP;
            }
        });
        places
    }

    fn word_in(
        &self,
        listed: &[(String, i32)],
        tokens: &TokensColumn,
        within: &DocumentBits,
    ) -> Vec<(u16, i64)> {
        let mut weights: Vec<(u32, i32)> = Vec::with_capacity(listed.len());
        for (stem, weight) in listed {
            match self.paths {
                ExecutionPaths::Fast => {
                    tokens.stemmed(stem.as_bytes(), |number| weights.push((number, *weight)))
                }
                ExecutionPaths::Plain => {
                    let numbers = tokens.stemmed_plainly(stem.as_bytes());
                    weights.extend(numbers.into_iter().map(|number| (number, *weight)));
                }
            }
        }
        weights.sort_unstable();
        let numbers = weights.iter().map(|(number, _)| *number).collect();
        let places = TokenNumbers::from_ascending(words::ascending(numbers)).find(tokens.ids());
        let (starts, ids) = (tokens.starts(), tokens.ids());
        let mut found = Vec::new();
        let mut document = 0;
        let mut rest = places.as_slice();
        while let Some(first) = rest.first() {
            while starts[document + 1] <= *first {
                document += 1;
            }
            let here = rest.iter().take_while(|place| **place < starts[document + 1]).count();
            if within.get(document) {
                let numbers: Vec<u32> = rest[..here].iter().map(|place| ids.get(*place as usize)).collect();
                let numbers = words::ascending(numbers);
                let mut weighing = ValueWeights::default();
                for number in numbers {
                    let after = weights.partition_point(|(listed, _)| *listed <= number);
                    weights[..after]
                        .last()
                        .into_iter()
                        .for_each(|(_, weight)| weighing.add(*weight, 1, true));
                }
                found.extend(weighing.weight(self.dot_product_above).map(|weight| (document as u16, weight)));
            }
            rest = &rest[here..];
        }
        found
    }

    fn circle(&self, circle: &GeoCircle, column: &Column, within: &DocumentBits) -> LeafDistances {
        let encoded = self.encoded(column);
        let nearest = |document| {
            if let Some((reader, values)) = encoded {
                let mut nearest = f64::INFINITY;
                let mut add = |leaf: EncodedLeaf<'_>| {
                    if let Some(ValueRef::Position { latitude, longitude }) = leaf.value() {
                        nearest = nearest.min(circle.distance_of(latitude, longitude));
                    }
                };
                if reader.read(values.get(document)?, &mut add) {
                    return (nearest <= circle.radius_km.unwrap_or(f64::MAX)).then_some(nearest);
                }
            }
            let nearest = match &stored_value(column, &self.field.data_type, document, self.paths)? {
                ColumnValue::InPlace(value) => self.nearest_position(circle, *value),
                ColumnValue::Decoded(value) => self.nearest_position(circle, value),
            };
            (nearest <= circle.radius_km.unwrap_or(f64::MAX)).then_some(nearest)
        };
        let near = within.iter().filter_map(|document| Some((document as u16, nearest(document)?)));
        let (documents, distances) = near.unzip();
        LeafDistances { documents, distances }
    }

    /// Distance of the nearest position of a value, in kilometres; infinite if it has none.
    fn nearest_position(&self, circle: &GeoCircle, value: impl NestedValue) -> f64 {
        let mut nearest = f64::INFINITY;
        ValueElement::Value(value, 1).at(&self.field.path, &mut |value, _| {
            if let Some(ValueRef::Position { latitude, longitude }) = value.single() {
                nearest = nearest.min(circle.distance_of(latitude, longitude));
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

/// Documents with the value true.
fn truths(column: Option<&Column>) -> DocumentBits {
    let Some(Column::Fixed(column)) = column else { return DocumentBits::NONE };
    MatchingNumbers.over(column.cells::<u8>(), |number| (*number != 0).then_some(1)).and(&present(column))
}

/// A pass over one number per document, without decoding.
trait NumberPass {
    type Found;

    fn over<T>(self, numbers: &[T], test: impl Fn(&T) -> Option<i32>) -> Self::Found;
}

/// Runs a pass over the cells of a column.
fn pass_over<P: NumberPass>(pass: P, test: &ValueTest, column: &FixedColumn) -> P::Found {
    use millrace_column::CellKind;
    match column.cell() {
        CellKind::Bool => pass.over(column.cells::<u8>(), |number| test.truth(*number != 0)),
        CellKind::I8 => pass.over(column.cells::<i8>(), |number| test.integer(i64::from(*number))),
        CellKind::I32 => pass.over(column.cells::<i32>(), |number| test.integer(i64::from(*number))),
        CellKind::I64 => pass.over(column.cells::<i64>(), |number| test.integer(*number)),
        CellKind::U64 => pass
            .over(column.cells::<u64>(), |number| test.integer(i64::try_from(*number).unwrap_or(i64::MAX))),
        CellKind::F32 => pass.over(column.cells::<f32>(), |number| test.float(f64::from(*number))),
        CellKind::F64 => pass.over(column.cells::<f64>(), |number| test.float(*number)),
        CellKind::BF16 => pass.over(column.cells::<half::bf16>(), |number| test.float(number.to_f64())),
    }
}

/// Pass for the documents whose number matches.
struct MatchingNumbers;

impl NumberPass for MatchingNumbers {
    type Found = DocumentBits;

    fn over<T>(self, numbers: &[T], test: impl Fn(&T) -> Option<i32>) -> DocumentBits {
        let mut bits = DocumentBits::NONE;
        for (index, block) in numbers.chunks(64).enumerate() {
            let word = block
                .iter()
                .enumerate()
                .fold(0, |word, (bit, number)| word | u64::from(test(number).is_some()) << bit);
            bits.set_word(index, word);
        }
        bits
    }
}

/// Pass for the query's weights of the numbers of some documents.
struct NumberWeights<'b>(&'b DocumentBits);

impl NumberPass for NumberWeights<'_> {
    type Found = Vec<(u16, i64)>;

    fn over<T>(self, numbers: &[T], test: impl Fn(&T) -> Option<i32>) -> Vec<(u16, i64)> {
        let weight = |document: usize| Some((document as u16, i64::from(test(numbers.get(document)?)?)));
        self.0.iter().filter_map(weight).collect()
    }
}

fn numbers(test: &ValueTest, column: &FixedColumn, within: &DocumentBits) -> DocumentBits {
    pass_over(MatchingNumbers, test, column).and(&present(column).and(within))
}

fn number_weights(test: &ValueTest, column: &FixedColumn, within: &DocumentBits) -> Vec<(u16, i64)> {
    pass_over(NumberWeights(&present(column).and(within)), test, column)
}

fn present(column: &FixedColumn) -> DocumentBits {
    DocumentBits::from_words(column.presence().words())
}

/// Matches one text per document, as a whole.
fn texts(test: &ValueTest, column: &BytesColumn, within: &DocumentBits) -> DocumentBits {
    let mut bits = DocumentBits::NONE;
    let mut buffer = String::new();
    // One UTF-8 check for all values instead of one per value: nearly always all of it is text.
    let all = std::str::from_utf8(column.data()).ok();
    let offsets = column.offsets();
    if let (Some(regex), Some(all)) = (test.free_regex(), all.filter(|all| all.is_ascii())) {
        return anywhere(regex, all, offsets)
            .and(&DocumentBits::from_words(column.presence().words()))
            .and(within);
    }
    for document in DocumentBits::from_words(column.presence().words()).and(within).iter() {
        let text = match all {
            Some(all) => all.get(offsets[document] as usize..offsets[document + 1] as usize),
            None => column.get(document).and_then(|bytes| std::str::from_utf8(bytes).ok()),
        };
        if text.is_some_and(|text| test.text(text, &mut buffer).is_some()) {
            bits.set(document);
        }
    }
    bits
}

/// Documents whose part of a text matches a regular expression, by one scan over all of them.
fn anywhere(regex: &Regex, all: &str, offsets: &[u32]) -> DocumentBits {
    let mut bits = DocumentBits::NONE;
    let (mut from, mut document) = (0, 0);
    while let Some(found) = regex.find_at(all, from) {
        while document + 2 < offsets.len() && offsets[document + 1] as usize <= found.start() {
            document += 1;
        }
        // A match that extends into the next document does not count; this document may have another one that
        // ends earlier.
        let mut next = document;
        loop {
            let (start, end) = (offsets[next] as usize, offsets[next + 1] as usize);
            let inside = start <= found.start() && found.end() <= end;
            if inside || regex.is_match(&all[start..end]) {
                bits.set(next);
            }
            next += 1;
            if next + 1 >= offsets.len() || offsets[next] as usize >= found.end() {
                break;
            }
        }
        if next + 1 >= offsets.len() {
            break;
        }
        (document, from) = (next, offsets[next] as usize);
    }
    bits
}
