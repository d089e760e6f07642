use super::GroupingParser;
use crate::Error;
use crate::request::{GroupAggregator, GroupingExpression};

/// An expression with the syntax of a function, but its own argument grammar.
pub struct SpecialForm {
    /// Name in the language.
    pub name: &'static str,
    /// Syntax.
    pub usage: &'static str,
    /// Description.
    pub doc: &'static str,
    pub(super) parse: fn(&mut GroupingParser<'_>) -> Result<GroupingExpression, Error>,
}

/// Table rows: name, syntax, description, parser of the text after the name.
macro_rules! forms {
    ($($name:literal, $usage:literal, $doc:literal, $parse:expr;)*) => {
        &[$(SpecialForm { name: $name, usage: $usage, doc: $doc, parse: $parse }),*]
    };
}

/// Aggregates, and functions whose arguments are not all values. `min`, `max` and `xor` of one value may also
/// be aggregates, depending on their position.
#[rustfmt::skip]
pub static FORMS: &[SpecialForm] = forms! {
    "count", "count()", "How many documents a group has; how many groups, outside of them.", |parser| {
        alone(parser, GroupingExpression::Aggregate { aggregator: GroupAggregator::Count, input: None, quantiles: Vec::new() })
    };
    "sum", "sum(x)", "The sum over the documents of a group.", |parser| aggregate(parser, GroupAggregator::Sum);
    "avg", "avg(x)", "The mean over the documents of a group.", |parser| aggregate(parser, GroupAggregator::Avg);
    "stddev", "stddev(x)", "The population standard deviation over the documents of a group.", |parser| aggregate(parser, GroupAggregator::Stddev);
    "quantiles", "quantiles([0.5, 0.9], x)", "For each part between 0 and 1 the smallest value that at least this part of a group's documents does not exceed.", |parser| parser.parenthesised(GroupingParser::quantiles);
    "summary", "summary(class)", "A hit with the fields of a document summary; the query's own where none is named.", summary;
    "relevance", "relevance()", "The score of a document.", |parser| alone(parser, GroupingExpression::Relevance);
    "now", "now()", "The time of the query in seconds since 1970.", |parser| alone(parser, GroupingExpression::Now);
    "docidnsspecific", "docidnsspecific()", "The last part of the document's id.", |parser| alone(parser, GroupingExpression::DocumentName);
    "attribute", "attribute(field)", "The value of a field, as the name alone.", |parser| parser.parenthesised(attribute);
    "predefined", "predefined(x, bucket(0, 10), bucket[20, 30])", "The bucket that a value is in; with < a bound does not belong to it.", |parser| parser.parenthesised(GroupingParser::predefined);
    "fixedwidth", "fixedwidth(x, 100)", "The bucket of a value; all buckets have this width.", |parser| parser.parenthesised(GroupingParser::fixed_width);
    "uca", "uca(x, \"sv\", \"PRIMARY\")", "A text's key in the order of a locale.", |parser| parser.parenthesised(GroupingParser::collate);
    "geo_distance", "geo_distance(attribute(place), 63.4, 10.4).km", "How far a position is from a place, in km or miles.", |parser| parser.geo_distance();
    "debugwait", "debugwait(x, 0.1, false)", "The first argument; nothing is waited for.", |parser| parser.parenthesised(debug_wait);
};

/// Parses an expression without arguments.
fn alone(
    parser: &mut GroupingParser<'_>,
    expression: GroupingExpression,
) -> Result<GroupingExpression, Error> {
    parser.lexer.symbol('(')?;
    parser.lexer.symbol(')')?;
    Ok(expression)
}

fn aggregate(
    parser: &mut GroupingParser<'_>,
    aggregator: GroupAggregator,
) -> Result<GroupingExpression, Error> {
    let input = Some(Box::new(parser.parenthesised(GroupingParser::expression)?));
    Ok(GroupingExpression::Aggregate { aggregator, input, quantiles: Vec::new() })
}

fn summary(parser: &mut GroupingParser<'_>) -> Result<GroupingExpression, Error> {
    parser.lexer.symbol('(')?;
    let class = match parser.lexer.string()? {
        Some(class) => Some(class),
        None => parser.lexer.dashed_word().map(str::to_owned),
    };
    parser.lexer.symbol(')')?;
    Ok(GroupingExpression::Summary(class))
}

fn attribute(parser: &mut GroupingParser<'_>) -> Result<GroupingExpression, Error> {
    let name = parser.name()?;
    parser.field(name, true)
}

fn debug_wait(parser: &mut GroupingParser<'_>) -> Result<GroupingExpression, Error> {
    let value = parser.expression()?;
    parser.lexer.symbol(',')?;
    if parser.lexer.float()? < 0.0 {
        return Err(parser.lexer.error("the time of debugwait(…) is at least 0".to_owned()));
    }
    parser.lexer.symbol(',')?;
    parser.boolean()?;
    Ok(value)
}
