//! Subjects and bodies from the table of topics.

use super::people::CorpusPerson;
use super::random::CorpusRandom;
use super::topics::{CorpusTopic, DAYS, PLACES, SMALL_TALK};

/// Fills in the placeholders of a template.
pub(super) fn fill(
    template: &str,
    topic: &CorpusTopic,
    contacts: &[CorpusPerson],
    random: &mut CorpusRandom,
) -> String {
    let mut text = String::with_capacity(template.len() + 32);
    let mut rest = template;
    while let Some((before, after)) = rest.split_once('{') {
        text.push_str(before);
        let (slot, after) = after.split_once('}').unwrap_or((after, ""));
        match slot {
            "thing" => text.push_str(random.pick(topic.things)),
            "day" => text.push_str(random.pick(DAYS)),
            "place" => text.push_str(random.pick(PLACES)),
            "number" => text.push_str(&random.between(2, 999).to_string()),
            _ => text.push_str(
                contacts.get(random.skewed(contacts.len().max(1))).map_or("Sam", |person| person.first),
            ),
        }
        rest = after;
    }
    text.push_str(rest);
    text
}

/// Generates a subject, which begins with a capital letter.
pub(super) fn subject(topic: &CorpusTopic, contacts: &[CorpusPerson], random: &mut CorpusRandom) -> String {
    let template = random.pick(topic.subjects);
    let subject = fill(template, topic, contacts, random);
    let mut letters = subject.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

/// Sender, recipient, and the answered message.
pub(super) struct CorpusLetter<'a> {
    pub topic: &'a CorpusTopic,
    pub sender: &'a CorpusPerson,
    pub recipient: &'a CorpusPerson,
    pub contacts: &'a [CorpusPerson],
    /// Author of the answered message, and its first lines.
    pub answered: Option<(&'a str, &'a str)>,
}

/// Generates a body of about 1 KB: greeting, paragraphs, signature, and the quoted text below.
pub(super) fn body(letter: &CorpusLetter<'_>, random: &mut CorpusRandom) -> String {
    let greeting = random.pick(&["Hi", "Hello", "Dear", "Hey", "Good morning"]);
    let mut body = format!("{greeting} {},\n\n", letter.recipient.first);
    for _ in 0..random.between(2, 4) {
        for at in 0..random.between(2, 4) {
            if at > 0 {
                body.push(' ');
            }
            let template = if random.percent(80) {
                random.pick(letter.topic.sentences)
            } else {
                random.pick(SMALL_TALK)
            };
            body.push_str(&fill(template, letter.topic, letter.contacts, random));
        }
        body.push_str("\n\n");
    }
    let closing = random.pick(&["Best regards", "Cheers", "Kind regards", "See you", "Thanks"]);
    body.push_str(&format!("{closing},\n{}\n", letter.sender.first));
    if random.percent(40) {
        body.push_str(&format!("\n-- \n{}\n{}\n", letter.sender.name(), letter.sender.address));
    }
    if let Some((author, text)) = letter.answered {
        body.push_str(&format!("\nOn {} {author} wrote:\n", random.pick(DAYS)));
        for line in text.lines().filter(|line| !line.is_empty()) {
            body.push_str(&format!("> {line}\n"));
        }
    }
    body
}
