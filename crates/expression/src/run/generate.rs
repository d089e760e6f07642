//! Generated tensors: one run of their body over the cells of several documents.

use super::BatchRun;
use crate::batch::{BatchSpace, BatchView, TensorBatch};
use crate::evaluate::{CELLS_AT_A_TIME, EvaluationScratch, InputBatch, InputFeed};
use crate::operators::BatchNumbers;
use crate::program::{ExpressionProgram, NodeId, PinSource, ProgramOp};

impl<'a> BatchRun<'a> {
    /// Runs the body of a generated tensor over all cells of several documents.
    pub fn generate(
        &self,
        (body, indices, captured): (&ExpressionProgram, &[Vec<f64>], &[NodeId]),
        documents: usize,
        out: &mut TensorBatch,
        space: &mut BatchSpace,
        nested: &mut EvaluationScratch,
    ) {
        let size = indices.first().map_or(1, Vec::len);
        if let Some((of, sources)) = rearranged(body, indices) {
            let view = self.view(captured[of]);
            for document in 0..documents {
                let cells = view.of_document(document);
                out.cells.extend(sources.iter().map(|source| source.map_or(0.0, |source| cells[source])));
            }
            return;
        }
        let at_once = (CELLS_AT_A_TIME / size).clamp(1, documents.max(1));
        let tiled: Vec<Vec<f64>> = indices.iter().map(|index| index.repeat(at_once)).collect();
        out.cells.resize(documents * size, 0.0);
        // Captured tensors have labels of this program.
        std::mem::swap(&mut nested.space, space);
        for first in (0..documents).step_by(at_once) {
            let count = at_once.min(documents - first);
            let captured: Vec<CapturedInput<'_>> =
                captured.iter().map(|id| self.captured(*id, first, count, size)).collect();
            let cells = &mut out.cells[first * size..(first + count) * size];
            // A single document can have more cells than are run at a time.
            let step = if count == 1 { CELLS_AT_A_TIME } else { cells.len() };
            for (block, cells) in cells.chunks_mut(step).enumerate() {
                let from = block * step;
                let indices = tiled.iter().map(|all| InputBatch::numbers(&all[from..from + cells.len()]));
                let captured = captured.iter().map(|input| match input {
                    CapturedInput::Number(number) => InputBatch::number(*number),
                    CapturedInput::Numbers(numbers) => {
                        InputBatch::numbers(&numbers[from..from + cells.len()])
                    }
                    CapturedInput::View(view) => InputBatch(InputFeed::View(*view)),
                });
                let operands: Vec<InputBatch<'_>> = indices.chain(captured).collect();
                body.evaluate_nested(nested, cells.len(), &operands).write(cells);
            }
        }
        std::mem::swap(&mut nested.space, space);
    }

    /// A captured node for `count` documents from `first` on, each with `size` cells.
    fn captured(&self, id: NodeId, first: usize, count: usize, size: usize) -> CapturedInput<'a> {
        if self.program.nodes[id].tensor_type.is_scalar() {
            return match self.numbers(id) {
                BatchNumbers::Same(number) => CapturedInput::Number(number),
                BatchNumbers::Each(numbers) if count == 1 => CapturedInput::Number(numbers[first]),
                BatchNumbers::Each(numbers) => {
                    let each = numbers[first..first + count].iter();
                    CapturedInput::Numbers(each.flat_map(|n| std::iter::repeat_n(*n, size)).collect())
                }
            };
        }
        let view = self.view(id);
        CapturedInput::View(if count == 1 { view.one(first) } else { view.spread(first, size) })
    }
}

/// A captured node of a generated tensor.
enum CapturedInput<'a> {
    Number(f64),
    Numbers(Vec<f64>),
    View(BatchView<'a>),
}

/// The captured node, by its position, of whose cells a generated tensor consists, and the index of each cell
/// there; `None` for a zero. The body is then a slice of a dense tensor at given indices and those of the
/// cell: `t{x:(i),y:3}`.
fn rearranged(body: &ExpressionProgram, indices: &[Vec<f64>]) -> Option<(usize, Vec<Option<usize>>)> {
    let input = |id: NodeId| match body.nodes[id].op {
        ProgramOp::Input(at) => Some(at),
        _ => None,
    };
    let ProgramOp::Peek(of, pins, first) = &body.nodes.last()?.op else { return None };
    let captured = input(*of)?.checked_sub(indices.len())?;
    let [first] = first[..] else { return None };
    if body.shapes[*of].mapped > 0 {
        return None;
    }
    let size = indices.first().map_or(1, Vec::len);
    let mut sources = vec![Some(first as usize); size];
    for pin in pins {
        let (step, size, indices) = match pin {
            PinSource::Index { step, size, index } => (*step, *size, BatchNumbers::Same(*index)),
            PinSource::ComputedIndex { step, size, index } => {
                (*step, *size, BatchNumbers::Each(indices.get(input(*index)?)?))
            }
            PinSource::Label(..) | PinSource::ComputedLabel(..) => return None,
        };
        for (cell, source) in sources.iter_mut().enumerate() {
            let index = indices.get(cell);
            let is_inside = (0.0..size as f64).contains(&index);
            *source = source.filter(|_| is_inside).map(|source| source + index as usize * step);
        }
    }
    Some((captured, sources))
}
