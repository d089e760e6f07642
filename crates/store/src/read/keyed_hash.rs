//! Names of cache entries.

use std::collections::hash_map::RandomState;
use std::hash::BuildHasher;

use xxhash_rust::xxh3::Xxh3;

/// Bytes that a secret of XXH3 has.
const SECRET_BYTES: usize = 192;

/// Hash with a secret of this process, so that clients cannot construct ids or groups whose hashes collide. A
/// cache compares the entries it finds nevertheless: isolation between groups must not rest on a hash.
pub(crate) struct KeyedHash(Xxh3);

impl KeyedHash {
    /// A hash under a secret of its own.
    pub fn new() -> Self {
        let mut secret = [0; SECRET_BYTES];
        for (number, word) in secret.chunks_exact_mut(8).enumerate() {
            word.copy_from_slice(&RandomState::new().hash_one(number).to_le_bytes());
        }
        KeyedHash(Xxh3::with_secret(secret))
    }

    /// A hasher that has seen nothing.
    pub fn hasher(&self) -> Xxh3 {
        self.0.clone()
    }
}
