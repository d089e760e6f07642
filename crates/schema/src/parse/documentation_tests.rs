//! Schemas in Vespa's documentation can be read; runs if the variable `VESPA_DOCS` names a checkout of it.

use std::fs;
use std::path::{Path, PathBuf};

/// Context of a snippet.
const SCHEMA: &str = "schema x { document x {} @ }";
const DOCUMENT: &str = "schema x { document x { @ } }";
const PROFILE: &str = "schema x { document x {} rank-profile p { @ } }";
const FIELD: &str = "schema x { document x { field f type string { @ } } }";

#[test]
fn snippets_of_the_documentation_are_read() {
    let Some(root) = std::env::var_os("VESPA_DOCS").map(PathBuf::from) else {
        eprintln!("skipped: VESPA_DOCS names no checkout of Vespa's documentation");
        return;
    };
    let mut pages = Vec::new();
    collect(&root, &mut pages);
    assert!(!pages.is_empty(), "no pages in {}", root.display());
    let (mut read, mut refused) = (0, Vec::new());
    for page in pages {
        let text = fs::read_to_string(&page).unwrap_or_default();
        for snippet in snippets(&text) {
            let Some(wrapped) = wrap(&snippet) else { continue };
            match super::schema_file("x.sd", &wrapped, &mut Vec::new()) {
                Ok(_) => read += 1,
                Err(error) => refused.push(format!("{}: {error}\n{snippet}\n", page.display())),
            }
        }
    }
    if let Some(path) = std::env::var_os("REFUSED_SNIPPETS") {
        fs::write(path, refused.join("\n-----\n")).unwrap();
    }
    println!("{read} snippets read, {} refused", refused.len());
    // The rejected ones have placeholders, ellipses, typing errors, or show errors that Vespa also rejects.
    assert!(
        refused.len() * 8 < read,
        "{} of {} refused:\n{}",
        refused.len(),
        read + refused.len(),
        refused.join("\n")
    );
}

fn collect(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "html" || extension == "md") {
            pages.push(path);
        }
    }
    pages.sort();
}

/// Text of `<pre>` elements and of fenced code.
fn snippets(page: &str) -> Vec<String> {
    let mut snippets = Vec::new();
    for part in page.split("<pre").skip(1) {
        if let Some((_, rest)) = part.split_once('>')
            && let Some((text, _)) = rest.split_once("</pre>")
        {
            snippets.push(plain(text));
        }
    }
    snippets.extend(
        page.split("\n```")
            .skip(1)
            .step_by(2)
            .map(|part| part.split_once('\n').map_or("", |(_, text)| text).to_owned()),
    );
    snippets
}

/// HTML without tags, entities, and the site's own directives.
fn plain(html: &str) -> String {
    let mut text = String::new();
    let mut rest = html;
    while let Some(at) = rest.find(['<', '{']) {
        text.push_str(&rest[..at]);
        rest = &rest[at..];
        let end = if rest.starts_with("{%") { rest.find("%}").map(|end| end + 2) } else { None };
        let end = end.or(if rest.starts_with('<') { rest.find('>').map(|end| end + 1) } else { None });
        let end = end.unwrap_or(1);
        if end == 1 {
            text.push_str(&rest[..1]);
        }
        rest = &rest[end..];
    }
    text.push_str(rest);
    for (entity, letter) in
        [("&lt;", "<"), ("&gt;", ">"), ("&quot;", "\""), ("&nbsp;", " "), ("&hellip;", "…"), ("&amp;", "&")]
    {
        text = text.replace(entity, letter);
    }
    text
}

/// A snippet with its context in a schema; `None` if it is not part of one.
fn wrap(snippet: &str) -> Option<String> {
    let head = snippet.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'))?;
    let word: String = head.chars().take_while(|c| c.is_ascii_lowercase() || *c == '-').collect();
    let has_placeholders =
        ["..", "…", "[name", "[body", "[property", "[feature", "[stemming", "\n$ ", "\n- "];
    if has_placeholders.iter().any(|part| snippet.contains(part))
        || (!snippet.contains('{') && !head.contains(": "))
    {
        return None;
    }
    let frame = match word.as_str() {
        "schema" | "search" if head.contains('{') => return Some(snippet.to_owned()),
        "document" if head.contains('{') && snippet.contains("rank-profile") => SCHEMA,
        "document" if head.contains('{') => return Some(snippet.to_owned()),
        "rank-profile" | "fieldset" | "document-summary" | "onnx-model" | "constant" | "import"
            if head.contains('{') =>
        {
            SCHEMA
        }
        "field" if head.contains(" type ") => {
            if snippet.contains("rank-profile") || snippet.contains("fieldset") { SCHEMA } else { DOCUMENT }
        }
        "struct" if head.contains('{') => DOCUMENT,
        "inputs" | "constants" | "first-phase" | "second-phase" | "global-phase" | "function"
        | "match-features" | "summary-features" | "rank-properties" | "mutate" | "match-phase"
        | "diversity" | "weakand" => PROFILE,
        "indexing" | "match" | "attribute" | "struct-field" | "dictionary" | "stemming" => FIELD,
        _ => return None,
    };
    Some(frame.replace('@', &format!("\n{snippet}\n")))
}
