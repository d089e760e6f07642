//! Tensors as literals: `tensor(x[2]):[1.0, 2.0]`, which XML has, and models where they are asked for it.

use millrace_tensor::{DimensionKind, Tensor, TensorCells};

use crate::number::{java_text, java_text_of_float};

/// Text of a tensor with its type. Mapped labels are in order.
///
/// Cells of dense tensors have the digits that distinguish them in their own type, those of others the digits
/// of doubles, as in Vespa.
pub fn literal(tensor: &Tensor) -> String {
    let tensor_type = tensor.tensor_type();
    let cells = tensor.cells();
    let number = |at: usize| match cells {
        TensorCells::Float(floats) if tensor_type.is_dense() => java_text_of_float(floats[at]),
        TensorCells::Int8(bytes) if tensor_type.is_dense() => bytes[at].to_string(),
        _ => java_text(cells.get(at)),
    };
    let dense = tensor_type.dense_size();
    let sizes: Vec<usize> = tensor_type.indexed().map(|(_, size)| size).collect();
    let mut subspaces: Vec<usize> = (0..tensor.subspaces()).collect();
    subspaces.sort_by(|one, other| tensor.labels(*one).cmp(tensor.labels(*other)));
    let mut text = format!("{tensor_type}:");
    if tensor_type.is_dense() {
        push_list(&mut text, &sizes, 0, &number);
        return text;
    }
    text.push('{');
    let mut is_first = true;
    for subspace in subspaces {
        let at = subspace * dense;
        if let [label] = tensor.labels(subspace) {
            separate(&mut text, &mut is_first);
            push_label(&mut text, label);
            text.push(':');
            // A block of one cell has no brackets.
            let sizes: &[usize] = if dense == 1 { &[] } else { &sizes };
            push_list(&mut text, sizes, at, &number);
            continue;
        }
        for index in 0..dense {
            separate(&mut text, &mut is_first);
            if !tensor_type.is_scalar() {
                push_address(&mut text, tensor, subspace, index);
                text.push(':');
            }
            text.push_str(&number(at + index));
        }
    }
    text.push('}');
    text
}

fn separate(text: &mut String, is_first: &mut bool) {
    if !*is_first {
        text.push_str(", ");
    }
    *is_first = false;
}

/// Appends the cells from `at` in lists over `sizes`; without sizes, one cell.
fn push_list(text: &mut String, sizes: &[usize], at: usize, number: &impl Fn(usize) -> String) {
    let Some((&size, inner)) = sizes.split_first() else {
        text.push_str(&number(at));
        return;
    };
    let stride: usize = inner.iter().product();
    text.push('[');
    let mut is_first = true;
    for index in 0..size {
        separate(text, &mut is_first);
        push_list(text, inner, at + index * stride, number);
    }
    text.push(']');
}

/// Appends the address of a cell, with the dimensions in the order of the type.
fn push_address(text: &mut String, tensor: &Tensor, subspace: usize, index: usize) {
    let mut labels = tensor.labels(subspace).iter();
    let mut stride = tensor.tensor_type().dense_size();
    text.push('{');
    for (at, dimension) in tensor.tensor_type().dimensions().iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        text.push_str(&dimension.name);
        text.push(':');
        match dimension.kind {
            DimensionKind::Mapped => {
                if let Some(label) = labels.next() {
                    push_label(text, label);
                }
            }
            DimensionKind::Indexed(size) => {
                stride /= size;
                text.push_str(&(index / stride % size).to_string());
            }
        }
    }
    text.push('}');
}

/// Appends a label, in quotes unless it is a plain word.
fn push_label(text: &mut String, label: &str) {
    let is_plain = label.chars().enumerate().all(|(index, character)| match character {
        '_' | '@' => true,
        '-' => index == 0,
        '$' => index > 0,
        other => other.is_ascii_alphanumeric(),
    });
    if is_plain && !label.is_empty() {
        text.push_str(label);
        return;
    }
    let quote = if label.contains('\'') { '"' } else { '\'' };
    text.push(quote);
    text.push_str(label);
    text.push(quote);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tensors_look_like_vespas() {
        let check = |text: &str, expected: &str| {
            let tensor = Tensor::parse(text, None).expect("a tensor");
            assert_eq!(literal(&tensor), expected);
        };
        for same in [
            "tensor(x[2]):[1.0, 2.5]",
            "tensor(x[1]):[7.0]",
            "tensor<float>(x[2]):[0.1, 2.0]",
            "tensor<bfloat16>(x[2]):[0.099609375, 2.0]",
            "tensor<int8>(x[4]):[1, -2, 3, 127]",
            "tensor(x[2],y[2],z[2]):[[[1.0, 2.0], [3.0, 4.0]], [[5.0, 6.0], [7.0, 8.0]]]",
            "tensor(k{}):{}",
            "tensor(k{},l{}):{}",
            "tensor(k{}):{a:1.0E-5, b:1.0E10}",
            "tensor(k{}):{'':1.0, -a:2.0, -a$:3.0, 'a b':4.0, \"a'b\":5.0, 'a-b':6.0, '\u{e9}':7.0}",
            "tensor(k{},x[2],y[2]):{a:[[1.0, 2.0], [3.0, 4.0]]}",
            "tensor<int8>(k{},x[2]):{a:[1.0, 2.0]}",
        ] {
            check(same, same);
        }
        check("tensor<float>(k{}):{b:0.1, a:2}", "tensor<float>(k{}):{a:2.0, b:0.10000000149011612}");
        check("tensor(k{},x[1]):{a:[7]}", "tensor(k{},x[1]):{a:7.0}");
        check("tensor(k{},l{}):{b:{x:1},a:{y:2}}", "tensor(k{},l{}):{{k:a,l:y}:2.0, {k:b,l:x}:1.0}");
        check(
            "tensor(k{},l{},x[2]):{a:{b:[1,2]}}",
            "tensor(k{},l{},x[2]):{{k:a,l:b,x:0}:1.0, {k:a,l:b,x:1}:2.0}",
        );
        assert_eq!(literal(&Tensor::scalar(1.5)), "tensor():{1.5}");
        assert_eq!(literal(&Tensor::scalar(f64::NAN)), "tensor():{NaN}");
    }
}
