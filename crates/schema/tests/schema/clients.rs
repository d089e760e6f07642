//! Clients of the data port: `<clients>` of container clusters, and `security/clients.pem`.

use std::collections::BTreeMap;

use millrace_access::{AccessRight, DeclaredClient};
use millrace_schema::{Application, PackageMistakes};

/// Certificates of two keys, valid for a century.
const ONE: &str = include_str!("../../../server/tests/fixtures/tls/self.pem");
const TWO: &str = include_str!("../../../server/tests/fixtures/tls/server.pem");

/// Reads a package with these elements, and with `security/clients.pem` if `has_file`.
fn read(elements: &str, has_file: bool) -> Result<Application, PackageMistakes> {
    let services = format!(
        "<services>{elements}<content id='c'><documents><document type='x' mode='streaming'/></documents></content></services>"
    );
    let one_and_nothing = format!("{ONE}\n-----BEGIN CERTIFICATE-----\n");
    let mut files: BTreeMap<String, Vec<u8>> = [
        ("services.xml", services.as_str()),
        ("schemas/x.sd", "schema x { document x { } }"),
        ("security/one.pem", ONE),
        ("security/two.pem", TWO),
        ("security/same.pem", ONE),
        ("security/twice.pem", &ONE.repeat(2)),
        ("security/cut.pem", &one_and_nothing),
        ("security/empty.pem", "effectively empty"),
        ("security/key.pem", include_str!("../../../server/tests/fixtures/tls/self.key")),
    ]
    .map(|(path, text)| (path.to_owned(), text.as_bytes().to_vec()))
    .into();
    if has_file {
        files.insert("security/clients.pem".to_owned(), ONE.into());
    }
    Application::from_files(files)
}

fn shown(client: &DeclaredClient) -> String {
    let rights = AccessRight::ALL.into_iter().filter(|right| client.rights.has(*right));
    let rights: Vec<&str> = rights.map(AccessRight::name).collect();
    format!("{} {} {} {}", client.id, rights.join("+"), client.certificates.len(), client.tokens.join("+"))
}

#[test]
fn clients_of_all_container_clusters_may_use_the_port() {
    let list = |clients: &str| format!("<container id='a'><clients>{clients}</clients></container>");
    let reader = "<client id='r' permissions='read'><certificate file='security/one.pem'/></client>";
    let several = "<client id='s' permissions='write , read'><certificate file='security/one.pem'/>\
                   <certificate file='security/two.pem'/><certificate file='security/one.pem'/></client>\
                   <client id='t' permissions='write'><token id='x'/><token id='y'/></client>";
    let other = "<container id='b'><clients><client id='r' permissions='write'><token id='z'/></client></clients></container>";
    let bare = "<container id='b'><document-api/></container>";
    for (elements, has_file, expected) in [
        (String::new(), false, None),
        (bare.to_owned(), false, None),
        (String::new(), true, Some((false, vec!["default read+write 1 "]))),
        (bare.to_owned(), true, Some((false, vec!["default read+write 1 "]))),
        (list(reader), false, Some((true, vec!["r read 1 "]))),
        (list(several), false, Some((true, vec!["s read+write 2 ", "t write 0 x+y"]))),
        (list(reader) + other, false, Some((true, vec!["r read 1 ", "r write 0 z"]))),
        (list(reader) + bare, false, Some((true, vec!["r read 1 "]))),
        // The file counts for clusters without the element.
        (
            list("<client id='t' permissions='read'><token id='x'/></client>"),
            true,
            Some((true, vec!["t read 0 x"])),
        ),
        (
            list("<client id='t' permissions='read'><token id='x'/></client>") + bare,
            true,
            Some((true, vec!["t read 0 x", "default read+write 1 "])),
        ),
    ] {
        let application = read(&elements, has_file).unwrap_or_else(|error| panic!("{elements}: {error}"));
        let read = application.container.clients;
        let read =
            read.as_ref().map(|read| (read.is_explicit, read.clients.iter().map(shown).collect::<Vec<_>>()));
        let expected = expected.map(|(is_explicit, clients)| {
            (is_explicit, clients.into_iter().map(str::to_owned).collect::<Vec<_>>())
        });
        assert_eq!(read, expected, "{elements} {has_file}");
    }
    let both =
        "<client id='b' permissions='read'><certificate file='security/one.pem'/><token id='x'/></client>";
    let warnings = read(&list(both), false).expect("it is valid").warnings.join("\n");
    assert!(warnings.contains("services.xml:1:38: client 'b' has certificates and tokens"), "{warnings}");
}

#[test]
fn clients_that_are_refused() {
    let client = |attributes: &str, inside: &str| format!("<client {attributes}>{inside}</client>");
    let file = |name: &str| format!("<certificate file='security/{name}.pem'/>");
    let with_file = |name: &str| client("id='a' permissions='read'", &file(name));
    let own = "services.xml:1:38: ";
    for (clients, expected) in [
        (String::new(), "services.xml:1:29: <clients> declares no client".to_owned()),
        (client("permissions='read'", &file("one")), format!("{own}<client> needs the attribute 'id'")),
        (
            client("id='_a' permissions='read'", &file("one")),
            format!("{own}'_a' cannot be the id of a client"),
        ),
        (client("id='a'", &file("one")), format!("{own}<client> needs the attribute 'permissions'")),
        (client("id='a' permissions=''", &file("one")), format!("{own}'' is not a permission")),
        (
            client("id='a' permissions='read,writ'", &file("one")),
            format!("{own}'writ' is not a permission (did you mean 'write'?): write 'read' or 'write'"),
        ),
        (client("id='a' permissions='admin'", &file("one")), format!("{own}'admin' is not a permission")),
        (
            client("id='a' permissions='read'", ""),
            format!("{own}client 'a' has no credential: add <certificate"),
        ),
        (
            client("id='a' permissions='read'", &file("onne")),
            "the package has no file 'security/onne.pem' (did you mean 'security/one.pem'?)".to_owned(),
        ),
        (client("id='a' permissions='read'", "<certificate/>"), "needs the attribute 'file'".to_owned()),
        (client("id='a' permissions='read'", "<token/>"), "needs the attribute 'id'".to_owned()),
        (client("id='a' permissions='read'", "<token id=''/>"), "<token> has an empty id".to_owned()),
        (client("id='a' permissions='read'", "<tokn id='a'/>"), "did you mean 'token'".to_owned()),
        (with_file("one") + &with_file("two"), "there are two clients with the id 'a'".to_owned()),
        (with_file("empty"), "security/empty.pem: it has no CERTIFICATE block; put".to_owned()),
        (with_file("key"), "security/key.pem: it has no CERTIFICATE block, but another kind".to_owned()),
        (with_file("cut"), "security/cut.pem: certificate 2: its last line".to_owned()),
        (
            with_file("twice"),
            "security/twice.pem: certificate 2 is also certificate 1 of security/twice.pem".to_owned(),
        ),
        (
            client("id='a' permissions='read'", &(file("one") + &file("same"))),
            "security/same.pem: certificate 1 is also certificate 1 of security/one.pem".to_owned(),
        ),
    ] {
        let elements = format!("<container id='d'><clients>{clients}</clients></container>");
        let error = read(&elements, false).expect_err(&clients).to_string();
        assert!(error.contains(&expected), "{clients}: {error}");
    }
    // A certificate of two clients, by one file, has the rights of both.
    let elements = format!(
        "<container id='d'><clients>{}{}</clients></container>",
        with_file("one"),
        client("id='b' permissions='write'", &file("one"))
    );
    assert!(read(&elements, false).is_ok());
}
