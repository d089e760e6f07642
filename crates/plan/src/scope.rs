//! The set of documents that a request reads.

use std::sync::Arc;

use millrace_document::DocumentGroup;
use millrace_query::StreamingScope;
use millrace_selection::DocumentSelection;

use crate::{Error, StreamedScope};

impl StreamedScope {
    /// Scope given by a request's `streaming` parameters. A selection that only names groups becomes the list
    /// of them.
    ///
    /// # Errors
    /// The parameters give no scope, or several, or the syntax of the selection is invalid.
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
                    "it is not said whose documents to search; set groupname (streaming.groupname) to a group, or streaming.selection=true for all"
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
        let Some(text) = &streaming.selection else {
            let mut groups: Vec<DocumentGroup> =
                streaming.groups.iter().cloned().map(DocumentGroup::Name).collect();
            groups.sort();
            groups.dedup();
            return Ok(StreamedScope::Groups(groups));
        };
        let selection = DocumentSelection::parse(text)?;
        if let Some(groups) = selection.named_groups() {
            return Ok(StreamedScope::Groups(groups.into_iter().collect()));
        }
        let selection = Some(selection).filter(|selection| !selection.selects_all());
        Ok(StreamedScope::All { selection: selection.map(Arc::new) })
    }
}
