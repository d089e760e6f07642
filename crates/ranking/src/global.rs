//! Normalization in the global phase: numbers that have a meaning only relative to those of the other hits.

use crate::compile::CompiledExpression;

/// Default constant of reciprocal ranks.
pub(crate) const RECIPROCAL_RANK_K: f64 = 60.0;

/// A number of each hit that is normalized over all hits of the global phase.
pub(crate) struct HitNormalizer {
    pub input: CompiledExpression,
    pub kind: NormalizationKind,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum NormalizationKind {
    /// Linear, from 0 for the lowest to 1 for the highest.
    Linear,
    /// `1 / (k + rank)`; the best hit has the rank 1.
    ReciprocalRank { k: f64 },
}

impl NormalizationKind {
    /// Normalizes one number per hit. Of equal numbers, the earlier ranks first.
    pub fn normalize(self, numbers: &[f64]) -> Vec<f64> {
        let mut normalized = vec![0.0; numbers.len()];
        match self {
            NormalizationKind::Linear => {
                let finite = || numbers.iter().copied().filter(|number| number.is_finite());
                let (low, high) =
                    (finite().fold(f64::INFINITY, f64::min), finite().fold(f64::NEG_INFINITY, f64::max));
                for (normalized, number) in normalized.iter_mut().zip(numbers) {
                    *normalized = if high > low { (number - low) / (high - low) } else { 0.0 };
                }
            }
            NormalizationKind::ReciprocalRank { k } => {
                let mut order: Vec<usize> = (0..numbers.len()).collect();
                // A hit without a number ranks after all that have one.
                let rank_by = |at: usize| if numbers[at].is_nan() { f64::NEG_INFINITY } else { numbers[at] };
                order.sort_by(|a, b| rank_by(*b).total_cmp(&rank_by(*a)));
                for (rank, at) in (1u32..).zip(order) {
                    normalized[at] = 1.0 / (k + f64::from(rank));
                }
            }
        }
        normalized
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(normalization: NormalizationKind, numbers: &[f64], expected: &[f64]) {
        let found = normalization.normalize(numbers);
        let close = found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12);
        assert!(close, "{numbers:?} by {normalization:?}: {found:?}");
    }

    #[test]
    fn numbers_beside_those_of_other_hits() {
        check(NormalizationKind::Linear, &[2.0, 4.0, 3.0], &[0.0, 1.0, 0.5]);
        check(NormalizationKind::Linear, &[5.0, 5.0], &[0.0, 0.0]);
        check(NormalizationKind::Linear, &[], &[]);
        let of = |k| NormalizationKind::ReciprocalRank { k };
        check(of(60.0), &[2.0, 4.0, 3.0], &[1.0 / 63.0, 1.0 / 61.0, 1.0 / 62.0]);
        check(of(1.0), &[1.0, 1.0], &[0.5, 1.0 / 3.0]);
        check(of(1.0), &[f64::NAN, 1.0], &[1.0 / 3.0, 0.5]);
    }
}
