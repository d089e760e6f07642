//! Functions shared by all XML files of a package.

use std::ops::Range;

use roxmltree::{Document, Node, ParsingOptions, TextPos};

use crate::{Error, SourcePosition};

/// Maximum size of an XML file in bytes, and maximum number of elements.
const SIZE_MAX: usize = 4 << 20;
const NODES_MAX: u32 = 200_000;
/// Maximum nesting of elements.
const DEPTH_MAX: usize = 64;

/// Beginning of the marks in a text with included files, by which errors in them have their places there.
const MARK: &str = "<?millrace-";
/// Mark before the content of a file, with the line and the column at which it begins there, and its path.
const BEGIN: &str = "<?millrace-begin ";
/// Mark after the content of a file.
const END: &str = "<?millrace-end ";
/// Mark with the number of characters that are left out.
const SKIP: &str = "<?millrace-skip ";

/// Parses a file of the package.
pub(crate) fn parse<'a>(file: &str, text: &'a str) -> Result<Document<'a>, Error> {
    let start = |line, column| SourcePosition { file: file.to_owned(), line, column };
    if text.len() > SIZE_MAX {
        let reason = format!("larger than {SIZE_MAX} bytes");
        return Err(Error::Syntax { position: start(1, 1), reason });
    }
    if let Some(at) = too_deep(text) {
        return Err(Error::Syntax {
            position: SourcePosition { column: 1, ..position(file, text, at) },
            reason: format!("elements are nested more than {DEPTH_MAX} deep"),
        });
    }
    let options = ParsingOptions { allow_dtd: false, nodes_limit: NODES_MAX, ..ParsingOptions::default() };
    Document::parse_with_options(text, options).map_err(|error| {
        let (at, message) = (error.pos(), error.to_string());
        // The message has the place in the text with all files.
        let message = match text.contains(MARK) {
            true => message.trim_end_matches(&format!(" at {at}")),
            false => message.as_str(),
        };
        Error::Syntax {
            position: position(file, text, offset(text, at)),
            reason: format!("not well-formed XML: {message}"),
        }
    })
}

/// The content of an included file, between marks.
pub(crate) fn included(path: &str, file: &str, content: Range<usize>) -> String {
    let before = &file[..content.start];
    let line = before.matches('\n').count() + 1;
    let column = before.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
    // The path must not end its mark.
    let path = path.replace("?>", "");
    format!("{BEGIN}{line} {column} {path}?>{}{END}?>", &file[content])
}

/// A mark for text that is left out. The number of lines stays.
pub(crate) fn skipped(text: &str) -> String {
    match text.matches('\n').count() {
        0 => format!("{SKIP}{}?>", text.chars().count()),
        lines => "\n".repeat(lines),
    }
}

/// Place of an offset in a text, which may have included files.
pub(crate) fn position(file: &str, text: &str, offset: usize) -> SourcePosition {
    let mut at = SourcePosition { file: file.to_owned(), line: 1, column: 1 };
    let mut rest = &text[..offset];
    if !rest.contains(MARK) {
        let start = rest.rfind('\n').map_or(0, |end| end + 1);
        at.line += rest.bytes().filter(|byte| *byte == b'\n').count();
        at.column += rest[start..].chars().count();
        return at;
    }
    let mut around = Vec::new();
    let mark = |rest: &str, kind: &str| {
        let inner = rest.strip_prefix(kind)?.split_once("?>")?.0;
        Some((inner.to_owned(), kind.len() + inner.len() + "?>".len()))
    };
    while let Some(next) = rest.chars().next() {
        let mut length = next.len_utf8();
        if let Some((begin, end)) = mark(rest, BEGIN) {
            let mut parts = begin.splitn(3, ' ');
            let mut number = || parts.next().and_then(|number| number.parse().ok()).unwrap_or(1);
            let (line, column) = (number(), number());
            let file = parts.next().unwrap_or_default().to_owned();
            around.push(std::mem::replace(&mut at, SourcePosition { file, line, column }));
            length = end;
        } else if let Some((_, end)) = mark(rest, END) {
            at = around.pop().unwrap_or(at);
            length = end;
        } else if let Some((skipped, end)) = mark(rest, SKIP) {
            at.column = at.column.saturating_add(skipped.parse().unwrap_or(0));
            length = end;
        } else if next == '\n' {
            (at.line, at.column) = (at.line.saturating_add(1), 1);
        } else {
            at.column = at.column.saturating_add(1);
        }
        rest = &rest[length..];
    }
    at
}

/// Offset of a line and a column.
fn offset(text: &str, at: TextPos) -> usize {
    let before = |count: u32| usize::try_from(count).map_or(0, |count| count.saturating_sub(1));
    let line: usize = text.split_inclusive('\n').take(before(at.row)).map(str::len).sum();
    line + text[line..].chars().take(before(at.col)).map(char::len_utf8).sum::<usize>()
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
        position: SourcePosition { file: file.to_owned(), line: 1, column: 1 },
        reason: "not UTF-8 text".to_owned(),
    })
}

/// Start of a node.
pub(crate) fn position_of(file: &str, node: Node<'_, '_>) -> SourcePosition {
    let text = node.document().input_text();
    position(file, text, node.range().start)
}

/// An error at a node.
pub(crate) fn invalid<T>(file: &str, node: Node<'_, '_>, reason: impl Into<String>) -> Result<T, Error> {
    Err(Error::Invalid { position: position_of(file, node), reason: reason.into() })
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
