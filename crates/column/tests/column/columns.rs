//! Columns compared with the plain lists that they represent.

use millrace_column::{BytesBuilder, CellKind, Column, FixedBuilder, TokensBuilder};
use proptest::prelude::*;

/// Words of a document, `word/stem` if the stem differs; an element boundary is `None`.
type Text = Vec<Option<String>>;

/// A word and its stem.
fn parts(word: &str) -> (&str, &str) {
    word.split_once('/').unwrap_or((word, word))
}

fn tokens(documents: &[Text]) -> Column {
    let mut builder = TokensBuilder::new();
    for document in documents {
        for word in document {
            match word {
                Some(word) => {
                    let (word, stem) = parts(word);
                    builder.stemmed(word.as_bytes(), stem.as_bytes());
                }
                None => builder.boundary(),
            }
        }
        builder.end_document();
    }
    Column::Tokens(builder.finish())
}

/// The documents of which a column was built.
fn texts(column: &Column) -> Vec<Text> {
    let Column::Tokens(column) = column else { panic!("a tokens column was built") };
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("words were UTF-8");
    let mut words: Vec<Option<String>> = vec![None; column.words() + 1];
    for stem in all_stems() {
        column.stemmed(stem.as_bytes(), |number| {
            let word = text(column.word(number));
            assert_eq!(words[number as usize], None, "a word has one stem");
            words[number as usize] = Some(if word == stem { word } else { format!("{word}/{stem}") });
        });
    }
    let word = |id| (id != 0).then(|| words[id as usize].clone().unwrap_or_else(|| text(column.word(id))));
    (0..column.len()).map(|index| column.document(index).iter().map(word).collect()).collect()
}

/// Words of one to three characters out of three letters, some with a stem of one or two characters.
fn text() -> impl Strategy<Value = Text> {
    let word = prop_oneof!["[a-c]{1,3}", "[a-c]{3}/[ab]{1,2}"];
    prop::collection::vec(prop::option::weighted(0.9, word), 0..12)
}

/// All stems that words of [`text`] can have.
fn all_stems() -> Vec<String> {
    let letters = ["a", "b", "c"];
    let longer = |words: &[String]| -> Vec<String> {
        words.iter().flat_map(|word| letters.map(|letter| format!("{word}{letter}"))).collect()
    };
    let one = longer(&[String::new()]);
    let two = longer(&one);
    let three = longer(&two);
    [one, two, three].concat()
}

fn bytes(values: &[Option<Vec<u8>>]) -> Column {
    let mut builder = BytesBuilder::new();
    values.iter().for_each(|value| builder.push(value.as_deref()));
    Column::Bytes(builder.finish())
}

fn numbers(values: &[Option<i64>]) -> Column {
    let mut builder = FixedBuilder::new(CellKind::I64, 1);
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
        // A word that was stemmed in two ways has two numbers.
        let all = words.clone();
        words.sort();
        words.dedup();
        prop_assert_eq!(column.words(), words.len());
        let found: Vec<&[u8]> = column.prefixed(prefix.as_bytes()).map(|number| column.word(number)).collect();
        let mut expected: Vec<&[u8]> =
            words.iter().filter(|w| w.starts_with(&prefix)).map(|word| parts(word).0.as_bytes()).collect();
        expected.sort_unstable();
        prop_assert_eq!(found, expected);
        for word in &words {
            let (word, stem) = parts(word);
            let numbers: Vec<u32> = column.numbers(word.as_bytes()).collect();
            let same = words.iter().filter(|other| parts(other).0 == word).count();
            prop_assert_eq!(numbers.len(), same);
            prop_assert!(numbers.iter().all(|number| column.word(*number) == word.as_bytes()));
            let mut found = Vec::new();
            column.stemmed(stem.as_bytes(), |number| found.push(column.word(number).to_vec()));
            let mut expected: Vec<Vec<u8>> = words
                .iter()
                .filter(|other| parts(other).1 == stem)
                .map(|other| parts(other).0.as_bytes().to_vec())
                .collect();
            found.sort_unstable();
            expected.sort_unstable();
            prop_assert_eq!(found, expected, "stem {} of {:?}", stem, all);
        }
        prop_assert!(column.numbers(b"zzz").is_empty());
        column.stemmed(b"zzz", |_| panic!("no word has this stem"));
    }

    /// Words may be longer than the bytes that are compared first, or have zeros where others end.
    #[test]
    fn a_dictionary_is_in_the_order_of_words_then_of_stems(
        words in prop::collection::vec(("(a|\\x00){1,3}|mill(a|b|\\x00){1,20}", "[ab]{0,2}"), 0..60),
    ) {
        let mut builder = TokensBuilder::new();
        words.iter().for_each(|(word, stem)| builder.stemmed(word.as_bytes(), stem.as_bytes()));
        builder.end_document();
        let column = builder.finish();
        let of_word = |(word, stem): &(String, String)| {
            let stem = (!stem.is_empty() && stem != word).then(|| stem.clone());
            (word.clone(), stem)
        };
        let mut expected: Vec<(String, Option<String>)> = words.iter().map(of_word).collect();
        expected.sort();
        expected.dedup();
        let found: Vec<&[u8]> = (1..=column.words() as u32).map(|number| column.word(number)).collect();
        prop_assert_eq!(found, expected.iter().map(|(word, _)| word.as_bytes()).collect::<Vec<_>>());
        for (number, word) in column.document(0).iter().zip(&words) {
            prop_assert_eq!(expected.binary_search(&of_word(word)), Ok(number as usize - 1));
        }
    }

    /// Each stemmer cuts words at its own length; one of them cuts some words off altogether.
    #[test]
    fn remembered_stems_are_those_of_their_stemmer(
        words in prop::collection::vec(("[a-c]{1,4}|[ab]{15,17}", "[a-c ]{0,20}", 0..3_u8), 0..60),
    ) {
        let stem = |word: &str, stemmer: u8| word[..word.len().min(usize::from(stemmer) * 2)].to_owned();
        let (mut remembering, mut plain) = (TokensBuilder::new(), TokensBuilder::new());
        for (word, following, stemmer) in &words {
            let text = format!("{word}{following}");
            let append = |out: &mut String| out.push_str(&stem(word, *stemmer));
            remembering.stemmed_by(*stemmer, text.as_bytes(), word.len(), append);
            if *stemmer > 0 {
                plain.stemmed(word.as_bytes(), stem(word, *stemmer).as_bytes());
            }
        }
        [&mut remembering, &mut plain].into_iter().for_each(TokensBuilder::end_document);
        let [remembering, plain] = [remembering, plain].map(|builder| Column::Tokens(builder.finish()));
        prop_assert_eq!(texts(&remembering), texts(&plain));
    }

    /// A joined column is the one that its documents have alone, however the rows of its parts alternate.
    #[test]
    fn joined_columns_hold_the_documents_of_both(
        a in prop::collection::vec(text(), 1..10),
        b in prop::collection::vec(text(), 1..10),
        parts in prop::collection::vec((any::<bool>(), 0..10_usize, 0..4_usize), 1..12),
    ) {
        let (left, right) = (tokens(&a), tokens(&b));
        let (mut expected, mut joined) = (Vec::new(), Vec::new());
        for (is_left, from, count) in parts {
            let (of, column) = if is_left { (&a, &left) } else { (&b, &right) };
            let range = from.min(of.len())..(from + count).min(of.len()).max(from.min(of.len()));
            expected.extend_from_slice(&of[range.clone()]);
            joined.push((column, range));
        }
        let joined = Column::concat(&joined).expect("all are tokens");
        prop_assert_eq!(texts(&joined), expected.clone());
        let alone = tokens(&expected);
        prop_assert_eq!(&joined.encoded()[..], &alone.encoded()[..]);
    }

    #[test]
    fn bytes_keep_their_values(values in prop::collection::vec(prop::option::of(prop::collection::vec(any::<u8>(), 0..9)), 1..200)) {
        let column = bytes(&values);
        let joined = Column::concat(&[(&column, 0..values.len()), (&column, 0..1)]).expect("both are bytes");
        let Column::Bytes(column) = decoded(&joined) else { unreachable!("bytes were encoded") };
        for (index, value) in values.iter().chain(&values[..1]).enumerate() {
            prop_assert_eq!(column.get(index), value.as_deref());
        }
        // Also in another order, and more than once.
        let documents: Vec<u16> = (0..values.len() as u16).rev().chain([0]).collect();
        let each: Vec<_> = column.get_each(&documents).collect();
        let expected: Vec<_> = documents.iter().map(|document| values[usize::from(*document)].as_deref()).collect();
        prop_assert_eq!(each, expected);
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

    /// Bytes that are not a column are rejected, and accepted ones can be read to the end without a panic.
    #[test]
    fn damaged_bytes_never_panic(at in any::<prop::sample::Index>(), value in any::<u8>(), cut in 0usize..70) {
        let word = |w: &str| Some(w.to_owned());
        for column in [tokens(&[vec![word("abc/a"), None, word("cd")], vec![word("x"), word("bcc/b")]]), bytes(&[Some(vec![1, 2]), None]), numbers(&[Some(7), None])] {
            let mut damaged = column.encoded().to_vec();
            let at = at.index(damaged.len());
            damaged[at] = value;
            damaged.truncate(damaged.len() - cut.min(damaged.len()));
            let Ok(column) = Column::decode(millrace_column::AlignedBuffer::copy_from(&damaged)) else { continue };
            match &column {
                Column::Tokens(column) => {
                    all_stems().iter().for_each(|stem| column.stemmed(stem.as_bytes(), |id| { column.word(id); }));
                    (0..column.len()).for_each(|i| column.document(i).iter().filter(|id| *id > 0).for_each(|id| { column.word(id); }));
                }
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
