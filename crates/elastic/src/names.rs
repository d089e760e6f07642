//! Names of indexes: their rules, and the indexes that an expression names.

use serde_json::{Map, Value};

use crate::Error;
use crate::catalog::{CatalogEntries, OpenIndex};
use crate::dated_names::with_dates;
use crate::patterns::glob;
use crate::request::ElasticParameters;

/// Treatment of names that lead nowhere, and of indexes that patterns pass over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct NameOptions {
    pub(crate) ignore_unavailable: bool,
    pub(crate) allow_no_indices: bool,
    pub(crate) open: bool,
    pub(crate) closed: bool,
    pub(crate) hidden: bool,
    /// True if a closed index is an error.
    pub(crate) forbid_closed: bool,
    /// True if aliases may be named.
    pub(crate) aliases: bool,
}

impl NameOptions {
    /// Options of most requests: open indexes, and no error if a pattern finds none.
    pub(crate) const LENIENT: NameOptions = NameOptions {
        ignore_unavailable: false,
        allow_no_indices: true,
        open: true,
        closed: false,
        hidden: false,
        forbid_closed: true,
        aliases: true,
    };

    /// Changes the options by the parameters of a request.
    pub(crate) fn with(mut self, parameters: &ElasticParameters) -> Result<Self, Error> {
        if let Some(flag) = parameters.flag("ignore_unavailable")? {
            self.ignore_unavailable = flag;
        }
        if let Some(flag) = parameters.flag("allow_no_indices")? {
            self.allow_no_indices = flag;
        }
        if let Some(states) = parameters.get("expand_wildcards") {
            (self.open, self.closed, self.hidden) = (false, false, false);
            for state in states.split(',') {
                match state {
                    "open" => self.open = true,
                    "closed" => self.closed = true,
                    "hidden" => self.hidden = true,
                    "all" => (self.open, self.closed, self.hidden) = (true, true, true),
                    "none" => {}
                    other => {
                        return Err(Error::IllegalArgument(format!(
                            "No valid expand wildcard value [{other}]"
                        )));
                    }
                }
            }
        }
        Ok(self)
    }
}

/// Condition on the name of a write.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub(crate) struct NameDemand {
    /// An alias.
    pub(crate) alias: bool,
    /// A data stream, or a name whose first write makes one.
    pub(crate) data_stream: bool,
}

impl NameDemand {
    /// Reads the parameters `require_alias` and `require_data_stream`.
    pub(crate) fn of(parameters: &ElasticParameters) -> Result<Self, Error> {
        Ok(NameDemand {
            alias: parameters.flag("require_alias")?.unwrap_or(false),
            data_stream: parameters.flag("require_data_stream")?.unwrap_or(false),
        })
    }
}

/// True if an expression has more than exact names.
pub(crate) fn is_pattern(expression: &str) -> bool {
    expression.is_empty() || expression == "_all" || expression.contains('*')
}

/// Indexes that an expression names: names, aliases and data streams with commas between, patterns, and
/// exclusions with a `-`, each also with date math. In the order of their names for a pattern, which finds no
/// document types: their documents are read by the groups that a request names.
///
/// # Errors
/// A name leads nowhere, or nothing is found, and the options do not allow that.
pub(crate) fn resolve(
    entries: &CatalogEntries,
    expression: &str,
    options: NameOptions,
) -> Result<Vec<OpenIndex>, Error> {
    let expression = &*with_dates(expression)?;
    let mut found: Vec<OpenIndex> = Vec::new();
    let add = |found: &mut Vec<OpenIndex>, index: &OpenIndex| {
        if found.iter().all(|other| other.entry.name != index.entry.name) {
            found.push(index.clone());
        }
    };
    let parts: Vec<&str> = match expression {
        "" => vec!["_all"],
        other => other.split(',').filter(|part| !part.is_empty()).collect(),
    };
    let mut had_pattern = false;
    for part in parts {
        if let Some(excluded) = part.strip_prefix('-').filter(|_| had_pattern) {
            let gone: Vec<String> =
                named(entries, excluded, options).map(|index| index.entry.name.clone()).collect();
            found.retain(|index| !gone.contains(&index.entry.name) && !glob(excluded, &index.entry.name));
            continue;
        }
        if is_pattern(part) {
            had_pattern = true;
            // All indexes are found by their own names: a hidden one does not appear by its alias.
            let of_all = NameOptions { aliases: false, ..options };
            let matched: Vec<OpenIndex> = match part {
                "_all" => named(entries, "*", of_all).cloned().collect(),
                "*" if expression == "*" => named(entries, "*", of_all).cloned().collect(),
                pattern => named(entries, pattern, options).cloned().collect(),
            };
            if matched.is_empty() && !options.allow_no_indices {
                return Err(Error::no_index(part));
            }
            matched.iter().for_each(|index| add(&mut found, index));
            continue;
        }
        let exact = exact(entries, part, options.aliases);
        if exact.is_empty() {
            if options.ignore_unavailable {
                continue;
            }
            if !options.aliases && entries.with_alias(part).next().is_some() {
                return Err(Error::IllegalArgument(format!(
                    "The provided expression [{part}] matches an alias, specify the corresponding concrete indices instead."
                )));
            }
            return Err(Error::no_index(part));
        }
        for index in exact {
            if index.entry.is_closed && options.forbid_closed {
                if options.ignore_unavailable {
                    continue;
                }
                return Err(Error::Closed(index.entry.name.clone()));
            }
            add(&mut found, &index);
        }
    }
    if found.is_empty() && !options.allow_no_indices {
        return Err(Error::no_index(if expression.is_empty() { "_all" } else { expression }));
    }
    Ok(found)
}

/// Names of the document types that an expression has, also those that its patterns would find if they did
/// not pass over types.
///
/// # Errors
/// A date is malformed.
pub(crate) fn covered_types<'e>(
    entries: &'e CatalogEntries,
    expression: &str,
    options: NameOptions,
) -> Result<Vec<&'e str>, Error> {
    let expression = &*with_dates(expression)?;
    let mut covered: Vec<&str> = Vec::new();
    let mut had_pattern = false;
    for part in expression.split(',').filter(|part| !part.is_empty() || expression.is_empty()) {
        if let Some(excluded) = part.strip_prefix('-').filter(|_| had_pattern) {
            covered.retain(|name| !glob(excluded, name));
            continue;
        }
        had_pattern |= is_pattern(part);
        let pattern = if part.is_empty() || part == "_all" { "*" } else { part };
        // Types are open, and not hidden.
        if options.open || !is_pattern(part) {
            covered.extend(entries.type_names().filter(|name| glob(pattern, name)));
        }
    }
    covered.sort_unstable();
    covered.dedup();
    Ok(covered)
}

/// Indexes of an exact name.
fn exact(entries: &CatalogEntries, name: &str, aliases: bool) -> Vec<OpenIndex> {
    if let Some(index) = entries.index(name) {
        return vec![index.clone()];
    }
    if let Some(stream) = entries.streams.get(name) {
        return stream.indexes.iter().filter_map(|index| entries.indexes.get(index)).cloned().collect();
    }
    if aliases { entries.with_alias(name).cloned().collect() } else { Vec::new() }
}

/// Indexes whose name, alias or data stream matches a pattern.
fn named<'e>(
    entries: &'e CatalogEntries,
    pattern: &'e str,
    options: NameOptions,
) -> impl Iterator<Item = &'e OpenIndex> {
    entries.indexes.values().filter(move |index| {
        let name = &index.entry.name;
        let of_state = if index.entry.is_closed { options.closed } else { options.open };
        let of_stream = || {
            let mut streams = entries.streams.values();
            streams.any(|stream| stream.indexes.contains(name) && glob(pattern, &stream.name))
        };
        let by_name = matches_name(pattern, index, options);
        let by_alias =
            || index.entry.aliases.iter().any(|(alias, of)| matches_alias(pattern, alias, of, options));
        of_state && (by_name || by_alias() || of_stream())
    })
}

/// True if a pattern finds an index by its own name.
pub(crate) fn matches_name(pattern: &str, index: &OpenIndex, options: NameOptions) -> bool {
    let name = &index.entry.name;
    let is_dotted = pattern.starts_with('.') && name.starts_with('.');
    glob(pattern, name) && (options.hidden || is_dotted || !index.is_hidden())
}

/// True if a pattern finds indexes by an alias with these options.
pub(crate) fn matches_alias(
    pattern: &str,
    alias: &str,
    of: &Map<String, Value>,
    options: NameOptions,
) -> bool {
    let is_hidden = of.get("is_hidden").is_some_and(|hidden| *hidden == true);
    options.aliases && glob(pattern, alias) && (options.hidden || !is_hidden)
}

/// Options of the aliases by which an expression names an index, with its dates written out. None if it also
/// names the index itself, or its data stream.
pub(crate) fn aliases_of<'i>(
    entries: &CatalogEntries,
    expression: &str,
    options: NameOptions,
    index: &'i OpenIndex,
) -> Vec<&'i Map<String, Value>> {
    let stream = entries.stream_of(&index.entry.name);
    let mut found = Vec::new();
    for part in expression.split(',').filter(|part| !part.is_empty()) {
        let is_exact = !is_pattern(part);
        let pattern = if part == "_all" { "*" } else { part };
        let has_name = match is_exact {
            true => index.entry.name == part,
            false => matches_name(pattern, index, options),
        };
        if has_name || stream.is_some_and(|stream| glob(pattern, &stream.name)) {
            return Vec::new();
        }
        found.extend(index.entry.aliases.iter().filter_map(|(alias, of)| {
            let is_named = if is_exact { alias == part } else { matches_alias(pattern, alias, of, options) };
            is_named.then_some(of)
        }));
    }
    found
}

/// Bytes of the name of an index, and of a pattern of names.
pub(crate) const NAME_BYTES_MAX: usize = 255;

/// Checks the name of a new index.
///
/// # Errors
/// It breaks a rule.
pub(crate) fn check_index_name(name: &str) -> Result<(), Error> {
    let fail = |reason: &str| Err(Error::IndexName { name: name.to_owned(), reason: reason.to_owned() });
    if name.is_empty() {
        return fail("must not be empty");
    }
    if name == "." || name == ".." {
        return fail("must not be '.' or '..'");
    }
    const BAD: [char; 11] = ['\\', '/', '*', '?', '"', '<', '>', '|', ' ', ',', ':'];
    if name.contains('#') {
        return fail("must not contain '#'");
    }
    if name.contains(BAD) || name.chars().any(char::is_control) {
        return fail("must not contain the following characters [ , \", *, \\, <, |, ,, >, /, ?]");
    }
    if name.starts_with(['_', '-', '+']) {
        return fail("must not start with '_', '-', or '+'");
    }
    if name.len() > NAME_BYTES_MAX {
        return fail("index name is too long, (");
    }
    if name.to_lowercase() != name {
        return fail("must be lowercase");
    }
    Ok(())
}

/// Checks the name of a new alias.
///
/// # Errors
/// It breaks a rule, or an index has the name.
pub(crate) fn check_alias_name(entries: &CatalogEntries, name: &str) -> Result<(), Error> {
    let fail = |reason: &str| Err(Error::AliasName { name: name.to_owned(), reason: reason.to_owned() });
    if entries.index(name).is_some() || entries.streams.contains_key(name) {
        return fail("an index or data stream exists with the same name as the alias");
    }
    match check_index_name(&name.to_lowercase()) {
        Err(Error::IndexName { reason, .. }) => fail(&reason),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_of_names() {
        for name in ["a", "logs-2024.01.01", ".hidden", "ä", "a_b-c+d"] {
            assert!(check_index_name(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "_a", "-a", "+a", "A", "a b", "a/b", "a*", "a#b", "a,b", "a:b", "a\u{0}"]
        {
            let error = check_index_name(name).expect_err(name);
            assert_eq!((error.kind(), error.status()), ("invalid_index_name_exception", 400), "{name}");
        }
        assert!(check_index_name(&"a".repeat(256)).is_err());
    }
}
