//! Snippets: the parts of a text that best show its match.
//!
//! 1. A short text is returned whole.
//! 2. Windows around matches are chosen greedily: the one with the most terms that no earlier window has,
//!    then the most matches, then the first. A window spans at most its share of the target length. There are
//!    as many as the settings say, and more while they are too short together.
//! 3. Windows are extended to that share, cut at whitespace, and merged if they meet.
//! 4. A separator marks omitted text. Without any match, the start of the text is returned, or nothing.

use std::ops::Range;

use super::highlight::{HighlightStyle, TextMark, bolded};

/// Bytes by which a text with matches may be longer than the target length and is still returned whole, as in
/// Vespa: to cut so little off is worth nothing.
const WHOLE_SLACK: usize = 31;

/// Snippets of a text, with markup around its matches.
pub(crate) fn snippet(text: &str, marks: &[TextMark], style: &HighlightStyle) -> String {
    let mut out = String::with_capacity(style.length + 64);
    if marks.is_empty() && !style.prefix {
        return out;
    }
    let slack = if marks.is_empty() { 0 } else { WHOLE_SLACK };
    if text.len() <= style.length + slack {
        bolded(text, 0..text.len(), marks, style, &mut out);
        return out;
    }
    let mut windows = widen(text, choose(marks, style), style);
    if windows.is_empty() {
        windows.push(0..cut_down(text, style.length));
    }
    for (index, window) in windows.iter().enumerate() {
        if index > 0 || window.start > 0 {
            out.push_str(&style.separator);
        }
        bolded(text, window.clone(), marks, style, &mut out);
    }
    if windows.last().is_some_and(|last| last.end < text.len()) {
        out.push_str(&style.separator);
    }
    out
}

/// Ranges of matches to include, in text order.
fn choose(marks: &[TextMark], style: &HighlightStyle) -> Vec<Range<usize>> {
    let share = style.length / style.max_matches.max(1);
    let mut shown: Vec<usize> = Vec::new();
    let mut chosen: Vec<Range<usize>> = Vec::new();
    let is_short = |chosen: &[Range<usize>]| {
        let estimated: usize = chosen.iter().map(|window| window.len() + 2 * style.surround_max).sum();
        estimated < style.min_length
    };
    while chosen.len() < style.max_matches.max(1) || is_short(&chosen) {
        let mut best: Option<(usize, usize, Range<usize>)> = None;
        for (index, first) in marks.iter().enumerate() {
            if chosen.iter().any(|window| first.range.start < window.end && window.start < first.range.end) {
                continue;
            }
            let inside =
                marks[index..].iter().take_while(|mark| mark.range.end - first.range.start <= share.max(1));
            let inside: Vec<&TextMark> = inside.collect();
            let last = inside.last().map_or(&first.range, |mark| &mark.range);
            let mut fresh: Vec<usize> =
                inside.iter().map(|mark| mark.term).filter(|term| !shown.contains(term)).collect();
            fresh.sort_unstable();
            fresh.dedup();
            if best.as_ref().is_none_or(|(terms, count, _)| (fresh.len(), inside.len()) > (*terms, *count)) {
                best = Some((fresh.len(), inside.len(), first.range.start..last.end));
            }
        }
        let Some((_, _, window)) = best else { break };
        shown.extend(marks.iter().filter(|mark| window.contains(&mark.range.start)).map(|mark| mark.term));
        chosen.push(window);
    }
    chosen.sort_unstable_by_key(|window| window.start);
    chosen
}

/// Extends windows to their share of the length, at whitespace, and merges windows that meet.
fn widen(text: &str, chosen: Vec<Range<usize>>, style: &HighlightStyle) -> Vec<Range<usize>> {
    let share = style.length / chosen.len().max(1);
    let mut windows: Vec<Range<usize>> = Vec::new();
    for window in chosen {
        let room = share.saturating_sub(window.len()) / 2;
        let side = room.min(style.surround_max);
        // Length that one side cannot use at an end of the text goes to the other side.
        let before = side.min(window.start);
        let after = (side + (side - before)).min(text.len() - window.end);
        let before = (side + (side - after.min(side))).min(window.start);
        let wide = word_start(text, window.start - before, window.start)
            ..word_end(text, window.end + after, window.end);
        match windows.last_mut() {
            Some(last) if wide.start <= last.end => last.end = last.end.max(wide.end),
            _ => windows.push(wide),
        }
    }
    windows
}

/// The first word start from `at`, at most `limit`.
fn word_start(text: &str, at: usize, limit: usize) -> usize {
    if at == 0 {
        return 0;
    }
    let at = boundary_up(text, at);
    if at >= limit {
        return limit;
    }
    match text[at..limit].find(char::is_whitespace) {
        Some(space) => {
            let rest = &text[at + space..limit];
            limit - rest.trim_start().len()
        }
        None => at,
    }
}

/// The last word end up to `at`, at least `limit`.
fn word_end(text: &str, at: usize, limit: usize) -> usize {
    if at >= text.len() {
        return text.len();
    }
    let at = boundary_down(text, at);
    if at <= limit {
        return limit;
    }
    match text[limit..at].rfind(char::is_whitespace) {
        Some(space) => limit + text[limit..limit + space].trim_end().len(),
        None => at,
    }
}

/// Length of the longest prefix of at most `length` bytes that ends with a word.
fn cut_down(text: &str, length: usize) -> usize {
    match word_end(text, length, 0) {
        0 => boundary_down(text, length),
        end => end,
    }
}

fn boundary_up(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at += 1;
    }
    at
}

fn boundary_down(text: &str, mut at: usize) -> usize {
    while !text.is_char_boundary(at) {
        at -= 1;
    }
    at
}
