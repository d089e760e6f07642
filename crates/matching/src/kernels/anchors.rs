//! Search for a byte string by three of its bytes.

/// Documents' bytes looked at in one step.
const BLOCK: usize = 64;

/// Three bytes of a byte string at their offsets: where they are found, the string may begin.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NeedleAnchors {
    offsets: [usize; 3],
    bytes: [u8; 3],
    /// Set in both sides before they are compared: the bit of lower case, or 0.
    fold: u8,
    /// True if the beginnings of characters beyond ASCII are found as well.
    finds_wide: bool,
}

impl NeedleAnchors {
    /// The anchors of a byte string: its first byte and its last two, which differ most among names that end
    /// in numbers. `None` if it is shorter than two bytes.
    ///
    /// Without `cased`, letters of ASCII are equal in both cases, and positions where a character beyond
    /// ASCII begins in UTF-8 are found, too: another form of a letter may be there.
    pub(crate) fn new(needle: &[u8], cased: bool) -> Option<Self> {
        let [.., before, last] = *needle else { return None };
        let (first, fold) = (needle[0], if cased { 0 } else { 0x20 });
        Some(NeedleAnchors {
            offsets: [0, needle.len() - 2, needle.len() - 1],
            bytes: [first, before, last].map(|byte| byte | fold),
            fold,
            finds_wide: !cased,
        })
    }

    /// Appends the positions in `data` where the anchors are found, ascending.
    pub(crate) fn find(&self, data: &[u8], found: &mut Vec<u32>) {
        #[cfg(target_arch = "x86_64")]
        if is_x86_feature_detected!("avx2") {
            // SAFETY: the check above found the CPU feature that the function needs.
            return unsafe { x86::find_avx2(self, data, found) };
        }
        self.find_in_blocks(data, found);
    }

    #[inline(always)]
    fn find_in_blocks(&self, data: &[u8], found: &mut Vec<u32>) {
        match self.finds_wide {
            true => self.blocks::<true>(data, found),
            false => self.blocks::<false>(data, found),
        }
    }

    #[inline(always)]
    fn blocks<const WIDE: bool>(&self, data: &[u8], found: &mut Vec<u32>) {
        let (reach, fold) = (self.offsets[2], self.fold);
        let [first, before, last] = self.bytes;
        let mut at = 0;
        while let Some(window) = data.get(at..at + BLOCK + reach) {
            let part = |offset: usize| -> &[u8; BLOCK] {
                window[offset..].first_chunk().expect("the window has a block from each offset on")
            };
            let [firsts, befores, lasts] = self.offsets.map(part);
            // The offsets are different, so 1 is within reach.
            let next = part(1);
            let mut hits = [0u8; BLOCK];
            for index in 0..BLOCK {
                let difference = ((firsts[index] | fold) ^ first)
                    | ((befores[index] | fold) ^ before)
                    | ((lasts[index] | fold) ^ last);
                let is_wide = WIDE & begins_wide(firsts[index], next[index]);
                hits[index] = u8::from((difference == 0) | is_wide);
            }
            for (word, bytes) in hits.as_chunks::<8>().0.iter().enumerate() {
                let mut rest = u64::from_le_bytes(*bytes);
                while rest != 0 {
                    found.push((at + word * 8 + rest.trailing_zeros() as usize / 8) as u32);
                    rest &= rest - 1;
                }
            }
            at += BLOCK;
        }
        found.extend((at..data.len()).filter(|at| self.is_at(data, *at)).map(|at| at as u32));
    }

    /// Plain implementation of [`NeedleAnchors::find`] for one position.
    fn is_at(&self, data: &[u8], at: usize) -> bool {
        let has =
            |(offset, byte): (&usize, &u8)| data.get(at + offset).is_some_and(|at| at | self.fold == *byte);
        let is_wide = || data.get(at + 1).is_some_and(|next| begins_wide(data[at], *next));
        self.offsets.iter().zip(&self.bytes).all(has) || self.finds_wide && is_wide()
    }
}

/// True if a character of two or more bytes begins with these in UTF-8.
#[inline(always)]
pub(crate) fn begins_wide(first: u8, second: u8) -> bool {
    (first >= 0xC2) & (second & 0xC0 == 0x80)
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::NeedleAnchors;

    #[target_feature(enable = "avx2")]
    pub(super) fn find_avx2(anchors: &NeedleAnchors, data: &[u8], found: &mut Vec<u32>) {
        anchors.find_in_blocks(data, found);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn bytes(length: std::ops::Range<usize>) -> impl Strategy<Value = Vec<u8>> {
        let byte = prop_oneof![
            prop::sample::select(b"abAB ".to_vec()),
            prop::sample::select(vec![0xC3, 0xA9, 0x80]),
            any::<u8>()
        ];
        prop::collection::vec(byte, length)
    }

    proptest! {
        #[test]
        fn blocks_find_what_each_position_does(
            data in bytes(0..400),
            needle in bytes(2..9),
            cased in any::<bool>(),
        ) {
            let anchors = NeedleAnchors::new(&needle, cased).expect("it has two bytes");
            let plain: Vec<u32> = (0..data.len() as u32).filter(|at| anchors.is_at(&data, *at as usize)).collect();
            let (mut found, mut in_blocks) = (Vec::new(), Vec::new());
            anchors.find(&data, &mut found);
            anchors.find_in_blocks(&data, &mut in_blocks);
            prop_assert_eq!(&found, &plain);
            prop_assert_eq!(&in_blocks, &plain);
        }
    }
}
