//! `preprocess:include`, `include`, `deploy:…` and `preprocess:properties`: processing of the text before
//! parsing.

use std::ops::Range;

use super::{FILE, qualified_name, required, variants};
use crate::package::Files;
use crate::{Error, SourcePosition, xml};

/// Maximum nesting of included files.
const DEPTH_MAX: usize = 8;
/// Maximum size of the text with all files included, in bytes.
const BYTES_MAX: usize = 4 << 20;

/// Returns the text with included files, without the elements of other deployments, and with substituted
/// properties.
///
/// # Errors
/// A file is not in the package, files include each other, a property has no value, or the result is too
/// large.
pub(super) fn run(text: &str, files: &Files) -> Result<String, Error> {
    substitute(variants::select(&include_directories(include(text, files)?, files)?)?)
}

/// Replaces each `preprocess:include` by its file, between marks.
fn include(text: &str, files: &Files) -> Result<String, Error> {
    let mut text = text.to_owned();
    for depth in 0.. {
        let document = xml::parse(FILE, &text)?;
        let includes: Vec<_> = document
            .descendants()
            .filter(|node| node.is_element() && qualified_name(*node) == "preprocess:include")
            .collect();
        let Some(first) = includes.first() else { break };
        if depth >= DEPTH_MAX {
            let reason =
                format!("files are included in files more than {DEPTH_MAX} deep; does one include itself?");
            return xml::invalid(FILE, *first, reason);
        }
        let mut included = String::with_capacity(text.len());
        let mut end = 0;
        for node in &includes {
            let path = required(*node, "file")?;
            let Some(file) = files.get(path) else {
                return xml::invalid(FILE, *node, format!("the package has no file '{path}'"));
            };
            included.push_str(&text[end..node.range().start]);
            let file = xml::text(path, file)?;
            included.push_str(&xml::included(path, file, without_declaration(file)));
            included.push_str(&xml::skipped(&text[node.range()]));
            end = node.range().end;
            if included.len() > BYTES_MAX {
                return xml::invalid(
                    FILE,
                    *node,
                    format!("with '{path}' the text is larger than {BYTES_MAX} bytes"),
                );
            }
        }
        included.push_str(&text[end..]);
        text = included;
    }
    Ok(text)
}

/// Replaces each `<include dir='…'/>` by the content of the files in that directory, between marks. Their
/// root elements have the name of the element around it.
fn include_directories(text: String, files: &Files) -> Result<String, Error> {
    let document = xml::parse(FILE, &text)?;
    let is_include = |node: &roxmltree::Node<'_, '_>| {
        node.is_element() && qualified_name(*node) == "include" && node.has_attribute("dir")
    };
    let mut included = String::with_capacity(text.len());
    let mut end = 0;
    for node in document.descendants().filter(is_include) {
        included.push_str(&text[end..node.range().start]);
        end = node.range().end;
        let directory = required(node, "dir")?.trim_end_matches('/');
        let prefix = format!("{directory}/");
        let is_in_it = |path: &str| {
            path.strip_prefix(&prefix).is_some_and(|name| name.ends_with(".xml") && !name.contains('/'))
        };
        let mut found = false;
        for (path, file) in files.iter().filter(|(path, _)| is_in_it(path)) {
            found = true;
            included.push_str(&content_of_root(path, xml::text(path, file)?, node)?);
            if included.len() > BYTES_MAX {
                let reason = format!("with '{path}' the text is larger than {BYTES_MAX} bytes");
                return xml::invalid(FILE, node, reason);
            }
        }
        included.push_str(&xml::skipped(&text[node.range()]));
        if !found {
            let reason = format!("the package has no directory '{directory}' with XML files to include");
            return xml::invalid(FILE, node, reason);
        }
    }
    included.push_str(&text[end..]);
    Ok(included)
}

/// Content of the root element of an included file, between marks.
fn content_of_root(path: &str, text: &str, include: roxmltree::Node<'_, '_>) -> Result<String, Error> {
    let document = xml::parse(path, text)?;
    let root = document.root_element();
    let around = include.parent().map_or("", |parent| parent.tag_name().name());
    if root.tag_name().name() != around {
        let reason = format!("expected <{around}>, as around the <include> of this file");
        return xml::invalid(path, root, reason);
    }
    let range =
        root.first_child().zip(root.last_child()).map(|(first, last)| first.range().start..last.range().end);
    Ok(range.map_or_else(String::new, |range| xml::included(path, text, range)))
}

/// Range of a file without its XML declaration.
fn without_declaration(file: &str) -> Range<usize> {
    let begin = file.len() - file.trim_start().len();
    let end = file[begin..].strip_prefix("<?xml").and_then(|_| file[begin..].find("?>"));
    end.map_or(0, |end| begin + end + "?>".len())..file.len()
}

/// Substitutes the values of `preprocess:properties` for `${name}`.
fn substitute(text: String) -> Result<String, Error> {
    if !text.contains("${") {
        return Ok(text);
    }
    let document = xml::parse(FILE, &text)?;
    let mut result = text.clone();
    let properties = xml::elements(document.root_element())
        .filter(|node| qualified_name(*node) == "preprocess:properties");
    for property in properties.flat_map(|node| xml::elements(node).collect::<Vec<_>>()) {
        result = result.replace(&format!("${{{}}}", property.tag_name().name()), xml::content(property));
        if result.len() > 4 * text.len() + (1 << 16) {
            return xml::invalid(FILE, property, "the properties make the file too large");
        }
    }
    match result.find("${") {
        None => Ok(result),
        Some(at) => {
            let name: String = result[at + 2..].chars().take_while(|&c| c != '}').take(60).collect();
            let position = SourcePosition { column: 1, ..xml::position(FILE, &result, at) };
            Err(Error::Invalid {
                position,
                reason: format!("no property '{name}': add it to <preprocess:properties>"),
            })
        }
    }
}
