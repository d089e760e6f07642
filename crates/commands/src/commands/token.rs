//! `millrace token`.

mod file;

use std::process::ExitCode;
use std::time::Duration;

use hyper::Method;
use millrace_access::{AccessRight, ApiKey, CallerLimits, KeyRecord};
use millrace_client::{HttpProtocol, NodeClient, OutgoingRequest};
use ring::rand::{SecureRandom as _, SystemRandom};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::file::KeyFile;
use crate::cli::{NodeArguments, TokenCommand, TokenCreation, TokenDirectory, TokenRevocation};
use crate::commands::group::time_of;
use crate::error::Error;
use crate::output::{CommandOutput, note};

/// Path of the keys of a cluster.
const KEYS: &str = "/access/v1/key";

/// Timeout of a request about them.
const KEY_REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// A key without its hash.
#[derive(Serialize, Deserialize)]
struct ListedKey {
    id: String,
    name: String,
    rights: Vec<AccessRight>,
    groups: Vec<String>,
    users: Vec<u64>,
    expires: Option<u64>,
    limits: CallerLimits,
}

impl From<KeyRecord> for ListedKey {
    fn from(key: KeyRecord) -> Self {
        let KeyRecord { id, name, rights, groups, users, expires, limits, .. } = key;
        ListedKey { id, name, rights, groups, users, expires, limits }
    }
}

/// Creates, lists or revokes API keys.
pub async fn run(
    node: &NodeArguments,
    command: &TokenCommand,
    output: &CommandOutput,
) -> Result<ExitCode, Error> {
    match command {
        TokenCommand::Create(creation) => create(node, creation, output).await,
        TokenCommand::List(directory) => list(node, directory, output).await,
        TokenCommand::Revoke(revocation) => revoke(node, revocation, output).await,
    }?;
    Ok(ExitCode::SUCCESS)
}

/// Sends a request about the keys of a cluster.
async fn ask(node: &NodeArguments, request: OutgoingRequest) -> Result<Value, Error> {
    let client = NodeClient::new(&node.config_url, HttpProtocol::Http1)?;
    Ok(client.with_timeout(KEY_REQUEST_TIMEOUT).send(request).await?.checked()?.json())
}

async fn create(node: &NodeArguments, creation: &TokenCreation, output: &CommandOutput) -> Result<(), Error> {
    let named = [creation.read, creation.write, creation.deploy, creation.admin];
    let rights = AccessRight::ALL.into_iter().zip(named).filter(|(_, is_named)| *is_named);
    let rights: Vec<AccessRight> = rights.map(|(right, _)| right).collect();
    let is_without_rights = rights.is_empty();
    let mut random = [0; ApiKey::RANDOM_BYTES];
    SystemRandom::new()
        .fill(&mut random)
        .map_err(|_| Error::Argument("the system gives no random numbers; try again".to_owned()))?;
    let key = ApiKey::of_random(&random);
    let expires = creation.expires.map(|time| millrace_env::unix_time().saturating_add(time).as_secs());
    let record = KeyRecord {
        id: key.id().to_owned(),
        name: creation.name.clone(),
        hash: key.hash(),
        rights,
        groups: creation.group.clone(),
        users: creation.user.clone(),
        expires,
        limits: CallerLimits {
            queries: creation.rate_max,
            concurrent: creation.concurrent_max,
            fed_bytes: creation.fed_bytes_max,
            documents: creation.group_documents_max,
            bytes: creation.group_bytes_max,
        },
    };
    let can_deploy = match creation.directory.cluster {
        true => {
            let body = serde_json::to_vec(&record).expect("a record has names for keys");
            ask(node, OutgoingRequest::new(Method::POST, KEYS).body("application/json", body)).await?;
            true
        }
        false => {
            let keys = KeyFile::of(&creation.directory);
            let file = keys.change(|file| Ok(file.add(record)?))?;
            if file.keys.len() == 1 {
                let path = keys.path().display();
                note(format_args!(
                    "note: {path} has its first key; a server that reads it refuses requests without a credential"
                ));
            }
            file.keys.iter().any(|key| key.rights.contains(&AccessRight::Deploy))
        }
    };
    if is_without_rights {
        note(format_args!(
            "note: the key has no rights of its own (--read, --write, --deploy, --admin): it has those that the application gives to \
             <token id='{}'/>",
            creation.name
        ));
    }
    if !can_deploy {
        note("note: no key may deploy; create one: millrace token create operator --deploy --admin");
    }
    output.print(|| key.text(), &json!({ "id": key.id(), "name": creation.name, "token": key.text() }));
    Ok(())
}

async fn list(node: &NodeArguments, directory: &TokenDirectory, output: &CommandOutput) -> Result<(), Error> {
    let keys = match directory.cluster {
        true => {
            let mut answer = ask(node, OutgoingRequest::new(Method::GET, KEYS)).await?;
            serde_json::from_value(answer["keys"].take()).map_err(|error| {
                Error::Argument(format!("the answer of the server is not a list of keys: {error}"))
            })?
        }
        false => KeyFile::of(directory).existing()?.keys.into_iter().map(ListedKey::from).collect::<Vec<_>>(),
    };
    let shown = |key: &ListedKey| {
        let groups = key.groups.iter().cloned().chain(key.users.iter().map(|user| format!("n={user}")));
        let groups: Vec<String> = groups.collect();
        let rights: Vec<&str> = key.rights.iter().map(|right| right.name()).collect();
        (rights.join(","), if groups.is_empty() { "all".to_owned() } else { groups.join(",") })
    };
    let values = json!(keys);
    let text = || {
        let now = millrace_env::unix_time().as_secs();
        let line = |key: &ListedKey| {
            let (rights, groups) = shown(key);
            let expires = expiry(key.expires, now);
            let rights = if rights.is_empty() { "(those of the application)" } else { &rights };
            format!("{}  {}  {rights}  groups: {groups}  {expires}", key.id, key.name)
        };
        match keys.is_empty() {
            true => "no keys".to_owned(),
            false => keys.iter().map(line).collect::<Vec<_>>().join("\n"),
        }
    };
    output.print(text, &values);
    Ok(())
}

/// The end of a key's validity, in words.
fn expiry(expires: Option<u64>, now: u64) -> String {
    match expires {
        None => "expires: never".to_owned(),
        Some(time) if time <= now => format!("EXPIRED: {} UTC", time_of(time)),
        Some(time) => format!("expires: {} UTC", time_of(time)),
    }
}

async fn revoke(
    node: &NodeArguments,
    revocation: &TokenRevocation,
    output: &CommandOutput,
) -> Result<(), Error> {
    let id = match ApiKey::parse(&revocation.id) {
        Some(key) => key?.id().to_owned(),
        None => revocation.id.clone(),
    };
    if revocation.directory.cluster {
        ask(node, OutgoingRequest::new(Method::DELETE, format!("{KEYS}/{}", millrace_client::encoded(&id))))
            .await?;
        output.print(|| format!("{id} is revoked"), &json!({ "revoked": id }));
        return Ok(());
    }
    let file = KeyFile::of(&revocation.directory);
    // A directory that does not exist is not made for it.
    file.existing()?;
    file.change(|keys| {
        let before = keys.keys.len();
        keys.keys.retain(|key| key.id != id);
        match keys.keys.len() < before {
            true => Ok(()),
            false => {
                let path = file.path().display();
                Err(Error::Argument(format!("{path} has no key '{id}'; millrace token list shows the ids")))
            }
        }
    })?;
    output.print(|| format!("{id} is revoked"), &json!({ "revoked": id }));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::expiry;

    #[test]
    fn the_end_of_a_key_is_a_date() {
        let end = 1_795_945_469;
        assert_eq!(expiry(None, end), "expires: never");
        assert_eq!(expiry(Some(end), end - 1), "expires: 2026-11-29 09:44:29 UTC");
        assert_eq!(expiry(Some(end), end), "EXPIRED: 2026-11-29 09:44:29 UTC");
        assert!(expiry(Some(u64::MAX), end).starts_with("expires: "));
    }
}
