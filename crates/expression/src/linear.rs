//! Weighted sums, `0.3 * a + 0.2 * b - c + …`, as one operation: one pass over a batch handles several terms,
//! instead of two passes per term.
//!
//! Terms are added in the order of the text, so the sum is identical to the last bit.

use crate::operators::{BatchNumbers, BinaryNumberOp};
use crate::program::{NodeId, ProgramNode, ProgramOp};

/// Number of terms per pass.
const AT_ONCE: usize = 4;
/// Minimum number of terms; shorter sums are not replaced.
const TERMS: usize = 3;

/// Replaces sums by the weighted-sum operation, among the nodes that `result` needs.
pub(crate) fn fuse(nodes: &mut [ProgramNode], result: NodeId) {
    let mut uses = vec![0u32; nodes.len()];
    uses[result] = 1;
    for id in (0..=result).rev() {
        if uses[id] > 0 {
            nodes[id].op.arguments().into_iter().for_each(|argument| uses[argument] += 1);
        }
    }
    let mut is_inside = vec![false; nodes.len()];
    for top in (0..=result).rev() {
        if uses[top] == 0 || is_inside[top] {
            continue;
        }
        let mut terms = Vec::new();
        let mut id = top;
        loop {
            let (left, right, sign) = match nodes[id].op {
                ProgramOp::Binary(BinaryNumberOp::Add, left, right) if id == top || uses[id] == 1 => {
                    (left, right, 1.0)
                }
                ProgramOp::Binary(BinaryNumberOp::Sub, left, right) if id == top || uses[id] == 1 => {
                    (left, right, -1.0)
                }
                _ => break,
            };
            is_inside[id] = true;
            terms.push(weighted(nodes, right, sign));
            id = left;
        }
        if terms.len() + 1 >= TERMS {
            terms.push(weighted(nodes, id, 1.0));
            terms.reverse();
            let (weights, terms) = terms.into_iter().unzip();
            nodes[top].op = ProgramOp::Linear(weights, terms);
        }
    }
}

/// Splits a term into a weight and a node. The weight of a product with a number is that number.
fn weighted(nodes: &[ProgramNode], id: NodeId, sign: f64) -> (f64, NodeId) {
    let number = |id: NodeId| match nodes[id].op {
        ProgramOp::Number(number) => Some(number),
        _ => None,
    };
    if let ProgramOp::Binary(BinaryNumberOp::Mul, x, y) = nodes[id].op {
        match (number(x), number(y)) {
            (Some(weight), _) => return (sign * weight, y),
            (_, Some(weight)) => return (sign * weight, x),
            _ => {}
        }
    }
    (sign, id)
}

/// Fills `out` with the sum of the terms, entry by entry.
pub(crate) fn sum(weights: &[f64], terms: &[BatchNumbers<'_>], out: &mut [f64]) {
    for (at, (weights, terms)) in weights.chunks(AT_ONCE).zip(terms.chunks(AT_ONCE)).enumerate() {
        let is_first = at == 0;
        match (weights, terms) {
            (
                [w0, w1, w2, w3],
                [
                    BatchNumbers::Each(x0),
                    BatchNumbers::Each(x1),
                    BatchNumbers::Each(x2),
                    BatchNumbers::Each(x3),
                ],
            ) => {
                let len = out.len();
                let (x0, x1, x2, x3) = (&x0[..len], &x1[..len], &x2[..len], &x3[..len]);
                for i in 0..len {
                    let first = if is_first { w0 * x0[i] } else { out[i] + w0 * x0[i] };
                    out[i] = first + w1 * x1[i] + w2 * x2[i] + w3 * x3[i];
                }
            }
            _ => {
                for (term, (weight, numbers)) in weights.iter().zip(terms).enumerate() {
                    add(*weight, *numbers, is_first && term == 0, out);
                }
            }
        }
    }
}

fn add(weight: f64, numbers: BatchNumbers<'_>, is_first: bool, out: &mut [f64]) {
    match (numbers, is_first) {
        (BatchNumbers::Same(number), true) => out.fill(weight * number),
        (BatchNumbers::Same(number), false) => out.iter_mut().for_each(|out| *out += weight * number),
        (BatchNumbers::Each(numbers), true) => {
            out.iter_mut().zip(numbers).for_each(|(out, number)| *out = weight * number);
        }
        (BatchNumbers::Each(numbers), false) => {
            out.iter_mut().zip(numbers).for_each(|(out, number)| *out += weight * number);
        }
    }
}
