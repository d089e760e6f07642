//! The dates of certificates, and the warning before they end.

use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::Timestamp;
use rustls::pki_types::CertificateDer;

/// Seconds before the end of a certificate's validity from which on operators are warned, unless it is valid
/// for so short a time that a fifth of that is less.
const SOON: i64 = 14 * 24 * 60 * 60;

/// Tags of elements in a certificate: the version, and the two forms of a time.
const VERSION: u8 = 0xa0;
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// The time for which a node's own certificate is valid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CertificateValidity {
    file: PathBuf,
    begin: Timestamp,
    end: Timestamp,
}

impl CertificateValidity {
    /// Reads the dates of a chain from `file`: those of the certificate in it that expires first. `None` if
    /// no dates can be read, or if the last is after the year 9999.
    pub fn of(file: &Path, chain: &[CertificateDer<'_>]) -> Option<Self> {
        let read = chain.iter().filter_map(|certificate| dates(certificate));
        let (begin, end) = read.min_by_key(|&(_, end)| end)?;
        Some(CertificateValidity { file: file.to_owned(), begin, end })
    }

    /// Warning of a certificate that expires soon after `now`, as a time since 1970, or has expired.
    pub fn warning(&self, now: Duration) -> Option<String> {
        let CertificateValidity { file, begin, end } = self;
        let file = file.display();
        let left = end.as_second() - i64::try_from(now.as_secs()).unwrap_or(i64::MAX);
        if left <= 0 {
            return Some(format!(
                "the certificate in {file} expired at {end}, and connections with it are refused; replace the file, \
                 which takes no restart"
            ));
        }
        let soon = SOON.min((end.as_second() - begin.as_second()) / 5);
        (left < soon).then(|| {
            format!(
                "the certificate in {file} expires at {end}; replace the file before, which takes no restart"
            )
        })
    }
}

/// Begin and end of the validity of an X.509 certificate.
fn dates(certificate: &[u8]) -> Option<(Timestamp, Timestamp)> {
    let (_, signed, _) = element(certificate)?;
    let (_, mut fields, _) = element(signed)?;
    // Serial number, algorithm and issuer come before; so does the version, which the first one has not.
    let before = if fields.first() == Some(&VERSION) { 4 } else { 3 };
    for _ in 0..before {
        (_, _, fields) = element(fields)?;
    }
    let (_, validity, _) = element(fields)?;
    let (begin_tag, begin, rest) = element(validity)?;
    let (end_tag, end, _) = element(rest)?;
    Some((time(begin_tag, begin)?, time(end_tag, end)?))
}

/// Splits the first element off DER: its tag, its contents, and the bytes after it.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&[tag, first], mut rest) = der.split_first_chunk()?;
    let mut length = usize::from(first);
    if first >= 0x80 {
        let (bytes, after) = rest.split_at_checked(usize::from(first & 0x7f))?;
        if bytes.len() > 4 {
            return None;
        }
        length = bytes.iter().fold(0, |length, &byte| (length << 8) | usize::from(byte));
        rest = after;
    }
    let (contents, rest) = rest.split_at_checked(length)?;
    Some((tag, contents, rest))
}

/// Parses a time of a certificate: in UTC, with a year of four digits, or of two for 1950 to 2049.
fn time(tag: u8, text: &[u8]) -> Option<Timestamp> {
    let text = std::str::from_utf8(text).ok()?;
    let text = match tag {
        UTC_TIME => format!("{}{text}", if text < "50" { "20" } else { "19" }),
        GENERALIZED_TIME => text.to_owned(),
        _ => return None,
    };
    let part = |from: usize, to: usize| text.get(from..to).unwrap_or_default();
    let (date, clock) = ([part(0, 4), part(4, 6), part(6, 8)], [part(8, 10), part(10, 12), part(12, 14)]);
    format!("{}T{}Z", date.join("-"), clock.join(":")).parse().ok()
}
