//! Functions shared by all XML files of a package.

use roxmltree::{Document, Node, ParsingOptions};

use crate::{Error, SourcePosition};

/// Maximum size of an XML file in bytes, and maximum number of elements.
const SIZE_MAX: usize = 4 << 20;
const NODES_MAX: u32 = 200_000;
/// Maximum nesting of elements.
const DEPTH_MAX: usize = 64;

/// Parses a file of the package.
pub(crate) fn parse<'a>(file: &str, text: &'a str) -> Result<Document<'a>, Error> {
    let start = |line, column| SourcePosition { file: file.to_owned(), line, column };
    if text.len() > SIZE_MAX {
        let reason = format!("larger than {SIZE_MAX} bytes");
        return Err(Error::Syntax { place: start(1, 1), reason });
    }
    if let Some(at) = too_deep(text) {
        let line = text[..at].matches('\n').count() + 1;
        return Err(Error::Syntax {
            place: start(line, 1),
            reason: format!("elements are nested more than {DEPTH_MAX} deep"),
        });
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| {
        let position = error.pos();
        Error::Syntax {
            place: start(position.row as usize, position.col as usize),
            reason: format!("not well-formed XML: {error}"),
        }
    })
}

/// Offset at which elements are nested too deep, determined by counting tags without parsing.
fn too_deep(text: &str) -> Option<usize> {
    let bytes = text.as_bytes();
    let mut depth = 0_usize;
    for at in memchr::memchr_iter(b'<', bytes) {
        match bytes.get(at + 1) {
            Some(b'/') => depth = depth.saturating_sub(1),
            Some(b'!' | b'?') | None => {}
            Some(_) => {
                let rest = at + 1;
                let end = memchr::memchr2(b'<', b'>', &bytes[rest..]).map_or(bytes.len(), |end| rest + end);
                if bytes[end - 1] != b'/' {
                    depth += 1;
                }
            }
        }
        // Text in comments and attributes can hide closing tags: leave room for that.
        if depth > DEPTH_MAX {
            return Some(at);
        }
    }
    None
}

/// The text of a file of the package.
pub(crate) fn text<'a>(file: &str, bytes: &'a [u8]) -> Result<&'a str, Error> {
    std::str::from_utf8(bytes).map_err(|_| Error::Syntax {
        place: SourcePosition { file: file.to_owned(), line: 1, column: 1 },
        reason: "not UTF-8 text".to_owned(),
    })
}

/// Start of a node.
pub(crate) fn place(file: &str, node: Node<'_, '_>) -> SourcePosition {
    let position = node.document().text_pos_at(node.range().start);
    SourcePosition { file: file.to_owned(), line: position.row as usize, column: position.col as usize }
}

/// An error at a node.
pub(crate) fn invalid<T>(file: &str, node: Node<'_, '_>, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid { place: place(file, node), reason: reason.into() })
}

/// Child elements of a node.
pub(crate) fn elements<'a, 'i>(node: Node<'a, 'i>) -> impl Iterator<Item = Node<'a, 'i>> {
    node.children().filter(Node::is_element)
}

/// Child elements of a node with this name.
pub(crate) fn named<'a, 'i>(node: Node<'a, 'i>, name: &'static str) -> impl Iterator<Item = Node<'a, 'i>> {
    elements(node).filter(move |element| element.tag_name().name() == name)
}

/// First child element of a node with this name.
pub(crate) fn child<'a, 'i>(node: Node<'a, 'i>, name: &str) -> Option<Node<'a, 'i>> {
    elements(node).find(|element| element.tag_name().name() == name)
}

/// The node at a path, for example `engine/proton`.
pub(crate) fn at_path<'a, 'i>(node: Node<'a, 'i>, path: &str) -> Option<Node<'a, 'i>> {
    path.split('/').try_fold(node, child)
}

/// Text of an element, without surrounding white space.
pub(crate) fn content<'a>(node: Node<'a, '_>) -> &'a str {
    node.text().unwrap_or_default().trim()
}
