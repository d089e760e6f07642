//! The files of the active application and of sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use millrace_schema::FILES_MAX;
use serde_json::{Value, json};

use super::deploy::PACKAGE_FACTOR;
use super::sessions::Files;
use crate::http::{self, Parameters, percent_decode};
use crate::{Error, Node};

/// `GET …/application/default/…/content/PATH`.
pub(super) fn read_active(node: &Node, base: &str, path: &str, request: &Request) -> Result<Response, Error> {
    let deployment = node.deployments().current()?;
    read(&deployment.application.files, base, path, request)
}

/// `GET …/session/N/content/PATH`.
pub(super) fn read_session(
    node: &Node,
    base: &str,
    id: u64,
    path: &str,
    request: &Request,
) -> Result<Response, Error> {
    node.sessions().with(id, |session| read(&session.files, base, path, request))?
}

/// `PUT …/session/N/content/PATH`. Directories are there as soon as a file is in them.
pub(super) async fn write(node: Arc<Node>, id: u64, path: &str, request: Request) -> Result<Response, Error> {
    let path = checked(path)?;
    let (parts, body) = request.into_parts();
    let bytes = http::read_body(&parts.headers, body, node.settings().request_bytes_max).await?;
    if !path.ends_with('/') {
        let limit = node.settings().request_bytes_max.saturating_mul(PACKAGE_FACTOR);
        node.sessions().with(id, |session| {
            let others = || session.files.iter().filter(|(name, _)| **name != path);
            let total = others().map(|(_, content)| content.len()).sum::<usize>() + bytes.len();
            if total > limit || others().count() >= FILES_MAX {
                let reason = format!("a package has at most {FILES_MAX} files, of {limit} bytes together");
                return Err(Error::BadRequest(format!("{reason}: delete what is not needed")));
            }
            session.change(|files| files.insert(path.clone(), bytes.to_vec()));
            Ok(())
        })??;
    }
    Ok(http::json(
        StatusCode::OK,
        &json!({ "prepared": format!("/application/v2/tenant/default/session/{id}/prepared") }),
    ))
}

/// `DELETE …/session/N/content/PATH`.
pub(super) fn delete(node: &Node, id: u64, path: &str) -> Result<Response, Error> {
    let path = checked(path)?;
    let found = node.sessions().with(id, |session| {
        let before = session.files.len();
        let stays = |name: &str| name != path && !(path.ends_with('/') && name.starts_with(&path));
        session.change(|files| files.retain(|name, _| stays(name)));
        before != session.files.len()
    })?;
    match found {
        true => Ok(http::json(StatusCode::OK, &json!({ "message": format!("'{path}' was deleted") }))),
        false => Err(Error::NotFound(format!("session {id} has no file '{path}'"))),
    }
}

fn checked(path: &str) -> Result<String, Error> {
    let path = percent_decode(path).into_owned();
    let escapes = path.split('/').any(|part| part == ".." || part == ".") || path.starts_with('/');
    match escapes {
        true => Err(Error::BadRequest(format!("path '{path}' leads out of the package"))),
        false => Ok(path),
    }
}

fn read(files: &Files, base: &str, path: &str, request: &Request) -> Result<Response, Error> {
    let parameters = Parameters::parse(request.uri().query().unwrap_or(""));
    let path = checked(path)?;
    let status = parameters.get("return") == Some("status");
    let request_path = request.uri().path();
    // The address of the content's root, whatever was asked below it.
    let root =
        request_path.find("/content").map_or(request_path, |at| &request_path[..at + "/content".len()]);
    let url = |name: &str| format!("{base}{root}/{name}");
    if let Some(content) = files.get(&path) {
        return Ok(match status {
            true => http::json(StatusCode::OK, &file_status(&url(&path), content)),
            false => http::answer(StatusCode::OK, content_type(&path), content.clone()),
        });
    }
    let directory = if path.is_empty() || path.ends_with('/') { path } else { format!("{path}/") };
    let recursive = parameters.flag("recursive")?.unwrap_or(false);
    let names = list(files, &directory, recursive);
    if names.is_empty() && !directory.is_empty() {
        return Err(Error::NotFound(format!(
            "the package has no file '{}'",
            directory.trim_end_matches('/')
        )));
    }
    let listed: Value = names
        .iter()
        .map(|name| match (status, files.get(name)) {
            (true, Some(content)) => file_status(&url(name), content),
            _ => json!(url(name)),
        })
        .collect();
    Ok(http::json(StatusCode::OK, &listed))
}

/// The files in `directory`, and the directories in it (which end in a slash).
fn list(files: &Files, directory: &str, recursive: bool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in files.keys() {
        let Some(rest) = path.strip_prefix(directory) else { continue };
        for (at, _) in rest.match_indices('/') {
            names.insert(format!("{directory}{}", &rest[..=at]));
            if !recursive {
                break;
            }
        }
        if recursive || !rest.contains('/') {
            names.insert(path.clone());
        }
    }
    names
}

fn file_status(url: &str, content: &[u8]) -> Value {
    use md5::{Digest, Md5};
    let digest: String = Md5::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
    json!({ "name": url, "status": "new", "md5": digest })
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit_once('.').map(|(_, extension)| extension) {
        Some("xml") => "application/xml",
        Some("json") => "application/json",
        Some("sd" | "profile" | "expression" | "txt") => "text/plain;charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn listings() {
        let files: Files = ["services.xml", "schemas/a.sd", "schemas/a/p.profile"]
            .map(|name| (name.to_owned(), vec![]))
            .into();
        #[track_caller]
        fn check(files: &Files, directory: &str, recursive: bool, expected: &[&str]) {
            assert_eq!(list(files, directory, recursive).iter().collect::<Vec<_>>(), expected, "{directory}");
        }
        check(&files, "", false, &["schemas/", "services.xml"]);
        check(&files, "schemas/", false, &["schemas/a.sd", "schemas/a/"]);
        check(
            &files,
            "",
            true,
            &["schemas/", "schemas/a.sd", "schemas/a/", "schemas/a/p.profile", "services.xml"],
        );
        check(&files, "models/", true, &[]);
    }

    #[test]
    fn paths_stay_inside() {
        assert!(checked("../etc/passwd").is_err());
        assert!(checked("a/%2e%2e/b").is_err());
        assert!(checked("schemas/a.sd").is_ok());
    }
}
