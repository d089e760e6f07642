//! The key set of signed tokens that another server publishes: fetched at the start and again, kept while it
//! cannot be fetched.

use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use hyper::Uri;
use millrace_access::{Keyring, KeyringSources, TokenKeySet};
use millrace_node::metrics::MetricGauge;
use millrace_remote::{OutboundHttp, OutboundPolicy, fetch_text};
use parking_lot::Mutex;

use crate::PortError;

/// Time from one key set to the next.
const REFRESH: Duration = Duration::from_secs(300);
/// Time from a failure to the next attempt.
const RETRY: Duration = Duration::from_secs(10);
/// Minimum time between two attempts because of tokens with an unknown key: any sender of requests can
/// cause them.
const UNKNOWN_KEY: Duration = Duration::from_secs(60);
/// Time limit of an attempt. Changed API keys wait for it.
const FETCH_TIMEOUT: Duration = Duration::from_secs(5);
/// Maximum size of a key set, in bytes.
const BYTES_MAX: usize = 256 << 10;

/// Address of a key set: https, or http on the same machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TokenKeyUrl {
    url: String,
    /// Scheme, host and port, which connections are restricted to.
    origin: String,
}

/// Reason why a text is not the address of a key set.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TokenKeyUrlFault {
    /// The text is not a URL.
    #[error("'{0}' is not an address; write https://HOST/PATH, or the path of a file")]
    Address(String),
    /// Others could replace the keys on their way.
    #[error(
        "'{0}' is not encrypted, so that others could replace the keys on their way; write https://, or use an address of this machine"
    )]
    Plain(String),
}

impl FromStr for TokenKeyUrl {
    type Err = TokenKeyUrlFault;

    fn from_str(text: &str) -> Result<Self, TokenKeyUrlFault> {
        let wrong = || TokenKeyUrlFault::Address(text.to_owned());
        let uri: Uri = text.parse().map_err(|_| wrong())?;
        let (scheme, authority) = uri.scheme_str().zip(uri.authority()).ok_or_else(wrong)?;
        if authority.as_str().contains('@') || authority.host().is_empty() {
            return Err(wrong());
        }
        let origin = format!("{scheme}://{authority}");
        let policy = OutboundPolicy::parse(&[&origin]).map_err(|_| wrong())?;
        policy.check_url(text).map_err(|_| wrong())?;
        let bare = authority.host().trim_start_matches('[').trim_end_matches(']');
        let is_local = bare == "localhost"
            || bare.parse().is_ok_and(|address: std::net::IpAddr| address.to_canonical().is_loopback());
        match scheme {
            "https" => Ok(TokenKeyUrl { url: text.to_owned(), origin }),
            _ if is_local => Ok(TokenKeyUrl { url: text.to_owned(), origin }),
            _ => Err(TokenKeyUrlFault::Plain(text.to_owned())),
        }
    }
}

/// Reason why a key set is not used.
#[derive(Debug, thiserror::Error)]
enum KeySetFault {
    #[error(transparent)]
    Fetch(#[from] millrace_remote::Error),
    #[error(transparent)]
    Contents(#[from] millrace_access::Error),
}

/// A published key set.
pub(super) struct PublishedKeys {
    url: TokenKeyUrl,
    http: OutboundHttp,
    kept: Mutex<FetchedKeySet>,
    /// True if a token has named a key that the set does not have.
    is_wanted: AtomicBool,
    failures: AtomicU64,
}

/// The last good key set, and the times of attempts.
#[derive(Default)]
struct FetchedKeySet {
    text: Option<String>,
    received: Option<Instant>,
    tried: Option<Instant>,
    failure: Option<String>,
}

impl FetchedKeySet {
    /// Returns true if it is time for the next attempt.
    fn is_due(&self, now: Instant, is_wanted: bool) -> bool {
        let Some(tried) = self.tried else { return true };
        let interval = if self.failure.is_some() { RETRY } else { REFRESH };
        let since = now.saturating_duration_since(tried);
        since >= interval || is_wanted && since >= UNKNOWN_KEY
    }

    /// Takes the result of an attempt. A failure keeps the last good set. Returns a failure that is not the
    /// one before.
    fn take(&mut self, now: Instant, fetched: Result<String, KeySetFault>) -> Option<&str> {
        self.tried = Some(now);
        match fetched {
            Ok(text) => {
                (self.text, self.received, self.failure) = (Some(text), Some(now), None);
                None
            }
            Err(fault) => {
                let failure = fault.to_string();
                let is_new = self.failure.as_ref() != Some(&failure);
                self.failure = Some(failure);
                self.failure.as_deref().filter(|_| is_new)
            }
        }
    }
}

impl PublishedKeys {
    /// Prepares to fetch the key set at `url`, and connects to its host alone.
    ///
    /// # Errors
    /// The system refuses a thread, or its certificates cannot be read.
    pub(super) fn new(url: TokenKeyUrl) -> Result<Arc<Self>, PortError> {
        let policy = OutboundPolicy::parse(&[&url.origin]).expect("the origin was parsed with the address");
        let failed = |source| PortError::TokenKeys { url: url.url.clone(), source };
        let http = OutboundHttp::new(policy).map_err(failed)?;
        let (is_wanted, failures) = (AtomicBool::new(false), AtomicU64::new(0));
        Ok(Arc::new(PublishedKeys { url, http, kept: Mutex::default(), is_wanted, failures }))
    }

    /// Requests another attempt soon: a token names an unknown key.
    pub(super) fn want(&self) {
        self.is_wanted.store(true, Ordering::Relaxed);
    }

    /// Fetches the key set if it is time to; blocks meanwhile.
    pub(super) fn renew(&self) {
        let is_wanted = self.is_wanted.load(Ordering::Relaxed);
        if !self.kept.lock().is_due(Instant::now(), is_wanted) {
            return;
        }
        self.is_wanted.store(false, Ordering::Relaxed);
        let fetched = self.fetch();
        self.failures.fetch_add(u64::from(fetched.is_err()), Ordering::Relaxed);
        if let Some(failure) = self.kept.lock().take(Instant::now(), fetched) {
            let url = &self.url.url;
            tracing::warn!(
                failure,
                url,
                "the key set of signed tokens cannot be fetched; the last one stays, if there was one"
            );
        }
    }

    /// Fetches a key set that can be used.
    fn fetch(&self) -> Result<String, KeySetFault> {
        let text = fetch_text(&self.http, &self.url.url, BYTES_MAX, FETCH_TIMEOUT)?;
        let token_keys = Some(TokenKeySet::Published(text.clone()));
        Keyring::parse(&KeyringSources { token_keys, ..KeyringSources::default() })?;
        Ok(text)
    }

    /// The last good key set.
    pub(super) fn set(&self) -> TokenKeySet {
        self.kept.lock().text.clone().map_or(TokenKeySet::Awaited, TokenKeySet::Published)
    }

    /// Gauges of the key set; of none without one.
    pub(super) fn gauges(keys: Option<&PublishedKeys>) -> [MetricGauge; 2] {
        let received = keys.and_then(|keys| keys.kept.lock().received);
        [
            MetricGauge::counted(
                "millrace.token_keys.failed",
                "Attempts to fetch the key set of signed tokens that failed",
                keys.map_or(0, |keys| keys.failures.load(Ordering::Relaxed)),
            ),
            MetricGauge::new(
                "millrace.token_keys.age_s",
                "Seconds since the key set of signed tokens was fetched; 0 if it comes from a file, or never came",
                received.map_or(0.0, |received| received.elapsed().as_secs_f64()),
            ),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attempts_are_bounded_and_the_last_good_set_is_kept() {
        let began = Instant::now();
        let at = |seconds: u64| began + Duration::from_secs(seconds);
        let away = || KeySetFault::Contents(millrace_access::Error::KeysAwaited);
        let mut kept = FetchedKeySet::default();
        assert!(kept.is_due(at(0), false));
        assert_eq!(kept.take(at(0), Err(away())), Some(away().to_string().as_str()));
        assert_eq!(kept.text, None);
        assert!(!kept.is_due(at(9), true) && kept.is_due(at(10), false));
        assert_eq!(kept.take(at(10), Err(away())), None, "a failure is reported once");
        assert_eq!(kept.take(at(20), Ok("one".to_owned())), None);
        for (seconds, is_wanted, expected) in
            [(79, true, false), (80, false, false), (80, true, true), (319, false, false), (320, false, true)]
        {
            assert_eq!(kept.is_due(at(seconds), is_wanted), expected, "{seconds} {is_wanted}");
        }
        assert_eq!(kept.take(at(320), Err(away())), Some(away().to_string().as_str()));
        assert_eq!(kept.text.as_deref(), Some("one"));
        assert!(kept.is_due(at(330), false));
        kept.take(at(330), Ok("two".to_owned()));
        assert_eq!((kept.text.as_deref(), kept.received), (Some("two"), Some(at(330))));
    }

    #[test]
    fn addresses_of_key_sets() {
        for (text, expected) in [
            ("https://id.example.com/jwks.json", "https://id.example.com"),
            ("https://id.example.com:8443/a?b=c", "https://id.example.com:8443"),
            ("https://192.0.2.1/jwks", "https://192.0.2.1"),
            ("http://localhost:9/jwks", "http://localhost:9"),
            ("http://127.0.0.1/jwks", "http://127.0.0.1"),
            ("http://[::1]:80/jwks", "http://[::1]:80"),
            ("http://id.example.com/jwks", "not encrypted"),
            ("http://localhost.example.com/jwks", "not encrypted"),
            ("http://10.0.0.1/jwks", "not encrypted"),
            ("http://0.0.0.0/jwks", "not encrypted"),
            ("https://user:secret@id.example.com/", "not an address"),
            ("https://id.example.com:0/", "not an address"),
            ("https://", "not an address"),
            ("https:///jwks", "not an address"),
            ("ftp://id.example.com/jwks", "not an address"),
            ("https://a b/", "not an address"),
        ] {
            match text.parse::<TokenKeyUrl>() {
                Ok(parsed) => assert_eq!(parsed.origin, expected, "{text}"),
                Err(fault) => assert!(fault.to_string().contains(expected), "{text}: {fault}"),
            }
        }
    }
}
