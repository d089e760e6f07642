//! The files of the active application and of sessions.

use std::collections::BTreeSet;
use std::sync::Arc;

use axum::extract::Request;
use axum::response::Response;
use hyper::StatusCode;
use millrace_node::Error;
use millrace_schema::FILES_MAX;
use serde_json::{Value, json};

use super::query_parameters;
use super::sessions::{Files, SessionFiles, UploadSession};
use super::upload::PACKAGE_FACTOR;
use crate::GatewayState;
use crate::http::{self, percent_decode};

/// Files of a package, in memory or on disk.
trait PackageFiles {
    /// Paths of the files, in order.
    fn paths(&self) -> Vec<&str>;

    /// Content of a file; `None` if it does not exist.
    fn content(&self, path: &str) -> Result<Option<Vec<u8>>, Error>;

    /// True if a file was written in place of another.
    fn is_changed(&self, _path: &str) -> bool {
        false
    }

    /// Paths of files that were deleted.
    fn deleted(&self) -> Vec<&str> {
        Vec::new()
    }
}

impl PackageFiles for Files {
    fn paths(&self) -> Vec<&str> {
        self.keys().map(String::as_str).collect()
    }

    fn content(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        Ok(self.get(path).cloned())
    }
}

impl PackageFiles for SessionFiles {
    fn paths(&self) -> Vec<&str> {
        self.sizes().map(|(path, _)| path).collect()
    }

    fn content(&self, path: &str) -> Result<Option<Vec<u8>>, Error> {
        self.read(path)
    }

    fn is_changed(&self, path: &str) -> bool {
        SessionFiles::is_changed(self, path)
    }

    fn deleted(&self) -> Vec<&str> {
        SessionFiles::deleted(self).collect()
    }
}

/// `GET …/application/default/…/content/PATH`.
pub(super) async fn read_active(node: Arc<GatewayState>, asked: ContentRequest) -> Result<Response, Error> {
    let deployment = node.deployments().current()?;
    node.pool().run(move || read(&deployment.application.files, &asked)).await?
}

/// `GET …/session/N/content/PATH`.
pub(super) async fn read_session(
    node: Arc<GatewayState>,
    id: u64,
    asked: ContentRequest,
) -> Result<Response, Error> {
    let at = Arc::clone(&node);
    node.pool().run(move || at.sessions().with(id, |session| read(&session.files, &asked))?).await?
}

/// `PUT …/session/N/content/PATH`. A directory exists as soon as it contains a file.
pub(super) async fn write(
    node: Arc<GatewayState>,
    base: &str,
    id: u64,
    path: &str,
    request: Request,
) -> Result<Response, Error> {
    let path = checked(path)?;
    let (parts, body) = request.into_parts();
    let bytes = http::read_body(&node, &parts.headers, body, node.body_bounds()).await?;
    if !path.ends_with('/') {
        let limit = node.settings().request_bytes_max.saturating_mul(PACKAGE_FACTOR) as u64;
        let at = Arc::clone(&node);
        let write = move |session: &mut UploadSession| {
            let others = || session.files.sizes().filter(|(name, _)| *name != path);
            let total = others().map(|(_, bytes)| bytes).sum::<u64>() + bytes.len() as u64;
            if total > limit || others().count() >= FILES_MAX {
                let reason = format!("a package has at most {FILES_MAX} files, of {limit} bytes together");
                return Err(Error::BadRequest(format!("{reason}: delete what is not needed")));
            }
            session.change(|files| files.write(&path, &bytes))
        };
        node.pool().run(move || at.sessions().with(id, write)?).await??;
    }
    Ok(changed(base, id))
}

/// `DELETE …/session/N/content/PATH`.
pub(super) async fn delete(
    node: &Arc<GatewayState>,
    base: &str,
    id: u64,
    path: &str,
) -> Result<Response, Error> {
    let path = checked(path)?;
    let (at, gone) = (Arc::clone(node), path.clone());
    let delete = move |session: &mut UploadSession| {
        let goes = |name: &str| name == gone || (gone.ends_with('/') && name.starts_with(&gone));
        session.change(|files| files.remove(goes))
    };
    match node.pool().run(move || at.sessions().with(id, delete)).await?? {
        0 => Err(Error::NotFound(format!("session {id} has no file '{path}'"))),
        _ => Ok(changed(base, id)),
    }
}

/// Answer to a change of a session's files: the address that prepares the session.
fn changed(base: &str, id: u64) -> Response {
    let prepared = format!("{base}/application/v2/tenant/default/session/{id}/prepared");
    http::json(StatusCode::OK, &json!({ "prepared": prepared }))
}

/// A request about the files of a package.
pub(super) struct ContentRequest {
    base: String,
    /// Path below the content's root.
    path: String,
    /// Path as requested.
    request_path: String,
    status: bool,
    recursive: bool,
}

impl ContentRequest {
    pub(super) fn read(
        node: &GatewayState,
        base: String,
        path: &str,
        request: &Request,
    ) -> Result<Self, Error> {
        let parameters = query_parameters(node, request)?;
        Ok(ContentRequest {
            base,
            path: checked(path)?,
            request_path: request.uri().path().to_owned(),
            status: parameters.get("return") == Some("status"),
            recursive: parameters.flag("recursive")?.unwrap_or(false),
        })
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

fn read(files: &impl PackageFiles, asked: &ContentRequest) -> Result<Response, Error> {
    let ContentRequest { base, path, request_path, status, recursive } = asked;
    // URL of the content's root, for any path below it.
    let root =
        request_path.find("/content").map_or(&**request_path, |at| &request_path[..at + "/content".len()]);
    let url = |name: &str| format!("{base}{root}/{name}");
    if *status {
        if let Some(state) = file_status(files, path, url)? {
            return Ok(http::json(StatusCode::OK, &state));
        }
    } else if let Some(content) = files.content(path)? {
        return Ok(http::answer(StatusCode::OK, content_type(path), content));
    }
    let directory = if path.is_empty() || path.ends_with('/') { path.clone() } else { format!("{path}/") };
    let mut paths = files.paths();
    if *status {
        paths.extend(files.deleted());
    }
    let names = list(&paths, &directory, *recursive);
    if names.is_empty() && !directory.is_empty() {
        return Err(Error::NotFound(format!(
            "the package has no file '{}'",
            directory.trim_end_matches('/')
        )));
    }
    let listed = |name: &String| {
        let state = if *status { file_status(files, name, url)? } else { None };
        Ok(state.unwrap_or_else(|| json!(url(name))))
    };
    let listed = names.iter().map(listed).collect::<Result<Vec<Value>, Error>>()?;
    Ok(http::json(StatusCode::OK, &listed))
}

/// Lists the files in `directory`, and the directories in it (which end in a slash).
fn list(paths: &[&str], directory: &str, recursive: bool) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    for path in paths {
        let Some(rest) = path.strip_prefix(directory) else { continue };
        for (at, _) in rest.match_indices('/') {
            names.insert(format!("{directory}{}", &rest[..=at]));
            if !recursive {
                break;
            }
        }
        if recursive || !rest.contains('/') {
            names.insert((*path).to_owned());
        }
    }
    names
}

/// Status of a file: new in the package, changed or deleted since; `None` if there is none.
fn file_status(
    files: &impl PackageFiles,
    path: &str,
    url: impl Fn(&str) -> String,
) -> Result<Option<Value>, Error> {
    use md5::{Digest, Md5};
    let status = |status: &str, digest: &str| json!({ "name": url(path), "status": status, "md5": digest });
    Ok(match files.content(path)? {
        Some(content) => {
            let digest: String = Md5::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
            Some(status(if files.is_changed(path) { "changed" } else { "new" }, &digest))
        }
        None if files.deleted().contains(&path) => Some(status("deleted", "")),
        None => None,
    })
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
        let files = ["services.xml", "schemas/a.sd", "schemas/a/p.profile"];
        #[track_caller]
        fn check(files: &[&str], directory: &str, recursive: bool, expected: &[&str]) {
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
