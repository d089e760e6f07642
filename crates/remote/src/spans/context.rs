//! Identity of spans, as W3C Trace Context writes it: `VERSION-TRACE-SPAN-FLAGS`.

use ring::rand::{SecureRandom, SystemRandom};

/// Flag of a trace that is recorded.
const SAMPLED: u8 = 1;

/// Version that is not allowed.
const INVALID_VERSION: u8 = 0xff;

/// Identity of a span, and of the trace that it belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SpanContext {
    /// Trace.
    pub trace_id: [u8; 16],
    /// Span.
    pub span_id: [u8; 8],
}

/// Value of the header `traceparent`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TraceParent {
    /// Span of the sender.
    pub context: SpanContext,
    /// True if the trace is recorded.
    pub is_sampled: bool,
}

impl SpanContext {
    /// Begins a trace.
    pub(super) fn new() -> Self {
        SpanContext { trace_id: random(), span_id: random() }
    }

    /// Begins a span of the same trace.
    pub fn child(&self) -> Self {
        SpanContext { span_id: random(), ..*self }
    }

    /// The header by which others continue the trace.
    pub fn header(&self) -> String {
        format!("00-{}-{}-01", hexadecimal(&self.trace_id), hexadecimal(&self.span_id))
    }

    /// True for a share of all traces, the same on every node.
    pub(super) fn is_among(&self, share: f64) -> bool {
        let [a, b, c, d, ..] = self.trace_id;
        f64::from(u32::from_be_bytes([a, b, c, d])) < share * (f64::from(u32::MAX) + 1.0)
    }
}

impl TraceParent {
    /// Parses the header; `None` if it is invalid, which counts as no header.
    pub fn parse(header: &str) -> Option<Self> {
        let mut parts = header.trim().split('-');
        let [version] = bytes(parts.next()?)?;
        let context = SpanContext { trace_id: bytes(parts.next()?)?, span_id: bytes(parts.next()?)? };
        let [flags] = bytes(parts.next()?)?;
        // Later versions may have more parts.
        let is_whole = version != INVALID_VERSION && (version > 0 || parts.next().is_none());
        let is_named = context.trace_id != [0; 16] && context.span_id != [0; 8];
        (is_whole && is_named).then_some(TraceParent { context, is_sampled: flags & SAMPLED != 0 })
    }
}

/// Random bytes, not all of them zero.
fn random<const N: usize>() -> [u8; N] {
    let mut bytes = [0; N];
    // Without random numbers of the system nothing else works either.
    if SystemRandom::new().fill(&mut bytes).is_err() || bytes == [0; N] {
        bytes[N - 1] = 1;
    }
    bytes
}

/// Parses hexadecimal digits in lower case, two for each byte.
fn bytes<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digit = |digit: u8| match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * N {
        return None;
    }
    let mut bytes = [0; N];
    for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    #[test]
    fn headers_are_read_as_the_recommendation_says() {
        let parent = TraceParent::parse(HEADER).expect("it is valid");
        assert!(parent.is_sampled && parent.context.header() == HEADER, "{parent:?}");
        let child = parent.context.child();
        assert!(child.trace_id == parent.context.trace_id && child.span_id != parent.context.span_id);
        let with = |from: &str, to: &str| TraceParent::parse(&HEADER.replacen(from, to, 1));
        assert!(with("-01", "-00").is_some_and(|parent| !parent.is_sampled));
        assert!(
            with("00-", "cc-").is_some() && TraceParent::parse(&format!("cc{}-x", &HEADER[2..])).is_some()
        );
        for (from, to) in [
            ("00-", "ff-"),
            ("4bf", "4BF"),
            ("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            ("00f067aa0ba902b7", "0000000000000000"),
            ("00f067aa0ba902b7", "00f067aa0ba902"),
            ("-01", ""),
            ("-01", "-01-x"),
        ] {
            assert_eq!(with(from, to), None, "{from} {to}");
        }
    }

    #[test]
    fn a_share_of_the_traces_is_recorded() {
        let contexts: Vec<SpanContext> = (0..1000).map(|_| SpanContext::new()).collect();
        let among = |share: f64| contexts.iter().filter(|context| context.is_among(share)).count();
        assert_eq!((among(0.0), among(1.0)), (0, 1000));
        assert!((300..700).contains(&among(0.5)), "{}", among(0.5));
    }
}
