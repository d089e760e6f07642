use std::collections::BTreeMap;

use crate::Error;

/// A text to embed, in place of a tensor: `embed(e5, "some text")`, `embed(@text)`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct EmbedCall {
    /// Id of the embedder; `None` for the only one.
    pub embedder: Option<String>,
    /// The text.
    pub text: String,
}

impl EmbedCall {
    /// Parses a query feature's value; `None` if it is not such a call. `@name` denotes the parameter with
    /// that name.
    ///
    /// # Errors
    /// The call is invalid; the text gives the cause and an example.
    pub fn parse(value: &str, parameters: &BTreeMap<String, String>) -> Option<Result<Self, Error>> {
        let inside = value.trim().strip_prefix("embed(")?;
        Some(match inside.strip_suffix(')') {
            Some(inside) => read(inside.trim(), parameters),
            None => Err(Error::value("embed( has no closing parenthesis: write embed(embedder, \"text\")")),
        })
    }
}

fn read(inside: &str, parameters: &BTreeMap<String, String>) -> Result<EmbedCall, Error> {
    let (embedder, argument) = match inside.split_once(',') {
        Some((name, argument)) if is_name(name.trim()) => (Some(name.trim().to_owned()), argument.trim()),
        _ => (None, inside),
    };
    if argument.is_empty() {
        return Err(Error::value("no text to embed: write embed(embedder, \"text\") or embed(@parameter)"));
    }
    let text = match argument.strip_prefix('@') {
        Some(name) => parameters.get(name).cloned().ok_or_else(|| {
            Error::value(format!("embed(@{name}) names a parameter that the request has not: add '{name}'"))
        })?,
        None => unquoted(argument)?.to_owned(),
    };
    Ok(EmbedCall { embedder, text })
}

/// True for a component's id, false for the start of a text without quotes.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

fn unquoted(text: &str) -> Result<&str, Error> {
    for quote in ['"', '\''] {
        if let Some(rest) = text.strip_prefix(quote) {
            return rest.strip_suffix(quote).ok_or_else(|| {
                Error::value(format!("the text to embed begins with {quote} and does not end with it"))
            });
        }
    }
    Ok(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(value: &str) -> Option<Result<(Option<String>, String), Error>> {
        let parameters = BTreeMap::from([("text".to_owned(), "from a, \"parameter\"".to_owned())]);
        EmbedCall::parse(value, &parameters).map(|call| call.map(|call| (call.embedder, call.text)))
    }

    #[test]
    fn calls_name_an_embedder_and_a_text() {
        let check = |value: &str, embedder: Option<&str>, text: &str| {
            assert_eq!(parse(value), Some(Ok((embedder.map(str::to_owned), text.to_owned()))), "{value}");
        };
        check("embed(e5, \"two, words\")", Some("e5"), "two, words");
        check("embed(e5,'it is \"so\"')", Some("e5"), "it is \"so\"");
        check(" embed( \"x\" ) ", None, "x");
        check("embed(plain words)", None, "plain words");
        check("embed(@text)", None, "from a, \"parameter\"");
        check("embed(my-e.5, @text)", Some("my-e.5"), "from a, \"parameter\"");
        check("embed(\"one, two\")", None, "one, two");
        check("embed(two words, three)", None, "two words, three");
        check("embed(e5, \"\")", Some("e5"), "");
    }

    #[test]
    fn what_is_no_call_is_left_alone_and_what_is_wrong_says_so() {
        for value in ["[1,2]", "embedded", "", "tensor(x[1]):[1]"] {
            assert_eq!(parse(value), None, "{value}");
        }
        for (value, expected) in [
            ("embed(e5, \"x\"", "no closing parenthesis"),
            ("embed()", "no text to embed"),
            ("embed(e5,)", "no text to embed"),
            ("embed(@nothing)", "add 'nothing'"),
            ("embed(\"x)", "does not end with it"),
        ] {
            let reason = parse(value).expect("a call").expect_err(value);
            assert!(reason.to_string().contains(expected), "{value}: {reason}");
        }
    }
}
