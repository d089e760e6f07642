//! JSON over several lines.

use std::io::{self, Write};

use axum::response::Response;
use hyper::StatusCode;
use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter};

use super::json_bytes;

/// Creates a JSON response over several lines with spaces around colons, as Vespa's status handler writes it:
/// scripts look for `"code" : "up"`.
pub(crate) fn json_lines(status: StatusCode, value: &impl Serialize) -> Response {
    let mut body = Vec::new();
    let lines = JsonLines(PrettyFormatter::new());
    // Values of answers have text for keys, and a vector takes every byte.
    let _ = value.serialize(&mut serde_json::Serializer::with_formatter(&mut body, lines));
    body.push(b'\n');
    json_bytes(status, body)
}

/// Formatter of [`json_lines`].
struct JsonLines(PrettyFormatter<'static>);

impl Formatter for JsonLines {
    fn begin_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_array(writer)
    }

    fn end_array<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array(writer)
    }

    fn begin_array_value<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_array_value(writer, first)
    }

    fn end_array_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_array_value(writer)
    }

    fn begin_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.begin_object(writer)
    }

    fn end_object<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object(writer)
    }

    fn begin_object_key<W: ?Sized + Write>(&mut self, writer: &mut W, first: bool) -> io::Result<()> {
        self.0.begin_object_key(writer, first)
    }

    fn begin_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        writer.write_all(b" : ")
    }

    fn end_object_value<W: ?Sized + Write>(&mut self, writer: &mut W) -> io::Result<()> {
        self.0.end_object_value(writer)
    }
}
