//! Answer of a bulk, written item by item: as values, the results of small operations would take many times
//! the bytes of their request.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::filter_path::PathFilter;
use crate::request::{DoorParameters, DoorReply};
use crate::unread::SentValue;
use crate::writing::WriteAction;

/// Bytes of an answer from which on errors have their type alone: their texts may repeat names of any length.
const REASONS_BYTES: usize = 16 << 20;

/// Longest name of an index that an error has from there on.
const NAME_BYTES_MAX: usize = 255;

/// The answer of a bulk under way.
pub(crate) struct BulkAnswer {
    filter: Option<PathFilter>,
    is_pretty: bool,
    /// The items as text, with what is between them.
    items: Vec<u8>,
    /// True if the answer shows items, or an empty list of them.
    shows_items: bool,
    has_errors: bool,
}

impl BulkAnswer {
    /// An answer without items yet, in the form that the parameters ask for.
    pub(crate) fn new(parameters: &DoorParameters) -> Self {
        let paths = parameters.get("filter_path").filter(|paths| !paths.is_empty());
        BulkAnswer {
            filter: paths.map(PathFilter::parse),
            is_pretty: parameters.is_pretty(),
            items: Vec::new(),
            shows_items: false,
            has_errors: false,
        }
    }

    /// Adds an operation that was refused.
    pub(crate) fn refuse(&mut self, action: WriteAction, index: String, id: Option<String>, error: &Error) {
        self.has_errors = true;
        let has_reason = self.items.len() <= REASONS_BYTES;
        let error_object = match has_reason {
            true => error.object(),
            false => Map::from_iter([("type".to_owned(), error.kind().into())]),
        };
        let index = if has_reason || index.len() <= NAME_BYTES_MAX { index } else { String::new() };
        let mut object = Map::new();
        object.insert("_index".to_owned(), index.into());
        object.insert("_id".to_owned(), id.map_or(Value::Null, Value::String));
        object.insert("status".to_owned(), error.status().into());
        object.insert("error".to_owned(), Value::Object(error_object));
        self.add(action, object);
    }

    /// Adds the result of an operation.
    pub(crate) fn add(&mut self, action: WriteAction, result: Map<String, Value>) {
        let item = json!({ action.name(): result });
        let Some(filter) = &self.filter else {
            self.shows_items = true;
            return self.write(&item);
        };
        if let Some(Value::Array(kept)) =
            filter.apply(json!({ "items": [item] })).get_mut("items").map(Value::take)
        {
            self.shows_items = true;
            kept.iter().for_each(|item| self.write(item));
        }
    }

    fn write(&mut self, item: &Value) {
        let sent = SentValue(item);
        let text = if self.is_pretty { serde_json::to_vec_pretty(&sent) } else { serde_json::to_vec(&sent) };
        let text = text.expect("JSON with names for keys has a text");
        if !self.items.is_empty() {
            self.items.push(b',');
        }
        if !self.is_pretty {
            self.items.extend_from_slice(&text);
            return;
        }
        // No text in JSON has the end of a line inside.
        for line in text.split(|byte| *byte == b'\n') {
            self.items.extend_from_slice(b"\n    ");
            self.items.extend_from_slice(line);
        }
    }

    /// The whole answer.
    pub(crate) fn finish(self, took_ms: u64) -> DoorReply {
        let mut head = json!({ "took": took_ms, "errors": self.has_errors });
        if let Some(filter) = &self.filter {
            head = filter.apply(head);
        }
        let text = if self.is_pretty { serde_json::to_vec_pretty(&head) } else { serde_json::to_vec(&head) };
        let mut text = text.expect("JSON with names for keys has a text");
        if self.shows_items {
            let is_empty = text == b"{}";
            // Its last bytes are the end of the object.
            text.truncate(text.len() - if self.is_pretty && !is_empty { 2 } else { 1 });
            if !is_empty {
                text.push(b',');
            }
            let has_items = !self.items.is_empty();
            let [name, end] = match (self.is_pretty, has_items) {
                (false, _) => ["\"items\":[", "]}"],
                (true, true) => ["\n  \"items\": [", "\n  ]\n}"],
                (true, false) => ["\n  \"items\": [", "]\n}"],
            };
            text.extend_from_slice(name.as_bytes());
            text.extend_from_slice(&self.items);
            text.extend_from_slice(end.as_bytes());
        }
        DoorReply::Written(200, text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The answer is the one that a tree of all values would have.
    #[test]
    fn an_answer_is_that_of_the_tree_of_its_values() {
        let result = |id: &str| json!({ "_id": id, "status": 201, "list": [1, {}], "text": "a\nb" });
        for paths in
            ["", "took", "items", "errors,items.*._id", "items.index", "items.*.error", "-items", "-items.*"]
        {
            for pretty in ["", "&pretty"] {
                let parameters = DoorParameters::parse(&format!("filter_path={paths}{pretty}"));
                let mut answer = BulkAnswer::new(&parameters);
                let mut items = Vec::new();
                for (action, id) in [(WriteAction::Index, "a"), (WriteAction::Delete, "b")] {
                    let Value::Object(object) = result(id) else { panic!("an object") };
                    answer.add(action, object);
                    items.push(json!({ action.name(): result(id) }));
                }
                let mut whole = json!({ "took": 7, "errors": false, "items": items });
                if !paths.is_empty() {
                    whole = PathFilter::parse(paths).apply(whole);
                }
                let expected = match pretty {
                    "" => serde_json::to_vec(&whole),
                    _ => serde_json::to_vec_pretty(&whole),
                };
                let DoorReply::Written(200, text) = answer.finish(7) else { panic!("a text") };
                let expected = String::from_utf8(expected.expect("a text")).expect("UTF-8");
                assert_eq!(String::from_utf8(text).expect("UTF-8"), expected, "[{paths}] [{pretty}]");
            }
        }
    }

    #[test]
    fn a_long_answer_repeats_no_names() {
        let mut answer = BulkAnswer::new(&DoorParameters::default());
        let name = "x".repeat(1 << 20);
        for _ in 0..100 {
            answer.refuse(WriteAction::Index, name.clone(), None, &Error::no_index(&name));
        }
        let DoorReply::Written(200, text) = answer.finish(0) else { panic!("a text") };
        assert!(text.len() < 4 * REASONS_BYTES, "{}", text.len());
        let read: Value = serde_json::from_slice(&text).expect("it is JSON");
        assert_eq!(read["items"].as_array().map(Vec::len), Some(100));
        assert_eq!(read["items"][99]["index"]["error"]["type"], "index_not_found_exception");
    }
}
