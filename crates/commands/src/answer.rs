//! Text form of a query's answer, for people.

use serde_json::Value;

/// Formats hits and groups as lines, then additional requested data, then the number of matching documents.
pub fn text(answer: &Value) -> String {
    let root = &answer["root"];
    let mut lines = Vec::new();
    for error in root["errors"].as_array().into_iter().flatten() {
        lines.push(format!("error: {}", error["message"].as_str().unwrap_or("unknown")));
    }
    let failed = !lines.is_empty();
    if ["token_stream", "completion"].iter().any(|id| root["id"] == *id) {
        for event in children(root).iter().flat_map(children) {
            if let Some(prompt) = event["fields"]["prompt"].as_str() {
                lines.push(format!("prompt:\n{}\n", prompt.trim_end()));
            }
            if let Some(result) = event["fields"]["hits"].as_str() {
                lines.push(format!("{}\n", text(&serde_json::from_str(result).unwrap_or_default())));
            }
        }
        lines.push(model_answer(root));
        return lines.join("\n");
    }
    let before = lines.len();
    list(root, 0, &mut lines);
    let has_results = lines.len() > before;
    let trace = children(&answer["trace"]);
    if !trace.is_empty() {
        lines.push("trace:".to_owned());
        trace.iter().for_each(|step| traced(step, 1, &mut lines));
    }
    if let Some(timing) = answer["timing"].as_object() {
        let seconds = |value: &Value| value.as_f64().unwrap_or(0.0);
        let times = timing.iter().map(|(name, value)| format!("{name} {:.1} ms", seconds(value) * 1e3));
        lines.push(format!("timing: {}", times.collect::<Vec<_>>().join(", ")));
    }
    // The partial count before an error says nothing about the documents.
    if has_results || !failed {
        lines.push(matches(root));
    }
    lines.join("\n")
}

fn matches(root: &Value) -> String {
    match root["fields"]["totalCount"].as_u64() {
        Some(0) if root["coverage"]["documents"] == 0 => {
            "0 documents match: there are none to search; is the group written as in the ids?".to_owned()
        }
        Some(1) => "1 document matches".to_owned(),
        count => format!("{} documents match", count.unwrap_or(0)),
    }
}

fn children(value: &Value) -> &[Value] {
    value["children"].as_array().map_or(&[], Vec::as_slice)
}

/// Answer of a language model: each piece of it is a hit of its own.
fn model_answer(root: &Value) -> String {
    let events = children(root).iter().flat_map(children);
    let pieces =
        events.filter_map(|event| event["fields"].get("token").or(event["fields"].get("completion")));
    pieces.filter_map(Value::as_str).collect()
}

/// Lists the hits and groups in `parent`, each hit with its number.
fn list(parent: &Value, depth: usize, lines: &mut Vec<String>) {
    let mut number = 0;
    for child in children(parent) {
        let id = child["id"].as_str().unwrap_or_default();
        if ["group:", "grouplist:", "hitlist:", "source:"].iter().any(|kind| id.starts_with(kind)) {
            group(child, depth, lines);
        } else {
            number += 1;
            hit(number, child, depth, lines);
        }
    }
}

fn hit(number: usize, hit: &Value, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    lines.push(format!("{indent}{number:>3}. {}  ({})", shown(&hit["id"]), shown(&hit["relevance"])));
    for (name, value) in hit["fields"].as_object().into_iter().flatten() {
        if matches!(name.as_str(), "sddocname" | "documentid") {
            continue;
        }
        lines.push(format!("{indent}     {name}: {}", shortened(&shown(value))));
    }
}

fn group(group: &Value, depth: usize, lines: &mut Vec<String>) {
    let of = |(name, value): (&String, &Value)| format!("{name} {}", shown(value));
    let fields: Vec<String> = group["fields"].as_object().into_iter().flatten().map(of).collect();
    // The group of all documents has no name. Hits of a source that is shown apart are named after it.
    let name = ["value", "label", "source"].iter().find_map(|member| group.get(member)).map(shown);
    let name = name.or_else(|| {
        let limits = group.get("limits")?;
        Some(format!("{} to {}", shown(&limits["from"]), shown(&limits["to"])))
    });
    let line = [name.unwrap_or_default(), fields.join(", ")];
    let line = line.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join("  ");
    if !line.is_empty() {
        lines.push(format!("{}{line}", "  ".repeat(depth)));
    }
    list(group, depth + usize::from(!line.is_empty()), lines);
}

/// Formats a step of a trace: a message, nested steps, or both.
fn traced(step: &Value, depth: usize, lines: &mut Vec<String>) {
    let indent = "  ".repeat(depth);
    if let Some(message) = step.get("message").map(shown) {
        lines.extend(message.lines().map(|line| format!("{indent}{line}")));
    }
    children(step).iter().for_each(|inner| traced(inner, depth + 1, lines));
}

fn shown(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    }
}

/// Formats text on one line, shortened, with matched words between stars.
fn shortened(text: &str) -> String {
    let text = text.replace("<hi>", "*").replace("</hi>", "*").replace("<sep />", " … ");
    let line = text.split_whitespace().collect::<Vec<_>>().join(" ");
    match line.char_indices().nth(200) {
        Some((at, _)) => format!("{}…", &line[..at]),
        None => line,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn answers_for_people() {
        let answer = json!({ "root": { "fields": { "totalCount": 2 }, "children": [
            { "id": "group:root:0", "children": [
                { "id": "grouplist:from", "label": "from", "children": [
                    { "id": "group:string:ann", "value": "ann", "fields": { "count()": 2 } } ] } ] },
            { "id": "id:m:m::1", "relevance": 0.5, "fields": { "sddocname": "m", "subject": "a <hi>b</hi>" } },
        ]}});
        assert_eq!(
            text(&answer),
            "from\n  ann  count() 2\n  1. id:m:m::1  (0.5)\n     subject: a *b*\n2 documents match"
        );
    }

    #[test]
    fn hits_of_sources_that_are_shown_apart() {
        let source = |name: &str, hit: Value| json!({ "id": format!("source:{name}"), "relevance": 1.0, "source": name, "children": [hit] });
        let hit = |id: &str| json!({ "id": id, "relevance": 0.5, "source": "x", "fields": { "size": 7 } });
        let children = json!([source("files", hit("id:f:f::1")), source("mail", hit("id:m:m::1"))]);
        assert_eq!(
            text(&json!({ "root": { "fields": { "totalCount": 2 }, "children": children } })),
            "files\n    1. id:f:f::1  (0.5)\n       size: 7\nmail\n    1. id:m:m::1  (0.5)\n       size: 7\n2 documents match"
        );
    }

    #[test]
    fn hits_of_groups_and_what_is_found_over_all() {
        let hit = json!({ "id": "id:m:m::1", "relevance": 0.5, "fields": { "sddocname": "m", "size": 7 } });
        let answer = json!({ "root": { "fields": { "totalCount": 2 }, "children": [
            { "id": "group:root:0", "fields": { "count()": 2 }, "children": [
                { "id": "grouplist:size", "label": "size", "children": [
                    { "id": "group:long_bucket:0:10", "limits": { "from": "0", "to": "10" }, "children": [
                        { "id": "hitlist:hits", "label": "hits", "children": [hit] } ] } ] } ] },
        ]}});
        assert_eq!(
            text(&answer),
            "count() 2\n  size\n    0 to 10\n      hits\n          1. id:m:m::1  (0.5)\n             size: 7\n2 documents match"
        );
        let root = json!({ "fields": { "totalCount": 3 }, "children": [
            { "id": "group:root:0", "relevance": 1.0, "continuation": { "this": "" }, "fields": { "count()": 3 } }] });
        assert_eq!(text(&json!({ "root": root })), "count() 3\n3 documents match");
    }

    #[test]
    fn trace_and_timing() {
        let answer = json!({
            "trace": { "children": [
                { "message": "no profile" },
                { "message": "schema m", "children": [{ "message": "plan: TRUE\nin g=ann" }] },
                { "children": [{ "message": "deep" }] },
            ]},
            "timing": { "querytime": 0.0005, "searchtime": 0.0123 },
            "root": { "fields": { "totalCount": 0 } },
        });
        assert_eq!(
            text(&answer),
            "trace:\n  no profile\n  schema m\n    plan: TRUE\n    in g=ann\n    deep\n\
             timing: querytime 0.5 ms, searchtime 12.3 ms\n0 documents match"
        );
    }

    /// The number of matches is then not known.
    #[test]
    fn an_error_without_results() {
        let root = json!({ "fields": { "totalCount": 0 }, "errors": [{ "message": "late" }] });
        assert_eq!(text(&json!({ "root": root })), "error: late");
    }

    #[test]
    fn a_group_without_documents() {
        let answer = |documents: u64| {
            text(
                &json!({ "root": { "fields": { "totalCount": 0 }, "coverage": { "documents": documents } } }),
            )
        };
        assert_eq!(answer(3), "0 documents match");
        assert!(answer(0).contains("is the group written as in the ids?"), "{}", answer(0));
    }

    #[test]
    fn answers_of_language_models() {
        let event =
            |field: &str, text: &str| json!({ "id": "1", "relevance": 1.0, "fields": { field: text } });
        let answer = |events: Value| {
            let id = if events[0]["fields"].get("token").is_some() { "token_stream" } else { "completion" };
            json!({ "root": { "id": id, "fields": { "totalCount": 0 }, "children": [
                { "id": "event_stream", "children": events } ] } })
        };
        assert_eq!(
            text(&answer(json!([event("token", "At"), event("token", " nine.\n\nBye.")]))),
            "At nine.\n\nBye."
        );
        assert_eq!(text(&answer(json!([event("completion", "At nine.")]))), "At nine.");
        // What the request asks for beside the answer.
        let hit = json!({ "id": "id:m:m::1", "relevance": 0.5, "fields": { "size": 7 } });
        let result = json!({ "root": { "fields": { "totalCount": 1 }, "children": [hit] } }).to_string();
        let events =
            json!([event("prompt", "size: 7\n\nwhen\n"), event("hits", &result), event("token", "At nine.")]);
        assert_eq!(
            text(&answer(events)),
            "prompt:\nsize: 7\n\nwhen\n\n  1. id:m:m::1  (0.5)\n     size: 7\n1 document matches\n\nAt nine."
        );
    }
}
