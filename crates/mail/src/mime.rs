//! Conversion of RFC 5322 and MIME to [`MailMessage`].

use std::borrow::Cow;
use std::ops::Range;

use mail_parser::{Addr, Address, DateTime, HeaderValue, Message, MessageParser, MimeHeaders, PartType};
use xxhash_rust::xxh3::xxh3_128;

use crate::MailMessage;
use crate::attached;
use crate::html;
use crate::threads::ConversationThreads;

/// Maximum number of characters of a message's text.
const BODY_MAX: usize = 1 << 20;
/// Maximum number of recipients, and of attachments, of a message.
const LIST_MAX: usize = 1_000;
/// Maximum number of boundaries that are added to a message that was cut off.
const BOUNDARIES_MAX: usize = 64;

/// Reads one message; `folder` is its location, unless the message has a label.
///
/// # Errors
/// Text that is not mail: it has none of the headers that every mail has.
pub(crate) fn read(
    raw: &[u8],
    folder: &str,
    threads: &mut ConversationThreads,
) -> Result<MailMessage, &'static str> {
    let flat = flatten(raw);
    let message = parse(&flat)?;
    if message.from().is_none()
        && message.subject().is_none()
        && message.date().is_none()
        && message.message_id().is_none()
    {
        return Err("it has no From, Subject, Date or Message-ID: this is not a mail");
    }
    let message_id = match message.message_id() {
        Some(id) => id.to_owned(),
        None => format!("{:032x}@unnamed", xxh3_128(raw)),
    };
    let mut references = ids(message.references());
    for id in ids(message.in_reply_to()) {
        if !references.contains(&id) {
            references.push(id);
        }
    }
    references.retain(|id| *id != message_id);
    let sender = message.from().or(message.sender()).and_then(Address::first);
    let recipients =
        [message.to(), message.cc(), message.bcc()].into_iter().flatten().flat_map(Address::iter);
    Ok(MailMessage {
        thread: threads.thread(&message_id, &references),
        subject: line(message.subject().unwrap_or_default()),
        from_name: sender.and_then(Addr::name).map(line).unwrap_or_default(),
        from_address: sender
            .and_then(Addr::address)
            .map(|address| line(address).to_lowercase())
            .unwrap_or_default(),
        to: recipients.filter_map(recipient).take(LIST_MAX).collect(),
        date: date(&message),
        folder: label(&message).unwrap_or_else(|| folder.to_owned()),
        attachments: attachments(&message),
        attachment_text: attached::text(&message, 0),
        size: u32::try_from(raw.len()).unwrap_or(u32::MAX),
        body: body(&message),
        embedding: None,
        message_id,
    })
}

/// Text of a message that is attached to another one, as mail programs quote it; `None` if it has none of the
/// headers that every mail has. `depth` is the number of messages around it.
pub(crate) fn read_forwarded(raw: &[u8], depth: usize) -> Option<String> {
    let flat = flatten(raw);
    let message = parse(&flat).ok()?;
    if message.from().is_none() && message.subject().is_none() && message.date().is_none() {
        return None;
    }
    let people = |addresses: Option<&Address<'_>>| {
        let all = addresses.into_iter().flat_map(Address::iter).filter_map(recipient).take(LIST_MAX);
        all.collect::<Vec<_>>().join(", ")
    };
    let head = [
        ("From", people(message.from())),
        ("To", people(message.to())),
        ("Cc", people(message.cc())),
        ("Date", date(&message).map(shown_date).unwrap_or_default()),
        ("Subject", line(message.subject().unwrap_or_default())),
        ("Attachments", attachments(&message).join(", ")),
    ];
    let head = head.into_iter().filter(|(_, value)| !value.is_empty());
    let mut text: String = head.map(|(name, value)| format!("{name}: {value}\n")).collect();
    text.push_str(&body(&message));
    let attached = attached::text(&message, depth);
    if !attached.is_empty() {
        text.push('\n');
        text.push_str(&attached);
    }
    Some(text)
}

/// A time as text that sorts by time: `2015-02-03T10:19:10Z`.
pub(crate) fn shown_date(seconds: i64) -> String {
    DateTime::from_timestamp(seconds).to_rfc3339()
}

/// Parses the structure of a message. If the parser fails on one of millions of messages, that one is left
/// out.
fn parse(raw: &[u8]) -> Result<Message<'_>, &'static str> {
    match std::panic::catch_unwind(|| MessageParser::default().parse(raw)) {
        Ok(message) => message.ok_or("it has no headers"),
        Err(_) => Err("its structure cannot be read"),
    }
}

/// Turns messages inside the message into plain attachments: they are not read, and a parser that descends
/// into them would follow any depth that a sender chooses.
///
/// Content types such as `message/rfc822` are replaced in place, so nothing else moves. If the message was
/// cut off, the ends of its parts are added.
fn flatten(raw: &[u8]) -> Cow<'_, [u8]> {
    let mut flat = Cow::Borrowed(raw);
    let mut boundaries: Vec<&[u8]> = Vec::new();
    for header in content_types(raw) {
        let value = &raw[header.clone()];
        // The type ends at the first `;`, unless that is in a comment.
        let semicolon = memchr::memchr(b';', value).unwrap_or(value.len());
        let type_end =
            if memchr::memchr(b'(', &value[..semicolon]).is_some() { value.len() } else { semicolon };
        for word in [&b"rfc822"[..], b"global", b"digest"] {
            let found = value[..type_end]
                .windows(word.len())
                .enumerate()
                .filter(|(_, window)| window.eq_ignore_ascii_case(word));
            for (at, _) in found {
                flat.to_mut()[header.start + at] = b'x';
            }
        }
        if boundaries.len() < BOUNDARIES_MAX {
            boundaries.extend(boundary(value));
        }
    }
    close(&mut flat, raw, &boundaries);
    flat
}

/// Ends the parts of a message that was cut off, so that what is there of its last ones is read.
fn close(flat: &mut Cow<'_, [u8]>, raw: &[u8], boundaries: &[&[u8]]) {
    let has = |line: &[u8]| memchr::memmem::find(raw, line).is_some();
    let is_open = |boundary: &&&[u8]| {
        let begin = [b"--", **boundary].concat();
        has(&begin) && !has(&[&begin[..], b"--"].concat())
    };
    if boundaries.first().filter(is_open).is_none() {
        return;
    }
    for boundary in boundaries.iter().rev().filter(is_open) {
        flat.to_mut().extend_from_slice(&[b"\n--", *boundary, b"--\n"].concat());
    }
}

/// The boundary of the parts that a content type declares.
fn boundary(value: &[u8]) -> Option<&[u8]> {
    const NAME: &[u8] = b"boundary=";
    let at = value.windows(NAME.len()).position(|window| window.eq_ignore_ascii_case(NAME))?;
    let rest = &value[at + NAME.len()..];
    let boundary = match rest.strip_prefix(b"\"") {
        Some(quoted) => quoted.split(|byte| *byte == b'"').next(),
        None => rest.split(|byte| *byte == b';' || byte.is_ascii_whitespace()).next(),
    };
    boundary.filter(|boundary| !boundary.is_empty())
}

/// Places of the content types of a message and of its parts, each with its name.
fn content_types(raw: &[u8]) -> impl Iterator<Item = Range<usize>> {
    const HEADER: &[u8] = b"content-type";
    let mut line = 0;
    std::iter::from_fn(move || {
        while line < raw.len() {
            let start = line;
            let next = memchr::memchr(b'\n', &raw[start..]).map_or(raw.len(), |end| start + end + 1);
            let name = raw[start..].get(..HEADER.len());
            if name.is_some_and(|name| name.eq_ignore_ascii_case(HEADER)) {
                line = value_end(raw, next);
                return Some(start..line);
            }
            line = next;
        }
        None
    })
}

/// End of a header whose first line ends at `next`: folded lines begin with white space.
fn value_end(raw: &[u8], mut next: usize) -> usize {
    while matches!(raw.get(next), Some(b' ' | b'\t')) {
        next = memchr::memchr(b'\n', &raw[next..]).map_or(raw.len(), |end| next + end + 1);
    }
    next
}

/// Message ids of References or In-Reply-To.
fn ids(value: &HeaderValue<'_>) -> Vec<String> {
    match value {
        HeaderValue::Text(id) => vec![id.to_string()],
        HeaderValue::TextList(ids) => ids.iter().map(ToString::to_string).collect(),
        _ => Vec::new(),
    }
}

fn recipient(address: &Addr<'_>) -> Option<String> {
    match (address.name().map(line), address.address().map(line)) {
        (Some(name), Some(address)) if !name.is_empty() && name != address => {
            Some(format!("{name} <{address}>"))
        }
        (_, Some(address)) if !address.is_empty() => Some(address),
        (Some(name), _) if !name.is_empty() => Some(name),
        _ => None,
    }
}

/// Time of sending, or else of receipt.
fn date(message: &Message<'_>) -> Option<i64> {
    let received = message.received().and_then(|received| received.date());
    let sent = message.date().copied();
    sent.into_iter().chain(received).find(DateTime::is_valid).map(|date| date.to_timestamp())
}

/// The first label of an archive that has labels instead of folders.
fn label(message: &Message<'_>) -> Option<String> {
    let labels = message.header("X-Gmail-Labels")?.as_text()?;
    let first = labels
        .split(',')
        .map(str::trim)
        .find(|label| !matches!(*label, "" | "Opened" | "Unread" | "Important" | "Starred"));
    first.map(|label| line(label.trim_matches('"')).to_lowercase())
}

fn attachments(message: &Message<'_>) -> Vec<String> {
    let names = message.attachments().filter_map(|part| {
        let is_message = part.content_type().is_some_and(|content_type| content_type.ctype() == "message");
        part.attachment_name().map(line).or_else(|| is_message.then(|| message_name(part.contents())))
    });
    names.filter(|name| !name.is_empty()).take(LIST_MAX).collect()
}

/// Name of a forwarded message, taken from its subject.
fn message_name(raw: &[u8]) -> String {
    let headers = MessageParser::default().parse_headers(raw);
    let subject = headers.as_ref().and_then(Message::subject).map(line).unwrap_or_default();
    format!("{}.eml", if subject.is_empty() { "message" } else { subject.as_str() })
}

/// Text parts; HTML if there is no plain text.
fn body(message: &Message<'_>) -> String {
    let mut body = String::new();
    for part in message.text_bodies() {
        let text = match &part.body {
            PartType::Text(text) => text.as_ref().into(),
            PartType::Html(html) => Cow::Owned(html::to_text(html)),
            _ => continue,
        };
        if !body.is_empty() {
            body.push('\n');
        }
        body.extend(
            text.chars()
                .filter(|&c| c == '\n' || c == '\t' || is_text(c))
                .take(BODY_MAX.saturating_sub(body.len())),
        );
    }
    body.truncate(body.trim_end().len());
    body
}

/// Text of one line: folded white space becomes one space, other characters than text are dropped.
fn line(text: &str) -> String {
    let visible: String =
        text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|&c| is_text(c)).collect();
    visible.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// True for characters that documents may contain: no controls, no code points that are never characters.
pub(crate) fn is_text(c: char) -> bool {
    let code = u32::from(c);
    !c.is_control() && code & 0xfffe != 0xfffe && !(0xfdd0..=0xfdef).contains(&code)
}
