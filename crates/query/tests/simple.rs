//! The simple query language: `simple.txt`. `type` and `filter` are parameters.

use millrace_fixtures::cases;
use millrace_query::simple::TermEnd;
use millrace_query::{Query, QueryItem, QueryLimits, simple};

fn fields(name: &str) -> Option<TermEnd> {
    match name {
        "title" | "size" | "date" | "url" | "person" | "mystruct.member" | "mymap{foo}" => {
            Some(TermEnd::Word)
        }
        "folder" => Some(TermEnd::Blank),
        "host" => Some(TermEnd::Hostname),
        "tag" => Some(TermEnd::Terminator("@@".to_owned())),
        _ => None,
    }
}

#[test]
fn text_means_what_the_table_says() {
    for table in ["tests/simple.txt", "tests/programmatic.txt"] {
        check(table);
    }
}

fn check(table: &str) {
    cases::check(table, |input, mut parameters| {
        parameters.insert("query".to_owned(), input.to_owned());
        match Query::from_parameters(parameters, &QueryLimits::default()).map(|query| query.root) {
            Ok(QueryItem::Text(text)) => {
                let item = simple::parse(&text, &fields);
                item.map_or("nothing".to_owned(), |item| item.to_string())
            }
            Ok(other) => other.to_string(),
            Err(error) => format!("! {error}"),
        }
    });
}
