//! The synthetic corpus is realistic enough for searches, and always the same.

use std::collections::{BTreeMap, BTreeSet};

use millrace_mail::corpus::{CorpusMail, DIMENSIONS, MailCorpus, Settings, embed};

fn small() -> Vec<CorpusMail> {
    MailCorpus::new(Settings { seed: 7, mails: 600, mailboxes: 30 }).collect()
}

fn dot(a: &[f32], b: &[f32]) -> f32 {
    a.iter().zip(b).map(|(x, y)| x * y).sum()
}

#[test]
fn a_seed_gives_the_same_mails_everywhere() {
    let mails = small();
    assert_eq!(mails, small());
    let first = &mails[0].message;
    // Change this only with a reason: recorded measurements are of this corpus.
    assert_eq!(first.subject, "Appointment on Wednesday: balcony");
    let other = MailCorpus::new(Settings { seed: 8, mails: 600, mailboxes: 30 }).next().unwrap();
    assert_ne!(&other.message, first);
}

#[test]
fn mailboxes_are_very_unequal() {
    let corpus = MailCorpus::new(Settings::default());
    assert_eq!(corpus.len(), 20_000);
    let sizes: Vec<usize> = corpus.groups().map(|(_, size)| size).collect();
    assert_eq!((sizes.len(), sizes.iter().sum::<usize>()), (300, 20_000));
    assert!(sizes[0] > 2_500 && sizes[299] < 30 && sizes[299] > 0, "{} {}", sizes[0], sizes[299]);
    assert_eq!(corpus.groups().map(|(group, _)| group).collect::<BTreeSet<_>>().len(), 300);
}

#[test]
fn mails_look_like_mails() {
    let mails = small();
    let body_size = mails.iter().map(|mail| mail.message.body.len()).sum::<usize>() / mails.len();
    assert!((600..1_500).contains(&body_size), "{body_size}");
    let ids: BTreeSet<String> = mails.iter().map(|mail| mail.message.document_id(&mail.group)).collect();
    assert_eq!(ids.len(), mails.len());
    let subjects: BTreeSet<&str> = mails.iter().map(|mail| mail.message.subject.as_str()).collect();
    assert!(subjects.len() > mails.len() / 3, "{}", subjects.len());
    let folders: BTreeSet<&str> = mails.iter().map(|mail| mail.message.folder.as_str()).collect();
    assert!(folders.contains("inbox") && folders.contains("sent") && folders.len() > 6, "{folders:?}");
    let attached = mails.iter().filter(|mail| !mail.message.attachments.is_empty()).count();
    assert!((40..180).contains(&attached), "{attached}");
    for mail in &mails {
        let message = &mail.message;
        assert!(!message.subject.contains('{') && !message.body.contains('{'), "{message:?}");
        assert!(message.date.is_some_and(|date| (1_546_300_800..1_800_000_000).contains(&date)));
        assert!(message.to.len() <= 5 && message.from_address.contains('@'));
    }
}

#[test]
fn threads_go_on() {
    let mails = small();
    let mut threads: BTreeMap<&str, Vec<&CorpusMail>> = BTreeMap::new();
    for mail in &mails {
        threads.entry(&mail.message.thread).or_default().push(mail);
    }
    assert!(threads.len() < mails.len() * 2 / 3, "{}", threads.len());
    for mails in threads.values() {
        assert!(
            mails
                .windows(2)
                .all(|pair| pair[0].group == pair[1].group && pair[0].message.date < pair[1].message.date)
        );
        assert!(
            mails[1..]
                .iter()
                .all(|mail| mail.message.subject.starts_with("Re: ")
                    && mail.message.body.contains("wrote:\n> "))
        );
    }
}

#[test]
fn vectors_reflect_topics() {
    let travel = embed("We booked the flight and the hotel");
    assert_eq!(travel.len(), DIMENSIONS);
    assert!((dot(&travel, &travel) - 1.0).abs() < 1e-4);
    let near = dot(&travel, &embed("The train ticket and my passport"));
    let far = dot(&travel, &embed("The database needs a restore of the backup"));
    let same_words = dot(&travel, &embed("Which hotel, which flight?"));
    assert!(same_words > near && near > far + 0.15, "{same_words} {near} {far}");
    assert_eq!(embed("").len(), DIMENSIONS);

    let mails = small();
    let query = embed("invoice payment reminder");
    let mut ranked: Vec<(f32, &CorpusMail)> =
        mails.iter().map(|mail| (dot(&query, mail.message.embedding.as_ref().unwrap()), mail)).collect();
    ranked.sort_by(|a, b| b.0.total_cmp(&a.0));
    let words = ["invoice", "payment", "reminder"];
    let telling =
        ranked[..10].iter().filter(|(_, mail)| words.iter().any(|word| mail.message.body.contains(word)));
    let telling = telling.count();
    assert!(telling >= 8, "{telling} of 10");
}

#[test]
fn any_settings_work() {
    for (mails, mailboxes) in [(0, 0), (1, 1), (1, 5), (10, 200)] {
        let corpus = MailCorpus::new(Settings { seed: 1, mails, mailboxes });
        let expected = mails.max(mailboxes).max(1);
        assert_eq!(corpus.len(), expected);
        assert_eq!(corpus.count(), expected);
    }
}
