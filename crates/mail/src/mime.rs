//! RFC 5322 and MIME to [`MailMessage`].

use mail_parser::{Addr, Address, HeaderValue, Message, MessageParser, MimeHeaders, PartType};
use xxhash_rust::xxh3::xxh3_128;

use crate::MailMessage;
use crate::html;
use crate::threads::Threads;

/// Characters of text that are kept of a message.
const BODY_MAX: usize = 1 << 20;
/// Recipients and attachments that are kept of a message.
const LIST_MAX: usize = 1_000;

/// Reads one message; `folder` is where it lies, unless it says so itself.
///
/// # Errors
/// Text that is no mail: it has none of the headers that every mail has.
pub(crate) fn read(raw: &[u8], folder: &str, threads: &mut Threads) -> Result<MailMessage, &'static str> {
    let message = MessageParser::default().parse(raw).ok_or("it has no headers")?;
    if message.from().is_none()
        && message.subject().is_none()
        && message.date().is_none()
        && message.message_id().is_none()
    {
        return Err("it has no From, Subject, Date or Message-ID: this is no mail");
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
        size: u32::try_from(raw.len()).unwrap_or(u32::MAX),
        body: body(&message),
        embedding: None,
        message_id,
    })
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

/// When it was sent, else when it was received.
fn date(message: &Message<'_>) -> Option<i64> {
    let received = message.received().and_then(|received| received.date());
    let sent = message.date().copied();
    sent.into_iter().chain(received).find(mail_parser::DateTime::is_valid).map(|date| date.to_timestamp())
}

/// The first label of an archive that keeps labels instead of folders.
fn label(message: &Message<'_>) -> Option<String> {
    let labels = message.header("X-Gmail-Labels")?.as_text()?;
    let first = labels
        .split(',')
        .map(str::trim)
        .find(|label| !matches!(*label, "" | "Opened" | "Unread" | "Important" | "Starred"));
    first.map(|label| line(label.trim_matches('"')).to_lowercase())
}

fn attachments(message: &Message<'_>) -> Vec<String> {
    let names = message.attachments().filter_map(|part| match &part.body {
        PartType::Message(inner) => Some(
            inner
                .subject()
                .map_or_else(|| "message.eml".to_owned(), |subject| format!("{}.eml", line(subject))),
        ),
        _ => part.attachment_name().map(line),
    });
    names.filter(|name| !name.is_empty()).take(LIST_MAX).collect()
}

/// The text parts; HTML where there is no plain text.
fn body(message: &Message<'_>) -> String {
    let mut body = String::new();
    for part in message.text_bodies() {
        let text = match &part.body {
            PartType::Text(text) => text.as_ref().into(),
            PartType::Html(html) => std::borrow::Cow::Owned(html::to_text(html)),
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

/// Text of one line: folded white space becomes one space, what is no text is dropped.
fn line(text: &str) -> String {
    let visible: String =
        text.chars().map(|c| if c.is_whitespace() { ' ' } else { c }).filter(|&c| is_text(c)).collect();
    visible.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Characters that documents may hold: no controls, no code points that are never characters.
fn is_text(c: char) -> bool {
    let code = u32::from(c);
    !c.is_control() && code & 0xfffe != 0xfffe && !(0xfdd0..=0xfdef).contains(&code)
}
