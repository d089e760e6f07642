//! Models whose weights lie in other files.
//!
//! A tensor of an ONNX file can name a path instead of having its cells. ONNX Runtime opens that path, and
//! which paths it refuses depends on its version. A model here is one file, so none is opened: [`check`]
//! looks at every tensor that a file can have.

use super::WeightFault;
use super::protobuf::{MalformedMessage, ProtobufField, checked_fields};

/// The messages of a model file that lead to tensors (onnx.proto).
#[derive(Debug, Clone, Copy)]
enum ProtobufMessage {
    Model,
    Training,
    Function,
    Graph,
    Node,
    Attribute,
    Sparse,
    Tensor,
}

impl ProtobufMessage {
    /// The message that is in a field of this one, by the number of the field.
    const fn inner(self, number: u64) -> Option<ProtobufMessage> {
        match (self, number) {
            (ProtobufMessage::Model, 20) => Some(ProtobufMessage::Training),
            (ProtobufMessage::Model, 25) => Some(ProtobufMessage::Function),
            (ProtobufMessage::Model, 7)
            | (ProtobufMessage::Training, 1 | 2)
            | (ProtobufMessage::Attribute, 6 | 11) => Some(ProtobufMessage::Graph),
            (ProtobufMessage::Function, 7) | (ProtobufMessage::Graph, 1) => Some(ProtobufMessage::Node),
            (ProtobufMessage::Function, 11) | (ProtobufMessage::Node, 5) => Some(ProtobufMessage::Attribute),
            (ProtobufMessage::Graph, 15) | (ProtobufMessage::Attribute, 22 | 23) => {
                Some(ProtobufMessage::Sparse)
            }
            (ProtobufMessage::Graph, 5)
            | (ProtobufMessage::Attribute, 5 | 10)
            | (ProtobufMessage::Sparse, 1 | 2) => Some(ProtobufMessage::Tensor),
            _ => None,
        }
    }
}

/// Checks that a model file has all of its weights in itself.
///
/// # Errors
/// A tensor names another file, or the file is not in the form of ONNX.
pub(super) fn check(model: &[u8]) -> Result<(), WeightFault> {
    let malformed = |_: MalformedMessage| WeightFault::Malformed;
    let mut waiting = vec![(ProtobufMessage::Model, model)];
    while let Some((message, bytes)) = waiting.pop() {
        for field in checked_fields(bytes) {
            let field = field.map_err(malformed)?;
            if matches!(message, ProtobufMessage::Tensor) && is_elsewhere(&field) {
                return Err(WeightFault::External);
            }
            let Some(inner) = message.inner(field.number) else { continue };
            waiting.extend(field.bytes_of(field.number).map(|bytes| (inner, bytes)));
        }
    }
    Ok(())
}

/// Returns true for a field of a tensor that says that its cells are in another file.
fn is_elsewhere(field: &ProtobufField<'_>) -> bool {
    const EXTERNAL_DATA: u64 = 13;
    const DATA_LOCATION: u64 = 14;
    match field.number {
        EXTERNAL_DATA => true,
        DATA_LOCATION => field.integers().any(|location| location != 0),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A field with bytes in it.
    fn with(number: u64, bytes: &[u8]) -> Vec<u8> {
        [&integer(number << 3 | 2)[..], &integer(bytes.len() as u64), bytes].concat()
    }

    fn integer(mut value: u64) -> Vec<u8> {
        let mut bytes = Vec::new();
        while value >= 0x80 {
            bytes.push(value as u8 | 0x80);
            value >>= 7;
        }
        bytes.push(value as u8);
        bytes
    }

    /// Fields within each other, the outermost first.
    fn nested(path: &[u64], innermost: &[u8]) -> Vec<u8> {
        path.iter().rev().fold(innermost.to_vec(), |inner, number| with(*number, &inner))
    }

    /// Every way from a model to a tensor.
    #[test]
    fn tensors_are_found_wherever_they_are() {
        let entry = with(13, &[with(1, b"location"), with(2, b"/etc/passwd")].concat());
        let location = [integer(14 << 3), integer(1)].concat();
        let large = [integer(14 << 3), integer(1 << 32 | 1)].concat();
        let tensors: [&[u64]; 6] = [&[5], &[15, 1], &[15, 2], &[1, 5, 5], &[1, 5, 10], &[1, 5, 22, 1]];
        let graphs: [&[u64]; 5] = [&[7], &[20, 1], &[20, 2], &[7, 1, 5, 6], &[25, 7, 5, 11]];
        for graph in graphs {
            for tensor in tensors {
                let path = [graph, tensor].concat();
                for sign in [&entry, &location, &large] {
                    let model = [with(2, b"made by"), nested(&path, sign)].concat();
                    let error = check(&model).expect_err("its weights are elsewhere");
                    assert!(error.to_string().contains("external data"), "{path:?}: {error}");
                }
                let cells = [integer(14 << 3), integer(0), with(9, b"cells")].concat();
                check(&nested(&path, &cells)).unwrap_or_else(|fault| panic!("{path:?}: {fault}"));
            }
        }
        assert!(check(&nested(&[25, 11, 5], &entry)).is_err(), "an attribute of a function");
    }

    /// A reader that stops where another goes on would see less than that one.
    #[test]
    fn what_cannot_be_read_to_its_end_is_refused() {
        let external = nested(&[7, 5], &with(13, b""));
        for strange in [&[0x0b, 0x0c][..], &[0x0f], &[0xff; 11], &[0x0a, 9, 1]] {
            let error = check(&[strange, &external].concat()).expect_err("it is malformed");
            assert!(error.to_string().contains("cannot be read"), "{strange:?}: {error}");
        }
        assert!(check(&[]).is_ok());
    }
}
