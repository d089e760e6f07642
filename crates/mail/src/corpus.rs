//! Synthetic mail corpus: the same seed gives the same mails on every machine.
//!
//! A few mailboxes are large and most are small, as in practice. Each owner corresponds with a circle of
//! contacts, mostly about a few of the topics, in threads that continue over days. Every mail has a vector
//! (see [`embed`]) that reflects its text.
//!
//! 1. Mailboxes share the mails by Zipf's law; a shuffled schedule determines the mailbox of the next mail,
//!    so groups are written interleaved.
//! 2. A mailbox either continues one of its open threads or begins one: topic, partner, subject.
//! 3. The mail's text is composed of the topic's sentences, and its vector is computed from the text.

mod embedding;
mod people;
mod random;
mod text;
mod topics;

pub use embedding::{DIMENSIONS, embed};

use crate::message::thread_name;
use crate::{MailGroup, MailMessage};
use people::CorpusPerson;
use random::CorpusRandom;
use text::CorpusLetter;
use topics::{CorpusTopic, TOPICS};

/// Time of the first mails, 2019-01-01; the last are about seven years later.
const FIRST_DATE: i64 = 1_546_300_800;
const YEARS_S: i64 = 7 * 365 * 86_400;
/// Maximum number of open threads of a mailbox.
const OPEN_THREADS_MAX: usize = 12;

/// Size of a corpus.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Settings {
    /// Seed; another one gives other mails.
    pub seed: u64,
    /// Number of mails in all mailboxes together; at least one for each.
    pub mails: usize,
    /// Number of people; at least 1.
    pub mailboxes: usize,
}

impl Default for Settings {
    /// 20,000 mails of 300 people.
    fn default() -> Self {
        Settings { seed: 1, mails: 20_000, mailboxes: 300 }
    }
}

/// A mail, with its owner.
#[derive(Debug, Clone, PartialEq)]
pub struct CorpusMail {
    /// Group of the owner.
    pub group: MailGroup,
    /// The mail.
    pub message: MailMessage,
}

impl CorpusMail {
    /// Feed operation, as one line of JSON.
    pub fn operation(&self) -> String {
        self.message.operation(&self.group)
    }
}

/// Mails of a corpus, in an order that mixes the mailboxes.
#[derive(Debug)]
pub struct MailCorpus {
    mailboxes: Vec<CorpusMailbox>,
    /// Mailbox of each remaining mail, last first.
    schedule: Vec<u32>,
}

impl MailCorpus {
    /// Creates a corpus with these settings; mails are generated one at a time, on demand.
    pub fn new(settings: Settings) -> Self {
        let mailbox_count = settings.mailboxes.clamp(1, u32::MAX as usize);
        let sizes = sizes(settings.mails.max(mailbox_count), mailbox_count);
        let mut schedule: Vec<u32> = Vec::with_capacity(settings.mails);
        for (number, &size) in (0_u32..).zip(&sizes) {
            schedule.extend(std::iter::repeat_n(number, size));
        }
        CorpusRandom::new(settings.seed, 0).shuffle(&mut schedule);
        let mailboxes = sizes
            .iter()
            .enumerate()
            .map(|(number, &size)| CorpusMailbox::new(settings.seed, number, size))
            .collect();
        MailCorpus { mailboxes, schedule }
    }

    /// Groups and their numbers of mails, largest first.
    pub fn groups(&self) -> impl Iterator<Item = (&MailGroup, usize)> {
        self.mailboxes.iter().map(|mailbox| (&mailbox.group, mailbox.size))
    }

    /// Names of the topics, which [`embed`] knows.
    pub fn topics() -> impl Iterator<Item = &'static str> {
        TOPICS.iter().map(|topic| topic.name)
    }
}

impl Iterator for MailCorpus {
    type Item = CorpusMail;

    fn next(&mut self) -> Option<CorpusMail> {
        let mailbox = &mut self.mailboxes[self.schedule.pop()? as usize];
        let message = mailbox.next_mail();
        Some(CorpusMail { group: mailbox.group.clone(), message })
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.schedule.len(), Some(self.schedule.len()))
    }
}

impl ExactSizeIterator for MailCorpus {}

/// Number of mails of each mailbox: by Zipf's law, at least one, and `mails` together.
fn sizes(mails: usize, mailboxes: usize) -> Vec<usize> {
    // Only division, whose result is the same on every machine.
    let weight = |number: usize| 1.0 / (number + 1) as f64;
    let total: f64 = (0..mailboxes).map(weight).sum();
    let spare = mails - mailboxes;
    let mut sizes: Vec<usize> =
        (0..mailboxes).map(|number| 1 + (spare as f64 * weight(number) / total) as usize).collect();
    // The remainder of rounding goes to the largest.
    let given: usize = sizes.iter().sum();
    sizes[0] += mails.saturating_sub(given);
    sizes
}

/// Generator of a person's mail.
#[derive(Debug)]
struct CorpusMailbox {
    group: MailGroup,
    owner: CorpusPerson,
    contacts: Vec<CorpusPerson>,
    /// Topics of this person, favourites first.
    topics: Vec<usize>,
    threads: Vec<CorpusThread>,
    random: CorpusRandom,
    size: usize,
    made: usize,
}

/// A conversation that can continue.
#[derive(Debug, Clone)]
struct CorpusThread {
    root: String,
    topic: usize,
    subject: String,
    partner: usize,
    /// True if the next mail is the owner's.
    answer: bool,
    date: i64,
    last_author: String,
    last_lines: String,
    length: usize,
}

impl CorpusMailbox {
    fn new(seed: u64, number: usize, size: usize) -> Self {
        let mut random = CorpusRandom::new(seed, number as u64 + 1);
        let owner = CorpusPerson::numbered(number);
        let mut topics: Vec<usize> = (0..TOPICS.len()).collect();
        random.shuffle(&mut topics);
        let group = MailGroup::new(owner.mailbox()).expect("names of people are letters, digits and dots");
        let mut contacts = people::contacts(number, &mut random);
        if contacts.is_empty() {
            contacts.push(CorpusPerson::numbered(number + 1));
        }
        CorpusMailbox { group, contacts, owner, topics, threads: Vec::new(), random, size, made: 0 }
    }

    fn next_mail(&mut self) -> MailMessage {
        // Dates advance with the number of mails, with some variation.
        let progress = YEARS_S / self.size.max(1) as i64;
        let now = FIRST_DATE + self.made as i64 * progress + self.random.between(0, progress.max(3_600));
        let goes_on = !self.threads.is_empty() && self.random.percent(55);
        let mut thread = if goes_on {
            let at = self.random.below(self.threads.len());
            self.threads.swap_remove(at)
        } else {
            self.begin_thread(now)
        };
        let message = self.write(&mut thread, now, goes_on);
        self.made += 1;
        let ends = thread.length >= 2 && self.random.percent(30);
        // Newsletters are not answered.
        if !ends && TOPICS[thread.topic].name != "newsletter" {
            if self.threads.len() == OPEN_THREADS_MAX {
                self.threads.remove(0);
            }
            self.threads.push(thread);
        }
        message
    }

    fn begin_thread(&mut self, now: i64) -> CorpusThread {
        let topic = self.topics[self.random.skewed(self.topics.len())];
        let partner = self.random.skewed(self.contacts.len());
        CorpusThread {
            root: format!("{:016x}.{}@{}", self.random.next(), self.made, self.owner.mailbox()),
            topic,
            subject: text::subject(&TOPICS[topic], &self.contacts, &mut self.random),
            partner,
            answer: TOPICS[topic].name != "newsletter" && self.random.percent(25),
            date: now,
            last_author: String::new(),
            last_lines: String::new(),
            length: 0,
        }
    }

    /// Generates the next mail of a thread.
    fn write(&mut self, thread: &mut CorpusThread, now: i64, goes_on: bool) -> MailMessage {
        let topic: &CorpusTopic = &TOPICS[thread.topic];
        let partner = &self.contacts[thread.partner];
        let (sender, recipient) = if thread.answer { (&self.owner, partner) } else { (partner, &self.owner) };
        let answered = goes_on.then_some((thread.last_author.as_str(), thread.last_lines.as_str()));
        let letter = CorpusLetter { topic, sender, recipient, contacts: &self.contacts, answered };
        let body = text::body(&letter, &mut self.random);
        let subject = if goes_on { format!("Re: {}", thread.subject) } else { thread.subject.clone() };
        let mut to = vec![format!("{} <{}>", recipient.name(), recipient.address)];
        for _ in 0..self.random.skewed(4) {
            let copy = &self.contacts[self.random.below(self.contacts.len())];
            to.push(format!("{} <{}>", copy.name(), copy.address));
        }
        let attachments: Vec<String> = if self.random.percent(15) {
            vec![self.random.pick(topic.files).to_string()]
        } else {
            Vec::new()
        };
        let folder = match self.random.below(100) {
            _ if thread.answer => "sent",
            0..45 => "inbox",
            45..60 => "archive",
            _ => topic.folder,
        };
        let size = body.len() + 700 + attachments.len() * self.random.between(20_000, 900_000) as usize;
        let message_id = if thread.length == 0 {
            thread.root.clone()
        } else {
            format!("{}.{}", thread.length, thread.root)
        };
        let date = now.max(thread.date + self.random.between(300, 40_000));
        let message = MailMessage {
            message_id,
            thread: thread_name(&thread.root),
            from_name: sender.name(),
            from_address: sender.address.clone(),
            to,
            date: Some(date),
            folder: folder.to_owned(),
            attachments,
            attachment_text: String::new(),
            size: u32::try_from(size).unwrap_or(u32::MAX),
            embedding: Some(embed(&format!("{subject}\n{body}"))),
            subject,
            body,
        };
        thread.last_author = sender.name();
        thread.last_lines = message
            .body
            .lines()
            .filter(|line| !line.starts_with('>'))
            .skip(2)
            .take(3)
            .collect::<Vec<_>>()
            .join("\n");
        thread.answer = !thread.answer;
        thread.date = date;
        thread.length += 1;
        message
    }
}
