//! Pooling of states to the numbers of a tensor.

use millrace_model::SequenceStates;
use millrace_schema::TokenPooling;

/// Pools the states of a text to one vector.
pub(crate) fn pool(states: &SequenceStates, pooling: TokenPooling) -> Vec<f32> {
    match pooling {
        TokenPooling::Cls | TokenPooling::None => states.rows().next().unwrap_or_default().to_vec(),
        TokenPooling::Mean => {
            let mut sum = vec![0.0_f32; states.width];
            for row in states.rows() {
                sum.iter_mut().zip(row).for_each(|(sum, cell)| *sum += cell);
            }
            let rows = states.rows().len().max(1) as f32;
            sum.iter_mut().for_each(|cell| *cell /= rows);
            sum
        }
    }
}

/// Scales a vector to length 1; a zero vector is not changed.
pub(crate) fn normalize(vector: &mut [f32]) {
    let length = vector.iter().map(|&cell| f64::from(cell) * f64::from(cell)).sum::<f64>().sqrt();
    if length > 0.0 {
        vector.iter_mut().for_each(|cell| *cell = (f64::from(*cell) / length) as f32);
    }
}

/// One bit per cell, set if the cell is above 0; the first cell is the highest bit of the first byte.
pub(crate) fn bits(vector: &[f32]) -> impl Iterator<Item = i8> + '_ {
    vector
        .chunks_exact(8)
        .map(|cells| cells.iter().fold(0_u8, |byte, &cell| byte << 1 | u8::from(cell > 0.0)).cast_signed())
}

/// Weight of each vocabulary token for a text: the maximum over the text's tokens of ln(1 + state). Returns
/// the weights above `threshold`.
pub(crate) fn splade(states: &SequenceStates, threshold: f32) -> Vec<(usize, f32)> {
    let mut largest = vec![0.0_f32; states.width];
    for row in states.rows() {
        largest.iter_mut().zip(row).for_each(|(largest, &state)| *largest = largest.max(state));
    }
    let weights = largest.into_iter().map(f32::ln_1p).enumerate();
    weights.filter(|&(_, weight)| weight > threshold.max(0.0)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn states() -> SequenceStates {
        SequenceStates { width: 2, values: vec![3.0, 0.0, 0.0, 4.0, 3.0, 2.0] }
    }

    #[test]
    fn states_are_pooled() {
        assert_eq!(pool(&states(), TokenPooling::Mean), [2.0, 2.0]);
        assert_eq!(pool(&states(), TokenPooling::Cls), [3.0, 0.0]);
        assert_eq!(pool(&SequenceStates::default(), TokenPooling::Mean), [0.0; 0]);
    }

    #[test]
    fn vectors_are_brought_to_length_1() {
        let mut vector = [3.0, 4.0];
        normalize(&mut vector);
        assert_eq!(vector, [0.6, 0.8]);
        let mut nothing = [0.0, 0.0];
        normalize(&mut nothing);
        assert_eq!(nothing, [0.0, 0.0]);
    }

    #[test]
    fn bits_are_packed_highest_first() {
        let vector =
            [1.0, -1.0, 0.0, 2.0, -0.0, 0.1, -3.0, 1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, -1.0, 1.0];
        assert_eq!(bits(&vector).collect::<Vec<_>>(), [0b1001_0101_u8 as i8, 1]);
    }

    #[test]
    fn splade_keeps_the_largest_weights_above_the_threshold() {
        let weights = splade(&states(), 0.0);
        assert_eq!(weights, [(0, 4.0_f32.ln()), (1, 5.0_f32.ln())]);
        assert_eq!(splade(&states(), 1.5), [(1, 5.0_f32.ln())]);
        assert_eq!(splade(&SequenceStates { width: 1, values: vec![-2.0] }, 0.0), []);
    }
}
