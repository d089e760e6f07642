//! Answer of a bulk, written item by item: as values, the results of small operations would take many times
//! the bytes of their request.

use std::io::{self, Write as _};

use serde_json::{Map, Value, json};

use crate::Error;
use crate::filter_path::PathFilter;
use crate::request::{ElasticParameters, ReplyContent};
use crate::unread::SentValue;
use crate::writing::{WriteAction, WriteResult};

/// Bytes of an answer from which on errors have their type alone: their texts may repeat names of any length.
const REASONS_BYTES: usize = 16 << 20;

/// Longest name of an index that an error has from there on.
const NAME_BYTES_MAX: usize = 255;

/// The answer of a bulk in flight.
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
    pub(crate) fn new(parameters: &ElasticParameters) -> Self {
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

    /// Adds the result of an operation that was done.
    pub(crate) fn add_result(&mut self, action: WriteAction, result: WriteResult, forced_refresh: bool) {
        if self.filter.is_some() || self.is_pretty || result.get.is_some() {
            let status = result.status;
            let mut object = result.object(forced_refresh);
            object.insert("status".to_owned(), status.into());
            return self.add(action, object);
        }
        self.shows_items = true;
        self.begin_item();
        write_result(&mut self.items, action, &result, forced_refresh).expect("a vector takes all bytes");
    }

    /// Adds an item.
    fn add(&mut self, action: WriteAction, result: Map<String, Value>) {
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

    fn begin_item(&mut self) {
        if !self.items.is_empty() {
            self.items.push(b',');
        }
    }

    fn write(&mut self, item: &Value) {
        let sent = SentValue(item);
        let text = if self.is_pretty { serde_json::to_vec_pretty(&sent) } else { serde_json::to_vec(&sent) };
        let text = text.expect("JSON with names for keys has a text");
        self.begin_item();
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
    pub(crate) fn finish(self, took_ms: u64) -> ReplyContent {
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
        ReplyContent::Written(200, text)
    }
}

/// Writes the item of a result without its values in between, which take several times as long.
fn write_result(
    items: &mut Vec<u8>,
    action: WriteAction,
    of: &WriteResult,
    forced_refresh: bool,
) -> io::Result<()> {
    let WriteResult { index, id, version, seq_no, result, status, get: _, unmapped: _ } = of;
    let forced = if forced_refresh { r#""forced_refresh":true,"# } else { "" };
    let shards = of.shards_written();
    write!(items, r#"{{"{}":{{"_index":"#, action.name())?;
    serde_json::to_writer(&mut *items, index)?;
    items.extend_from_slice(br#","_id":"#);
    serde_json::to_writer(&mut *items, id)?;
    write!(items, r#","_version":{version},"result":"{result}",{forced}"_shards":{{"total":{shards},"#)?;
    write!(items, r#""successful":{shards},"failed":0}},"_seq_no":{seq_no},"_primary_term":1,"#)?;
    write!(items, r#""status":{status}}}}}"#)
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
                let parameters = ElasticParameters::parse(&format!("filter_path={paths}{pretty}"));
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
                let ReplyContent::Written(200, text) = answer.finish(7) else { panic!("a text") };
                let expected = String::from_utf8(expected.expect("a text")).expect("UTF-8");
                assert_eq!(String::from_utf8(text).expect("UTF-8"), expected, "[{paths}] [{pretty}]");
            }
        }
    }

    #[test]
    fn a_long_answer_repeats_no_names() {
        let mut answer = BulkAnswer::new(&ElasticParameters::default());
        let name = "x".repeat(1 << 20);
        for _ in 0..100 {
            answer.refuse(WriteAction::Index, name.clone(), None, &Error::no_index(&name));
        }
        let ReplyContent::Written(200, text) = answer.finish(0) else { panic!("a text") };
        assert!(text.len() < 4 * REASONS_BYTES, "{}", text.len());
        let read: Value = serde_json::from_slice(&text).expect("it is JSON");
        assert_eq!(read["items"].as_array().map(Vec::len), Some(100));
        assert_eq!(read["items"][99]["index"]["error"]["type"], "index_not_found_exception");
    }

    #[test]
    fn results_are_written_as_the_trees_of_their_values() {
        for (action, id, result, status, forced_refresh, get) in [
            (WriteAction::Create, "a", "created", 201, false, None),
            (WriteAction::Index, "quote \" and \n, ä", "updated", 200, true, None),
            (WriteAction::Update, "n", "noop", 200, true, None),
            (WriteAction::Update, "shown", "updated", 200, false, Some(json!({ "_source": { "a": 1 } }))),
            (WriteAction::Delete, "", "not_found", 404, false, None),
        ] {
            let (index, version, seq_no) = ("logs-\u{7f}".to_owned(), i64::MAX, 7);
            let of = WriteResult {
                index,
                id: id.to_owned(),
                version,
                seq_no,
                result,
                status,
                get,
                unmapped: None,
            };
            let [mut written, mut tree] = [(); 2].map(|()| BulkAnswer::new(&ElasticParameters::default()));
            for _ in 0..2 {
                written.add_result(action, of.clone(), forced_refresh);
                let mut object = of.clone().object(forced_refresh);
                object.insert("status".to_owned(), status.into());
                tree.add(action, object);
            }
            let [written, tree] = [written, tree].map(|answer| String::from_utf8(answer.items));
            assert_eq!(written, tree, "{id}");
            assert!(written.is_ok_and(|text| text.contains(result)), "{id}");
        }
    }
}
