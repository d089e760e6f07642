//! Classes of rows that have the same values in some columns, counted over many chunks.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::{MemberColumn, MemberValues, RowSet, TimeColumn};
use crate::Error;
use crate::kept_hits::members_bytes;

/// Different values of a column in one chunk by which its rows are divided, at most.
const VALUES_MAX: usize = 4_096;

/// Pairs of a class and a value that are looked at in one chunk, at most.
const PAIRS_MAX: usize = 1 << 17;

/// Classes that are counted at a time, and different members that are known, at most.
const CLASSES_MAX: usize = 4_096;

/// Bytes of the classes and of the texts of their members after which they are handed on, about.
const BYTES_MAX: usize = 8 << 20;

/// Last time of the calendar, in milliseconds since 1970, by which rows are divided; the first is as far
/// before.
const TIME_MAX: i64 = 250_000_000_000_000;

/// Values by which rows are divided.
pub(crate) enum RowDimension<'c> {
    Members(&'c MemberColumn),
    /// Intervals with a length in milliseconds, from multiples of it on.
    Intervals(&'c TimeColumn, i64),
}

/// A value that is the same in all chunks: its kind and its number.
type ValueKey = (u8, i64);

impl RowDimension<'_> {
    /// Number of different values; `None` if there are too many.
    fn different(&self) -> Option<usize> {
        match self {
            RowDimension::Members(column) => match &column.values {
                MemberValues::Repeated { different, .. } => Some(different.len()),
                MemberValues::Whole { span, .. } => steps(*span, 1),
                MemberValues::Texts { .. } | MemberValues::Single(_) => None,
            },
            RowDimension::Intervals(column, length) => {
                let is_near = -TIME_MAX <= column.span.0 && column.span.1 <= TIME_MAX;
                steps(column.span, *length).filter(|_| is_near)
            }
        }
    }

    /// Number of the value of a row among the different ones.
    fn number(&self, row: usize) -> usize {
        match self {
            RowDimension::Members(column) => match &column.values {
                MemberValues::Repeated { numbers, .. } => usize::from(numbers[row]),
                MemberValues::Whole { numbers, span, .. } => (numbers[row] - span.0) as usize,
                MemberValues::Texts { .. } | MemberValues::Single(_) => 0,
            },
            RowDimension::Intervals(column, length) => {
                (column.millis[row].div_euclid(*length) - column.span.0.div_euclid(*length)) as usize
            }
        }
    }

    /// Key of the value of a row. Members get a number by their text.
    fn key(&self, row: usize, members: &mut HashMap<String, i64>) -> ValueKey {
        match self {
            RowDimension::Members(column) => match &column.values {
                MemberValues::Repeated { texts, numbers, .. } => {
                    let text = &texts[usize::from(numbers[row])];
                    if let Some(number) = members.get(text) {
                        return (0, *number);
                    }
                    let number = members.len() as i64;
                    members.insert(text.clone(), number);
                    (0, number)
                }
                MemberValues::Whole { numbers, .. } => (1, numbers[row]),
                MemberValues::Texts { .. } | MemberValues::Single(_) => (2, row as i64),
            },
            RowDimension::Intervals(column, length) => (3, column.millis[row].div_euclid(*length)),
        }
    }
}

/// Number of the steps of a length from a number to another one; `None` if there are too many.
fn steps(span: (i64, i64), length: i64) -> Option<usize> {
    let steps = span.1.div_euclid(length).checked_sub(span.0.div_euclid(length))?;
    usize::try_from(steps).ok().map(|steps| steps + 1).filter(|steps| *steps <= VALUES_MAX)
}

/// Rows of a chunk that have the same values.
#[derive(Debug, Clone, Copy)]
struct RowClass {
    /// One of them.
    row: usize,
    /// Number of the rows.
    count: usize,
}

/// Classes of the rows of a set; `None` if there are too many different values.
fn row_classes(rows: &RowSet, dimensions: &[RowDimension<'_>]) -> Option<Vec<RowClass>> {
    const NEW: u16 = u16::MAX;
    let mut class_of = vec![0_u16; rows.len()];
    let mut classes: u16 = 1;
    for dimension in dimensions {
        let different = dimension.different()?;
        let count = usize::from(classes) * different;
        if count > PAIRS_MAX {
            return None;
        }
        // A class for each pair of a class and a value that is there.
        let mut pairs = vec![NEW; count];
        let mut next = 0;
        for row in rows.iter() {
            let pair = &mut pairs[usize::from(class_of[row]) * different + dimension.number(row)];
            if *pair == NEW {
                if next == NEW {
                    return None;
                }
                *pair = next;
                next += 1;
            }
            class_of[row] = *pair;
        }
        classes = next.max(1);
    }
    let mut found: Vec<Option<RowClass>> = vec![None; usize::from(classes)];
    for row in rows.iter() {
        found[usize::from(class_of[row])].get_or_insert(RowClass { row, count: 0 }).count += 1;
    }
    Some(found.into_iter().flatten().collect())
}

/// Receiver of the members of rows that are alike, and of their number.
pub(crate) type EqualRowsReceiver<'t> = dyn FnMut(Map<String, Value>, usize) -> Result<(), Error> + 't;

/// Rows of many chunks that are alike, counted before they are handed on.
#[derive(Default)]
pub(crate) struct RowTally {
    /// Numbers of members by their texts.
    members: HashMap<String, i64>,
    /// Places of the classes by the keys of their values.
    positions: HashMap<Vec<ValueKey>, usize>,
    /// Members of one row of each class, and the number of its rows.
    classes: Vec<(Map<String, Value>, usize)>,
    /// Bytes of the classes and of the texts, about.
    bytes: usize,
}

impl RowTally {
    /// Adds rows of a chunk, of which `members` has the members. All chunks have the same dimensions.
    ///
    /// # Errors
    /// That of `take`.
    pub(crate) fn add(
        &mut self,
        rows: &RowSet,
        dimensions: &[RowDimension<'_>],
        members: &dyn Fn(usize) -> Map<String, Value>,
        take: &mut EqualRowsReceiver<'_>,
    ) -> Result<(), Error> {
        let Some(classes) = row_classes(rows, dimensions) else {
            return rows.iter().try_for_each(|row| take(members(row), 1));
        };
        if self.members.len() > CLASSES_MAX || self.bytes > BYTES_MAX {
            self.hand_on(take)?;
            self.members.clear();
            self.bytes = 0;
        }
        for RowClass { row, count } in classes {
            let keys = dimensions.iter().map(|dimension| dimension.key(row, &mut self.members));
            let key: Vec<ValueKey> = keys.collect();
            if let Some(position) = self.positions.get(&key) {
                self.classes[*position].1 += count;
                continue;
            }
            if self.classes.len() >= CLASSES_MAX {
                self.hand_on(take)?;
            }
            let members = members(row);
            self.bytes += 2 * members_bytes(&members);
            self.positions.insert(key, self.classes.len());
            self.classes.push((members, count));
        }
        Ok(())
    }

    /// Hands on the classes that were counted.
    ///
    /// # Errors
    /// That of `take`.
    pub(crate) fn hand_on(&mut self, take: &mut EqualRowsReceiver<'_>) -> Result<(), Error> {
        self.positions.clear();
        self.classes.drain(..).try_for_each(|(members, count)| take(members, count))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use serde_json::json;

    use super::super::{ColumnBuilder, LogColumn, LogColumnName};
    use super::*;

    /// Length of the intervals of the field `t`.
    const LENGTH: i64 = 60_000;

    /// Column of a field of documents: of times, if the field is `t`.
    fn column(source_path: &str, documents: &[Value]) -> LogColumn {
        let name = match source_path {
            "t" => LogColumnName::Times { source_path: source_path.to_owned(), format: None },
            _ => LogColumnName::Members(vec![source_path.to_owned()]),
        };
        let mut builder = ColumnBuilder::new(&name);
        documents.iter().for_each(|document| builder.push(document.as_object().expect("an object"), 0));
        builder.finish()
    }

    fn dimension(column: &LogColumn) -> RowDimension<'_> {
        match column {
            LogColumn::Members(column) => RowDimension::Members(column),
            LogColumn::Times(column) => RowDimension::Intervals(column, LENGTH),
            other => panic!("all columns are made: {other:?}"),
        }
    }

    #[test]
    fn rows_are_counted_by_their_values() {
        let chunk = |first: i64| -> Vec<Value> {
            let document = |n: i64| {
                let time = -1_700_000_000_000 + n * 1_111;
                json!({ "a": n % 4, "b": n % 7 == 0, "c": n, "d": n * 31 % 900, "e": n << 40, "t": time })
            };
            (first..first + 700).map(document).collect()
        };
        let chunks = [chunk(0), chunk(350), chunk(9_000)];
        for source_paths in [
            vec!["a"],
            vec!["missing"],
            vec!["a", "b"],
            vec!["d"],
            vec!["a", "d", "b"],
            vec!["c"],
            vec!["t"],
            vec!["t", "a"],
            vec!["a", "e"],
            vec!["e"],
        ] {
            let values = |document: &Map<String, Value>| {
                let value = |source_path: &&str| match (*source_path, document.get(*source_path)) {
                    ("t", Some(time)) => time.as_i64().expect("a number").div_euclid(LENGTH).to_string(),
                    (_, value) => format!("{value:?}"),
                };
                source_paths.iter().map(value).collect::<Vec<String>>().join(" ")
            };
            let mut expected: BTreeMap<String, usize> = BTreeMap::new();
            let mut found: BTreeMap<String, usize> = BTreeMap::new();
            let mut taken = 0;
            let mut tally = RowTally::default();
            let mut take = |members: Map<String, Value>, count: usize| -> Result<(), Error> {
                taken += 1;
                *found.entry(values(&members)).or_default() += count;
                Ok(())
            };
            for documents in &chunks {
                let rows = RowSet::all(documents.len()).keep_each(|row| row % 3 > 0);
                let members = |row: usize| documents[row].as_object().expect("an object").clone();
                rows.iter().for_each(|row| *expected.entry(values(&members(row))).or_default() += 1);
                let columns: Vec<LogColumn> =
                    source_paths.iter().map(|source_path| column(source_path, documents)).collect();
                let dimensions: Vec<RowDimension<'_>> = columns.iter().map(dimension).collect();
                tally.add(&rows, &dimensions, &members, &mut take).expect("all are taken");
            }
            tally.hand_on(&mut take).expect("all are taken");
            assert_eq!(found, expected, "{source_paths:?}");
            let is_alone = source_paths.contains(&"e");
            assert_eq!(taken, if is_alone { 1_398 } else { expected.len() }, "{source_paths:?}");
        }
    }

    #[test]
    fn classes_that_are_many_are_handed_on_meanwhile() {
        let mut tally = RowTally::default();
        let (mut taken, mut rows) = (0, 0);
        let mut take = |_: Map<String, Value>, count: usize| -> Result<(), Error> {
            taken += 1;
            rows += count;
            Ok(())
        };
        for chunk in 0..40 {
            let value = |n: i64| match chunk < 20 {
                true => json!(n),
                false => json!(format!("{}", n / 2)),
            };
            let numbers = chunk * 500..chunk * 500 + 500;
            let documents: Vec<Value> = numbers.map(|n| json!({ "v": value(n) })).collect();
            let columns = [column("v", &documents)];
            let dimensions: Vec<RowDimension<'_>> = columns.iter().map(dimension).collect();
            let members = |_: usize| Map::new();
            tally.add(&RowSet::all(500), &dimensions, &members, &mut take).expect("all are taken");
        }
        assert!(tally.classes.len() <= CLASSES_MAX && tally.members.len() <= CLASSES_MAX + 256);
        tally.hand_on(&mut take).expect("all are taken");
        assert_eq!((taken, rows), (10_000 + 5_000, 20_000));

        let (mut tally, mut handed_on) = (RowTally::default(), 0);
        for chunk in 0..40 {
            let text = |n: usize| format!("{}{}", "x".repeat(10_000), chunk * 50 + n);
            let documents: Vec<Value> = (0..50).map(|n| json!({ "v": text(n) })).collect();
            let columns = [column("v", &documents)];
            let dimensions: Vec<RowDimension<'_>> = columns.iter().map(dimension).collect();
            let members = |row: usize| documents[row].as_object().expect("an object").clone();
            let mut take = |_: Map<String, Value>, count: usize| -> Result<(), Error> {
                handed_on += count;
                Ok(())
            };
            tally.add(&RowSet::all(50), &dimensions, &members, &mut take).expect("all are taken");
        }
        assert!(handed_on >= 1_000 && tally.bytes <= BYTES_MAX + (2 << 20), "large values are handed on");
    }
}
