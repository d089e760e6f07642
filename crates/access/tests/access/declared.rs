//! Clients that an application declares: by certificates, and by API keys of the server.

use millrace_access::{
    AccessFile, AccessRight, AccessRights, ApiKey, CallerLimits, CertificateHash, ClientCertificate,
    DeclaredClient, DeclaredClients, Error, KeyRecord, Keyring, KeyringSources, RequestCredentials,
};
use rcgen::{Certificate, CertificateParams, KeyPair, date_time_ymd};

/// 2026-01-01.
const NOW: u64 = 1_767_225_600;

fn certificate(begin: i32, end: i32) -> Certificate {
    let mut parameters = CertificateParams::new(Vec::new()).unwrap();
    parameters.not_before = date_time_ymd(begin, 1, 1);
    parameters.not_after = date_time_ymd(end, 1, 1);
    parameters.self_signed(&KeyPair::generate().unwrap()).unwrap()
}

fn parsed(pem: &str) -> Vec<ClientCertificate> {
    ClientCertificate::parse_pem(pem.as_bytes()).unwrap()
}

fn rights(names: &str) -> AccessRights {
    let named = AccessRight::ALL.into_iter().filter(|right| names.contains(&right.name()[..1]));
    named.collect::<Vec<_>>().into()
}

fn letters(rights: AccessRights) -> String {
    let has = AccessRight::ALL.into_iter().filter(|right| rights.has(*right));
    has.map(|right| &right.name()[..1]).collect()
}

fn client(id: &str, permissions: &str, pem: &str, tokens: &[&str]) -> DeclaredClient {
    DeclaredClient {
        id: id.to_owned(),
        rights: rights(permissions),
        certificates: if pem.is_empty() { Vec::new() } else { parsed(pem) },
        tokens: tokens.iter().map(|token| (*token).to_owned()).collect(),
    }
}

#[test]
fn a_certificate_is_one_of_the_clients_that_list_it() {
    let [reader, writer, both, expired, early, stranger] =
        [(2020, 2030), (2020, 2030), (2020, 2060), (2020, 2025), (2027, 2030), (2020, 2030)]
            .map(|(begin, end)| certificate(begin, end));
    let declared = DeclaredClients::of(&[
        client("reader", "r", &(reader.pem() + "\n# and\n" + &both.pem()), &[]),
        client("writer", "w", &(writer.pem() + &both.pem()), &[]),
        client("old", "rw", &(expired.pem() + &early.pem()), &[]),
    ]);
    assert!(declared.has_certificates());
    // Also a server without credentials of its own needs them.
    for keyring in [Keyring::open(), closed(&[])] {
        let caller = |certificate: &Certificate| {
            let shown = RequestCredentials {
                certificate: Some(CertificateHash::of(certificate.der())),
                authorization: None,
            };
            let caller = declared.caller(&keyring, shown, NOW)?;
            assert!(caller.has_all_groups());
            Ok::<_, Error>(format!("{} {}", caller.name, letters(caller.rights)))
        };
        assert_eq!(caller(&reader).unwrap(), "reader r");
        assert_eq!(caller(&writer).unwrap(), "writer w");
        assert_eq!(caller(&both).unwrap(), "reader,writer rw");
        assert_eq!(caller(&expired), Err(Error::CertificateTime("has expired")));
        assert_eq!(caller(&early), Err(Error::CertificateTime("is not valid yet")));
        assert_eq!(caller(&stranger), Err(Error::UnknownCertificate));
        let nothing = declared.caller(&keyring, RequestCredentials::default(), NOW);
        assert_eq!(nothing, Err(Error::MissingOfDeclared));
    }
    let last = 1_893_456_000;
    let shown =
        RequestCredentials { certificate: Some(CertificateHash::of(reader.der())), authorization: None };
    assert!(declared.caller(&Keyring::open(), shown, last).is_ok());
    assert!(declared.caller(&Keyring::open(), shown, last + 1).is_err());
}

fn closed(keys: &[KeyRecord]) -> Keyring {
    let file = AccessFile { keys: keys.to_vec(), ..AccessFile::default() };
    let sources = KeyringSources { access_file: Some(file.text().unwrap()), ..KeyringSources::default() };
    Keyring::parse(&sources).unwrap()
}

fn key(seed: u8, name: &str, rights: Vec<AccessRight>, groups: &[&str]) -> (ApiKey, KeyRecord) {
    let key = ApiKey::of_random(&[seed; ApiKey::RANDOM_BYTES]);
    let record = KeyRecord {
        id: key.id().to_owned(),
        name: name.to_owned(),
        hash: key.hash(),
        rights,
        groups: groups.iter().map(|group| (*group).to_owned()).collect(),
        users: Vec::new(),
        expires: None,
        limits: CallerLimits::default(),
    };
    (key, record)
}

#[test]
fn an_api_key_gets_the_rights_of_the_clients_that_name_it() {
    use AccessRight::{Admin, Read};
    let keys = [
        key(1, "bare", vec![], &[]),
        key(2, "bare", vec![], &[]),
        key(3, "twice", vec![], &[]),
        key(4, "own", vec![Read, Admin], &[]),
        key(5, "ann", vec![], &["ann"]),
        key(6, "other", vec![], &[]),
    ];
    let keyring = closed(&keys.each_ref().map(|(_, record)| record.clone()));
    let declared = DeclaredClients::of(&[
        client("a", "r", "", &["bare", "twice", "ann", "nothing"]),
        client("b", "w", "", &["twice", "own"]),
    ]);
    assert!(!declared.has_certificates());
    let unknown_certificate = Some(CertificateHash::of(b"another"));
    for ((key, record), expected) in keys.iter().zip(["r", "r", "rw", "rwa", "r", ""]) {
        let header = format!("Bearer {}", key.text());
        for certificate in [None, unknown_certificate] {
            let credentials = RequestCredentials { authorization: Some(&header), certificate };
            let caller = declared.caller(&keyring, credentials, NOW).unwrap();
            assert_eq!((&*caller.name, letters(caller.rights).as_str()), (record.name.as_str(), expected));
            assert_eq!(caller.has_all_groups(), record.groups.is_empty(), "groups stay as they are");
        }
        // Where nothing is declared, a key has its own rights.
        let own = keyring.caller(Some(&header), NOW).unwrap();
        assert_eq!(own.rights, record.rights.clone().into());
        // A server without keys knows none.
        let credentials = RequestCredentials { authorization: Some(&header), certificate: None };
        assert_eq!(declared.caller(&Keyring::open(), credentials, NOW), Err(Error::UnknownKey));
    }
}

#[test]
fn files_that_have_no_certificates() {
    let own = KeyPair::generate().unwrap();
    let good = certificate(2020, 2030).pem();
    let cut = good.replace("-----END CERTIFICATE-----", "");
    let twisted = good.replace("MII", "!!!");
    let garbage = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n";
    for (pem, expected) in [
        (String::new(), "it has no CERTIFICATE block; put"),
        ("effectively empty".to_owned(), "it has no CERTIFICATE block; put"),
        (own.serialize_pem(), "it has no CERTIFICATE block, but another kind of block; put"),
        (cut, "certificate 1: its last line"),
        (twisted, "certificate 1: its lines are not base 64"),
        (format!("{good}{garbage}"), "certificate 2: its content is not an X.509 certificate"),
    ] {
        let error = ClientCertificate::parse_pem(pem.as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
