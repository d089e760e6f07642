//! Credentials: valid ones of every kind, and each way in which one is not.

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use millrace_access::{
    AccessFile, AccessRight, AccessRule, ApiKey, CallerGroups, CallerLimits, Error, KeyRecord, Keyring,
    KeyringSources, PortKind, RequestCaller, RequestMethod, TokenKeySet, WantedGroups,
};
use millrace_document::DocumentGroup;
use ring::rand::SystemRandom;
use ring::signature::{ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, Ed25519KeyPair, KeyPair};
use ring::{hmac, rand};
use serde_json::{Value, json};

const NOW: u64 = 1_000_000;
const SECRET: &[u8] = b"0123456789abcdef0123456789abcdef";

/// A signer of each algorithm, with the key set of all.
struct Signers {
    ed: Ed25519KeyPair,
    ec: EcdsaKeyPair,
    random: SystemRandom,
}

impl Signers {
    fn new() -> Self {
        let random = SystemRandom::new();
        let ed: rand::Random<[u8; 32]> = rand::generate(&random).unwrap();
        let ed = Ed25519KeyPair::from_seed_unchecked(&ed.expose()).unwrap();
        let ec = EcdsaKeyPair::generate_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, &random).unwrap();
        let ec = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_FIXED_SIGNING, ec.as_ref(), &random).unwrap();
        Signers { ed, ec, random }
    }

    fn keys(&self) -> Value {
        let point = self.ec.public_key().as_ref();
        json!({ "keys": [
            { "kty": "OKP", "crv": "Ed25519", "kid": "ed", "use": "sig", "x": encoded(self.ed.public_key().as_ref()) },
            { "kty": "EC", "crv": "P-256", "kid": "ec", "x": encoded(&point[1..33]), "y": encoded(&point[33..]) },
            { "kty": "oct", "kid": "hs", "alg": "HS256", "k": encoded(SECRET) },
        ] })
    }

    fn sign(&self, algorithm: &str, header: &Value, claims: &Value) -> String {
        self.sign_text(algorithm, header, &claims.to_string())
    }

    fn sign_text(&self, algorithm: &str, header: &Value, claims: &str) -> String {
        let message = format!("{}.{}", encoded(header.to_string().as_bytes()), encoded(claims.as_bytes()));
        let signature = match algorithm {
            "EdDSA" => self.ed.sign(message.as_bytes()).as_ref().to_vec(),
            "ES256" => self.ec.sign(&self.random, message.as_bytes()).unwrap().as_ref().to_vec(),
            "HS256" => {
                hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, SECRET), message.as_bytes()).as_ref().to_vec()
            }
            // The public key taken for a shared secret.
            "confused" => {
                let key = hmac::Key::new(hmac::HMAC_SHA256, self.ed.public_key().as_ref());
                hmac::sign(&key, message.as_bytes()).as_ref().to_vec()
            }
            _ => Vec::new(),
        };
        format!("{message}.{}", encoded(&signature))
    }

    fn keyring(&self, access_file: Option<&str>) -> Keyring {
        Keyring::parse(&KeyringSources {
            access_file: access_file.map(str::to_owned),
            cluster_file: None,
            token_keys: Some(TokenKeySet::File(self.keys().to_string())),
            audience: "millrace".to_owned(),
        })
        .unwrap()
    }
}

fn encoded(bytes: &[u8]) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn claims() -> Value {
    json!({ "sub": "ann", "aud": "millrace", "exp": NOW + 600, "groups": ["ann", 7], "permissions": ["read"] })
}

fn with(name: &str, value: Value) -> Value {
    let mut changed = claims();
    match value {
        Value::Null => drop(changed.as_object_mut().unwrap().remove(name)),
        value => changed[name] = value,
    }
    changed
}

fn group(name: &str) -> DocumentGroup {
    DocumentGroup::Name(name.to_owned())
}

#[test]
fn signed_tokens_of_each_algorithm() {
    let signers = Signers::new();
    let keyring = signers.keyring(None);
    for (algorithm, key) in [("EdDSA", "ed"), ("ES256", "ec"), ("HS256", "hs")] {
        let token =
            signers.sign(algorithm, &json!({ "alg": algorithm, "kid": key, "typ": "JWT" }), &claims());
        // The second time, from the cache.
        for _ in 0..2 {
            let caller = keyring.caller(Some(&format!("Bearer {token}")), NOW).expect(algorithm);
            assert_eq!(&*caller.name, "ann");
            assert!(caller.rights.has(AccessRight::Read) && !caller.rights.has(AccessRight::Write));
            assert_eq!(caller.groups, CallerGroups::Only([group("ann"), DocumentGroup::Number(7)].into()));
        }
        assert_eq!(
            keyring.caller(Some(&format!("Bearer {token}")), NOW + 631),
            Err(Error::Expired),
            "cached"
        );
        let mut broken = token.clone().into_bytes();
        let last = broken.len() - 20;
        broken[last] = if broken[last] == b'A' { b'B' } else { b'A' };
        let broken = String::from_utf8(broken).unwrap();
        assert_eq!(keyring.caller(Some(&format!("Bearer {broken}")), NOW), Err(Error::Signature));
    }
}

/// Rows: algorithm of the signature, header, claims, and the error.
#[test]
fn signed_tokens_that_are_refused() {
    let signers = Signers::new();
    let keyring = signers.keyring(Some("denied = ['gone']"));
    let ed = json!({ "alg": "EdDSA", "kid": "ed" });
    let claim = |text: &str| Error::Claims(text.to_owned());
    for (algorithm, header, claims, expected) in [
        ("none", json!({ "alg": "none", "kid": "ed" }), claims(), Error::Malformed("")),
        ("none", ed.clone(), claims(), Error::Signature),
        ("confused", json!({ "alg": "HS256", "kid": "ed" }), claims(), Error::Algorithm),
        ("HS256", json!({ "alg": "HS256", "kid": "ed" }), claims(), Error::Algorithm),
        ("HS256", json!({ "alg": "HS384", "kid": "hs" }), claims(), Error::Algorithm),
        ("EdDSA", json!({ "alg": "RS256", "kid": "ed" }), claims(), Error::Algorithm),
        ("EdDSA", json!({ "alg": "EdDSA", "kid": "ec" }), claims(), Error::Algorithm),
        ("EdDSA", json!({ "alg": "EdDSA", "kid": "other" }), claims(), Error::UnknownSigner),
        ("EdDSA", json!({ "alg": "EdDSA" }), claims(), Error::UnknownSigner),
        ("EdDSA", json!({ "alg": "EdDSA", "kid": "ed", "crit": ["b64"] }), claims(), claim("crit")),
        (
            "EdDSA",
            ed.clone(),
            with("aud", json!("other")),
            Error::Audience { expected: "millrace".to_owned() },
        ),
        (
            "EdDSA",
            ed.clone(),
            with("aud", json!(["a", "b"])),
            Error::Audience { expected: "millrace".to_owned() },
        ),
        ("EdDSA", ed.clone(), with("aud", Value::Null), claim("aud")),
        ("EdDSA", ed.clone(), with("exp", json!(NOW - 30)), Error::Expired),
        ("EdDSA", ed.clone(), with("exp", json!("9999999999")), claim("exp")),
        ("EdDSA", ed.clone(), with("exp", json!(-1)), claim("exp")),
        ("EdDSA", ed.clone(), with("exp", Value::Null), claim("exp")),
        ("EdDSA", ed.clone(), with("exp", json!(NOW + 90_000)), Error::LongLived { max_s: 86_400 }),
        ("EdDSA", ed.clone(), with("nbf", json!(NOW + 31)), Error::Early),
        ("EdDSA", ed.clone(), with("nbf", json!("soon")), claim("nbf")),
        ("EdDSA", ed.clone(), with("jti", json!("gone")), Error::Denied),
        ("EdDSA", ed.clone(), with("jti", json!(1)), claim("jti")),
        ("EdDSA", ed.clone(), with("groups", Value::Null), claim("groups")),
        ("EdDSA", ed.clone(), with("groups", json!("ann")), claim("groups")),
        ("EdDSA", ed.clone(), with("groups", json!([null])), claim("groups")),
        ("EdDSA", ed.clone(), with("permissions", Value::Null), claim("permissions")),
        ("EdDSA", ed.clone(), with("permissions", json!([])), claim("permissions")),
        ("EdDSA", ed.clone(), with("permissions", json!(["root"])), claim("permissions")),
        ("EdDSA", ed.clone(), with("sub", Value::Null), claim("sub")),
        ("EdDSA", ed.clone(), with("limits", json!({ "queries": 0 })), claim("limits")),
        ("EdDSA", ed.clone(), with("limits", json!({ "fed_bytes": 0 })), claim("limits")),
        ("EdDSA", ed.clone(), with("limits", json!({ "documents": 0 })), claim("limits")),
        ("EdDSA", ed.clone(), with("limits", json!({ "bytes": 0 })), claim("limits")),
        ("EdDSA", ed.clone(), with("limits", json!({ "other": 1 })), claim("limits")),
        ("EdDSA", ed.clone(), json!([]), claim("")),
    ] {
        let token = signers.sign(algorithm, &header, &claims);
        let refused = keyring.caller(Some(&format!("Bearer {token}")), NOW).expect_err("it is not valid");
        let is_same = std::mem::discriminant(&refused) == std::mem::discriminant(&expected)
            || matches!((&refused, &expected), (Error::Algorithm | Error::Malformed(_), Error::Malformed(_)));
        assert!(is_same, "{algorithm} {header} {claims}: {refused:?} instead of {expected:?}");
        assert!(refused.is_unauthenticated());
    }
    for header in ["", "Bearer", "Bearer ", "Basic YTpi", "Bearer a.b", "Bearer a.b.c", "Bearer é"] {
        assert!(keyring.caller(Some(header), NOW).is_err(), "{header}");
    }
    assert_eq!(keyring.caller(None, NOW), Err(Error::Missing));
    assert!(keyring.caller(Some(&format!("Bearer {}", "a".repeat(9_000))), NOW).is_err());
}

#[test]
fn a_claim_that_is_there_twice_is_refused() {
    let signers = Signers::new();
    let keyring = signers.keyring(None);
    let ask = |more: &str| {
        let text = claims().to_string();
        let text = format!("{}{more}}}", text.strip_suffix('}').expect("it is an object"));
        let token = signers.sign_text("EdDSA", &json!({ "alg": "EdDSA", "kid": "ed" }), &text);
        keyring.caller(Some(&format!("Bearer {token}")), NOW).map(drop)
    };
    assert_eq!(ask(",\"other\":1,\"limits\":{\"queries\":1}"), Ok(()));
    for more in [
        ",\"groups\":\"all\"",
        ",\"permissions\":[\"read\",\"write\"]",
        ",\"sub\":\"bob\"",
        ",\"aud\":\"millrace\"",
        ",\"nbf\":1,\"nbf\":2",
        ",\"limits\":{\"queries\":1,\"queries\":2}",
    ] {
        let refused = ask(more).expect_err(more);
        assert!(
            matches!(&refused, Error::Claims(reason) if reason.contains("duplicate")),
            "{more}: {refused}"
        );
    }
}

#[test]
fn keys_of_signers_that_are_refused() {
    let parse = |text: &str| {
        let token_keys = Some(TokenKeySet::File(text.to_owned()));
        let sources = KeyringSources { token_keys, ..KeyringSources::default() };
        Keyring::parse(&sources).err().expect("it is not valid").to_string()
    };
    let oct = |more: Value| {
        let mut key = json!({ "kty": "oct", "kid": "a", "k": encoded(SECRET) });
        key.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
        key
    };
    for (keys, expected) in [
        (json!({}), "not a JSON Web Key Set"),
        (json!({ "keys": [] }), "no keys"),
        (json!({ "keys": [oct(json!({ "k": "c2hvcnQ" }))] }), "length of 5 bytes"),
        (json!({ "keys": [oct(json!({ "alg": "HS512" }))] }), "'alg' is not HS256"),
        (json!({ "keys": [oct(json!({ "use": "enc" }))] }), "use is not 'sig'"),
        (json!({ "keys": [oct(json!({})), oct(json!({}))] }), "same id"),
        (
            json!({ "keys": [{ "kty": "RSA", "kid": "r", "n": "AQAB", "e": "AQAB" }] }),
            "kind is not supported",
        ),
        (
            json!({ "keys": [{ "kty": "OKP", "crv": "Ed25519", "kid": "e", "x": "AQAB" }] }),
            "length of 3 bytes",
        ),
    ] {
        let error = parse(&keys.to_string());
        assert!(error.contains(expected), "{keys}: {error}");
    }
}

#[test]
fn published_keys_that_cannot_be_used_are_passed_over() {
    let signers = Signers::new();
    let parse = |set: &Value| {
        let token_keys = Some(TokenKeySet::Published(set.to_string()));
        let sources =
            KeyringSources { token_keys, audience: "millrace".to_owned(), ..KeyringSources::default() };
        Keyring::parse(&sources).map_err(|error| error.to_string())
    };
    let mut set = signers.keys();
    let keys = set["keys"].as_array_mut().unwrap();
    keys.insert(0, json!({ "kty": "RSA", "kid": "r", "alg": "RS256", "n": "AQAB", "e": "AQAB" }));
    keys.insert(1, json!({ "kty": "of another time", "kid": "new" }));
    keys.push(keys[2].clone());
    let keyring = parse(&set).unwrap();
    let sign = |algorithm: &str, key: &str| {
        let token = signers.sign(algorithm, &json!({ "alg": algorithm, "kid": key }), &claims());
        keyring.caller(Some(&format!("Bearer {token}")), NOW).map(|caller| caller.name.to_string())
    };
    assert_eq!(sign("EdDSA", "ed"), Ok("ann".to_owned()));
    assert_eq!(sign("ES256", "ec"), Ok("ann".to_owned()));
    assert_eq!(sign("HS256", "hs"), Err(Error::UnknownSigner), "a secret that is published is none");
    let reasons = keyring.passed_over();
    for (reason, expected) in reasons.iter().zip([
        "key 1 ('r'): its kind is not supported",
        "key 2 ('new'): ",
        "key 5 ('hs'): it is a shared secret",
        "key 6 ('ed'): another key has the same id",
    ]) {
        assert!(reason.starts_with(expected), "{reasons:?}");
    }
    assert_eq!(reasons.len(), 4, "{reasons:?}");
    for (set, expected) in [
        (json!({}), "not a JSON Web Key Set"),
        (json!({ "keys": [] }), "it has no key that can be used"),
        (json!({ "keys": [{ "kty": "oct", "kid": "hs", "k": encoded(SECRET) }] }), "it is a shared secret"),
    ] {
        let error = parse(&set).err().expect("it is not valid");
        assert!(error.contains(expected), "{set}: {error}");
    }
}

#[test]
fn a_server_that_awaits_its_keys_is_closed() {
    let sources = KeyringSources { token_keys: Some(TokenKeySet::Awaited), ..KeyringSources::default() };
    let keyring = Keyring::parse(&sources).unwrap();
    assert!(!keyring.is_open());
    assert_eq!(keyring.caller(None, NOW), Err(Error::Missing));
    assert_eq!(keyring.caller(Some("Bearer a.b.c"), NOW), Err(Error::KeysAwaited));
    assert!(Error::KeysAwaited.is_unauthenticated());
}

fn record(key: &ApiKey) -> KeyRecord {
    KeyRecord {
        id: key.id().to_owned(),
        name: "feeder".to_owned(),
        hash: key.hash(),
        rights: vec![AccessRight::Read, AccessRight::Write],
        groups: vec!["ann".to_owned()],
        users: Vec::new(),
        expires: Some(NOW + 10),
        limits: CallerLimits {
            queries: Some(5.0),
            concurrent: None,
            fed_bytes: Some(1 << 20),
            documents: Some(1000),
            bytes: None,
        },
    }
}

#[test]
fn api_keys() {
    let key = ApiKey::of_random(&[7; ApiKey::RANDOM_BYTES]);
    let file = AccessFile { keys: vec![record(&key)], ..AccessFile::default() };
    let text = file.text().unwrap();
    assert_eq!(AccessFile::parse(&text), Ok(file.clone()), "{text}");
    assert!(!text.contains(&key.text()) && !text.contains(key.text().rsplit('_').next().unwrap()));
    let sources = KeyringSources { access_file: Some(text), ..KeyringSources::default() };
    let keyring = Keyring::parse(&sources).unwrap();
    let caller = keyring.caller(Some(&format!("bearer {}", key.text())), NOW).unwrap();
    assert_eq!((&*caller.name, caller.only_group()), ("feeder", Some(&group("ann"))));
    let refused = |text: &str, now: u64| keyring.caller(Some(&format!("Bearer {text}")), now).unwrap_err();
    assert_eq!(refused(&key.text(), NOW + 10), Error::Expired);
    let other = ApiKey::of_random(&[8; ApiKey::RANDOM_BYTES]);
    assert_eq!(refused(&other.text(), NOW), Error::UnknownKey);
    let (own, others) = (key.text(), other.text());
    let forged = format!("{}{}", &own[..own.len() - 43], &others[others.len() - 43..]);
    assert_eq!(refused(&forged, NOW), Error::UnknownKey, "the id of one, the secret of another");
    assert!(matches!(refused("mr_a_b", NOW), Error::Malformed(_)));
    let mut three = file;
    three.keys = (1..4).map(|byte| record(&ApiKey::of_random(&[byte; ApiKey::RANDOM_BYTES]))).collect();
    let error = AccessFile::parse(&three.text().unwrap()).unwrap_err().to_string();
    assert!(error.contains("more than two keys"), "{error}");
    for wrong in ["key = 1", "other = 1", "[[key]]\nid = 'a'\nname = 'a'\nhash = 'x'\nrights = ['read']"] {
        assert!(AccessFile::parse(wrong).is_err(), "{wrong}");
    }
}

#[test]
fn a_server_without_files_is_open_and_with_an_empty_one_closed() {
    assert!(Keyring::open().caller(None, NOW).unwrap().has_all_groups());
    let empty = KeyringSources { access_file: Some(String::new()), ..KeyringSources::default() };
    let closed = Keyring::parse(&empty).unwrap();
    assert!(!closed.is_open());
    assert_eq!(closed.caller(None, NOW), Err(Error::Missing));
}

#[test]
fn permits() {
    let all = RequestCaller::unrestricted("all");
    let ann = all.within(group("ann")).unwrap();
    for (caller, groups, expected) in [
        (&all, None, true),
        (&all, Some(vec![DocumentGroup::None]), true),
        (&ann, None, false),
        (&ann, Some(vec![group("ann")]), true),
        (&ann, Some(Vec::new()), true),
        (&ann, Some(vec![group("ann"), group("bob")]), false),
        (&ann, Some(vec![group("Ann")]), false),
        (&ann, Some(vec![DocumentGroup::None]), false),
        (&ann, Some(vec![DocumentGroup::Number(1)]), false),
    ] {
        let wanted = groups.as_deref().map_or(WantedGroups::All, WantedGroups::These);
        let permit = caller.permit(wanted);
        assert_eq!(permit.is_ok(), expected, "{} {groups:?}", caller.name);
        if let Ok(permit) = permit {
            assert!(permit.covers(wanted));
            assert_eq!(permit.covers(WantedGroups::All), caller.has_all_groups());
        }
    }
    assert!(ann.within(group("bob")).is_err());
    assert!(ann.within(group("ann")).is_ok());
}

/// Endpoints × kinds of method, with the rights that suffice: r, w, d, a; `*` for any credential, `-` for
/// none, and `+` if the right to read suffices for all groups.
#[test]
fn rights_of_endpoints() {
    use PortKind::{Config, Data};
    for (port, path, safe, delete, other) in [
        (Data, "/document/v1/", "r", "w", "w"),
        (Data, "/document/v1/n/note/group/a/1", "r", "w", "w"),
        (Data, "/search/", "r", "r", "r"),
        (Data, "/search", "r", "r", "r"),
        (Data, "/searching", "*", "*", "*"),
        (Data, "/mcp/", "r", "r", "r"),
        (Data, "/model-evaluation/v1/m", "r", "r", "r"),
        (Data, "/group/v1/", "r", "w", "w"),
        (Data, "/group/v1/a", "r", "w", "w"),
        (Data, "/group/v1/a/export", "r", "w", "r"),
        (Data, "/group/v1/a/restore", "r", "w", "w"),
        (Data, "/state/v1/health", "-", "a+", "a+"),
        (Data, "/state/v1/health/", "-", "a+", "a+"),
        (Data, "/state/v1/health/x", "a+", "a+", "a+"),
        (Data, "/status.html", "-", "*", "*"),
        (Data, "/openapi.json", "-", "*", "*"),
        (Config, "/openapi.json", "-", "a", "a"),
        (Data, "/page/page.js", "-", "*", "*"),
        (Data, "/page/application", "r", "r", "r"),
        (Data, "/page/other", "*", "*", "*"),
        (Data, "/state/v1/metrics", "a+", "a+", "a+"),
        (Data, "/state/v1/cluster/readers", "a+", "a", "a"),
        (Data, "/state/v1/cluster/erasures", "a+", "a", "a"),
        (Data, "/state/v1/cluster/groups", "a+", "a", "a"),
        (Data, "/state/v1/cluster/indexes", "a+", "a", "a"),
        (Data, "/state/v1/cluster/placed-indexes", "a+", "a", "a"),
        (Data, "/prometheus/v1/values", "a+", "a+", "a+"),
        (Data, "/metrics/v2/values", "a+", "a+", "a+"),
        (Data, "/ApplicationStatus", "a+", "a+", "a+"),
        (Data, "/cluster/v2/notes", "a+", "a+", "a+"),
        (Data, "/", "*", "*", "*"),
        (Config, "/application/v2/tenant/default/prepareandactivate", "da", "a", "da"),
        (Config, "/application/v2/tenant/default/application/default", "da", "a", "da"),
        (Config, "/cluster/v2/notes", "ad+", "a", "a"),
        (Config, "/state/v1/health", "-", "a", "a"),
        (Config, "/state/v1/metrics", "ad+", "a", "a"),
        (Config, "/other", "a", "a", "a"),
    ] {
        let methods =
            [(RequestMethod::Safe, safe), (RequestMethod::Delete, delete), (RequestMethod::Other, other)];
        for (method, expected) in methods {
            let letters =
                |rights: &[AccessRight]| rights.iter().map(|right| &right.name()[..1]).collect::<String>();
            let shown = match AccessRule::of(port, method, path) {
                AccessRule::Open => "-".to_owned(),
                AccessRule::AnyOf([]) => "*".to_owned(),
                AccessRule::AnyOf(rights) => letters(rights),
                AccessRule::Whole(rights) => letters(rights) + "+",
            };
            assert_eq!(shown, expected, "{port:?} {method:?} {path}");
        }
    }
}

proptest::proptest! {
    #[test]
    fn no_text_is_a_credential(text in "(mr_[a-z2-7]{0,13}_[A-Za-z0-9_-]{0,44}|[A-Za-z0-9_-]{0,9}(\\.[A-Za-z0-9_-]{0,9}){0,4}|.{0,40})") {
        millrace_access::fuzz::credentials(&text);
    }
}

#[test]
fn keys_of_a_cluster_are_joined_with_those_of_a_node() {
    let key = |byte: u8| ApiKey::of_random(&[byte; ApiKey::RANDOM_BYTES]);
    let (own, both, shared, gone) = (key(1), key(2), key(3), key(4));
    let file = |keys: &[&ApiKey]| AccessFile {
        keys: keys.iter().map(|key| KeyRecord { name: key.id().to_owned(), ..record(key) }).collect(),
        ..AccessFile::default()
    };
    let of_node = file(&[&own, &both, &gone]);
    let mut of_cluster = file(&[&both]);
    of_cluster.add(file(&[&shared]).keys.remove(0)).expect("another id and name");
    of_cluster.add(file(&[&shared]).keys.remove(0)).expect_err("the same id");
    assert!(!of_cluster.revoke(gone.id()), "it is in the file of the node");
    let keyring = |of_cluster: Option<&AccessFile>| {
        let sources = KeyringSources {
            access_file: Some(of_node.text().expect("it can be written")),
            cluster_file: of_cluster.map(|file| file.text().expect("it can be written")),
            ..KeyringSources::default()
        };
        Keyring::parse(&sources).expect("both are well formed")
    };
    let accepts = |keyring: &Keyring, key: &ApiKey| {
        keyring.caller(Some(&format!("Bearer {}", key.text())), NOW).is_ok()
    };
    let keys = [&own, &both, &shared, &gone];
    assert_eq!(keys.map(|key| accepts(&keyring(None), key)), [true, true, false, true]);
    assert_eq!(keys.map(|key| accepts(&keyring(Some(&of_cluster)), key)), [true, true, true, false]);
    assert!(of_cluster.revoke(shared.id()) && of_cluster.revoke(both.id()));
    assert_eq!(keys.map(|key| accepts(&keyring(Some(&of_cluster)), key)), [true, false, false, false]);
    let empty = KeyringSources { cluster_file: Some(String::new()), ..KeyringSources::default() };
    assert!(!Keyring::parse(&empty).expect("it is empty").is_open(), "a cluster with keys is closed");
}

#[test]
fn new_keys_have_the_form_of_keys() {
    let key = ApiKey::of_random(&[7; ApiKey::RANDOM_BYTES]);
    let good = record(&key);
    let with_group = |group: &str| KeyRecord { groups: vec![group.to_owned()], ..record(&key) };
    for group in ["ann", "a b", "é", "a,b", "g=a", "a/b"] {
        assert_eq!(AccessFile::default().add(with_group(group)), Ok(()), "{group}");
    }
    for (wrong, expected) in [
        (KeyRecord { id: "../../x".to_owned(), ..good.clone() }, "an id is 12 lower-case letters and digits"),
        (KeyRecord { id: "ABCDEFGHIJKL".to_owned(), ..good.clone() }, "an id is 12"),
        (KeyRecord { id: String::new(), ..good.clone() }, "an id is 12"),
        (KeyRecord { name: String::new(), ..good.clone() }, "the name of a key is not empty"),
        (KeyRecord { name: "a\u{7}b".to_owned(), ..good.clone() }, "has no control characters"),
        (with_group(""), "'' is the name of no group"),
        (with_group("a:b"), "'a:b' is the name of no group"),
        (with_group("a\nb"), "'a\\nb' is the name of no group"),
    ] {
        let mut file = AccessFile::default();
        let refused = file.add(wrong).expect_err(expected).to_string();
        assert!(refused.contains(expected), "{refused}");
        assert!(file.keys.is_empty() && !refused.contains(char::is_control), "{refused}");
    }
    // A file that has one nevertheless still opens: it matches nothing, and can be removed.
    let odd =
        AccessFile { keys: vec![KeyRecord { id: "../../x".to_owned(), ..good }], ..AccessFile::default() };
    let mut read = AccessFile::parse(&odd.text().unwrap()).expect("it opens");
    assert!(read.revoke("../../x"));
}

#[test]
fn a_group_that_the_path_excludes_is_not_the_fault_of_the_credential() {
    let group = |name: &str| DocumentGroup::Name(name.to_owned());
    let operator = RequestCaller::unrestricted("operator");
    let bobs = operator.within(group("bob")).expect("all groups");
    let refused = |caller: &RequestCaller, name: &str| {
        caller.permit(WantedGroups::These(&[group(name)])).expect_err("another group").to_string()
    };
    assert!(refused(&bobs, "ann").contains(
        "the path of the request (or --group of the command, or a header of a proxy) is for group 'bob'"
    ));
    let ann = RequestCaller { groups: CallerGroups::Only([group("ann")].into()), ..operator.clone() };
    assert!(refused(&ann, "bob").contains("name one of the groups of its credential"));
    assert!(ann.within(group("bob")).expect_err("another group").to_string().contains("its credential"));
    // What a caller began with, and what it has later.
    assert!(operator.covers(&ann) && operator.covers(&bobs) && ann.covers(&ann));
    assert!(!ann.covers(&operator) && !ann.covers(&bobs));
    let reader = RequestCaller { rights: vec![AccessRight::Read].into(), ..ann.clone() };
    assert!(ann.covers(&reader) && !reader.covers(&ann));
}

#[test]
fn the_hash_of_a_key_is_the_one_that_files_have() {
    let text = format!("mr_abcdefghijkl_{}", "A".repeat(43));
    let key = ApiKey::parse(&text).expect("it begins like a key").expect("it has the form of one");
    assert_eq!(key.hash(), "0f007385b6f9d4b7eeb2748605afe1a984a0a3bfa3f014d09e2a784ce9e5cd1a");
}
