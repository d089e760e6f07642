//! Columns against the plain lists that they stand for.

use millrace_column::{BytesBuilder, Cell, Column, FixedBuilder, TokensBuilder};
use proptest::prelude::*;

/// A document's words; an element boundary is `None`.
type Text = Vec<Option<String>>;

fn tokens(documents: &[Text]) -> Column {
    let mut builder = TokensBuilder::new();
    for document in documents {
        for word in document {
            match word {
                Some(word) => builder.word(word.as_bytes()),
                None => builder.boundary(),
            }
        }
        builder.end_document();
    }
    Column::Tokens(builder.finish())
}

fn texts(column: &Column) -> Vec<Text> {
    let Column::Tokens(column) = column else { panic!("a tokens column was built") };
    let word = |id| (id != 0).then(|| String::from_utf8(column.word(id).to_vec()).expect("words were UTF-8"));
    (0..column.len()).map(|index| column.document(index).iter().map(word).collect()).collect()
}

fn text() -> impl Strategy<Value = Text> {
    prop::collection::vec(prop::option::weighted(0.9, "[a-c]{1,3}"), 0..12)
}

fn bytes(values: &[Option<Vec<u8>>]) -> Column {
    let mut builder = BytesBuilder::new();
    values.iter().for_each(|value| builder.push(value.as_deref()));
    Column::Bytes(builder.finish())
}

fn numbers(values: &[Option<i64>]) -> Column {
    let mut builder = FixedBuilder::new(Cell::I64, 1);
    for value in values {
        match value {
            Some(value) => builder.push(&value.to_le_bytes()),
            None => builder.push_absent(),
        }
    }
    Column::Fixed(builder.finish())
}

fn decoded(column: &Column) -> Column {
    Column::decode(column.encoded().clone()).expect("what was encoded decodes")
}

proptest! {
    #[test]
    fn tokens_keep_their_words(documents in prop::collection::vec(text(), 0..20), prefix in "[a-c]{0,2}") {
        let column = decoded(&tokens(&documents));
        prop_assert_eq!(texts(&column), documents.clone());
        let Column::Tokens(column) = column else { unreachable!("tokens were encoded") };
        let mut words: Vec<String> = documents.into_iter().flatten().flatten().collect();
        words.sort();
        words.dedup();
        prop_assert_eq!(column.words(), words.len());
        let found: Vec<&[u8]> = column.prefixed(prefix.as_bytes()).map(|number| column.word(number)).collect();
        let expected: Vec<&[u8]> = words.iter().filter(|w| w.starts_with(&prefix)).map(String::as_bytes).collect();
        prop_assert_eq!(found, expected);
        for word in &words {
            let number = column.number(word.as_bytes()).expect("the dictionary has it");
            prop_assert_eq!(column.word(number), word.as_bytes());
        }
        prop_assert_eq!(column.number(b"zzz"), None);
    }

    #[test]
    fn joined_columns_hold_the_documents_of_both(
        a in prop::collection::vec(text(), 1..10), b in prop::collection::vec(text(), 1..10), from in 0usize..10,
    ) {
        let from = from.min(b.len());
        let (left, right) = (tokens(&a), tokens(&b));
        let joined = Column::concat(&[(&left, 0..a.len()), (&right, from..b.len())]).expect("both are tokens");
        let expected: Vec<Text> = a.iter().chain(&b[from..]).cloned().collect();
        prop_assert_eq!(texts(&joined), expected);
    }

    #[test]
    fn bytes_keep_their_values(values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..9)), 1..200)) {
        let column = bytes(&values);
        let joined = Column::concat(&[(&column, 0..values.len()), (&column, 0..1)]).expect("both are bytes");
        let Column::Bytes(column) = decoded(&joined) else { unreachable!("bytes were encoded") };
        for (index, value) in values.iter().chain(&values[..1]).enumerate() {
            prop_assert_eq!(column.get(index), value.as_deref());
        }
    }

    #[test]
    fn numbers_keep_their_values(values in prop::collection::vec(prop::option::of(any::<i64>()), 1..200)) {
        let column = numbers(&values);
        let joined = Column::concat(&[(&column, 0..values.len()), (&column, 0..1)]).expect("both are numbers");
        let Column::Fixed(column) = decoded(&joined) else { unreachable!("numbers were encoded") };
        prop_assert_eq!(column.raw().as_ptr() as usize % 64, 0);
        for (index, value) in values.iter().chain(&values[..1]).enumerate() {
            prop_assert_eq!(column.integer(index), *value);
        }
    }

    /// Bytes that are no column are refused, and those that pass for one can be read to the end without a panic.
    #[test]
    fn damaged_bytes_never_panic(at in any::<prop::sample::Index>(), value in any::<u8>(), cut in 0usize..70) {
        let word = |w: &str| Some(w.to_owned());
        for column in [tokens(&[vec![word("ab"), None, word("cd")], vec![word("x")]]), bytes(&[Some(vec![1, 2]), None]), numbers(&[Some(7), None])] {
            let mut damaged = column.encoded().to_vec();
            let at = at.index(damaged.len());
            damaged[at] = value;
            damaged.truncate(damaged.len() - cut.min(damaged.len()));
            let Ok(column) = Column::decode(millrace_column::Buffer::copy_from(&damaged)) else { continue };
            match &column {
                Column::Tokens(column) => (0..column.len()).for_each(|i| column.document(i).iter().filter(|id| *id > 0).for_each(|id| { column.word(id); })),
                Column::Bytes(column) => (0..column.len()).for_each(|i| { column.get(i); }),
                Column::Fixed(column) => (0..column.len() * column.width().min(1)).for_each(|i| { column.number(i); }),
            }
        }
    }
}

#[test]
fn columns_of_different_layouts_do_not_join() {
    let (a, b) = (numbers(&[Some(1)]), bytes(&[None]));
    assert_eq!(Column::concat(&[(&a, 0..1), (&b, 0..1)]).err(), Some(millrace_column::Error::Mixed));
}
