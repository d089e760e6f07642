//! Results as XML: `presentation.format=xml`.

use std::io;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use millrace_document::{DocumentValue, json};
use millrace_result::{
    FeatureValue, FieldValue, GroupList, GroupValue, GroupingResult, ResultGroup, ResultHit,
};
use millrace_tensor::json::{TensorFormat, TensorShape};
use quick_xml::Writer;
use quick_xml::escape::partial_escape;
use quick_xml::events::BytesText;
use quick_xml::writer::ElementWriter;

use crate::group::{bounds, kind_text, value_text};
use crate::hit::{NamedFeatures, has_form};
use crate::literal::literal;
use crate::number::{JavaNumbers, java_text};
use crate::response::hits_before_groups;
use crate::{ErrorMessage, RenderOptions, SearchResponse, SourceGroup, TraceStep};

/// Field that contains the features of a document summary.
const SUMMARY_FEATURES: &str = "summaryfeatures";
/// Entry among the features that exists only in XML: a flag for features cached from matching, always false.
const CACHED: &str = "vespa.summaryFeatures.cached";

type Out<'o> = Writer<&'o mut Vec<u8>>;

/// Tags that are kept in text: the markup of bolding and snippets.
const TAGS: [&str; 3] = ["<hi>", "</hi>", "<sep />"];

/// Appends the response as XML. `encoding` is the name of the encoding to which the text is later converted.
pub fn write_xml(response: &SearchResponse<'_>, options: &RenderOptions, encoding: &str, out: &mut Vec<u8>) {
    let start = out.len();
    out.extend(format!("<?xml version=\"1.0\" encoding=\"{encoding}\" ?>").as_bytes());
    let mut writer = Writer::new_with_indent(&mut *out, b' ', 2);
    // Writing to a Vec cannot fail.
    let _ = result(response, options, &mut writer);
    writer.into_inner().push(b'\n');
    replace_forbidden(out, start);
}

/// Replaces the characters that XML has no form for, not even as a reference, in all that was written from
/// `start` on: texts, attributes, and values of JSON.
fn replace_forbidden(out: &mut Vec<u8>, start: usize) {
    let is_forbidden = |character: char| {
        let is_blank = matches!(character, '\t' | '\n' | '\r');
        (character < ' ' && !is_blank) || matches!(character, '\u{fffe}' | '\u{ffff}')
    };
    let text = String::from_utf8_lossy(&out[start..]);
    let replaced = text.contains(is_forbidden).then(|| text.replace(is_forbidden, "\u{fffd}"));
    drop(text);
    if let Some(text) = replaced {
        out.truncate(start);
        out.extend_from_slice(text.as_bytes());
    }
}

fn result(response: &SearchResponse<'_>, options: &RenderOptions, out: &mut Out<'_>) -> io::Result<()> {
    out.write_event(quick_xml::events::Event::Text(BytesText::from_escaped("\n")))?;
    let coverage = &response.coverage;
    let mut element =
        out.create_element("result").with_attribute(("total-hit-count", &*response.total_count.to_string()));
    if response.errors.is_empty() || response.coverage.documents > 0 {
        for (name, value) in [
            ("coverage-docs", response.coverage.documents.to_string()),
            ("coverage-nodes", response.coverage.nodes.to_string()),
            ("coverage-full", coverage.is_full().to_string()),
            ("coverage", coverage.percent().to_string()),
            ("results-full", response.results().1.to_string()),
            ("results", response.results().0.to_string()),
        ] {
            element = element.with_attribute((name, &*value));
        }
    }
    if let Some(timing) = &response.timing {
        for (name, duration) in [
            ("querytime", timing.query),
            ("summaryfetchtime", timing.summary_fetch),
            ("searchtime", timing.search),
        ] {
            element = element.with_attribute((name, &*format!("{:.3}", duration.as_secs_f64())));
        }
    }
    let SearchResponse { hits, groupings, sources, trace, .. } = *response;
    let has_children = !groupings.is_empty() || !hits.is_empty() || !sources.is_empty();
    if !has_children && response.errors.is_empty() && trace.is_none() {
        element.write_text_content(BytesText::from_escaped(""))?;
        return Ok(());
    }
    element.write_inner_content(|out| {
        if let Some(first) = response.errors.first() {
            let error = out.create_element("error").with_attribute(("code", &*first.code.to_string()));
            error.write_text_content(plain(&first.summary))?;
        }
        if let Some(trace) = trace {
            out.create_element("meta")
                .with_attribute(("type", "context"))
                .write_inner_content(|out| trace.children.iter().try_for_each(|inner| step(inner, out)))?;
        }
        if !response.errors.is_empty() {
            details(response.errors, out)?;
        }
        sources.iter().try_for_each(|source| of_source(source, options, out))?;
        children(hits, groupings, options, out)
    })?;
    Ok(())
}

/// Writes a step of the trace, and then an element with the steps inside of it.
fn step(step_of_trace: &TraceStep, out: &mut Out<'_>) -> io::Result<()> {
    let TraceStep { timestamp_ms, message, children } = step_of_trace;
    if let Some(message) = message {
        let time = timestamp_ms.map(|time| format!("{time} ms: ")).unwrap_or_default();
        out.create_element("p").write_text_content(plain(&format!("{time}{message}")))?;
    }
    if !children.is_empty() {
        out.create_element("p")
            .write_inner_content(|out| children.iter().try_for_each(|inner| step(inner, out)))?;
    }
    Ok(())
}

/// Writes all errors, with their causes as text.
fn details(errors: &[ErrorMessage], out: &mut Out<'_>) -> io::Result<()> {
    out.create_element("errordetails").write_inner_content(|out| {
        for error in errors {
            let mut element = out.create_element("error");
            if let Some(source) = &error.source {
                element = element.with_attribute(("source", &**source));
            }
            element
                .with_attribute(("error", &*error.summary))
                .with_attribute(("code", &*error.code.to_string()))
                .write_text_content(plain(error.message.as_deref().unwrap_or_default()))?;
        }
        Ok(())
    })?;
    Ok(())
}

fn of_source(source: &SourceGroup<'_>, options: &RenderOptions, out: &mut Out<'_>) -> io::Result<()> {
    out.create_element("group")
        .with_attribute(("relevancy", &*java_text(SourceGroup::RELEVANCE)))
        .with_attribute(("source", source.name))
        .write_inner_content(|out| children(source.hits, source.groupings, options, out))?;
    Ok(())
}

/// Writes hits with a higher relevance than groups, groups, other hits.
fn children(
    hits: &[ResultHit],
    groupings: &[GroupingResult],
    options: &RenderOptions,
    out: &mut Out<'_>,
) -> io::Result<()> {
    let (before, after) = hits.split_at(hits_before_groups(hits, groupings));
    before.iter().try_for_each(|found| hit(found, options, out))?;
    for grouping in groupings {
        let pages = [("this", Some(grouping.continuation.as_str()))];
        group(&grouping.root, &pages, options, out)?;
    }
    after.iter().try_for_each(|found| hit(found, options, out))
}

fn group(
    group: &ResultGroup,
    pages: &[(&str, Option<&str>)],
    options: &RenderOptions,
    out: &mut Out<'_>,
) -> io::Result<()> {
    let relevance = java_text(group.relevance);
    out.create_element("group").with_attribute(("relevance", &*relevance)).write_inner_content(|out| {
        let kind = kind_text(&group.id);
        let id = out.create_element("id").with_attribute(("type", kind));
        match (bounds(&group.id), value_text(&group.id)) {
            (Some((from, to)), _) => id
                .write_inner_content(|out| {
                    out.create_element("from").write_text_content(plain(&from))?;
                    out.create_element("to").write_text_content(plain(&to)).map(drop)
                })
                .map(drop)?,
            (None, Some(value)) => id.write_text_content(plain(&value)).map(drop)?,
            (None, None) => id.write_empty().map(drop)?,
        }
        continuations(pages, out)?;
        for (label, value) in &group.outputs {
            let element = out.create_element("output").with_attribute(("label", label.as_str()));
            output(value, element)?;
        }
        group.lists.iter().try_for_each(|inner| list(inner, options, out))
    })?;
    Ok(())
}

fn output(value: &GroupValue, element: ElementWriter<'_, &mut Vec<u8>>) -> io::Result<()> {
    let text = match value {
        GroupValue::Long(value) => value.to_string(),
        GroupValue::Double(value) => java_text(*value),
        GroupValue::String(text) => text.clone(),
        GroupValue::Bool(value) => value.to_string(),
        GroupValue::Raw(bytes) => STANDARD.encode(bytes),
        GroupValue::Quantiles(quantiles) => quantiles
            .iter()
            .map(|(quantile, value)| format!("{}: {}", java_text(*quantile), java_text(*value)))
            .collect::<Vec<_>>()
            .join(", "),
    };
    element.write_text_content(plain(&text)).map(drop)
}

fn list(list: &GroupList, options: &RenderOptions, out: &mut Out<'_>) -> io::Result<()> {
    let (name, label, (next, previous)) = match list {
        GroupList::Groups { label, continuation, .. } => ("grouplist", label, continuation),
        GroupList::Hits { label, continuation, .. } => ("hitlist", label, continuation),
    };
    out.create_element(name).with_attribute(("label", label.as_str())).write_inner_content(|out| {
        continuations(&[("next", next.as_deref()), ("prev", previous.as_deref())], out)?;
        match list {
            GroupList::Groups { groups, .. } => {
                groups.iter().try_for_each(|inner| group(inner, &[], options, out))
            }
            GroupList::Hits { hits, .. } => hits.iter().try_for_each(|found| hit(found, options, out)),
        }
    })?;
    Ok(())
}

fn continuations(pages: &[(&str, Option<&str>)], out: &mut Out<'_>) -> io::Result<()> {
    for (name, text) in pages {
        if let Some(text) = text {
            out.create_element("continuation")
                .with_attribute(("id", *name))
                .write_text_content(plain(text))?;
        }
    }
    Ok(())
}

fn hit(hit: &ResultHit, options: &RenderOptions, out: &mut Out<'_>) -> io::Result<()> {
    let relevance = java_text(hit.relevance);
    out.create_element("hit")
        .with_attribute(("relevancy", &*relevance))
        .with_attribute(("source", &*hit.source))
        .write_inner_content(|out| {
            out.create_element("field")
                .with_attribute(("name", "relevancy"))
                .write_text_content(plain(&relevance))?;
            let is_id = |name: &str| name == "documentid";
            let others = hit.fields.iter().filter(|(name, _)| !is_id(name));
            for (name, value) in others.chain(hit.fields.iter().filter(|(name, _)| is_id(name))) {
                let element = out.create_element("field").with_attribute(("name", &**name));
                field(name, value, options, element)?;
            }
            Ok(())
        })?;
    Ok(())
}

fn field(
    name: &str,
    value: &FieldValue,
    options: &RenderOptions,
    element: ElementWriter<'_, &mut Vec<u8>>,
) -> io::Result<()> {
    match value {
        unshown if !has_form(unshown) => element.write_text_content(plain("")).map(drop),
        FieldValue::Value(value) => content(value, options, element),
        FieldValue::Features(features) => {
            let mut features = features.clone();
            if name == SUMMARY_FEATURES {
                features.push((CACHED.into(), FeatureValue::Number(0.0)));
            }
            features.sort_by(|(a, _), (b, _)| a.cmp(b));
            let tensors = TensorFormat { shape: TensorShape::Long, direct: false, ..options.tensors };
            let features = NamedFeatures { features: &features, tensors };
            element.write_text_content(plain(&json_text(&features))).map(drop)
        }
        FieldValue::Strings(strings) => element
            .write_inner_content(|out| {
                for text in strings {
                    out.create_element("item").write_text_content(plain(text))?;
                }
                Ok(())
            })
            .map(drop),
    }
}

/// Writes the value inside a started element.
fn content(
    value: &DocumentValue,
    options: &RenderOptions,
    element: ElementWriter<'_, &mut Vec<u8>>,
) -> io::Result<()> {
    let nested = match value {
        DocumentValue::Array(values) => !values.is_empty(),
        DocumentValue::WeightedSet(_) | DocumentValue::Map(_) | DocumentValue::Struct(_) => !value.is_empty(),
        DocumentValue::Position { .. } => true,
        _ => false,
    };
    if !nested {
        let text = with_tags(&scalar_text(value, options));
        return element.write_text_content(BytesText::from_escaped(text)).map(drop);
    }
    element
        .write_inner_content(|out| {
            match value {
                DocumentValue::Array(values) => {
                    for value in values {
                        member(value, options, out.create_element("item"))?;
                    }
                }
                DocumentValue::WeightedSet(elements) => {
                    for (value, weight) in elements {
                        let weight = weight.to_string();
                        let item = out.create_element("item").with_attribute(("weight", &*weight));
                        member(value, options, item)?;
                    }
                }
                DocumentValue::Map(entries) => {
                    for (key, value) in entries {
                        out.create_element("item").write_inner_content(|out| {
                            member(key, options, out.create_element("key"))?;
                            member(value, options, out.create_element("value"))
                        })?;
                    }
                }
                DocumentValue::Struct(fields) => {
                    for (name, value) in fields {
                        let field = out.create_element("struct-field").with_attribute(("name", &**name));
                        member(value, options, field)?;
                    }
                }
                DocumentValue::Position { latitude, longitude } => {
                    for (name, millionths) in [("lat", *latitude), ("lng", *longitude)] {
                        let field = out.create_element("struct-field").with_attribute(("name", name));
                        field.write_text_content(plain(&java_text(f64::from(millionths) / 1e6)))?;
                    }
                }
                _ => {}
            }
            Ok(())
        })
        .map(drop)
}

/// Writes a value that is part of another one. The form of bytes differs there.
fn member(
    value: &DocumentValue,
    options: &RenderOptions,
    element: ElementWriter<'_, &mut Vec<u8>>,
) -> io::Result<()> {
    let DocumentValue::Raw(bytes) = value else { return content(value, options, element) };
    let mut digits = String::with_capacity(2 * bytes.len());
    for byte in bytes {
        digits.push_str(&format!("{byte:02X}"));
    }
    element
        .write_inner_content(|out| {
            out.create_element("data")
                .with_attribute(("length", &*bytes.len().to_string()))
                .with_attribute(("encoding", "hex"))
                .write_text_content(plain(&digits))
                .map(drop)
        })
        .map(drop)
}

fn scalar_text(value: &DocumentValue, options: &RenderOptions) -> String {
    match value {
        DocumentValue::String(text) => text.clone(),
        DocumentValue::Raw(bytes) => STANDARD.encode(bytes),
        DocumentValue::Tensor(tensor) => literal(tensor),
        DocumentValue::Array(_)
        | DocumentValue::WeightedSet(_)
        | DocumentValue::Map(_)
        | DocumentValue::Struct(_) => String::new(),
        other => json_text(&json::value(other, options.tensors)).trim_matches('"').to_owned(),
    }
}

fn json_text(value: &impl serde::Serialize) -> String {
    let mut out = Vec::new();
    // Writing to a Vec cannot fail, and all keys are text.
    let _ = value.serialize(&mut serde_json::Serializer::with_formatter(&mut out, JavaNumbers));
    String::from_utf8_lossy(&out).into_owned()
}

/// Text escaped for use between tags.
fn plain(text: &str) -> BytesText<'_> {
    BytesText::from_escaped(partial_escape(text))
}

/// True if each tag in a text that begins also ends. Those of bolding do; those that a document has in its
/// own text need not.
fn has_pairs(text: &str) -> bool {
    let mut open = 0_usize;
    let marks = text.match_indices("<hi>").chain(text.match_indices("</hi>"));
    let mut marks: Vec<(usize, &str)> = marks.collect();
    marks.sort_unstable();
    let is_ordered = marks.iter().all(|(_, mark)| match *mark {
        "<hi>" => {
            open += 1;
            true
        }
        _ => {
            let was_open = open > 0;
            open = open.saturating_sub(1);
            was_open
        }
    });
    is_ordered && open == 0
}

/// Text with everything escaped except the tags around query words.
fn with_tags(text: &str) -> String {
    if !has_pairs(text) {
        return partial_escape(text).into_owned();
    }
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    while let Some((at, tag)) =
        TAGS.iter().filter_map(|tag| rest.find(tag).map(|at| (at, *tag))).min_by_key(|(at, _)| *at)
    {
        out.push_str(&partial_escape(&rest[..at]));
        out.push_str(tag);
        rest = &rest[at + tag.len()..];
    }
    out.push_str(&partial_escape(rest));
    out
}
