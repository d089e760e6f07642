//! Text of attachments: of forwarded messages, and of files that are text.
//!
//! Files of other kinds have only their names: what reads them would run on bytes of strangers.

use std::borrow::Cow;

use mail_parser::{Message, MessagePart, MimeHeaders, PartType};

use crate::html;
use crate::mime::{self, is_text};

/// Maximum number of characters of the text of all attachments of a message.
const TEXT_MAX: usize = 1 << 20;

/// Maximum depth of forwarded messages in forwarded messages.
const DEPTH_MAX: usize = 4;

/// Form of a file of text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttachmentForm {
    Plain,
    Html,
    Calendar,
    Message,
}

/// Ends of names of text files, for those whose type says nothing.
const ENDINGS: [(&str, AttachmentForm); 13] = [
    ("csv", AttachmentForm::Plain),
    ("eml", AttachmentForm::Message),
    ("htm", AttachmentForm::Html),
    ("html", AttachmentForm::Html),
    ("ics", AttachmentForm::Calendar),
    ("json", AttachmentForm::Plain),
    ("log", AttachmentForm::Plain),
    ("md", AttachmentForm::Plain),
    ("tsv", AttachmentForm::Plain),
    ("txt", AttachmentForm::Plain),
    ("vcf", AttachmentForm::Calendar),
    ("xml", AttachmentForm::Html),
    ("yaml", AttachmentForm::Plain),
];

impl AttachmentForm {
    fn of(part: &MessagePart<'_>) -> Option<Self> {
        let (kind, subtype) = part.content_type().map_or(("", ""), |content_type| {
            (content_type.ctype(), content_type.subtype().unwrap_or_default())
        });
        match (kind.to_ascii_lowercase().as_str(), subtype.to_ascii_lowercase().as_str()) {
            ("message", _) => return Some(AttachmentForm::Message),
            ("text", "html") => return Some(AttachmentForm::Html),
            ("text", "calendar" | "vcard" | "x-vcard") => return Some(AttachmentForm::Calendar),
            ("text", _) => return Some(AttachmentForm::Plain),
            ("application", "json" | "xml" | "csv") => return Some(AttachmentForm::Plain),
            _ => {}
        }
        let (_, ending) = part.attachment_name()?.rsplit_once('.')?;
        let known = ENDINGS.iter().find(|(known, _)| known.eq_ignore_ascii_case(ending));
        known.map(|(_, form)| *form)
    }
}

/// Text of the attachments of a message, with those of forwarded messages; `depth` of those around it.
pub(crate) fn text(message: &Message<'_>, depth: usize) -> String {
    let mut all = String::new();
    for part in message.attachments() {
        let Some(form) = AttachmentForm::of(part) else { continue };
        let given = match &part.body {
            PartType::Text(text) | PartType::Html(text) => Cow::Borrowed(text.as_ref()),
            PartType::Binary(bytes) | PartType::InlineBinary(bytes) => String::from_utf8_lossy(bytes),
            PartType::Message(_) | PartType::Multipart(_) => continue,
        };
        let text = match form {
            AttachmentForm::Plain => given,
            AttachmentForm::Html => Cow::Owned(html::to_text(&given)),
            AttachmentForm::Calendar => Cow::Owned(unfolded(&given)),
            AttachmentForm::Message => Cow::Owned(forwarded(part.contents(), depth + 1)),
        };
        let text = text.trim();
        if text.is_empty() {
            continue;
        }
        if !all.is_empty() {
            all.push('\n');
        }
        let left = TEXT_MAX.saturating_sub(all.len());
        all.extend(text.chars().filter(|&c| c == '\n' || c == '\t' || is_text(c)).take(left));
    }
    all
}

/// Text of a forwarded message: its head as people see it, its text, and that of its attachments.
fn forwarded(raw: &[u8], depth: usize) -> String {
    match mime::read_forwarded(raw, depth).filter(|_| depth <= DEPTH_MAX) {
        Some(text) => text,
        // Such as the report of a server that could not deliver a mail.
        None => String::from_utf8_lossy(raw).into_owned(),
    }
}

/// Text of a calendar or an address book: folded lines are joined, and escaped characters are written out.
fn unfolded(text: &str) -> String {
    let joined = text.replace("\r\n", "\n").replace("\n ", "").replace("\n\t", "");
    let mut out = String::with_capacity(joined.len());
    let mut characters = joined.chars();
    while let Some(c) = characters.next() {
        let escaped = if c == '\\' { characters.next() } else { Some(c) };
        let is_line_end = c == '\\' && matches!(escaped, Some('n' | 'N'));
        out.extend(if is_line_end { Some('\n') } else { escaped });
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_calendars_are_joined() {
        let folded = "SUMMARY:Kick-\r\n off\\, room 4\r\nDESCRIPTION:one\\ntwo\r\n";
        assert_eq!(unfolded(folded), "SUMMARY:Kick-off, room 4\nDESCRIPTION:one\ntwo\n");
    }
}
