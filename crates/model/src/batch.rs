//! Selection of the waiting sequences that run together: a pure function.
//!
//! A batch is a rectangle of tokens: sequences shorter than the longest are padded, and padding costs as much
//! as tokens. A batch therefore starts with the sequence that has waited longest, and adds those nearest to
//! it in length, as long as there is little padding and the rectangle stays within a number of tokens. Beyond
//! that, larger batches are no faster per token, and later ones wait longer.

/// Size limits of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchLimits {
    /// Maximum number of tokens, including padding. A longer sequence runs alone.
    pub tokens: usize,
    /// Maximum number of sequences.
    pub sequences: usize,
}

/// Padding is at most the other tokens divided by this number.
const PADDING_SHARE: usize = 8;

/// Indices, ascending, of the sequences to run together. `lengths` are those of the waiting sequences,
/// longest wait first; the first one is always selected. Empty if none are waiting.
pub fn choose(lengths: &[usize], limits: BatchLimits) -> Vec<usize> {
    let Some(&seed) = lengths.first() else { return Vec::new() };
    if lengths.len() == 1 || limits.sequences <= 1 {
        return vec![0];
    }
    // Nearest in length first; of equally near ones, the longest wait first.
    let mut others: Vec<usize> = (1..lengths.len()).collect();
    others.sort_by_key(|&at| (lengths[at].abs_diff(seed), at));
    let mut chosen = vec![0];
    let (mut longest, mut total) = (seed, seed);
    for at in others {
        if chosen.len() == limits.sequences {
            break;
        }
        let longer = longest.max(lengths[at]);
        let padded = longer.saturating_mul(chosen.len() + 1);
        let tokens = total.saturating_add(lengths[at]);
        if padded <= limits.tokens && padded - tokens <= tokens / PADDING_SHARE {
            chosen.push(at);
            (longest, total) = (longer, tokens);
        }
    }
    chosen.sort_unstable();
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn like_lengths_go_together_around_the_one_that_waited_longest() {
        let limits = BatchLimits { tokens: 256, sequences: 64 };
        let check = |lengths: &[usize], expected: &[usize]| {
            assert_eq!(choose(lengths, limits), expected, "{lengths:?}");
        };
        check(&[], &[]);
        check(&[32], &[0]);
        check(&[1000], &[0]);
        check(&[1000, 1000], &[0]);
        check(&[32, 32, 32], &[0, 1, 2]);
        check(&[32, 128, 31, 8, 33], &[0, 2, 4]);
        check(&[128, 32, 128, 128], &[0, 2]);
        check(&[0, 0], &[0, 1]);
        check(&[64, 200, 64, 64, 64, 64], &[0, 2, 3, 4]);
    }

    #[test]
    fn the_number_of_sequences_is_a_limit_too() {
        let limits = BatchLimits { tokens: 4096, sequences: 2 };
        assert_eq!(choose(&[8, 9, 8, 8], limits), [0, 2]);
        assert_eq!(choose(&[8, 8], BatchLimits { sequences: 1, ..limits }), [0]);
    }

    #[test]
    fn padding_stays_within_its_share_whatever_the_lengths() {
        let mut seed = 7_u64;
        for _ in 0..500 {
            let lengths: Vec<usize> = (0..40)
                .map(|_| {
                    seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                    1 + (seed >> 33) as usize % 200
                })
                .collect();
            let chosen = choose(&lengths, BatchLimits { tokens: 512, sequences: 16 });
            let longest = chosen.iter().map(|&at| lengths[at]).max().unwrap_or(0);
            let total: usize = chosen.iter().map(|&at| lengths[at]).sum();
            assert_eq!(chosen[0], 0);
            assert!(longest * chosen.len() <= 512);
            assert!(longest * chosen.len() - total <= total / PADDING_SHARE, "{chosen:?} of {lengths:?}");
        }
    }
}
