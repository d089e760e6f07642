//! Certificates of clients: the blocks of a PEM file, and the time for which each is valid.
//!
//! An application lists the certificates themselves, not the authorities that have signed them. So a
//! certificate is known by its hash, and a connection that has shown it holds its key: no chain is built.

use ring::digest::{SHA256, digest};
use rustls_pki_types::CertificateDer;
use rustls_pki_types::pem::{Error as PemError, PemObject, SectionKind};
use webpki::EndEntityCert;

use crate::Error;

/// Tags of DER: a time with two digits of the year, and one with four.
const UTC_TIME: u8 = 0x17;
const GENERALIZED_TIME: u8 = 0x18;

/// SHA-256 of a certificate in its binary form (DER).
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct CertificateHash([u8; 32]);

impl CertificateHash {
    /// Hash of a certificate in its binary form.
    pub fn of(der: &[u8]) -> Self {
        CertificateHash(digest(&SHA256, der).as_ref().try_into().expect("SHA-256 has 32 bytes"))
    }
}

/// A certificate that clients may show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCertificate {
    /// Its hash.
    pub hash: CertificateHash,
    /// First and last second of its validity, since 1970.
    valid: (u64, u64),
}

impl ClientCertificate {
    /// Parses the certificates of a file in PEM form.
    ///
    /// # Errors
    /// [`Error::Certificates`]: the file has none, or has one that no connection could show.
    pub fn parse_pem(pem: &[u8]) -> Result<Vec<Self>, Error> {
        let wrong = |at: usize, reason: &str| Error::Certificates(format!("certificate {at}: {reason}"));
        let mut certificates = Vec::new();
        for (at, block) in CertificateDer::pem_slice_iter(pem).enumerate() {
            let der = block.map_err(|error| wrong(at + 1, reason_of(&error)))?;
            certificates.push(ClientCertificate::of(&der).map_err(|reason| wrong(at + 1, reason))?);
        }
        if certificates.is_empty() {
            let is_key = |block: Result<(SectionKind, Vec<u8>), PemError>| {
                block.is_ok_and(|(kind, _)| kind != SectionKind::Certificate)
            };
            let blocks = <(SectionKind, Vec<u8>)>::pem_slice_iter(pem);
            let what = if blocks.into_iter().any(is_key) { ", but another kind of block" } else { "" };
            return Err(Error::Certificates(format!(
                "it has no CERTIFICATE block{what}; put the certificate of the client in it, in PEM form"
            )));
        }
        Ok(certificates)
    }

    fn of(der: &CertificateDer<'_>) -> Result<Self, &'static str> {
        // The reader of TLS connections: what it cannot read, no client could show.
        EndEntityCert::try_from(der).map_err(|error| match error {
            webpki::Error::UnsupportedCertVersion => {
                "it is not of version 3 of X.509; sign it with extensions (openssl x509 -req -extfile FILE)"
            }
            webpki::Error::UnsupportedCriticalExtension => {
                "it has a critical extension that TLS does not have; sign it without"
            }
            _ => "its content is not an X.509 certificate; copy the file again",
        })?;
        let valid = validity(der).ok_or("the time of its validity cannot be read; sign it again")?;
        Ok(ClientCertificate { hash: CertificateHash::of(der), valid })
    }

    /// Checks that the certificate is valid at a time, in seconds since 1970.
    ///
    /// # Errors
    /// [`Error::CertificateTime`].
    pub fn check_time(&self, now: u64) -> Result<(), Error> {
        match () {
            () if now < self.valid.0 => Err(Error::CertificateTime("is not valid yet")),
            () if now > self.valid.1 => Err(Error::CertificateTime("has expired")),
            () => Ok(()),
        }
    }
}

fn reason_of(error: &PemError) -> &'static str {
    match error {
        PemError::MissingSectionEnd { .. } => {
            "its last line (-----END CERTIFICATE-----) is missing; copy the file again"
        }
        PemError::IllegalSectionStart { .. } => "its first line is not -----BEGIN CERTIFICATE-----",
        PemError::Base64Decode(_) => "its lines are not base 64; copy the file again",
        _ => "it cannot be read; copy the file again",
    }
}

/// First and last second of the validity of a certificate that has been parsed as such.
fn validity(der: &[u8]) -> Option<(u64, u64)> {
    let (_, certificate, _) = element(der)?;
    let (_, mut signed, _) = element(certificate)?;
    // Version, serial number, algorithm and issuer come first.
    for _ in 0..4 {
        (_, _, signed) = element(signed)?;
    }
    let (_, validity, _) = element(signed)?;
    let (tag, begin, rest) = element(validity)?;
    let begin = seconds(tag, begin)?;
    let (tag, end, _) = element(rest)?;
    Some((begin, seconds(tag, end)?))
}

/// Splits the first element off DER: its tag, its content, and the rest.
fn element(der: &[u8]) -> Option<(u8, &[u8], &[u8])> {
    let (&tag, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = match first {
        0..=0x7f => (usize::from(first), rest),
        0x81..=0x84 => {
            let (bytes, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
            (bytes.iter().fold(0, |length, byte| length << 8 | usize::from(*byte)), rest)
        }
        _ => return None,
    };
    let (content, rest) = rest.split_at_checked(length)?;
    Some((tag, content, rest))
}

/// Seconds from 1970 to a time such as `20300102030405Z`; 0 for earlier times.
fn seconds(tag: u8, text: &[u8]) -> Option<u64> {
    let digits = text.strip_suffix(b"Z").filter(|digits| digits.iter().all(u8::is_ascii_digit))?;
    let number = |digits: &[u8]| digits.iter().fold(0, |number, digit| number * 10 + i64::from(digit - b'0'));
    let (year, rest) = match (tag, digits.len()) {
        (UTC_TIME, 12) => match number(&digits[..2]) {
            year @ 0..50 => (2000 + year, &digits[2..]),
            year => (1900 + year, &digits[2..]),
        },
        (GENERALIZED_TIME, 14) => (number(&digits[..4]), &digits[4..]),
        _ => return None,
    };
    let [month, day, hour, minute, second] = [0, 2, 4, 6, 8].map(|at| number(&rest[at..at + 2]));
    // Days of the Gregorian calendar, in years that begin with March, so that a leap day is the last one.
    let (year, month) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let days = 365 * year + year.div_euclid(4) - year.div_euclid(100)
        + year.div_euclid(400)
        + (153 * month + 2) / 5
        + day
        - 719_469;
    Some(u64::try_from(days * 86_400 + hour * 3_600 + minute * 60 + second).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_of_certificates() {
        for (tag, text, expected) in [
            (GENERALIZED_TIME, "19700101000000Z", Some(0)),
            (GENERALIZED_TIME, "20000229120000Z", Some(951_825_600)),
            (GENERALIZED_TIME, "20301231235959Z", Some(1_924_991_999)),
            (GENERALIZED_TIME, "99991231235959Z", Some(253_402_300_799)),
            (GENERALIZED_TIME, "19600101000000Z", Some(0)),
            (UTC_TIME, "491231235959Z", Some(2_524_607_999)),
            (UTC_TIME, "700101000001Z", Some(1)),
            (UTC_TIME, "19700101000000Z", None),
            (GENERALIZED_TIME, "20300101000000", None),
            (GENERALIZED_TIME, "2030010100000xZ", None),
            (0x16, "20300101000000Z", None),
        ] {
            assert_eq!(seconds(tag, text.as_bytes()), expected, "{text}");
        }
    }
}
