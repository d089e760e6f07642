//! Keys of the rows that were written last to locations with a group that is viewed.
//!
//! A view that finds a group as it was some writes ago learns here which rows came since. Only locations that
//! a view asked for are watched, and not for longer than views come: writes to others cost nothing, nor does
//! an import to one location.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

/// Bytes of all keys that are remembered; the oldest go first.
const BYTES_MAX: usize = 2 << 20;
/// Overhead of a key, in bytes, about.
const KEY_BYTES: usize = 64;
/// Number of keys of one counter that are remembered until a view asks for them. With one more, it is not
/// watched until the next view finds all rows again.
const KEYS_MAX: usize = 8192;

/// Keys that were written last, by the counters of their locations.
#[derive(Default)]
pub(crate) struct WrittenKeys {
    /// The newest is the last.
    keys: VecDeque<WrittenKey>,
    /// Number of keys that were forgotten: the index of the first that is not.
    forgotten: u64,
    bytes: usize,
    watched: HashMap<usize, WatchedCounter>,
}

struct WrittenKey {
    key: Arc<[u8]>,
    /// The one before it of the same counter.
    previous: Option<KeyIndex>,
}

/// A key by its index among all that were ever remembered, with the number of its write.
#[derive(Clone, Copy)]
struct KeyIndex {
    index: u64,
    number: u64,
}

/// A counter whose keys are remembered.
struct WatchedCounter {
    /// All keys of writes with higher numbers were remembered.
    since: u64,
    last: Option<KeyIndex>,
    /// Number of keys since a view asked for them.
    count: usize,
}

impl WrittenKeys {
    /// Remembers the keys of a counter from the next write on. `number`: that of its latest write.
    pub fn watch(&mut self, counter: usize, number: u64) {
        let watched = WatchedCounter { since: number, last: None, count: 0 };
        self.watched.entry(counter).or_insert(watched).count = 0;
    }

    /// Remembers those of a write's keys whose counters are watched. Its number is above all before.
    pub fn add<'k>(&mut self, number: u64, keys: impl Iterator<Item = (usize, &'k [u8])>) {
        if self.watched.is_empty() {
            return;
        }
        for (counter, key) in keys {
            let Some(watched) = self.watched.get_mut(&counter) else { continue };
            watched.count += 1;
            if watched.count > KEYS_MAX {
                self.watched.remove(&counter);
                continue;
            }
            let index = self.forgotten + self.keys.len() as u64;
            let previous = watched.last.replace(KeyIndex { index, number });
            self.bytes += key.len() + KEY_BYTES;
            self.keys.push_back(WrittenKey { key: Arc::from(key), previous });
        }
        while self.bytes > BYTES_MAX
            && let Some(oldest) = self.keys.pop_front()
        {
            self.forgotten += 1;
            self.bytes -= oldest.key.len() + KEY_BYTES;
        }
    }

    /// The keys of a counter whose writes have higher numbers than `number`, with these; `None`: not all are
    /// remembered.
    pub fn after(&mut self, counter: usize, number: u64) -> Option<Vec<(u64, Arc<[u8]>)>> {
        let watched = self.watched.get_mut(&counter).filter(|watched| watched.since <= number)?;
        watched.count = 0;
        let mut next = watched.last;
        let mut keys = Vec::new();
        while let Some(last) = next.filter(|last| last.number > number) {
            if keys.len() == KEYS_MAX {
                return None;
            }
            let written = self.keys.get(last.index.checked_sub(self.forgotten)? as usize)?;
            keys.push((last.number, Arc::clone(&written.key)));
            next = written.previous;
        }
        Some(keys)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(keys: &mut WrittenKeys, counter: usize, number: u64) -> Option<Vec<(u64, Vec<u8>)>> {
        let found = keys.after(counter, number)?;
        Some(found.into_iter().map(|(number, key)| (number, key.to_vec())).collect())
    }

    #[test]
    fn keys_are_remembered_from_the_watch_on() {
        let mut keys = WrittenKeys::default();
        keys.add(1, [(7, &b"a"[..])].into_iter());
        assert_eq!(after(&mut keys, 7, 2), None, "no view asked for them");
        keys.watch(7, 2);
        assert_eq!(after(&mut keys, 7, 1), None, "it is not known what the write before was");
        assert_eq!(after(&mut keys, 7, 2), Some(Vec::new()));
        keys.add(3, [(7, &b"b"[..]), (8, &b"other"[..]), (7, &b"c"[..])].into_iter());
        keys.add(5, [(7, &b"d"[..])].into_iter());
        let all = [(5, b"d".to_vec()), (3, b"c".to_vec()), (3, b"b".to_vec())];
        assert_eq!(after(&mut keys, 7, 2), Some(all.to_vec()));
        assert_eq!(after(&mut keys, 7, 4), Some(all[..1].to_vec()));
        keys.watch(7, 6);
        assert_eq!(after(&mut keys, 7, 2), Some(all.to_vec()), "it was watched all the time");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut keys = WrittenKeys::default();
        keys.watch(7, 0);
        keys.add(1, (0..KEYS_MAX).map(|_| (7, &b"a"[..])));
        assert_eq!(after(&mut keys, 7, 0).map(|keys| keys.len()), Some(KEYS_MAX));
        keys.add(3, (0..=KEYS_MAX).map(|_| (7, &b"a"[..])));
        assert_eq!(after(&mut keys, 7, 2), None, "a bulk is not remembered");
        keys.watch(7, 4);
        keys.watch(8, 4);
        keys.add(5, [(8, &b"b"[..])].into_iter());
        let long = vec![0; BYTES_MAX / 4];
        for number in [7, 9, 11, 13] {
            keys.add(number, [(7, &long[..])].into_iter());
        }
        assert!(keys.bytes <= BYTES_MAX && keys.keys.len() == 3);
        assert_eq!(after(&mut keys, 8, 4), None, "it was forgotten");
        assert_eq!(after(&mut keys, 8, 5), Some(Vec::new()), "nothing came since");
        assert_eq!(after(&mut keys, 7, 8).map(|keys| keys.len()), Some(3));
        assert_eq!(after(&mut keys, 7, 6), None);
    }
}
