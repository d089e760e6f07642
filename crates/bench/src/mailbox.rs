//! The example's mails, without vectors of their own.

use hyper::Method;
use millrace_client::OutgoingRequest;
use millrace_mail::corpus::{MailCorpus, Settings};
use serde_json::{Value, json};

/// A mail of a mailbox.
pub(crate) struct BenchMail {
    /// Body of its put.
    pub operation: String,
    /// Its subject and body, as they are embedded.
    pub text: String,
}

/// Generates `count` mails of one mailbox.
pub(crate) fn mails(count: usize) -> Vec<BenchMail> {
    let mail = |mut mail: millrace_mail::corpus::CorpusMail| {
        mail.message.embedding = None;
        let operation: Value = serde_json::from_str(&mail.operation()).unwrap_or_default();
        BenchMail {
            operation: json!({ "fields": operation["fields"] }).to_string(),
            text: format!("{} {}", mail.message.subject, mail.message.body),
        }
    };
    MailCorpus::new(Settings { seed: 1, mails: count, mailboxes: 1 }).map(mail).collect()
}

/// Puts a mail into a group.
pub(crate) fn put(mail: &BenchMail, group: &str, number: u64) -> OutgoingRequest {
    let path = format!("/document/v1/mail/mail/group/{group}/{number}");
    OutgoingRequest::new(Method::POST, path).body("application/json", mail.operation.clone())
}
