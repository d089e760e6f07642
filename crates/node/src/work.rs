//! The memory that the parsed form of a request takes, and its evaluation, by its text.

use millrace_document::{DataType, DocumentType};
use millrace_tensor::{TENSOR_BYTES_MAX, TensorType};

/// Kind of the text of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorkKind {
    /// An operation on documents.
    Document(BlockBytes),
    /// Parameters of a query, as text, as a tree, and as a plan.
    Query(BlockBytes),
    /// A message of an assistant, with the query in it and its answer.
    Assistant(BlockBytes),
    /// Arguments of a model, and the tensors made of them.
    Arguments,
}

/// Size in bytes of the largest dense block that one label in a text can name, by the tensor types that it
/// may be of. A cell of such a type takes a whole block.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct BlockBytes(usize);

/// Memory of a document's value beside its text, in bytes, with its place in a list that grows.
const VALUE_BYTES: usize = 128;

/// Maximum memory of all of them: the parser refuses a document whose collections take more.
const VALUES_BYTES_MAX: usize = 64 << 20;

/// Size in bytes up to which a dense block takes no more than the text of its label and value.
const BLOCK_BYTES_FREE: usize = 64;

impl BlockBytes {
    /// No type has a dense block.
    pub const NONE: Self = BlockBytes(0);

    /// The largest block of these types.
    pub fn of<'t>(types: impl IntoIterator<Item = &'t TensorType>) -> Self {
        let size = |of: &TensorType| of.dense_size().saturating_mul(of.cell().size());
        BlockBytes(types.into_iter().map(size).max().unwrap_or(0))
    }

    /// The largest block of the fields of a document type.
    pub fn of_document(document_type: &DocumentType) -> Self {
        document_type
            .fields()
            .iter()
            .map(|field| BlockBytes::of_value(&field.data_type))
            .max()
            .unwrap_or_default()
    }

    fn of_value(data_type: &DataType) -> Self {
        match data_type {
            DataType::Tensor(tensor_type) => BlockBytes::of([tensor_type]),
            DataType::Array(element) | DataType::WeightedSet { element, .. } => BlockBytes::of_value(element),
            DataType::Map(key, value) => BlockBytes::of_value(key).max(BlockBytes::of_value(value)),
            DataType::Struct(of) => {
                of.fields.iter().map(|field| BlockBytes::of_value(&field.data_type)).max().unwrap_or_default()
            }
            _ => BlockBytes::NONE,
        }
    }

    /// The largest block of the types that are written in a text: `tensor<float>(l{},x[4096])`.
    fn written(text: &[u8]) -> Self {
        let block = |at: usize| {
            let of = &text[at..];
            let end = memchr::memchr(b')', of).unwrap_or(of.len());
            let sizes = of[..end].split(|byte| *byte == b'[').skip(1).map(|size| {
                let digits = size.iter().take_while(|byte| byte.is_ascii_digit());
                digits.fold(0_usize, |size, digit| {
                    size.saturating_mul(10).saturating_add((digit - b'0').into())
                })
            });
            sizes.fold(size_of::<f64>(), usize::saturating_mul)
        };
        BlockBytes(memchr::memmem::find_iter(text, b"tensor").map(block).max().unwrap_or(0))
    }

    /// Memory of the blocks that a text can name, in bytes: the address of each begins with a brace, and
    /// those without an address are listed in full.
    fn bytes(self, text: &[u8]) -> usize {
        if self.0 <= BLOCK_BYTES_FREE {
            return 0;
        }
        let addresses = memchr::memchr_iter(b'{', text).count();
        addresses.saturating_mul(self.0).min(TENSOR_BYTES_MAX)
    }
}

impl WorkKind {
    /// Memory for each byte of text, in bytes.
    const fn factor(self) -> usize {
        match self {
            // As values, as rows of the store, in its log, and in its memory.
            WorkKind::Document(_) => 4,
            // A token of two bytes is a node of the tree and a part of the plan.
            WorkKind::Query(_) => 32,
            // Those of the query, and copies of the message and of the answer.
            WorkKind::Assistant(_) => 40,
            // A cell of two bytes is a text, a number and a value of the result.
            WorkKind::Arguments => 16,
        }
    }

    /// Memory that is reserved for a text, in bytes.
    pub fn bytes(self, text: &[u8]) -> usize {
        let more = match self {
            // A value of two bytes of JSON takes many times that; each but the first follows a comma.
            WorkKind::Document(block) => {
                let values = memchr::memchr_iter(b',', text).count().saturating_mul(VALUE_BYTES);
                values.min(VALUES_BYTES_MAX).saturating_add(block.bytes(text))
            }
            WorkKind::Query(block) | WorkKind::Assistant(block) => {
                block.max(BlockBytes::written(text)).bytes(text)
            }
            WorkKind::Arguments => BlockBytes::written(text).bytes(text),
        };
        text.len().saturating_mul(self.factor()).saturating_add(more)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: BlockBytes = BlockBytes::NONE;

    #[test]
    fn each_kind_has_its_factor() {
        let kinds = [
            (WorkKind::Document(NONE), 400),
            (WorkKind::Query(NONE), 3200),
            (WorkKind::Assistant(NONE), 4000),
            (WorkKind::Arguments, 1600),
        ];
        for (kind, expected) in kinds {
            assert_eq!(kind.bytes(&[b'a'; 100]), expected, "{kind:?}");
        }
    }

    #[test]
    fn values_count_as_what_they_take_and_no_more_than_they_may() {
        let kind = WorkKind::Document(NONE);
        assert_eq!(kind.bytes(b"[0,0,0]"), 7 * 4 + 2 * VALUE_BYTES);
        let many = vec![b','; 4 << 20];
        assert_eq!(kind.bytes(&many), 4 * many.len() + VALUES_BYTES_MAX);
    }

    #[test]
    fn a_label_counts_as_the_block_that_it_names() {
        let of = |text: &str| TensorType::parse(text).expect("a type");
        let block = BlockBytes::of([&of("tensor<float>(l{},x[4096])"), &of("tensor<int8>(x[16])")]);
        assert_eq!(block, BlockBytes(4 * 4096));
        let text = b"{{l:1,x:0}:1,{l:2,x:0}:1}";
        assert_eq!(WorkKind::Query(block).bytes(text), 32 * text.len() + 3 * 4 * 4096);
        let typed = b"tensor<float>(l{},x[100],y[5]):{{l:1,x:0,y:0}:1}";
        assert_eq!(WorkKind::Arguments.bytes(typed), 16 * typed.len() + 3 * 8 * 500);
        let hostile = b"tensor(x[99999999999999999999]):{}";
        assert_eq!(WorkKind::Query(NONE).bytes(hostile), 32 * hostile.len() + TENSOR_BYTES_MAX);
        let unended = b"tensor(x[";
        assert_eq!(WorkKind::Query(NONE).bytes(unended), 32 * unended.len());
    }
}
