//! Synthetic vectors of texts, without a model.
//!
//! Every word has a direction of its own, every topic one too; a text is the sum of the directions of its
//! words and of the topics they belong to. So mails of one topic are near each other, those that share words
//! nearer, and a query of a few words finds mails about them. That is sufficient to demonstrate
//! nearest-neighbour search, and claims no more.

use std::collections::{BTreeMap, HashMap};
use std::sync::OnceLock;

use xxhash_rust::xxh3::xxh3_64_with_seed;

use super::topics::TOPICS;

/// Number of cells of a vector.
pub const DIMENSIONS: usize = 384;

/// Weight of a topic relative to one of its words.
///
/// Directions of different words add up as if orthogonal, by the square root of their number; so do the
/// weights of topics, and neither dominates the other, for any length of text.
const TOPIC_WEIGHT: f32 = 0.8;
/// Weight of a word without a topic.
const OTHER_WEIGHT: f32 = 0.08;

/// Vector of a text, with length 1; deterministic.
pub fn embed(text: &str) -> Vec<f32> {
    let topics_of = topics_of_words();
    let lower = text.to_lowercase();
    // Sorted, so that sums are computed in the same order everywhere.
    let (mut words, mut topics) = (BTreeMap::<&str, f32>::new(), BTreeMap::<&str, f32>::new());
    for word in lower.split(|c: char| !c.is_alphanumeric()).filter(|word| word.len() > 2) {
        let word_topics = topics_of.get(word).map_or(&[][..], Vec::as_slice);
        *words.entry(word).or_default() += if word_topics.is_empty() { OTHER_WEIGHT } else { 1.0 };
        for topic in word_topics {
            *topics.entry(topic).or_default() += 1.0 / word_topics.len() as f32;
        }
    }
    let mut sum = vec![0.0_f32; DIMENSIONS];
    words.iter().for_each(|(word, &weight)| add_direction(&mut sum, word, 0, weight));
    topics.iter().for_each(|(topic, weight)| add_direction(&mut sum, topic, 1, TOPIC_WEIGHT * weight.sqrt()));
    let length = sum.iter().map(|cell| cell * cell).sum::<f32>().sqrt();
    if length == 0.0 {
        sum[0] = 1.0;
        return sum;
    }
    sum.iter_mut().for_each(|cell| *cell /= length);
    sum
}

/// Topics whose vocabulary contains a word.
fn topics_of_words() -> &'static HashMap<&'static str, Vec<&'static str>> {
    static TOPICS_OF_WORDS: OnceLock<HashMap<&'static str, Vec<&'static str>>> = OnceLock::new();
    TOPICS_OF_WORDS.get_or_init(|| {
        let mut words: HashMap<&str, Vec<&str>> = HashMap::new();
        for topic in TOPICS {
            for word in topic.things.iter().flat_map(|thing| thing.split_whitespace()).chain([topic.name]) {
                let topics = words.entry(word).or_default();
                if !topics.contains(&topic.name) {
                    topics.push(topic.name);
                }
            }
        }
        words
    })
}

/// Adds the direction of a name: about half of the cells positive, half negative, by the bits of its hashes.
fn add_direction(sum: &mut [f32], name: &str, kind: u64, weight: f32) {
    for (block, cells) in sum.chunks_mut(64).enumerate() {
        let bits = xxh3_64_with_seed(name.as_bytes(), kind << 32 | block as u64);
        for (at, cell) in cells.iter_mut().enumerate() {
            *cell += if bits >> at & 1 == 1 { weight } else { -weight };
        }
    }
}
