//! Verification of signatures of tokens by `ring`, the cryptography of the rest of the product.

use std::sync::Once;

use jsonwebtoken::crypto::{CryptoProvider, JwtVerifier, KeyUtils};
use jsonwebtoken::errors::{Error as TokenError, ErrorKind};
use jsonwebtoken::signature::{Error as SignatureError, Verifier};
use jsonwebtoken::{Algorithm, DecodingKey};
use ring::{hmac, signature};

/// Installs the provider for this process; further calls have no effect.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    static PROVIDER: CryptoProvider = CryptoProvider {
        signer_factory: |_, _| Err(ErrorKind::UnsupportedAlgorithm.into()),
        verifier_factory: verifier,
        key_utils: KeyUtils::new_unimplemented(),
    };
    ONCE.call_once(|| {
        // Another installation in this process would be by another crate, and there is none.
        let installed = PROVIDER.install_default().is_ok();
        assert!(installed, "another crate has chosen the cryptography of tokens");
    });
}

fn verifier(algorithm: &Algorithm, key: &DecodingKey) -> Result<Box<dyn JwtVerifier>, TokenError> {
    let supported = [Algorithm::EdDSA, Algorithm::ES256, Algorithm::HS256];
    if !supported.contains(algorithm) || algorithm.family() != key.family() {
        return Err(ErrorKind::InvalidAlgorithm.into());
    }
    Ok(Box::new(RingVerifier { algorithm: *algorithm, key: key.try_get_as_bytes()?.to_vec() }))
}

/// Verifier of one signature.
struct RingVerifier {
    algorithm: Algorithm,
    key: Vec<u8>,
}

impl Verifier<Vec<u8>> for RingVerifier {
    fn verify(&self, message: &[u8], signature: &Vec<u8>) -> Result<(), SignatureError> {
        let public = |algorithm: &'static dyn signature::VerificationAlgorithm| {
            signature::UnparsedPublicKey::new(algorithm, &self.key).verify(message, signature)
        };
        let verified = match self.algorithm {
            Algorithm::EdDSA => public(&signature::ED25519),
            Algorithm::ES256 => public(&signature::ECDSA_P256_SHA256_FIXED),
            Algorithm::HS256 => {
                hmac::verify(&hmac::Key::new(hmac::HMAC_SHA256, &self.key), message, signature)
            }
            _ => Err(ring::error::Unspecified),
        };
        verified.map_err(|_| SignatureError::new())
    }
}

impl JwtVerifier for RingVerifier {
    fn algorithm(&self) -> Algorithm {
        self.algorithm
    }
}
