//! Signed parts and groups of typed text.
//!
//! A part is a term or a group, perhaps with a sign. What is none is skipped between parts, and ends a group.

use super::any;
use super::punctuation::{is_blank, sign};
use super::reader::{GROUPS_MAX, SimpleReader, is_digits};
use crate::{ItemAnnotations, QueryItem, TextSyntax, WordComposite};

/// Maximum number of pieces of a text: more than the words that a plan accepts, so that the plan rejects
/// longer ones.
const PIECES_MAX: usize = 1 << 16;

/// Number of hits that the `weakAnd` of an excluded group exposes to ranking.
const GROUP_HITS: u32 = 100;

/// A part of the query and whether it must or must not match.
pub(super) struct SimplePiece {
    pub sign: PieceSign,
    pub item: QueryItem,
    /// True for parts in parentheses.
    pub is_group: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum PieceSign {
    Plus,
    Minus,
    None,
}

impl SimpleReader<'_> {
    /// Reads all parts, in order.
    pub fn pieces(mut self) -> Vec<SimplePiece> {
        let mut pieces: Vec<SimplePiece> = Vec::new();
        while pieces.len() < PIECES_MAX && self.skip_blanks() {
            match self.piece() {
                Some(piece) => pieces.push(piece),
                None => self.skip_meaningless(),
            }
        }
        if self.grammar.syntax == TextSyntax::Web { with_alternatives(pieces) } else { pieces }
    }

    /// Reads the next part; `None`, and no character is taken, where none begins.
    fn piece(&mut self) -> Option<SimplePiece> {
        let start = self.cursor.offset();
        let piece = match self.peek() {
            _ if self.is_at_special() => self.operand(PieceSign::None),
            Some('+') => self.after_plus(),
            // A negative number is searched for; with `any` the number is excluded.
            Some('-') if self.is_any() || !self.is_negative() => self.after_minus(),
            _ => self.operand(PieceSign::None),
        };
        if piece.is_none() {
            self.cursor.go_to(start);
        }
        piece
    }

    /// Reads a part from its plus on.
    fn after_plus(&mut self) -> Option<SimplePiece> {
        while self.take_sign('+') {}
        match self.peek() {
            // Apart from its group, the sign means nothing.
            Some(c) if is_blank(c) => {
                self.skip_blanks();
                match self.peek() {
                    Some('(') => self.operand(PieceSign::None),
                    Some('-') if self.is_any() => self.after_minus(),
                    _ => None,
                }
            }
            Some('-') if self.is_any() && !self.is_negative() => self.after_minus(),
            _ => self.operand(PieceSign::Plus),
        }
    }

    /// Reads a part from its minus on.
    fn after_minus(&mut self) -> Option<SimplePiece> {
        if self.is_any() {
            // Several signs are one.
            self.cursor.take_while(|c| sign(c) == '-');
        } else {
            self.cursor.take_char();
        }
        if self.peek().is_none_or(is_blank) {
            return None;
        }
        if let Some(term) = self.term() {
            // Only a field or parentheses before a number or a range exclude it.
            let is_excluded = self.is_any() || term.has_field || !is_positive_number(&term.item);
            return is_excluded.then_some(SimplePiece {
                sign: PieceSign::Minus,
                item: term.item,
                is_group: false,
            });
        }
        let item = self.group(PieceSign::Minus)?;
        Some(SimplePiece { sign: PieceSign::Minus, item, is_group: true })
    }

    /// Reads a term or a group.
    fn operand(&mut self, sign: PieceSign) -> Option<SimplePiece> {
        let is_web = self.grammar.syntax == TextSyntax::Web;
        let as_it_is = |item| if is_web && sign == PieceSign::Plus { unstemmed(item) } else { item };
        if let Some(term) = self.term() {
            return Some(SimplePiece { sign, item: as_it_is(term.item), is_group: false });
        }
        // The web syntax has groups after signs only.
        if is_web && sign == PieceSign::None && self.depth == 0 {
            return None;
        }
        let item = as_it_is(self.group(sign)?);
        Some(SimplePiece { sign, item, is_group: true })
    }

    /// True for `type=any`.
    fn is_any(&self) -> bool {
        self.grammar.syntax != TextSyntax::Web && self.grammar.composite == WordComposite::Or
    }

    /// Parses `(a b c)`: any of them, where none has a sign ([`any`](super::any)), or with `-` before the
    /// parenthesis all of them, or a `weakAnd` where the text is one.
    fn group(&mut self, sign: PieceSign) -> Option<QueryItem> {
        let mut pieces = Vec::new();
        self.open_group()?;
        while self.skip_blanks() {
            match self.piece() {
                Some(piece) => pieces.push(piece),
                None => break,
            }
        }
        self.close_group();
        let is_any = self.grammar.composite == WordComposite::Or && self.grammar.syntax == TextSyntax::Simple;
        match any::combine(pieces, is_any)? {
            QueryItem::Or(children)
                if sign == PieceSign::Minus && self.grammar.composite == WordComposite::WeakAnd =>
            {
                let annotations = ItemAnnotations::default();
                Some(QueryItem::WeakAnd { children, target_hits: GROUP_HITS, annotations })
            }
            QueryItem::Or(items) if sign == PieceSign::Minus => Some(QueryItem::And(items)),
            item => Some(item),
        }
    }

    /// Takes the parenthesis with which a group begins, and plus signs before it.
    pub(super) fn open_group(&mut self) -> Option<()> {
        let start = self.cursor.offset();
        while self.take_sign('+') {}
        if self.depth == GROUPS_MAX || !self.take_sign('(') {
            self.cursor.go_to(start);
            return None;
        }
        self.depth += 1;
        Some(())
    }

    /// Takes the parenthesis with which a group ends, if it is next. A missing end is that of the group's
    /// last part.
    pub(super) fn close_group(&mut self) {
        self.depth -= 1;
        self.take_sign(')');
    }
}

/// Alternatives of the web syntax, between `OR`: each is all of its parts.
fn with_alternatives(pieces: Vec<SimplePiece>) -> Vec<SimplePiece> {
    let (positive, mut pieces): (Vec<_>, Vec<_>) =
        pieces.into_iter().partition(|piece| piece.sign != PieceSign::Minus);
    let mut alternatives: Vec<Vec<QueryItem>> = Vec::new();
    for SimplePiece { item, .. } in positive {
        match alternatives.last_mut() {
            Some(_) if sole_word(&item) == Some("OR") => alternatives.push(Vec::new()),
            Some(alternative) => alternative.push(item),
            None => alternatives.push(vec![item]),
        }
    }
    alternatives.retain(|alternative| !alternative.is_empty());
    let items: Vec<QueryItem> = if alternatives.len() > 1 {
        let all_of = |items| super::several(items, QueryItem::And);
        vec![QueryItem::Or(alternatives.into_iter().map(all_of).collect())]
    } else {
        alternatives.into_iter().flatten().collect()
    };
    let part = |item| SimplePiece { sign: PieceSign::None, item, is_group: false };
    pieces.extend(items.into_iter().map(part));
    pieces
}

/// The word of an item that is one, without punctuation around it. It may have a field and stars.
pub(super) fn sole_word(item: &QueryItem) -> Option<&str> {
    let QueryItem::Term { text, .. } = item else { return None };
    Some(text.text.trim_matches(|c: char| !c.is_alphanumeric()))
}

/// True for ranges and for numbers without a minus.
fn is_positive_number(item: &QueryItem) -> bool {
    matches!(item, QueryItem::Range { .. })
        || !matches!(item, QueryItem::Term { text, .. } if text.text.starts_with('-'))
            && sole_word(item).is_some_and(is_digits)
}

/// Disables stemming of the item's terms.
fn unstemmed(mut item: QueryItem) -> QueryItem {
    if let QueryItem::Term { annotations, .. } | QueryItem::Phrase { annotations, .. } = &mut item {
        annotations.stem = false;
    }
    item
}
