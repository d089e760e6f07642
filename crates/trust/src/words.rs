use rustls::{AlertDescription, CertificateError, Error};

/// Description of a TLS error and its remedy, in place of the library's internal names.
pub fn in_words(error: &Error) -> String {
    match error {
        Error::InvalidCertificate(reason) => format!("invalid peer certificate: {}", of_certificate(reason)),
        Error::InvalidMessage(_) => {
            "the other side does not speak TLS; is its address one without (http://, etcd://)?".to_owned()
        }
        Error::InconsistentKeys(_) => {
            "key and certificate do not belong together; name the key that the certificate was signed for"
                .to_owned()
        }
        Error::NoCertificatesPresented | Error::AlertReceived(AlertDescription::CertificateRequired) => {
            "a client certificate is required, and none was sent".to_owned()
        }
        Error::AlertReceived(AlertDescription::UnknownCA) => {
            "the other side does not know the authority that has signed this side's certificate".to_owned()
        }
        other => other.to_string(),
    }
}

/// True if a certificate is refused because it is an authority's.
pub(crate) fn is_authority(error: &Error) -> bool {
    // The library has no variant for it.
    matches!(error, Error::InvalidCertificate(CertificateError::Other(other)) if format!("{other:?}").contains(AUTHORITY))
}

const AUTHORITY: &str = "CaUsedAsEndEntity";

/// Description of an error of a certificate alone.
pub(crate) fn of_certificate(error: &CertificateError) -> String {
    use CertificateError as Is;
    match error {
        Is::UnknownIssuer => {
            "it is not signed by an authority that is trusted here; name that authority's certificate, or have \
             another one signed"
                .to_owned()
        }
        Is::BadSignature => {
            "its signature is not that of the authority, though the authority has the same name; an authority that was created again \
             has to sign again"
                .to_owned()
        }
        Is::Other(other) => match &*format!("{other:?}") {
            of if of.contains(AUTHORITY) => {
                "it is an authority's certificate (CA:TRUE) and cannot be a server's or client's as well: sign one with it \
                 that says CA:FALSE"
                    .to_owned()
            }
            of if of.contains("EndEntityUsedAsCa") => {
                "it is signed by a certificate that does not belong to an authority (CA:FALSE); sign it with one that says CA:TRUE".to_owned()
            }
            of if of.contains("UnsupportedCertVersion") => {
                "it is an X.509 certificate of version 1, without names of hosts; sign it with extensions \
                 (openssl x509 -req -extfile FILE)"
                    .to_owned()
            }
            _ => error.to_string(),
        },
        Is::NotValidForNameContext { expected, presented } if presented.is_empty() => {
            format!(
                "it is for no host, and should be for '{}'; sign it with a subjectAltName (a common name does not count)",
                expected.to_str()
            )
        }
        other => other.to_string(),
    }
}
