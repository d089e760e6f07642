//! The simple query language: `simple.txt`. `type`, `filter` and `special` are parameters; with `special`
//! there are special tokens.

use millrace_fixtures::cases;
use millrace_query::simple::{SpecialTokenRules, TermEnd};
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

/// Special tokens of the table, in lower case, each with the word in its place.
const SPECIAL_TOKENS: [(&str, &str); 12] = [
    ("special-token", "specialtoken"),
    ("with space", "with-space"),
    ("!!!***", "!!!***"),
    ("tcp/ip", "tcp/ip"),
    ("b.s.d.", "b.s.d."),
    ("as/400", "as/400"),
    ("[huh]", "[huh]"),
    (".net", "dotnet"),
    ("c++", "c++"),
    ("i/o", "i/o"),
    ("-x-", "minus"),
    ("c#", "c#"),
];

/// The special token at the start of a text.
fn special_token(text: &str, inside: bool) -> Option<(usize, String)> {
    let lower = text.to_ascii_lowercase();
    SPECIAL_TOKENS.iter().find_map(|(token, word)| {
        let rest = lower.strip_prefix(token)?;
        let ends = inside || !rest.starts_with(char::is_alphanumeric);
        ends.then(|| (token.len(), (*word).to_owned()))
    })
}

fn check(table: &str) {
    cases::check(table, |input, mut parameters| {
        let special = parameters.remove("special");
        let inside_words = special.as_deref() == Some("inside words");
        let at_start = |text: &str| special.as_ref().and_then(|_| special_token(text, inside_words));
        let special = SpecialTokenRules { at_start: &at_start, inside_words };
        parameters.insert("query".to_owned(), input.to_owned());
        match Query::from_parameters(parameters, &QueryLimits::default()).map(|query| query.root) {
            Ok(QueryItem::Text(text)) => {
                let item = simple::parse(&text, &fields, special);
                item.map_or("nothing".to_owned(), |item| item.to_string())
            }
            Ok(other) => other.to_string(),
            Err(error) => format!("! {error}"),
        }
    });
}
