//! Names of grammars: `model.type`, and `grammar` of user text.

use crate::{Composite, Grammar, Syntax, Tokenization};

impl Grammar {
    /// The grammar of a `model.type`.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones. `yql` is not a grammar of user text.
    pub fn from_type(name: &str) -> Result<Self, String> {
        let (composite, tokenization, syntax) = match name {
            "adv" | "advanced" => (Composite::And, Tokenization::Internal, Syntax::Advanced),
            "all" => (Composite::And, Tokenization::Internal, Syntax::Simple),
            "any" => (Composite::Or, Tokenization::Internal, Syntax::Simple),
            "linguistics" => (Composite::WeakAnd, Tokenization::Linguistics, Syntax::None),
            "phrase" => (Composite::Phrase, Tokenization::Internal, Syntax::None),
            "tokenize" => (Composite::WeakAnd, Tokenization::Internal, Syntax::None),
            "weakAnd" => (Composite::WeakAnd, Tokenization::Internal, Syntax::Simple),
            "web" => (Composite::And, Tokenization::Internal, Syntax::Web),
            "prog" => {
                return Err("queries of type 'prog' are read from the parameter 'query' alone, not from userQuery() in YQL".to_owned());
            }
            _ => {
                return Err(format!(
                    "'{name}' is no type of query; there are adv, all, any, linguistics, phrase, prog, tokenize, weakAnd and web"
                ));
            }
        };
        Ok(Grammar { composite, syntax, tokenization })
    }
}

impl Composite {
    /// The composite with this name.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones.
    pub fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "and" => Ok(Composite::And),
            "or" => Ok(Composite::Or),
            "weakAnd" => Ok(Composite::WeakAnd),
            "phrase" => Ok(Composite::Phrase),
            "near" => Ok(Composite::Near),
            "oNear" => Ok(Composite::OrderedNear),
            _ => Err(format!("'{name}' is no composite; there are and, or, weakAnd, phrase, near and oNear")),
        }
    }
}

impl Syntax {
    /// The syntax with this name.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones.
    pub fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "none" => Ok(Syntax::None),
            "simple" => Ok(Syntax::Simple),
            "web" => Ok(Syntax::Web),
            _ => Err(format!("'{name}' is no syntax; there are none, simple and web")),
        }
    }
}

impl Tokenization {
    /// The tokenization with this name.
    ///
    /// # Errors
    /// The name is unknown; the text lists the existing ones.
    pub fn from_name(name: &str) -> Result<Self, String> {
        match name {
            "internal" => Ok(Tokenization::Internal),
            "linguistics" => Ok(Tokenization::Linguistics),
            _ => Err(format!("'{name}' is no tokenization; there are internal and linguistics")),
        }
    }
}
