//! YQL: `select … from … where … order by … limit … | grouping`.

mod grouping;
mod lexer;
mod parser;

use crate::syntax::{Fault, Node};
use crate::{SortOrder, Sources};

pub(crate) use grouping::split as split_grouping;

/// Maximum nesting of grammar steps, where parentheses take two; protects the stack.
const MAX_DEPTH: usize = 200;

/// A parsed statement whose conditions are not yet interpreted.
pub(crate) struct Statement {
    /// The fields to return; empty for all.
    pub fields: Vec<String>,
    pub sources: Sources,
    pub root: Node,
    /// Sort keys, each a name or call.
    pub order: Vec<(Node, Option<SortOrder>)>,
    pub limit: Option<Node>,
    pub offset: Option<Node>,
    /// Timeout in milliseconds.
    pub timeout: Option<Node>,
    pub grouping: Vec<String>,
}

/// Parses a statement.
pub(crate) fn parse(text: &str) -> Result<Statement, Fault> {
    parser::Parser::new(text)?.statement()
}
