//! The set of documents that a request reads.

use millrace_document::DocumentGroup;
use millrace_query::StreamingScope;

use crate::{Error, StreamedScope};

impl StreamedScope {
    /// Scope given by a request's `streaming` parameters.
    ///
    /// # Errors
    /// The parameters give no scope, or several.
    pub fn of(streaming: &StreamingScope) -> Result<StreamedScope, Error> {
        let given = [
            (!streaming.groups.is_empty(), "streaming.groupname"),
            (streaming.user.is_some(), "streaming.userid"),
            (streaming.selection.is_some(), "streaming.selection"),
        ];
        let given: Vec<&str> =
            given.into_iter().filter(|(is_given, _)| *is_given).map(|(_, name)| name).collect();
        match given.as_slice() {
            [_] => {}
            [] => {
                return Err(Error::Scope(
                    "it is not said whose documents to search; set streaming.groupname to a group, or streaming.selection=true for all"
                        .to_owned(),
                ));
            }
            several => {
                return Err(Error::Scope(format!("only one of {} can be given", several.join(", "))));
            }
        }
        if let Some(user) = streaming.user {
            return Ok(StreamedScope::Groups(vec![DocumentGroup::Number(user)]));
        }
        let mut groups: Vec<DocumentGroup> = match &streaming.selection {
            None => streaming.groups.iter().cloned().map(DocumentGroup::Name).collect(),
            Some(selection) => match groups_of(selection) {
                Some(groups) => groups,
                None => {
                    let selection = Some(selection.clone()).filter(|text| text.trim() != "true");
                    return Ok(StreamedScope::All { selection });
                }
            },
        };
        groups.sort();
        groups.dedup();
        Ok(StreamedScope::Groups(groups))
    }
}

/// Groups of a selection that consists only of group conditions: `id.group == "a" or id.user == 5`.
fn groups_of(selection: &str) -> Option<Vec<DocumentGroup>> {
    let mut rest = selection.trim();
    let mut groups = Vec::new();
    loop {
        let is_group = rest.starts_with("id.group");
        rest = rest.strip_prefix("id.group").or_else(|| rest.strip_prefix("id.user"))?.trim_start();
        rest = rest.strip_prefix("==").or_else(|| rest.strip_prefix('='))?.trim_start();
        if is_group {
            let quote = rest.chars().next().filter(|c| matches!(c, '"' | '\''))?;
            let end = rest[1..].find(quote)? + 1;
            let name = &rest[1..end];
            if name.is_empty() || name.contains('\\') {
                return None;
            }
            groups.push(DocumentGroup::Name(name.to_owned()));
            rest = rest[end + 1..].trim_start();
        } else {
            let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
            groups.push(DocumentGroup::Number(rest[..end].parse().ok()?));
            rest = rest[end..].trim_start();
        }
        if rest.is_empty() {
            return Some(groups);
        }
        let after = rest.strip_prefix("or").or_else(|| rest.strip_prefix("OR"))?;
        rest = after.strip_prefix(|c: char| c.is_whitespace())?.trim_start();
    }
}
