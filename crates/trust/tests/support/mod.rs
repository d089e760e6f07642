//! Authorities, and certificates that they sign.

use std::cell::Cell;
use std::path::{Path, PathBuf};

use millrace_trust::TrustFiles;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
    date_time_ymd,
};

/// Dates of a certificate that has expired.
pub const OVER: [(i32, u8, u8); 2] = [(2000, 1, 1), (2001, 1, 1)];

/// Contents of a certificate.
pub struct TestCertificate<'a> {
    pub hosts: &'a [&'a str],
    /// First and last day of its validity.
    pub dates: [(i32, u8, u8); 2],
    pub is_for_servers_alone: bool,
}

impl Default for TestCertificate<'_> {
    fn default() -> Self {
        let dates = [(1975, 1, 1), (4096, 1, 1)];
        TestCertificate { hosts: &["localhost", "127.0.0.1"], dates, is_for_servers_alone: false }
    }
}

/// An authority that signs certificates, and stores them in a directory of its own.
pub struct TestAuthority {
    issuer: Issuer<'static, KeyPair>,
    directory: tempfile::TempDir,
    signed: Cell<u32>,
}

impl TestAuthority {
    pub fn new() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "the authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.self_signed(&key).expect("it signs itself");
        let directory = tempfile::tempdir().expect("a temporary directory");
        write(&directory.path().join("authority.pem"), &certificate.pem());
        TestAuthority { issuer: Issuer::new(params, key), directory, signed: Cell::new(0) }
    }

    /// File of its own certificate.
    pub fn file(&self) -> PathBuf {
        self.directory.path().join("authority.pem")
    }

    /// Signs a certificate; returns it with its key and this authority, each in a file of its own.
    pub fn sign(&self, wanted: &TestCertificate<'_>) -> TrustFiles {
        let hosts: Vec<String> = wanted.hosts.iter().map(|&host| host.to_owned()).collect();
        let mut params = CertificateParams::new(hosts).expect("they are names and addresses");
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        if !wanted.is_for_servers_alone {
            params.extended_key_usages.push(ExtendedKeyUsagePurpose::ClientAuth);
        }
        [params.not_before, params.not_after] =
            wanted.dates.map(|(year, month, day)| date_time_ymd(year, month, day));
        let key = KeyPair::generate().expect("there is randomness");
        let certificate = params.signed_by(&key, &self.issuer).expect("the authority signs");
        let place = self.directory.path().join(self.signed.replace(self.signed.get() + 1).to_string());
        std::fs::create_dir(&place).expect("the directory can be written");
        let files = TrustFiles {
            authority: place.join("authority.pem"),
            certificate: place.join("node.pem"),
            key: place.join("node.key"),
        };
        std::fs::copy(self.file(), &files.authority).expect("the file can be copied");
        write(&files.certificate, &certificate.pem());
        write(&files.key, &key.serialize_pem());
        files
    }
}

fn write(file: &Path, text: &str) {
    std::fs::write(file, text).expect("the directory can be written");
}
