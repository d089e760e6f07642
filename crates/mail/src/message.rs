use ring::digest::{Context, SHA256};
use serde_json::{Map, Value, json};
use xxhash_rust::xxh3::xxh3_64;

use crate::Error;
use crate::mime::shown_date;

/// A mail as the mail schema has it.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct MailMessage {
    /// The Message-ID without angle brackets; made from the message's bytes where it has none.
    pub message_id: String,
    /// The same for all messages of a conversation.
    pub thread: String,
    /// The subject, decoded.
    pub subject: String,
    /// The sender's name; empty if the message gives none.
    pub from_name: String,
    /// The sender's address, lower case.
    pub from_address: String,
    /// Recipients, copies included: `Name <address>`.
    pub to: Vec<String>,
    /// Seconds since 1970 (UTC), if the message says when it was sent.
    pub date: Option<i64>,
    /// The folder it lies in.
    pub folder: String,
    /// The names of attached files.
    pub attachments: Vec<String>,
    /// The text of attached files and of forwarded messages, as far as it can be read.
    pub attachment_text: String,
    /// Bytes as it was sent.
    pub size: u32,
    /// The text.
    pub body: String,
    /// A vector of length 1 that stands for the text; imports have none.
    pub embedding: Option<Vec<f32>>,
}

impl MailMessage {
    /// The id of the document in this group: the first 128 bits of the SHA-256 of what sender and recipients
    /// see of the message.
    ///
    /// The same message gets the same id each time that it is imported, also from another folder or archive.
    /// A message that differs gets another id, even if its sender gave it the Message-ID of an earlier one.
    pub fn document_id(&self, group: &MailGroup) -> String {
        let mut hasher = Context::new(&SHA256);
        // Each with its length before it, so that no text can pass for two others.
        let mut add = |text: &str| {
            hasher.update(&(text.len() as u64).to_le_bytes());
            hasher.update(text.as_bytes());
        };
        let date = self.date.map_or_else(String::new, |date| date.to_string());
        for text in [&self.message_id, &date, &self.from_name, &self.from_address, &self.subject, &self.body]
        {
            add(text);
        }
        for list in [&self.to, &self.attachments] {
            add(&list.len().to_string());
            list.iter().for_each(|text| add(text));
        }
        let digest = hasher.finish();
        let digits: String = digest.as_ref().iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        format!("id:mail:mail:g={}:{digits}", group.0)
    }

    /// The feed operation that puts the message into a group, as one line of JSON.
    pub fn operation(&self, group: &MailGroup) -> String {
        let mut fields = Map::new();
        let mut text = |name: &str, value: &str| {
            if !value.is_empty() {
                fields.insert(name.to_owned(), Value::from(value));
            }
        };
        text("subject", &self.subject);
        text("body", &self.body);
        text("from_name", &self.from_name);
        text("from_address", &self.from_address);
        text("attachment_text", &self.attachment_text);
        text("folder", &self.folder);
        text("thread", &self.thread);
        text("message_id", &self.message_id);
        if !self.to.is_empty() {
            fields.insert("to".to_owned(), json!(self.to));
        }
        if let Some(date) = self.date {
            fields.insert("date".to_owned(), Value::from(date));
            fields.insert("sent".to_owned(), Value::from(shown_date(date)));
        }
        if !self.attachments.is_empty() {
            fields.insert("attachments".to_owned(), json!(self.attachments));
        }
        fields.insert("has_attachment".to_owned(), Value::from(!self.attachments.is_empty()));
        fields.insert("size".to_owned(), Value::from(i32::try_from(self.size).unwrap_or(i32::MAX)));
        if let Some(embedding) = &self.embedding {
            // Fields are kept as bfloat16, which has three digits: more in the feed would be noise.
            let cells: Vec<Value> =
                embedding.iter().map(|&cell| json!((f64::from(cell) * 1e5).round() / 1e5)).collect();
            fields.insert("embedding".to_owned(), json!({ "values": cells }));
        }
        json!({ "put": self.document_id(group), "fields": fields }).to_string()
    }
}

/// The name of a group of documents, fit for a document id.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct MailGroup(String);

impl MailGroup {
    /// A group of this name.
    ///
    /// # Errors
    /// [`Error::Group`] for a name that is empty or would end the group's part of an id.
    pub fn new(name: &str) -> Result<Self, Error> {
        if name.is_empty() || name.contains(|c: char| c == ':' || c.is_whitespace() || c.is_control()) {
            return Err(Error::Group(name.to_owned()));
        }
        Ok(MailGroup(name.to_owned()))
    }

    /// The name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// The name of the thread that begins with this message id.
pub(crate) fn thread_name(root: &str) -> String {
    format!("{:016x}", xxh3_64(root.as_bytes()))
}
