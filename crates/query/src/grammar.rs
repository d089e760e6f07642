//! Names of grammars: `model.type`, and `grammar` of user text.

use crate::{Error, QueryGrammar, TextSyntax, TextTokenization, WordComposite};

impl QueryGrammar {
    /// The grammar of a `model.type`.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones. `yql` is not a grammar of user text.
    pub fn from_type(name: &str) -> Result<Self, Error> {
        let (composite, tokenization, syntax) = match name {
            "adv" | "advanced" => (WordComposite::And, TextTokenization::Internal, TextSyntax::Advanced),
            "all" => (WordComposite::And, TextTokenization::Internal, TextSyntax::Simple),
            "any" => (WordComposite::Or, TextTokenization::Internal, TextSyntax::Simple),
            "linguistics" => (WordComposite::WeakAnd, TextTokenization::Linguistics, TextSyntax::None),
            "near" => (WordComposite::Near, TextTokenization::Internal, TextSyntax::Simple),
            "onear" => (WordComposite::OrderedNear, TextTokenization::Internal, TextSyntax::Simple),
            "phrase" => (WordComposite::Phrase, TextTokenization::Internal, TextSyntax::None),
            "tokenize" => (WordComposite::WeakAnd, TextTokenization::Internal, TextSyntax::None),
            "weakAnd" => (WordComposite::WeakAnd, TextTokenization::Internal, TextSyntax::Simple),
            "web" => (WordComposite::And, TextTokenization::Internal, TextSyntax::Web),
            "prog" => {
                return Err(Error::value(
                    "queries of type 'prog' are read from the parameter 'query' alone, not from userQuery() in YQL",
                ));
            }
            _ => {
                return Err(Error::value(format!(
                    "'{name}' is not a type of query; there are adv, all, any, linguistics, near, onear, phrase, prog, tokenize, weakAnd and web"
                )));
            }
        };
        Ok(QueryGrammar { composite, syntax, tokenization })
    }
}

impl WordComposite {
    /// The composite with this name.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        match name {
            "and" => Ok(WordComposite::And),
            "or" => Ok(WordComposite::Or),
            "weakAnd" => Ok(WordComposite::WeakAnd),
            "phrase" => Ok(WordComposite::Phrase),
            "near" => Ok(WordComposite::Near),
            "oNear" => Ok(WordComposite::OrderedNear),
            _ => Err(Error::value(format!(
                "'{name}' is not a composite; there are and, or, weakAnd, phrase, near and oNear"
            ))),
        }
    }
}

impl TextSyntax {
    /// The syntax with this name.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        match name {
            "none" => Ok(TextSyntax::None),
            "simple" => Ok(TextSyntax::Simple),
            "web" => Ok(TextSyntax::Web),
            "advanced" => Ok(TextSyntax::Advanced),
            "json" | "programmatic" | "yql" => Err(Error::value(format!(
                "the syntax '{name}' is not one of typed text; there are advanced, none, simple and web"
            ))),
            _ => Err(Error::value(format!(
                "'{name}' is not a syntax; there are advanced, none, simple and web"
            ))),
        }
    }
}

impl TextTokenization {
    /// The tokenization with this name.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones.
    pub fn from_name(name: &str) -> Result<Self, Error> {
        match name {
            "internal" => Ok(TextTokenization::Internal),
            "linguistics" => Ok(TextTokenization::Linguistics),
            _ => Err(Error::value(format!(
                "'{name}' is not a tokenization; there are internal and linguistics"
            ))),
        }
    }
}
