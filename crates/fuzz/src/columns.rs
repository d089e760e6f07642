use millrace_column::{AlignedBuffer, Column, Compression};

/// Largest column whose contents are read, in plain bytes: a header can claim gigabytes.
const PLAIN_MAX: u64 = 1 << 24;

/// A column as it lies in a file.
pub(crate) fn column(input: &[u8]) {
    if millrace_column::plain_bytes(input.get(..12).unwrap_or_default())
        .is_some_and(|plain| plain > PLAIN_MAX)
    {
        return;
    }
    let column = match Column::decode(AlignedBuffer::copy_from(input)) {
        Ok(column) => column,
        Err(error) => return super::tells(&error),
    };
    if let Err(error) = column.check() {
        return super::tells(&error);
    }
    for compression in [Compression::None, Compression::Small, Compression::Whole, Compression::Blocks] {
        let again = Column::decode(column.stored(compression, || ())).expect("what was stored decodes");
        again.check().expect("what was just compressed is whole");
        assert_eq!(again.len(), column.len());
        for index in 0..column.len() {
            assert!(is_same(&column, &again, index), "document {index} after {compression:?}");
        }
    }
}

/// True if a document has the same contents in both columns.
fn is_same(one: &Column, other: &Column, index: usize) -> bool {
    match (one, other) {
        (Column::Bytes(one), Column::Bytes(other)) => one.get(index) == other.get(index),
        (Column::Tokens(one), Column::Tokens(other)) => {
            let words = |of: &millrace_column::TokensColumn| -> Vec<Option<Vec<u8>>> {
                let word = |id: u32| (id > 0).then(|| of.word(id).to_vec());
                of.document(index).iter().map(word).collect()
            };
            words(one) == words(other)
        }
        (Column::Fixed(one), Column::Fixed(other)) => {
            one.presence().get(index) == other.presence().get(index) && one.raw() == other.raw()
        }
        _ => false,
    }
}
