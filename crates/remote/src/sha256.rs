use std::fmt;
use std::str::FromStr;

use ring::digest::{Context, SHA256};

use crate::Error;

/// The SHA-256 of some bytes. Its text is 64 hexadecimal digits in lower case.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sha256Digest([u8; 32]);

impl Sha256Digest {
    /// The digest of `bytes`.
    pub fn of(bytes: &[u8]) -> Self {
        let mut hasher = Sha256Hasher::new();
        hasher.update(bytes);
        hasher.finish()
    }
}

impl fmt::Display for Sha256Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for Sha256Digest {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let wrong = || Error::Setting {
            text: text.to_owned(),
            expected: "is not a SHA-256: that is 64 hexadecimal digits, as sha256sum prints them".to_owned(),
        };
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
            return Err(wrong());
        }
        let mut digest = [0; 32];
        for (byte, digits) in digest.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let digits = std::str::from_utf8(digits).map_err(|_| wrong())?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| wrong())?;
        }
        Ok(Sha256Digest(digest))
    }
}

/// The digest of bytes that come in pieces.
pub(crate) struct Sha256Hasher(Context);

impl Sha256Hasher {
    pub fn new() -> Self {
        Sha256Hasher(Context::new(&SHA256))
    }

    pub fn update(&mut self, bytes: &[u8]) {
        self.0.update(bytes);
    }

    pub fn finish(self) -> Sha256Digest {
        let mut digest = [0; 32];
        digest.copy_from_slice(self.0.finish().as_ref());
        Sha256Digest(digest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_as_others_print_them() {
        let known = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        assert_eq!(Sha256Digest::of(b"abc").to_string(), known);
        assert_eq!(known.parse(), Ok(Sha256Digest::of(b"abc")));
        assert_eq!(known.to_uppercase().parse(), Ok(Sha256Digest::of(b"abc")));
        for text in ["", "ba78", &"g".repeat(64), &"é".repeat(32)] {
            assert!(text.parse::<Sha256Digest>().is_err(), "{text}");
        }
    }
}
