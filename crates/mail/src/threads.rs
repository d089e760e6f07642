use std::collections::HashMap;

use xxhash_rust::xxh3::xxh3_64;

use crate::message::thread_name;

/// Conversations of one import: the first message of each thread.
///
/// References name the whole way back to the first message; In-Reply-To only the answered message, whose
/// thread is remembered. Messages arrive in any order: an answer before its question begins a thread that
/// later messages join by the ids that it refers to.
#[derive(Debug, Default)]
pub(crate) struct ConversationThreads {
    /// Threads by hash of the message id, so that an import of millions of messages stays small.
    thread_of: HashMap<u64, u64>,
    names: Vec<String>,
}

impl ConversationThreads {
    /// Thread of a message with these references, the first ones first.
    pub(crate) fn thread(&mut self, message_id: &str, references: &[String]) -> String {
        let ids = || references.iter().map(String::as_str).chain([message_id]);
        let known = ids().find_map(|id| self.thread_of.get(&xxh3_64(id.as_bytes())).copied());
        let thread = known.unwrap_or_else(|| {
            self.names.push(thread_name(references.first().map_or(message_id, String::as_str)));
            self.names.len() as u64 - 1
        });
        for id in ids() {
            self.thread_of.entry(xxh3_64(id.as_bytes())).or_insert(thread);
        }
        self.names[thread as usize].clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_join_the_thread_of_their_question() {
        // Each message with its references, and an `a` for each message in the thread of message `a`.
        for (messages, expected) in [
            (vec![("a", ""), ("b", "a"), ("c", "a b")], "aaa"),
            (vec![("a", ""), ("b", "a"), ("c", "b")], "aaa"),
            (vec![("c", "a b"), ("b", "a"), ("a", "")], "aaa"),
            (vec![("a", ""), ("x", ""), ("y", "x")], "a--"),
            (vec![("a", ""), ("b", "unknown a")], "aa"),
        ] {
            let mut threads = ConversationThreads::default();
            let named: Vec<(&str, String)> = messages
                .iter()
                .map(|(id, references)| {
                    let references: Vec<String> = references.split_whitespace().map(str::to_owned).collect();
                    (*id, threads.thread(id, &references))
                })
                .collect();
            let of_a = &named.iter().find(|(id, _)| *id == "a").unwrap().1;
            let found: String =
                named.iter().map(|(_, thread)| if thread == of_a { 'a' } else { '-' }).collect();
            assert_eq!(found, expected, "{messages:?}");
        }
    }
}
