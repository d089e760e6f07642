//! Credentials under fuzzing.

use crate::{ApiKey, ClientCertificate, Keyring, KeyringSources, TokenKeySet};

/// Shared secret of the key set below, in base 64: 32 zeros.
const KEYS: &str =
    r#"{"keys":[{"kty":"oct","kid":"a","alg":"HS256","k":"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}]}"#;

/// Parses the text as the value of an `Authorization` header, as a file of API keys, as key sets, and as a
/// file of certificates.
///
/// # Panics
/// A token that no one has signed is accepted, or an error has no text.
pub fn credentials(text: &str) {
    let sources = |access: Option<&str>, keys: Option<&str>| KeyringSources {
        access_file: access.map(str::to_owned),
        cluster_file: None,
        token_keys: keys.map(|keys| TokenKeySet::File(keys.to_owned())),
        audience: "millrace".to_owned(),
    };
    let keyring = Keyring::parse(&sources(Some(""), Some(KEYS))).expect("the files are valid");
    for header in [text.to_owned(), format!("Bearer {text}"), format!("Bearer mr_{text}")] {
        let refused = keyring.caller(Some(&header), 1_000).expect_err("no one has signed it");
        assert!(refused.is_unauthenticated() && !refused.to_string().is_empty());
    }
    for files in [sources(Some(text), None), sources(None, Some(text))] {
        if let Err(error) = Keyring::parse(&files) {
            assert!(!error.to_string().is_empty(), "an error that says nothing");
        }
    }
    let published = Some(TokenKeySet::Published(text.to_owned()));
    if let Err(error) = Keyring::parse(&KeyringSources { token_keys: published, ..KeyringSources::default() })
    {
        assert!(!error.to_string().is_empty(), "an error that says nothing");
    }
    if let Err(error) = ClientCertificate::parse_pem(text.as_bytes()) {
        assert!(!error.to_string().is_empty(), "an error that says nothing");
    }
    if let Some(Ok(key)) = ApiKey::parse(text) {
        assert_eq!(key.text(), text, "a key is another after it was parsed");
    }
}
