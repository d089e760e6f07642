//! Joining of columns of words.
//!
//! Dictionaries are sorted, so they are merged: no word is hashed, and each is compared with a few others. A
//! column may be the source of many parts, as where the rows of two chunks alternate; its words are read
//! once.

use std::ops::Range;

use hashbrown::HashMap;

use crate::sorted::head;
use crate::stems::StemsBuilder;
use crate::tokens::{ELEMENT_BOUNDARY, EncodedTokens, TokenIds, TokensColumn, token_width};

/// A column that parts come from.
struct TokenSource<'a> {
    column: &'a TokensColumn,
    /// True for the numbers that the parts have.
    used: Vec<bool>,
    /// Numbers in the joined column, by number in this one.
    joined: Vec<u32>,
}

/// A word of a source. Ordered like the words of a dictionary.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct SourceWord<'a> {
    /// Most words differ in their first bytes, which costs less than to compare slices.
    head: u64,
    word: &'a [u8],
    stem: Option<&'a [u8]>,
    source: usize,
    number: u32,
}

/// Returns the documents of the parts in one column. Its dictionary has the words of these documents alone.
pub(crate) fn join(parts: &[(&TokensColumn, Range<usize>)]) -> TokensColumn {
    let mut sources: Vec<TokenSource<'_>> = Vec::new();
    let mut numbers: HashMap<*const u8, usize> = HashMap::new();
    let mut source_of_part = Vec::with_capacity(parts.len());
    for (column, range) in parts {
        // Clones of a column share their bytes.
        let source = *numbers.entry(column.buffer().as_ptr()).or_insert_with(|| {
            let (used, joined) = (vec![false; column.words() + 1], vec![0; column.words() + 1]);
            sources.push(TokenSource { column, used, joined });
            sources.len() - 1
        });
        source_of_part.push(source);
        let used = &mut sources[source].used;
        each_id(column, range, |id| used[id as usize] = true);
    }
    let mut words = Vec::new();
    for (number, source) in sources.iter().enumerate() {
        source.words(number, &mut words);
    }
    // The words of each source are in order, which this sort makes use of.
    words.sort();
    let (mut bytes, mut offsets, mut stems) = (Vec::new(), vec![0u32], StemsBuilder::default());
    for same in words.chunk_by(|a, b| (a.word, a.stem) == (b.word, b.stem)) {
        let SourceWord { word, stem, .. } = same[0];
        bytes.extend_from_slice(word);
        let number = offsets.len() as u32;
        offsets.push(u32::try_from(bytes.len()).expect("chunks are cut before a column reaches 4 GiB"));
        stem.iter().for_each(|stem| stems.push(stem, number));
        same.iter().for_each(|word| sources[word.source].joined[word.number as usize] = number);
    }
    let (mut starts, mut count) = (vec![0u32], 0u32);
    for (column, range) in parts {
        let (before, first) = (column.starts()[range.start], count);
        for end in &column.starts()[range.start + 1..=range.end] {
            count =
                (end - before).checked_add(first).expect("chunks are cut before a column has 4 Gi tokens");
            starts.push(count);
        }
    }
    let count = count as usize;
    let width = token_width(offsets.len() - 1);
    let (mut narrow, mut wide): (Vec<u16>, Vec<u32>) = (Vec::new(), Vec::new());
    match width {
        2 => narrow.reserve_exact(count),
        _ => wide.reserve_exact(count),
    }
    for ((column, range), source) in parts.iter().zip(source_of_part) {
        let joined = &sources[source].joined;
        match width {
            2 => each_id(column, range, |id| narrow.push(joined[id as usize] as u16)),
            _ => each_id(column, range, |id| wide.push(joined[id as usize])),
        }
    }
    let ids = if width == 2 { bytemuck::cast_slice(&narrow) } else { bytemuck::cast_slice(&wide) };
    let encoded = EncodedTokens { offsets: &offsets, words: &bytes, starts: &starts, ids, width, stems };
    TokensColumn::decode(encoded.finish()).expect("what was just encoded decodes")
}

impl<'a> TokenSource<'a> {
    /// Appends the words that the parts have, in order. [`ELEMENT_BOUNDARY`] stays what it is.
    fn words(&self, source: usize, out: &mut Vec<SourceWord<'a>>) {
        let mut stems: Vec<Option<&[u8]>> = vec![None; self.used.len()];
        self.column.each_stem(|stem, number| stems[number as usize] = Some(stem));
        for (number, stem) in (0..self.used.len() as u32).zip(stems) {
            if number == ELEMENT_BOUNDARY || !self.used[number as usize] {
                continue;
            }
            let word = self.column.word(number);
            out.push(SourceWord { head: head(word), word, stem, source, number });
        }
    }
}

/// Calls `each` with the tokens of the documents in `range`.
fn each_id(column: &TokensColumn, range: &Range<usize>, mut each: impl FnMut(u32)) {
    let starts = column.starts();
    let tokens = starts[range.start] as usize..starts[range.end] as usize;
    match column.ids().slice(tokens) {
        TokenIds::Narrow(ids) => ids.iter().for_each(|id| each(u32::from(*id))),
        TokenIds::Wide(ids) => ids.iter().for_each(|id| each(*id)),
    }
}
