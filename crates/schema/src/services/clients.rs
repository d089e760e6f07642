//! Clients of the data port: `<clients>` of the container clusters, and the file of certificates that counts
//! for clusters without it.

use std::collections::BTreeMap;

use millrace_access::{AccessRight, AccessRights, CertificateHash, ClientCertificate, DeclaredClient};
use roxmltree::Node;

use super::{FILE, required};
use crate::package::Files;
use crate::suggest::{did_you_mean, one_of};
use crate::{ApplicationClients, Error, PackageFindings, PackageMistake, xml};

/// Certificates that may read and write, where a container cluster has no `<clients>`.
const CERTIFICATES_FILE: &str = "security/clients.pem";
/// Id of the client of that file.
const CLIENT_OF_FILE: &str = "default";

/// Rights that a client can have.
const PERMISSIONS: [AccessRight; 2] = [AccessRight::Read, AccessRight::Write];

/// Clients of all container clusters; `None` if nothing declares any. One port serves all clusters, so that
/// a client of one of them may use it.
pub(super) fn of_clusters<'a, 'i: 'a>(
    clusters: impl Iterator<Item = Node<'a, 'i>>,
    files: &Files,
    findings: &mut PackageFindings,
) -> Option<ApplicationClients> {
    let mut files = CertificateFiles { files, read: BTreeMap::new() };
    let declared: Vec<Option<Node<'_, '_>>> =
        clusters.map(|cluster| xml::child(cluster, "clients")).collect();
    let mut clients = Vec::new();
    for list in declared.iter().flatten() {
        read(*list, &mut files, &mut clients, findings);
    }
    let is_explicit = declared.iter().any(Option::is_some);
    let is_by_file = declared.is_empty() || declared.iter().any(Option::is_none);
    if is_by_file && files.has(CERTIFICATES_FILE) {
        let certificates = files.certificates(CERTIFICATES_FILE, findings);
        let rights = PERMISSIONS.to_vec().into();
        clients.push(DeclaredClient {
            id: CLIENT_OF_FILE.to_owned(),
            rights,
            certificates,
            tokens: Vec::new(),
        });
    } else if !is_explicit {
        return None;
    }
    files.check_duplicates(findings);
    Some(ApplicationClients { clients, is_explicit })
}

/// Reads `<clients>`.
fn read(
    list: Node<'_, '_>,
    files: &mut CertificateFiles<'_>,
    clients: &mut Vec<DeclaredClient>,
    findings: &mut PackageFindings,
) {
    let mut ids: Vec<&str> = Vec::new();
    let elements: Vec<Node<'_, '_>> = xml::elements(list).collect();
    if elements.is_empty() {
        let reason = "<clients> declares no client, so that no request could enter: add <client id='…' permissions='read,write'> \
                      with a <certificate file='security/….pem'/> or a <token id='…'/>, or remove the element";
        findings.ok_or_report(xml::invalid::<()>(FILE, list, reason));
    }
    for element in elements {
        let read = client(element, files, findings);
        let Some(client) = findings.ok_or_report(read) else { continue };
        let id = element.attribute("id").unwrap_or_default();
        if ids.contains(&id) {
            let reason = format!("there are two clients with the id '{id}': give each its own");
            findings.ok_or_report(xml::invalid::<()>(FILE, element, reason));
        }
        ids.push(id);
        clients.push(client);
    }
}

fn client(
    element: Node<'_, '_>,
    files: &mut CertificateFiles<'_>,
    findings: &mut PackageFindings,
) -> Result<DeclaredClient, Error> {
    let id = required(element, "id")?;
    if id.is_empty() || id.starts_with('_') || id.chars().any(char::is_control) {
        let reason =
            format!("'{id}' cannot be the id of a client: it begins with another character than '_'");
        return xml::invalid(FILE, element, reason);
    }
    let rights = permissions(element)?;
    let mut client =
        DeclaredClient { id: id.to_owned(), rights, certificates: Vec::new(), tokens: Vec::new() };
    let mut certificate_files: Vec<&str> = Vec::new();
    for credential in xml::elements(element) {
        if credential.tag_name().name() == "token" {
            let token = required(credential, "id")?;
            if token.is_empty() {
                return xml::invalid(
                    FILE,
                    credential,
                    "<token> has an empty id: name an API key of the server",
                );
            }
            client.tokens.push(token.to_owned());
            continue;
        }
        let file = required(credential, "file")?;
        if !files.has(file) {
            let known = files.names().filter(|name| name.ends_with(".pem"));
            let reason = format!(
                "the package has no file '{file}'{}: put the certificate of client '{id}' into it, in PEM form",
                did_you_mean(file, known)
            );
            return xml::invalid(FILE, credential, reason);
        }
        if !certificate_files.contains(&file) {
            certificate_files.push(file);
            client.certificates.extend(files.certificates(file, findings));
        }
    }
    let (has_files, has_tokens) = (!certificate_files.is_empty(), !client.tokens.is_empty());
    match (has_files, has_tokens) {
        (false, false) => {
            let reason = format!(
                "client '{id}' has no credential: add <certificate file='security/….pem'/> or <token id='…'/>"
            );
            return xml::invalid(FILE, element, reason);
        }
        (true, true) => findings.warnings.push(format!(
            "{}: client '{id}' has certificates and tokens, which Vespa does not take together: declare a client for each",
            xml::position_of(FILE, element)
        )),
        _ => {}
    }
    Ok(client)
}

/// Rights in the attribute `permissions`.
fn permissions(element: Node<'_, '_>) -> Result<AccessRights, Error> {
    let listed = required(element, "permissions")?;
    let known = || PERMISSIONS.iter().map(|right| right.name());
    let right = |name: &str| match PERMISSIONS.into_iter().find(|right| right.name() == name) {
        Some(right) => Ok(right),
        None => {
            let reason = format!(
                "'{name}' is not a permission{}: write {}, with commas between several",
                did_you_mean(name, known()),
                one_of(known())
            );
            xml::invalid(FILE, element, reason)
        }
    };
    let rights: Result<Vec<AccessRight>, Error> = listed.split(',').map(|name| right(name.trim())).collect();
    Ok(rights?.into())
}

/// Files of certificates, each read once.
struct CertificateFiles<'p> {
    files: &'p Files,
    read: BTreeMap<String, Vec<ClientCertificate>>,
}

impl<'p> CertificateFiles<'p> {
    fn has(&self, file: &str) -> bool {
        self.files.contains_key(file)
    }

    fn names(&self) -> impl Iterator<Item = &'p str> {
        self.files.keys().map(String::as_str)
    }

    /// Certificates in a file. Those of a malformed one are reported once.
    fn certificates(&mut self, file: &str, findings: &mut PackageFindings) -> Vec<ClientCertificate> {
        if let Some(read) = self.read.get(file) {
            return read.clone();
        }
        let pem = self.files.get(file).map(Vec::as_slice).unwrap_or_default();
        let parsed = ClientCertificate::parse_pem(pem)
            .map_err(|error| PackageMistake::in_file(file, format!("{file}: {error}")));
        let read = findings.ok_or_report(parsed).unwrap_or_default();
        self.read.insert(file.to_owned(), read.clone());
        read
    }

    /// Reports certificates that are in two files, or twice in one: one of them was meant to be another.
    fn check_duplicates(&self, findings: &mut PackageFindings) {
        let mut places: BTreeMap<CertificateHash, (&str, usize)> = BTreeMap::new();
        for (file, certificates) in &self.read {
            for (at, certificate) in certificates.iter().enumerate() {
                let Some((other, other_at)) = places.insert(certificate.hash, (file, at + 1)) else {
                    continue;
                };
                let text = format!(
                    "{file}: certificate {} is also certificate {other_at} of {other}: keep it in one place",
                    at + 1
                );
                findings.report(PackageMistake::in_file(file, text));
            }
        }
    }
}
