//! Archives in, feed operations out.

use std::fs;
use std::io::Cursor;
use std::path::{Path, PathBuf};

use millrace_mail::{Error, MailGroup, MailImport, MailMessage};
use proptest::prelude::*;
use serde_json::Value;

const FROM: &str = "From someone Sat Jan  3 01:05:34 1996\n";

fn sample(name: &str) -> String {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/samples").join(format!("{name}.eml"));
    fs::read_to_string(path).unwrap()
}

fn mbox(messages: &[&str]) -> MailImport {
    let file: String = messages.iter().map(|message| format!("{FROM}{message}\n\n")).collect();
    MailImport::mbox_from(Box::new(Cursor::new(file.into_bytes())), Path::new("test.mbox"), "inbox")
}

fn read(name: &str) -> MailMessage {
    mbox(&[&sample(name)]).next().unwrap().unwrap()
}

#[test]
fn headers_and_text_are_decoded() {
    let message = read("plain");
    assert_eq!(message.subject, "Grüße aus Köln");
    assert_eq!(
        (message.from_name.as_str(), message.from_address.as_str()),
        ("Ann Müller", "ann@example.com")
    );
    assert_eq!(message.to, ["Bob, the builder <bob@example.org>", "carol@example.org"]);
    assert_eq!(message.date, Some(1_422_951_150));
    assert!(
        message.body.contains("schöne Grüße aus Köln. Dies ist eine lange Zeile, die hier weitergeht."),
        "{}",
        message.body
    );
    assert_eq!((message.message_id.as_str(), message.folder.as_str()), ("plain-1@example.com", "inbox"));
}

#[test]
fn parts_are_told_apart() {
    let message = read("multipart");
    assert_eq!(message.body.trim(), "Thank you, Ann!");
    assert_eq!(message.attachments, ["Pläne.pdf", "forwarded note.eml"]);
    assert_eq!(message.date, Some(1_423_004_400));
}

/// Files of text are read, and forwarded messages with those in them; others have their names.
#[test]
fn attached_text_is_read() {
    let message = read("attached");
    assert_eq!(message.body, "See the files.");
    assert_eq!(
        message.attachments,
        ["costs.csv", "menu.html", "invite.ics", "notes.txt", "plan.pdf", "the lighthouse.eml"]
    );
    let lines: Vec<&str> =
        message.attachment_text.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    let expected = [
        "item,euro",
        "ferry,120",
        "Brötchen",
        "BEGIN:VEVENT",
        "SUMMARY:Kick-off, room 4",
        "END:VEVENT",
        "password of the harbour",
        "From: Carol <carol@example.com>",
        "To: ann@example.com",
        "Date: 2015-02-03T09:19:10Z",
        "Subject: the lighthouse",
        "Attachments: closing.eml",
        "It is closed.",
        "From: keeper@example.com",
        "Subject: closing",
        "Storm is coming.",
    ];
    assert_eq!(lines, expected);
}

/// A mail that a full disk or a broken connection has cut off has what came before, wherever it was cut.
#[test]
fn a_message_that_was_cut_off_is_kept() {
    let whole = sample("attached");
    let cut = |at: &str| {
        let end = whole.find(at).expect("the sample has it") + at.len();
        mbox(&[&whole[..end]]).next().unwrap().unwrap()
    };
    assert_eq!(cut("See the").body, "See the");
    let message = cut("ferry,120");
    assert!(
        message.body == "See the files." && message.attachment_text.ends_with("ferry,120"),
        "{message:?}"
    );
    let message = cut("cGFzc3dvcmQgb2Yg");
    assert!(message.attachment_text.ends_with("password of"), "{message:?}");
    let message = cut("Storm is");
    assert!(message.attachment_text.ends_with("Storm is"), "{message:?}");
    assert!(message.attachment_text.contains("It is closed."), "{message:?}");
}

/// Messages in messages are read to a depth that is bounded, whatever a sender sends.
#[test]
fn messages_in_messages_end() {
    let mut nested = "From: a@example.com\nSubject: deep\n\nbottom".to_owned();
    for depth in 0..200 {
        nested = format!(
            "From: a@example.com\nSubject: level {depth}\nMIME-Version: 1.0\n\
             Content-Type: multipart/mixed; boundary=b{depth}\n\n--b{depth}\nContent-Type: message/rfc822\n\n{nested}\n--b{depth}--"
        );
    }
    let message = mbox(&[&nested]).next().unwrap().unwrap();
    assert!(message.attachment_text.contains("Subject: level 196"), "{}", &message.attachment_text[..400]);
}

#[test]
fn html_becomes_text() {
    let message = read("html");
    let lines: Vec<&str> = message.body.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    assert_eq!(lines, ["Offers", "Shoes", "50 €", "Buy now."]);
    assert_eq!(message.folder, "newsletters");
}

#[test]
fn what_is_broken_is_read_as_far_as_it_goes() {
    let message = read("broken");
    assert_eq!(message.message_id, "broken-4@example.com");
    assert_eq!(message.date, None);
}

#[test]
fn a_bad_message_is_reported_and_passed_over() {
    let found: Vec<String> = mbox(&["no headers, only text", &sample("plain"), "X-Nothing: of use\n\ntext"])
        .map(|message| match message {
            Ok(message) => message.message_id,
            Err(error @ Error::Message { .. }) => error.to_string(),
            Err(error) => panic!("{error}"),
        })
        .collect();
    assert_eq!(found[1], "plain-1@example.com");
    assert!(found[0].starts_with("test.mbox, message 1: "), "{found:?}");
    assert!(found[2].starts_with("test.mbox, message 3: it has no From"), "{found:?}");
}

#[test]
fn answers_share_a_thread_and_ids_are_stable() {
    let messages: Vec<MailMessage> =
        mbox(&[&sample("plain"), &sample("multipart"), &sample("html")]).map(Result::unwrap).collect();
    assert_eq!(messages[0].thread, messages[1].thread);
    assert_ne!(messages[0].thread, messages[2].thread);
    let group = MailGroup::new("bob").unwrap();
    assert_eq!(messages[0].document_id(&group), "id:mail:mail:g=bob:14ccf7abe3bddfdbbfb99c973b101ccc");
}

/// Every header that a sender chooses, changed alone: another message, which must not take the place of the
/// first.
#[test]
fn only_the_same_message_has_the_same_id() {
    const FIRST: &str = "From: Boss <boss@example.com>\nTo: ann@example.com\nSubject: contract\nMessage-ID: <same@example.com>\n\
                         Date: Thu, 01 Jan 2026 00:00:00 +0000\n\nThe true one.";
    let group = MailGroup::new("ann").unwrap();
    let id = |message: &str| mbox(&[message]).next().unwrap().unwrap().document_id(&group);
    let first = id(FIRST);
    for (from, to) in [
        ("Boss <boss@example.com>", "Boss <mallory@evil.example>"),
        ("Boss <boss@example.com>", "Mallory <boss@example.com>"),
        ("ann@example.com", "ann@example.com, bob@example.com"),
        ("contract", "contracts"),
        ("same@example.com", "other@example.com"),
        ("00:00:00", "00:00:01"),
        ("The true one.", "Another one."),
    ] {
        let changed = FIRST.replace(from, to);
        assert!(changed != FIRST && id(&changed) != first, "{from} changed to {to}");
        assert_eq!(id(&changed), id(&changed));
    }
    // The same message from elsewhere: by other servers, read meanwhile, with other labels.
    let elsewhere = format!(
        "Received: from a by b; Fri, 02 Jan 2026 00:00:00 +0000\nX-Status: R\nX-Gmail-Labels: Work\n{FIRST}"
    );
    assert_eq!(id(&elsewhere), first);
    assert_eq!(
        mbox(&[FIRST, FIRST]).map(|mail| mail.unwrap().document_id(&group)).collect::<Vec<_>>(),
        [&*first; 2]
    );
    let twice =
        MailImport::mbox_from(Box::new(Cursor::new(format!("{FROM}{FIRST}\n\n"))), Path::new("x"), "work");
    assert_eq!(twice.map(|mail| mail.unwrap().document_id(&group)).collect::<Vec<_>>(), [first]);
}

#[test]
fn operations_fit_the_schema_of_the_example() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/mail");
    let application = millrace_schema::Application::from_dir(&example).unwrap();
    assert!(application.warnings.is_empty(), "{:?}", application.warnings);
    let schema = &application.schemas["mail"];
    let group = MailGroup::new("bob").unwrap();
    let imported = read("multipart").operation(&group);
    let made = millrace_mail::corpus::MailCorpus::new(Default::default()).next().unwrap().operation();
    for line in [imported, made] {
        let operation: Value = serde_json::from_str(&line).unwrap();
        for name in operation["fields"].as_object().unwrap().keys() {
            assert!(schema.document_type.field(name).is_some(), "{name}");
        }
        assert!(operation["put"].as_str().unwrap().starts_with("id:mail:mail:g="));
    }
}

#[test]
fn maildirs_are_read_folder_by_folder() {
    let root = tempfile::tempdir().unwrap();
    for (path, name) in [
        ("cur/1:2,S", "plain"),
        ("new/2", "multipart"),
        (".Archive.2024/cur/3", "html"),
        ("tmp/4", "plain"),
        ("cur/.hidden", "plain"),
    ] {
        let path: PathBuf = root.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, sample(name).replace("X-Gmail-Labels", "X-Labels")).unwrap();
    }
    let found: Vec<String> = MailImport::maildir(root.path())
        .unwrap()
        .map(|message| message.map(|m| format!("{} {}", m.folder, m.message_id)).unwrap())
        .collect();
    assert_eq!(
        found,
        ["archive/2024 html-3@example.com", "inbox plain-1@example.com", "inbox multi-2@example.com"]
    );
    let empty = tempfile::tempdir().unwrap();
    assert!(matches!(MailImport::maildir(empty.path()), Err(Error::Read { .. })));
    let refused = |import: Result<MailImport, millrace_mail::Error>, reason: &str| match import {
        Ok(_) => panic!("it is not refused: {reason}"),
        Err(error) => assert!(error.to_string().contains(reason), "{error}"),
    };
    refused(MailImport::mbox(Path::new("/nowhere/at/all")), "cannot read /nowhere/at/all: No such file");
    refused(MailImport::mbox(Path::new("tests")), "it is a directory");
    refused(MailImport::maildir(Path::new("tests")), "not a maildir");
    refused(MailImport::maildir(Path::new("tests/mail/import.rs")), "it is a file");
    let mut notes =
        MailImport::mbox_from(Box::new(Cursor::new("{\"put\": \"id:a:b::c\"}\n")), Path::new("x"), "inbox");
    let error = notes.next().expect("an error").expect_err("it is not an mbox").to_string();
    assert!(error.contains("x: it is not an mbox") && notes.next().is_none(), "{error}");
}

#[test]
fn groups_must_fit_an_id() {
    for (name, fits) in [
        ("me", true),
        ("ann.müller@example.com", true),
        ("", false),
        ("a:b", false),
        ("a b", false),
        ("a\n", false),
    ] {
        assert_eq!(MailGroup::new(name).is_ok(), fits, "{name:?}");
    }
}

#[test]
fn messages_in_messages_are_answered() {
    let nested = "Content-Type: message/rfc822\n\n".repeat(100_000);
    let parts = (0..20_000)
        .map(|at| format!("Content-Type: multipart/mixed; boundary=b{at}\n\n--b{at}\n"))
        .collect::<String>();
    let digests = "Content-Type: multipart/digest; boundary=b\n\n--b\n\n".repeat(50_000);
    let comments = "content-type:\n message/(;)RFC822\n\n".repeat(50_000);
    for body in [nested, parts, digests, comments] {
        mbox(&[&format!("Subject: deep\nFrom: a@b\n{body}")]).for_each(drop);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn any_bytes_are_answered(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        let mut file = FROM.as_bytes().to_vec();
        file.extend_from_slice(b"Subject: x\nContent-Type: text/html\n\n");
        file.extend_from_slice(&bytes);
        for message in MailImport::mbox_from(Box::new(Cursor::new(file)), Path::new("x"), "inbox").flatten() {
            message.operation(&MailGroup::new("g").unwrap());
        }
    }

    #[test]
    fn a_message_cut_off_or_changed_is_answered(name in prop::sample::select(vec!["plain", "multipart", "html", "broken"]), at in 0..1_000_usize, byte in any::<u8>()) {
        let mut bytes = sample(name).into_bytes();
        let at = at % bytes.len();
        bytes[at] = byte;
        for end in [at, bytes.len()] {
            let mut file = FROM.as_bytes().to_vec();
            file.extend_from_slice(&bytes[..end]);
            MailImport::mbox_from(Box::new(Cursor::new(file)), Path::new("x"), "inbox").for_each(drop);
        }
    }
}
