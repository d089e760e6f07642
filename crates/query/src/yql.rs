//! YQL: `select … from … where … order by … limit … | grouping`.

mod grouping;
mod lexer;
mod parser;

use crate::syntax::{SyntaxFault, SyntaxNode};
use crate::{QuerySources, SortOrder};

pub(crate) use grouping::split as split_grouping;

/// Maximum nesting of grammar steps, where parentheses take two; protects the stack.
const MAX_DEPTH: usize = 200;

/// A parsed statement whose conditions are not yet interpreted.
pub(crate) struct YqlStatement {
    /// The fields to return; empty for all.
    pub fields: Vec<String>,
    pub sources: QuerySources,
    pub root: SyntaxNode,
    /// Sort keys, each a name or call; ascending where the statement does not say, also if the schema has
    /// another order.
    pub order: Vec<(SyntaxNode, SortOrder)>,
    pub limit: Option<SyntaxNode>,
    pub offset: Option<SyntaxNode>,
    /// Timeout in milliseconds.
    pub timeout: Option<SyntaxNode>,
    pub grouping: Vec<String>,
}

/// Parses a statement of at most `tokens_max` tokens.
pub(crate) fn parse(text: &str, tokens_max: usize) -> Result<YqlStatement, SyntaxFault> {
    parser::YqlParser::new(text, tokens_max)?.statement()
}
