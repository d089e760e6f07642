use super::Parser;
use crate::Error;
use crate::request::{Aggregator, Expression};

/// An expression with the syntax of a function, but its own argument grammar.
pub struct Form {
    /// Name in the language.
    pub name: &'static str,
    /// Syntax.
    pub usage: &'static str,
    /// Description.
    pub doc: &'static str,
    pub(super) parse: fn(&mut Parser<'_>) -> Result<Expression, Error>,
}

/// Table rows: name, syntax, description, parser of the text after the name.
macro_rules! forms {
    ($($name:literal, $usage:literal, $doc:literal, $parse:expr;)*) => {
        &[$(Form { name: $name, usage: $usage, doc: $doc, parse: $parse }),*]
    };
}

/// Aggregates, and functions whose arguments are not all values. `min`, `max` and `xor` of one value may also
/// be aggregates, depending on their position.
#[rustfmt::skip]
pub static FORMS: &[Form] = forms! {
    "count", "count()", "How many documents a group has; how many groups, outside of them.", |parser| {
        alone(parser, Expression::Aggregate { aggregator: Aggregator::Count, input: None, quantiles: Vec::new() })
    };
    "sum", "sum(x)", "The sum over the documents of a group.", |parser| aggregate(parser, Aggregator::Sum);
    "avg", "avg(x)", "The mean over the documents of a group.", |parser| aggregate(parser, Aggregator::Avg);
    "stddev", "stddev(x)", "The population standard deviation over the documents of a group.", |parser| aggregate(parser, Aggregator::Stddev);
    "quantiles", "quantiles([0.5, 0.9], x)", "For each part the smallest value that at least so many of a group's documents do not exceed.", |parser| parser.parenthesised(Parser::quantiles);
    "summary", "summary(class)", "A hit with the fields of a document summary; the query's own where none is named.", summary;
    "relevance", "relevance()", "The score of a document.", |parser| alone(parser, Expression::Relevance);
    "now", "now()", "The time of the query in seconds since 1970.", |parser| alone(parser, Expression::Now);
    "docidnsspecific", "docidnsspecific()", "The last part of the document's id.", |parser| alone(parser, Expression::DocumentName);
    "attribute", "attribute(field)", "The value of a field, as the name alone.", |parser| parser.parenthesised(attribute);
    "predefined", "predefined(x, bucket(0, 10), bucket[20, 30])", "The bucket that a value is in; with < a bound does not belong to it.", |parser| parser.parenthesised(Parser::predefined);
    "fixedwidth", "fixedwidth(x, 100)", "The bucket that a value is in, of those as wide.", |parser| parser.parenthesised(Parser::fixed_width);
    "uca", "uca(x, \"sv\", \"PRIMARY\")", "A text's key in the order of a locale.", |parser| parser.parenthesised(Parser::collate);
    "geo_distance", "geo_distance(attribute(place), 63.4, 10.4).km", "How far a position is from a place, in km or miles.", |parser| parser.geo_distance();
    "debugwait", "debugwait(x, 0.1, false)", "The first argument; nothing is waited for.", |parser| parser.parenthesised(debug_wait);
};

/// Parses an expression without arguments.
fn alone(parser: &mut Parser<'_>, expression: Expression) -> Result<Expression, Error> {
    parser.lexer.symbol('(')?;
    parser.lexer.symbol(')')?;
    Ok(expression)
}

fn aggregate(parser: &mut Parser<'_>, aggregator: Aggregator) -> Result<Expression, Error> {
    let input = Some(Box::new(parser.parenthesised(Parser::expression)?));
    Ok(Expression::Aggregate { aggregator, input, quantiles: Vec::new() })
}

fn summary(parser: &mut Parser<'_>) -> Result<Expression, Error> {
    parser.lexer.symbol('(')?;
    let class = parser.lexer.dashed_word().map(str::to_owned);
    parser.lexer.symbol(')')?;
    Ok(Expression::Summary(class))
}

fn attribute(parser: &mut Parser<'_>) -> Result<Expression, Error> {
    let name = parser.name()?;
    parser.field(name, true)
}

fn debug_wait(parser: &mut Parser<'_>) -> Result<Expression, Error> {
    let value = parser.expression()?;
    parser.lexer.symbol(',')?;
    parser.lexer.float()?;
    parser.lexer.symbol(',')?;
    parser.boolean()?;
    Ok(value)
}
