//! The memory that the parsed form of a request takes, and its evaluation, by its text.

use std::iter;

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
    /// A request that is read as a tree of JSON values, such as a query in that form.
    JsonQuery,
    /// A document that is read as a tree of JSON values.
    JsonDocument,
    /// Operations on such documents, each on one or two lines.
    OperationLines,
    /// Log records of OpenTelemetry.
    LogRecords,
}

/// Number of the operations of [`WorkKind::OperationLines`] that are worked on together.
pub const OPERATIONS_TOGETHER: usize = 2048;

/// Bytes of their texts, without the last of them.
pub const OPERATION_BYTES_TOGETHER: usize = 2 << 20;

/// Memory of an operation beside its text, in bytes: as it was read, with its place, as a write of the store,
/// and its result.
const OPERATION_BYTES: usize = 2560;

/// Memory of a line of operations in their answer, in bytes; most operations have two lines.
const ANSWER_BYTES: usize = 200;

/// Size of a line in bytes up to which its values count as those of any such line.
const LINE_BYTES_FREE: usize = 16 << 10;

/// Memory of log records that are worked on together, in bytes, and its maximum ratio to their text.
const RECORDS_BYTES: usize = 6 << 20;
const RECORDS_RATIO: usize = 256;

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

/// Memory of a value in a tree of JSON, in bytes, while its list grows.
const TREE_VALUE_BYTES: usize = 128;

/// Memory of an object there, in bytes: its table and its list of members, with room for some.
const TREE_OBJECT_BYTES: usize = 512;

/// Depth from which on values are in no tree: the parser refuses to read them.
const TREE_DEPTH_MAX: usize = 160;

/// Number of the values of a JSON text, by the signs that begin them or stand before them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct JsonCounts {
    objects: usize,
    others: usize,
}

impl JsonCounts {
    /// Upper bound of the numbers: signs in strings count, too. It takes a fraction of the time of
    /// [`JsonCounts::exact`].
    pub fn upper_bound(text: &[u8]) -> Self {
        let mut counts = JsonCounts::default();
        // The numbers of a chunk fit into a byte each, so that many signs are compared at a time.
        for chunk in text.chunks(u8::MAX.into()) {
            let count =
                |is_sign: fn(u8) -> bool| chunk.iter().map(|byte| u8::from(is_sign(*byte))).sum::<u8>();
            counts.objects += usize::from(count(|byte| byte == b'{'));
            counts.others += usize::from(count(|byte| byte == b',' || byte == b'['));
        }
        counts
    }

    /// Number of the values outside of strings, as far as a tree has them.
    pub fn exact(text: &[u8]) -> Self {
        let mut counts = JsonCounts::default();
        let (mut is_string, mut is_escaped, mut depth) = (false, false, 0_usize);
        for byte in text {
            match byte {
                _ if is_escaped => is_escaped = false,
                b'\\' if is_string => is_escaped = true,
                b'"' => is_string = !is_string,
                _ if is_string => {}
                b'}' | b']' => depth = depth.saturating_sub(1),
                b'{' | b'[' | b',' => {
                    if depth < TREE_DEPTH_MAX {
                        match byte {
                            b'{' => counts.objects += 1,
                            _ => counts.others += 1,
                        }
                    }
                    depth += usize::from(*byte != b',');
                }
                _ => {}
            }
        }
        counts
    }

    /// Number of values.
    pub fn values(self) -> usize {
        self.objects + self.others
    }

    /// Memory of the tree of values, in bytes, without their texts.
    pub fn tree_bytes(self) -> usize {
        let objects = self.objects.saturating_mul(TREE_OBJECT_BYTES);
        objects.saturating_add(self.others.saturating_mul(TREE_VALUE_BYTES))
    }

    /// True if a number of a text, such as that of its values, is at most `max`.
    pub fn fit(text: &[u8], number: impl Fn(Self) -> usize, max: usize) -> bool {
        number(JsonCounts::upper_bound(text)) <= max || number(JsonCounts::exact(text)) <= max
    }
}

/// Memory of operations on lines, in bytes: of those that are worked on together, of the largest of them, and
/// of the answers of all. The text is in memory once more.
fn operations_bytes(text: &[u8]) -> usize {
    let (mut lines, mut longest, mut tree, mut from) = (0_usize, 0_usize, 0_usize, 0_usize);
    for end in memchr::memchr_iter(b'\n', text).chain(iter::once(text.len())) {
        let line = &text[from..end];
        lines += 1;
        longest = longest.max(line.len());
        if line.len() > LINE_BYTES_FREE {
            tree = tree.max(JsonCounts::upper_bound(line).tree_bytes());
        }
        from = end + 1;
    }
    let together = text.len().min(OPERATION_BYTES_TOGETHER + longest);
    let of_short = longest.min(LINE_BYTES_FREE).saturating_mul(TREE_VALUE_BYTES / 2);
    let parts = [
        lines.min(OPERATIONS_TOGETHER) * OPERATION_BYTES,
        together.saturating_mul(4),
        tree.min(VALUES_BYTES_MAX).max(of_short),
        lines.saturating_mul(ANSWER_BYTES),
        text.len(),
    ];
    parts.into_iter().fold(0, usize::saturating_add)
}

impl BlockBytes {
    /// No type has a dense block.
    pub const NONE: Self = BlockBytes(0);

    /// The largest block of these types.
    pub fn of_types<'t>(types: impl IntoIterator<Item = &'t TensorType>) -> Self {
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
            DataType::Tensor(tensor_type) => BlockBytes::of_types([tensor_type]),
            DataType::Array(element) | DataType::WeightedSet { element, .. } => BlockBytes::of_value(element),
            DataType::Map(key, value) => BlockBytes::of_value(key).max(BlockBytes::of_value(value)),
            DataType::Struct(of) => {
                of.fields.iter().map(|field| BlockBytes::of_value(&field.data_type)).max().unwrap_or_default()
            }
            _ => BlockBytes::NONE,
        }
    }

    /// The largest block of the types that are written in a text: `tensor<float>(l{},x[4096])`.
    fn of_text(text: &[u8]) -> Self {
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
            // The body, its copy, the texts of the tree, and those of the query made of it.
            WorkKind::JsonQuery => 8,
            // As a document of a type, without its rows.
            WorkKind::JsonDocument => 4,
            // `operations_bytes` counts all.
            WorkKind::OperationLines => 0,
            // Attributes as values, and as the text of a document.
            WorkKind::LogRecords => 8,
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
                block.max(BlockBytes::of_text(text)).bytes(text)
            }
            WorkKind::Arguments => BlockBytes::of_text(text).bytes(text),
            // The tree is there twice: parts of it are copied.
            WorkKind::JsonQuery => JsonCounts::upper_bound(text).tree_bytes().saturating_mul(2),
            WorkKind::JsonDocument => JsonCounts::upper_bound(text).tree_bytes().min(VALUES_BYTES_MAX),
            WorkKind::OperationLines => operations_bytes(text),
            WorkKind::LogRecords => text.len().saturating_mul(RECORDS_RATIO).min(RECORDS_BYTES),
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
    fn values_of_json_are_counted_by_their_signs() {
        let text = br#"{"a":[1,2,{"b":"[,\\\",{"}],"c":{}}"#;
        assert_eq!(JsonCounts::exact(text), JsonCounts { objects: 3, others: 4 });
        assert_eq!(JsonCounts::upper_bound(text), JsonCounts { objects: 4, others: 7 });
        let long = [b','; 1000];
        assert_eq!(JsonCounts::upper_bound(&long).values(), 1000);
        let deep = [b'['; 1000];
        assert_eq!(JsonCounts::exact(&deep).values(), TREE_DEPTH_MAX);
        assert!(JsonCounts::fit(text, JsonCounts::values, 7), "signs in strings begin no value");
        assert!(!JsonCounts::fit(text, JsonCounts::values, 6));
    }

    #[test]
    fn requests_in_json_count_as_their_trees() {
        let tree = 3 * TREE_VALUE_BYTES + TREE_OBJECT_BYTES;
        let text = br#"{"a":[0,0,0]}"#;
        assert_eq!(WorkKind::JsonQuery.bytes(text), 8 * text.len() + 2 * tree);
        assert_eq!(WorkKind::JsonDocument.bytes(text), 4 * text.len() + tree);
        let many = vec![b'{'; 4 << 20];
        assert_eq!(WorkKind::JsonDocument.bytes(&many), 4 * many.len() + VALUES_BYTES_MAX);
        assert_eq!(WorkKind::LogRecords.bytes(b"12345678"), 8 * (8 + RECORDS_RATIO));
    }

    #[test]
    fn operations_count_as_those_that_are_worked_on_together() {
        let of = |text: &str| WorkKind::OperationLines.bytes(text.as_bytes());
        let one = "{\"index\":{}}\n{}\n";
        let (few, many) = (one.repeat(1024), one.repeat(1 << 16));
        assert!(of(&few) > 2048 * OPERATION_BYTES);
        let more = many.len() - few.len();
        let lines = 2 * ((1 << 16) - 1024);
        // From here on only texts and answers grow.
        assert!(of(&many) - of(&few) <= 5 * more + lines * ANSWER_BYTES + OPERATION_BYTES, "{}", of(&many));
        let large = format!("{one}{{\"index\":{{}}}}\n{{\"a\":[{}0]}}\n", "0,".repeat(1 << 18));
        assert!(of(&large) > (1 << 18) * TREE_VALUE_BYTES, "the values of a large line count");
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
        let block = BlockBytes::of_types([&of("tensor<float>(l{},x[4096])"), &of("tensor<int8>(x[16])")]);
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
