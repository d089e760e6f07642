//! YQL: `select … from … where … order by … limit … | grouping`.

mod grouping;
mod lexer;
mod parser;

use crate::syntax::{Fault, Node};
use crate::{SortOrder, Sources};

pub(crate) use grouping::split as split_grouping;

/// How many steps of the grammar may be inside each other, a parenthesis taking two; a guard of the stack.
const MAX_DEPTH: usize = 200;

/// A statement, its conditions not understood yet.
pub(crate) struct Statement {
    /// The fields to return; empty for all.
    pub fields: Vec<String>,
    pub sources: Sources,
    pub root: Node,
    /// The keys of the order, each a name or call.
    pub order: Vec<(Node, Option<SortOrder>)>,
    pub limit: Option<Node>,
    pub offset: Option<Node>,
    /// In milliseconds.
    pub timeout: Option<Node>,
    pub grouping: Vec<String>,
}

/// Parses a statement.
pub(crate) fn parse(text: &str) -> Result<Statement, Fault> {
    parser::Parser::new(text)?.statement()
}
