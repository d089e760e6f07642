//! Choice of a result's format: as requested by parameter, or as accepted by header.

use std::collections::BTreeMap;

use encoding_rs::Encoding;
use hyper::HeaderMap;
use hyper::header::ACCEPT;
use millrace_node::Error;
use millrace_query::value_of;
use millrace_render::{RenderOptions, SearchResponse, write_cbor, write_json, write_xml};
use serde_json::json;

use super::language::event;

/// Format of a result.
#[derive(Debug, Clone, Copy, Default)]
pub(super) enum ResultFormat {
    #[default]
    Json,
    Cbor,
    /// Server-sent events, for chains that ask a language model.
    Events,
    /// XML with text in this encoding.
    Xml(Option<&'static Encoding>),
}

impl ResultFormat {
    /// Reads `presentation.format`, or else the preference of the request's headers. A format is also known
    /// by the id that its renderer has in Vespa.
    pub(super) fn read(parameters: &BTreeMap<String, String>, headers: &HeaderMap) -> Result<Self, Error> {
        match value_of(parameters, "presentation.format").unwrap_or_default().trim() {
            "" | "default" if prefers_cbor(headers) => Ok(ResultFormat::Cbor),
            "" | "default" | "json" | "JsonRenderer" => Ok(ResultFormat::Json),
            "cbor" | "CborRenderer" => Ok(ResultFormat::Cbor),
            "sse" | "EventRenderer" => Ok(ResultFormat::Events),
            "xml" | "XmlRenderer" => {
                let encoding = value_of(parameters, "model.encoding").map(encoding).transpose()?;
                Ok(ResultFormat::Xml(encoding))
            }
            "page" | "PageTemplatesXmlRenderer" => Err(Error::parameter(
                "presentation.format",
                "page templates are not supported; there are json, cbor, xml and sse".to_owned(),
            )),
            other => Err(Error::parameter(
                "presentation.format",
                format!("no format '{other}', only json, cbor, xml and sse"),
            )),
        }
    }

    /// Media type of the output of [`ResultFormat::write`].
    pub(super) fn content_type(self) -> String {
        match self {
            ResultFormat::Json => "application/json;charset=utf-8".to_owned(),
            ResultFormat::Cbor => "application/cbor".to_owned(),
            ResultFormat::Events => "text/event-stream;charset=utf-8".to_owned(),
            ResultFormat::Xml(encoding) => format!("text/xml;charset={}", name(encoding)),
        }
    }

    /// Writes the response in this format.
    pub(super) fn write(self, response: &SearchResponse<'_>, options: &RenderOptions) -> Vec<u8> {
        // Large texts would be copied each time the output grows.
        let of_sources = response.sources.iter().flat_map(|source| source.hits);
        let hits = response.hits.iter().chain(of_sources);
        let bytes: usize = hits.map(|hit| 256 + hit.memory_bytes()).sum();
        let mut out = Vec::with_capacity(512 + bytes + bytes / 16);
        match self {
            ResultFormat::Json => write_json(response, options, &mut out),
            ResultFormat::Cbor => write_cbor(response, options, &mut out),
            // Only errors are written here: answers are sent as they come.
            ResultFormat::Events => {
                for error in response.errors {
                    let message = error.message.as_ref().unwrap_or(&error.summary);
                    let data = json!({ "source": error.source, "error": error.code, "message": message });
                    out.extend_from_slice(&event("error", &data));
                }
            }
            ResultFormat::Xml(encoding) => {
                write_xml(response, options, &name(encoding), &mut out);
                if let Some(encoding) = encoding {
                    out = encoding.encode(&String::from_utf8_lossy(&out)).0.into_owned();
                }
            }
        }
        out
    }
}

fn encoding(label: &str) -> Result<&'static Encoding, Error> {
    Encoding::for_label(label.as_bytes()).ok_or_else(|| {
        Error::parameter(
            "model.encoding",
            format!("no encoding '{label}'; there are for example utf-8, iso-8859-1 and euc-jp"),
        )
    })
}

fn name(encoding: Option<&'static Encoding>) -> String {
    match encoding {
        // The web's windows-1252 contains ISO-8859-1 at the same positions.
        Some(encoding) if encoding == encoding_rs::WINDOWS_1252 => "iso-8859-1".to_owned(),
        Some(encoding) => encoding.name().to_ascii_lowercase(),
        None => "utf-8".to_owned(),
    }
}

/// True if CBOR is accepted, with a higher preference than JSON.
fn prefers_cbor(headers: &HeaderMap) -> bool {
    let (mut cbor, mut json) = (0.0, 0.0);
    for value in headers.get_all(ACCEPT).iter().filter_map(|value| value.to_str().ok()) {
        for offer in value.split(',') {
            let mut parts = offer.split(';').map(str::trim);
            let media = parts.next().unwrap_or_default();
            let quality = parts.find_map(|part| part.strip_prefix("q=")?.parse::<f64>().ok()).unwrap_or(1.0);
            match media {
                "application/cbor" => cbor = quality,
                "application/json" => json = quality,
                _ => {}
            }
        }
    }
    cbor > json
}

#[cfg(test)]
mod tests {
    use hyper::header::HeaderValue;

    use super::*;

    #[test]
    fn who_gets_cbor() {
        for (accept, expected) in [
            ("application/cbor", true),
            ("application/json, application/cbor;q=0.5", false),
            ("application/cbor;q=0.9, application/json;q=0.5", true),
            ("application/json, application/cbor", false),
            ("*/*", false),
            ("application/cbor;q=0", false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(ACCEPT, HeaderValue::from_static(accept));
            assert_eq!(prefers_cbor(&headers), expected, "{accept}");
        }
    }
}
