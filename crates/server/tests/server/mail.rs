//! Real mail: queries find the same messages as a plain scan. Skipped if the messages are not installed.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::io::Read as _;
use std::path::Path;

use serde_json::{Value, json};

use crate::support::{TestServer, write_files};

/// Number of mailboxes that are fed: the largest.
const MAILBOXES: usize = 3;
/// Number of messages of a mailbox that are fed.
const MESSAGES: usize = 400;

const SERVICES: &str = "<services version='1.0'><container id='default' version='1.0'><search/><document-api/></container>
<content id='mail' version='1.0'><documents><document type='mail' mode='streaming'/></documents></content></services>";

const SCHEMA: &str = "schema mail { document mail {
  field subject type string { indexing: summary | index }
  field words type string { indexing: summary | index
    stemming: none normalizing: none }
  field sender type string { indexing: summary | attribute }
  field date type long { indexing: summary | attribute }
} fieldset default { fields: words } }";

/// The tested parts of a message.
struct ImportedMessage {
    mid: String,
    sender: String,
    subject: String,
    words: String,
    date: i64,
}

/// A mailbox and its messages.
type Mailbox = (String, Vec<ImportedMessage>);

fn unpacked(path: &Path) -> Option<String> {
    let mut text = String::new();
    let packed = std::fs::File::open(path).ok()?;
    flate2::read::MultiGzDecoder::new(packed).read_to_string(&mut text).ok()?;
    Some(text)
}

/// The largest mailboxes; `None` if there is no real mail.
fn mailboxes() -> Option<Vec<Mailbox>> {
    let directory = std::env::var_os("MILLRACE_MAIL").map_or_else(
        || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data/mail"),
        |path| Path::new(&path).to_owned(),
    );
    let messages = unpacked(&directory.join("messages.jsonl.gz"))?;
    let entries = unpacked(&directory.join("mailboxes.tsv.gz"))?;
    let mut by_user: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for line in entries.lines() {
        let mut columns = line.split('\t');
        if let (Some(user), Some(mid)) = (columns.next(), columns.next()) {
            by_user.entry(user).or_default().insert(mid);
        }
    }
    let mut largest: Vec<(&str, BTreeSet<&str>)> = by_user.into_iter().collect();
    largest.sort_by_key(|(user, mids)| (Reverse(mids.len()), *user));
    largest.truncate(MAILBOXES);
    let read: Vec<Value> = messages.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let of = |mids: &BTreeSet<&str>| -> Vec<ImportedMessage> {
        let is_in = |message: &&Value| message["mid"].as_str().is_some_and(|mid| mids.contains(mid));
        read.iter().filter(is_in).take(MESSAGES).map(ImportedMessage::new).collect()
    };
    Some(largest.iter().map(|(user, mids)| ((*user).to_owned(), of(mids))).collect())
}

impl ImportedMessage {
    fn new(json: &Value) -> Self {
        let text = |name: &str| json[name].as_str().unwrap_or_default().to_owned();
        ImportedMessage {
            mid: text("mid"),
            sender: text("from"),
            subject: text("subject"),
            words: text("body"),
            date: json["date"].as_i64().unwrap_or(0),
        }
    }

    /// True if a word is in the body, between characters that are neither letters nor digits.
    fn has_word(&self, word: &str) -> bool {
        self.words.to_lowercase().split(|c: char| !c.is_alphanumeric()).any(|found| found == word)
    }
}

fn feed(server: &TestServer, mailboxes: &[Mailbox]) {
    let line = |user: &str, message: &ImportedMessage| {
        let fields = json!({ "subject": message.subject, "words": message.words, "sender": message.sender, "date": message.date });
        json!({ "put": format!("id:r:mail:g={user}:{}", message.mid), "fields": fields }).to_string()
    };
    let lines: Vec<String> = mailboxes
        .iter()
        .flat_map(|(user, messages)| messages.iter().map(move |message| line(user, message)))
        .collect();
    let directory = tempfile::tempdir().expect("a temporary directory");
    write_files(directory.path(), &[("mail.jsonl", &lines.join("\n"))]);
    let path = directory.path().join("mail.jsonl");
    let fed = server.millrace(&["feed", path.to_str().expect("a path of text")]);
    assert!(fed.status.success(), "{}", String::from_utf8_lossy(&fed.stderr));
}

fn count(server: &TestServer, user: &str, condition: &str) -> Value {
    let yql = format!("select * from mail where {condition}");
    let (_, answer) =
        server.query(&[("yql", &yql), ("streaming.groupname", user), ("hits", "0"), ("timeout", "60s")]);
    answer.pointer("/root/fields/totalCount").cloned().unwrap_or(answer)
}

/// Asks twelve questions of a mailbox, and looks for the answers in its messages.
fn check(server: &TestServer, (user, messages): &Mailbox) {
    let check = |condition: &str, holds: &dyn Fn(&ImportedMessage) -> bool| {
        let expected = messages.iter().filter(|message| holds(message)).count();
        assert_eq!(count(server, user, condition), json!(expected), "{user}: {condition}");
    };
    check("true", &|_| true);
    for word in ["matrix", "the", "thanks", "lattice", "zzyzx", "1"] {
        check(&format!("words contains '{word}'"), &|message| message.has_word(word));
    }
    let both = |message: &ImportedMessage, a: &str, b: &str| (message.has_word(a), message.has_word(b));
    check("words contains 'data' and words contains 'frame'", &|message| {
        both(message, "data", "frame") == (true, true)
    });
    check("words contains 'plot' or words contains 'error'", &|message| {
        both(message, "plot", "error") != (false, false)
    });
    check("words contains 'function' and !(words contains 'package')", &|message| {
        both(message, "function", "package") == (true, false)
    });
    let middle = messages[messages.len() / 2].date;
    check(&format!("date >= {middle}L and words contains 'the'"), &|message| {
        message.date >= middle && message.has_word("the")
    });
    check(&format!("sender contains '{user}'"), &|message| message.sender == *user);
}

#[test]
fn counts_are_those_of_a_plain_look() {
    let Some(mailboxes) = mailboxes() else {
        eprintln!("skipped: no real mail here");
        return;
    };
    let mut server = TestServer::start();
    assert_eq!(server.deploy(&[("services.xml", SERVICES), ("schemas/mail.sd", SCHEMA)]).0, 200);
    feed(&server, &mailboxes);
    mailboxes.iter().for_each(|mailbox| check(&server, mailbox));
    server.kill_and_restart();
    mailboxes.iter().for_each(|mailbox| check(&server, mailbox));
    let (user, messages) = &mailboxes[0];
    let listed = server.millrace(&["visit", "--selection", &format!("id.group == '{user}'")]);
    assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
    let visited: BTreeSet<String> = String::from_utf8_lossy(&listed.stdout)
        .lines()
        .filter_map(|line| serde_json::from_str::<Value>(line).ok())
        .filter_map(|document| Some(document.get("put")?.as_str()?.rsplit(':').next()?.to_owned()))
        .collect();
    let expected: BTreeSet<String> = messages.iter().map(|message| message.mid.clone()).collect();
    assert_eq!(visited, expected);
}
