//! Compressed columns compared with the plain columns that they were made of.

use millrace_column::{
    AlignedBuffer, BytesBuilder, BytesColumn, Column, Compression, TokensBuilder, plain_bytes,
};
use proptest::prelude::*;

/// Documents of words with their stems.
fn tokens(documents: &[Vec<(String, String)>]) -> Column {
    let mut builder = TokensBuilder::new();
    for document in documents {
        for (index, (word, stem)) in document.iter().enumerate() {
            builder.stemmed(word.as_bytes(), stem.as_bytes());
            if index % 7 == 6 {
                builder.boundary();
            }
        }
        builder.end_document();
    }
    Column::Tokens(builder.finish())
}

fn bytes(values: &[Option<Vec<u8>>]) -> Column {
    let mut builder = BytesBuilder::new();
    values.iter().for_each(|value| builder.push(value.as_deref()));
    Column::Bytes(builder.finish())
}

/// Text that compresses well, in documents of very different lengths.
fn letters(documents: usize) -> Vec<Option<Vec<u8>>> {
    let line = b"the quick brown fox jumps over the lazy dog and back; ";
    let length = |index: usize| if index % 50 == 49 { 40_000 } else { index * 37 % 900 };
    let value = |index: usize| line.iter().cycle().skip(index).take(length(index)).copied().collect();
    (0..documents).map(|index| (index % 5 != 3).then(|| value(index))).collect()
}

fn stored(column: &Column, compression: Compression) -> AlignedBuffer {
    column.stored(compression, || ())
}

fn decoded(buffer: AlignedBuffer) -> Column {
    let column = Column::decode(buffer).expect("what was stored decodes");
    column.check().expect("its blocks are whole");
    column
}

fn of_bytes(column: &Column) -> &BytesColumn {
    let Column::Bytes(column) = column else { panic!("bytes were stored") };
    column
}

proptest! {
    #[test]
    fn words_are_the_same_after_compression(
        documents in prop::collection::vec(prop::collection::vec(("[a-c]{1,20}|[a-z]{300}", "[a-c]{0,18}"), 0..40), 1..20),
        own in any::<bool>(),
    ) {
        // Stems that begin as their words do, and others.
        let stem = |(word, stem): (String, String)| {
            let stem = if own { word[..word.len() / 2].to_owned() + &stem } else { stem };
            (word, stem)
        };
        let documents: Vec<Vec<_>> =
            documents.into_iter().map(|document| document.into_iter().map(stem).collect()).collect();
        let column = tokens(&documents);
        let again = decoded(stored(&column, Compression::Whole));
        prop_assert_eq!(&again.encoded()[..], &column.encoded()[..]);
    }

    #[test]
    fn values_are_the_same_in_blocks(documents in 1usize..300, order in prop::collection::vec(any::<prop::sample::Index>(), 0..50)) {
        let values = letters(documents);
        let column = bytes(&values);
        let blocks = decoded(stored(&column, Compression::Blocks));
        for index in order {
            let index = index.index(documents);
            prop_assert_eq!(of_bytes(&blocks).get(index), values[index].as_deref());
        }
        let all: Vec<u16> = (0..documents as u16).collect();
        prop_assert!(of_bytes(&blocks).get_each(&all).eq(values.iter().map(|value| value.as_deref())));
        prop_assert_eq!(of_bytes(&blocks).data(), of_bytes(&column).data());
        prop_assert_eq!(of_bytes(&blocks).get(documents / 2), values[documents / 2].as_deref());
        let joined = Column::concat(&[(&blocks, 0..documents), (&column, 0..1)]).expect("both are bytes");
        prop_assert_eq!(of_bytes(&joined).get(documents), values[0].as_deref());
    }

    /// Bytes that are not a column are rejected, and accepted ones can be read to the end without a panic.
    #[test]
    fn damaged_bytes_never_panic(at in any::<prop::sample::Index>(), value in any::<u8>(), cut in 0usize..70) {
        let words: Vec<_> = (0..200).map(|n| (format!("word{}", n * 7919 % 1000), "wor".to_owned())).collect();
        for buffer in [
            stored(&tokens(&[words]), Compression::Whole),
            stored(&bytes(&letters(60)), Compression::Whole),
            stored(&bytes(&letters(60)), Compression::Blocks),
        ] {
            let mut damaged = buffer.to_vec();
            // Half of the changes are in the header and the tables.
            let within = if cut % 2 == 0 { damaged.len() } else { damaged.len().min(700) };
            damaged[at.index(within)] = value;
            damaged.truncate(damaged.len() - cut.min(damaged.len()));
            let Ok(column) = Column::decode(AlignedBuffer::copy_from(&damaged)) else { continue };
            if column.check().is_err() {
                continue;
            }
            match &column {
                Column::Bytes(column) => {
                    (0..column.len()).for_each(|index| { column.get(index); });
                    column.data();
                }
                Column::Tokens(column) => (0..column.len()).for_each(|index| {
                    column.document(index).iter().filter(|id| *id > 0).for_each(|id| { column.word(id); });
                }),
                Column::Fixed(_) => panic!("none was stored"),
            }
        }
    }
}

#[test]
fn columns_are_compressed_only_where_it_saves() {
    let column = bytes(&letters(100));
    let plain = column.encoded().len();
    for compression in [Compression::Whole, Compression::Blocks] {
        let compressed = stored(&column, compression);
        assert!(compressed.len() * 4 < plain, "{compression:?}: {} of {plain}", compressed.len());
        // Of blocks, the header has the bytes of the values alone.
        let memory = plain_bytes(&compressed).expect("it is compressed");
        assert!((of_bytes(&column).data().len() as u64..=plain as u64).contains(&memory), "{memory}");
    }
    let random: Vec<u8> = (0..5000u64).map(|n| ((n * n * 0x9e37_79b9) >> 13) as u8).collect();
    let random = bytes(&[Some(random)]);
    for compression in [Compression::None, Compression::Small, Compression::Whole, Compression::Blocks] {
        let stored = stored(&random, compression);
        assert_eq!(stored[..], random.encoded()[..], "{compression:?}");
        assert_eq!(plain_bytes(&stored), None);
    }
    let small = bytes(&letters(2));
    for compression in [Compression::Small, Compression::Blocks] {
        let stored = stored(&small, compression);
        assert!(stored.len() < 128 && stored.len() < small.encoded().len(), "{compression:?}");
        assert_eq!(decoded(stored).encoded()[..], small.encoded()[..]);
    }
    assert_eq!(stored(&column, Compression::Small)[..], column.encoded()[..]);
}

#[test]
fn a_compressed_column_is_stored_in_any_form() {
    let column = bytes(&letters(100));
    let compressed = stored(&column, Compression::Blocks);
    let blocks = decoded(compressed.clone());
    assert_eq!(stored(&blocks, Compression::Blocks)[..], compressed[..]);
    assert_eq!(stored(&blocks, Compression::None)[..], column.encoded()[..]);
    assert_eq!(stored(&blocks, Compression::Whole)[..], stored(&column, Compression::Whole)[..]);
    assert!(blocks.memory_bytes() > of_bytes(&column).data().len() + compressed.len());
}

#[test]
fn a_damaged_block_is_found_before_it_is_read() {
    let compressed = stored(&bytes(&letters(100)), Compression::Blocks);
    let mut damaged = compressed.to_vec();
    let last = damaged.len() - 100;
    damaged[last] ^= 0x55;
    let column = Column::decode(AlignedBuffer::copy_from(&damaged)).expect("only a block is damaged");
    let error = column.check().expect_err("a block is damaged").to_string();
    assert_eq!(error, "column: a block of a compressed column is damaged");
}
