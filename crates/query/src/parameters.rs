//! Request parameters to a [`Query`].

mod boolean;
mod federated;
mod flatten;
mod json_text;
mod names;
mod parts;
mod position;
mod properties;
mod wand;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use crate::build::{self, BuildContext, CopyBudget};
use crate::item::{NEAR_DISTANCE, TARGET_HITS};
use crate::programmatic;
use crate::select::{WhereConditions, grouping_requests};
use crate::syntax::SyntaxFault;
use crate::text_size::text_bytes;
use crate::yql::{self, YqlStatement};
use crate::{
    Error, Query, QueryGrammar, QueryItem, QuerySortKey, QuerySources, TextSyntax, TextTokenization,
    UserText, WordComposite, sorting,
};

pub use federated::FederatedPart;
pub use flatten::flatten;

/// Limits and defaults of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct QueryLimits {
    /// Maximum number of hits of one request.
    pub max_hits: usize,
    /// Maximum number of skipped hits.
    pub max_offset: usize,
    /// Default number of hits.
    pub default_hits: usize,
    /// Default timeout.
    pub default_timeout: Duration,
    /// Maximum timeout: a longer one is reduced to it.
    pub max_timeout: Duration,
    /// Maximum size in bytes of the text that is split into words: a word takes a hundred times its bytes in
    /// memory. Values of `in`, of weighted sets and of vectors do not count.
    pub text_bytes_max: usize,
    /// Maximum number of tokens of a statement: the parsed form of one takes many times its bytes.
    pub tokens_max: usize,
    /// Maximum number of values of a JSON condition, for the same reason.
    pub values_max: usize,
}

impl Default for QueryLimits {
    fn default() -> Self {
        QueryLimits {
            max_hits: 400,
            max_offset: 1000,
            default_hits: 10,
            default_timeout: Duration::from_millis(500),
            max_timeout: Duration::from_secs(60),
            text_bytes_max: 128 << 10,
            // A list of 100,000 numbers fits.
            tokens_max: 400_000,
            values_max: 100_000,
        }
    }
}

/// Value of a parameter by its full name; the request may use any of its aliases.
pub fn value_of<'p>(parameters: &'p BTreeMap<String, String>, name: &str) -> Option<&'p str> {
    let named = parameters.iter().filter(|(given, _)| is_same_parameter(given, name));
    named.fold(None, |_, (_, value)| Some(value.as_str()))
}

/// Names of the request parameters that are listed individually, with their aliases: for tests of all.
pub fn parameter_names() -> impl Iterator<Item = &'static str> {
    names::all()
}

/// True if two names belong to the same parameter.
pub fn is_same_parameter(one: &str, other: &str) -> bool {
    names::canonical(one) == names::canonical(other)
}

/// Rank of a name among those that a query profile has for one parameter: the value of the lowest counts.
pub fn parameter_precedence(name: &str) -> usize {
    names::precedence(name)
}

/// True if a name belongs to the query API.
pub fn is_parameter(name: &str) -> bool {
    names::is_known(name)
}

/// True if a name has an effect in every application. Others have one if a statement refers to them, as in
/// `userInput(@name)`, or if the application reads them.
pub fn is_read_parameter(name: &str) -> bool {
    names::is_read(name)
}

/// Parameter of a query that was derived for some sources of a request ([`Query::federated`]): the names of
/// all sources of the request, separated by commas. Sources, hits, offset and timeout of such a query are
/// those of its parameters, because its statement is about the whole request.
const FEDERATED: &str = "federation.sources";

/// Maximum number of bytes of the parameter `continue`, once for each grouping request.
const CONTINUED_BYTES_MAX: usize = 1 << 20;

/// Number of hits of a statement that has an `offset` and no `limit`.
const STATEMENT_HITS: usize = 10;

/// Result of parsing a query text: the common part of YQL, `select` and `query`.
struct QueryText {
    root: QueryItem,
    fields: Vec<String>,
    sources: QuerySources,
    order: Vec<QuerySortKey>,
    hits: Option<usize>,
    offset: Option<usize>,
    timeout: Option<Duration>,
    grouping: Vec<String>,
}

impl Query {
    /// Parses the query of a request's parameters. [`flatten`] converts a JSON body to parameters.
    ///
    /// # Errors
    /// [`Error`], which names the parameter, or the position in its text.
    pub fn from_parameters(
        parameters: BTreeMap<String, String>,
        limits: &QueryLimits,
    ) -> Result<Query, Error> {
        let reader = ParameterReader::new(&parameters, limits);
        reader.check_names()?;
        let mut query_text = reader.query_text()?;
        let federated = reader.get(FEDERATED).map(|names| names.split(',').map(str::to_owned).collect());
        if federated.is_some() {
            query_text = QueryText {
                sources: QuerySources::All,
                hits: None,
                offset: None,
                timeout: None,
                ..query_text
            };
        }
        let recall = reader.text("recall");
        check_text(&query_text.root, recall.as_deref(), limits)?;
        let (hits, offset) = reader.page(query_text.hits, query_text.offset)?;
        let timeout = match query_text.timeout {
            Some(timeout) => timeout,
            None => reader.get("timeout").map(parts::timeout).transpose()?.unwrap_or(limits.default_timeout),
        };
        let timeout = timeout.min(limits.max_timeout);
        let sorting = match reader.get("ranking.sorting") {
            Some(text) if query_text.order.is_empty() => sorting::parse(text)?,
            _ => query_text.order,
        };
        let query = Query {
            root: query_text.root,
            sources: reader.sources(query_text.sources),
            streaming: reader.streaming()?,
            hits,
            offset,
            sorting,
            grouping: query_text.grouping,
            grouping_defaults: reader.grouping_defaults()?,
            recall,
            collapse: reader.collapse()?,
            ranking: reader.ranking()?,
            presentation: reader.presentation(query_text.fields)?,
            timeout,
            tracing: reader.tracing()?,
            language: reader.language(),
            linguistics_profile: reader.text("model.type.profile"),
            unstemmed: reader.flag("nostemming", false)?,
            gram_match: reader.gram_match()?,
            federated,
            parameters: BTreeMap::new(),
        };
        Ok(Query { parameters, ..query })
    }
}

/// Checks the size of the text of a query that is split into words.
fn check_text(root: &QueryItem, recall: Option<&str>, limits: &QueryLimits) -> Result<(), Error> {
    let text_bytes = text_bytes(root) + recall.map_or(0, str::len);
    let text_bytes_max = limits.text_bytes_max;
    if text_bytes > text_bytes_max {
        let reason = format!(
            "the query has {text_bytes} bytes of text to search for, and at most {text_bytes_max} can be; search for fewer words"
        );
        return Err(parameter("query", reason));
    }
    Ok(())
}

/// Parameters by their full names.
struct ParameterReader<'a> {
    raw: &'a BTreeMap<String, String>,
    by_name: BTreeMap<Cow<'a, str>, &'a str>,
    limits: &'a QueryLimits,
}

impl<'a> ParameterReader<'a> {
    fn new(raw: &'a BTreeMap<String, String>, limits: &'a QueryLimits) -> Self {
        let by_name = raw.iter().map(|(name, value)| (names::canonical(name), value.as_str())).collect();
        ParameterReader { raw, by_name, limits }
    }

    /// Refuses names that a family of the query API does not have.
    fn check_names(&self) -> Result<(), Error> {
        if self.text("jsoncallback").is_some() {
            let reason = "an answer that is a script could be read by any web page; ask for JSON, and permit \
                          the page by --allowed-origins";
            return Err(parameter("jsoncallback", reason));
        }
        let unknown = |name: &&String| names::unknown_member_of(name).is_some();
        let Some(name) = self.raw.keys().find(unknown) else { return Ok(()) };
        let near = names::members_near(name);
        let hint = match near.is_empty() {
            true => String::new(),
            false => format!("; there are {}", near.join(", ")),
        };
        Err(parameter(name, format!("the query API has no such parameter{hint}")))
    }

    /// Combination of the grams of a word.
    fn gram_match(&self) -> Result<WordComposite, Error> {
        let table = [
            ("all", WordComposite::And),
            ("any", WordComposite::Or),
            ("weakAnd", WordComposite::WeakAnd),
            ("phrase", WordComposite::Phrase),
            ("near", WordComposite::Near),
            ("onear", WordComposite::OrderedNear),
        ];
        let Some(text) = self.text("gram.match") else { return Ok(WordComposite::And) };
        match table.iter().find(|(name, _)| *name == text) {
            Some((_, composite)) => Ok(*composite),
            None => {
                let reason = format!("expected all, any, weakAnd, phrase, near or onear, found {text:?}");
                Err(parameter("gram.match", reason))
            }
        }
    }

    fn get(&self, name: &str) -> Option<&'a str> {
        self.by_name.get(name).copied()
    }

    /// Value of a parameter, if it is there and not blank.
    fn text(&self, name: &str) -> Option<String> {
        self.get(name).map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
    }

    /// Value of a parameter that is a number. A blank one counts as none, as a form sends it.
    fn non_blank(&self, name: &str) -> Option<&'a str> {
        self.get(name).filter(|text| !text.trim().is_empty())
    }

    fn whole_number(&self, name: &str) -> Result<Option<usize>, Error> {
        let Some(text) = self.non_blank(name) else { return Ok(None) };
        let wrong = || parameter(name, format!("expected a whole number from 0, found {text:?}"));
        text.trim().parse().map(Some).map_err(|_| wrong())
    }

    /// Numbers of hits and of hits before them, from the text of the query or else from parameters.
    fn page(
        &self,
        hits_in_text: Option<usize>,
        offset_in_text: Option<usize>,
    ) -> Result<(usize, usize), Error> {
        // A limit in the text is an error in the text.
        let name_of = |in_text: bool, name: &'static str| if in_text { "yql" } else { name };
        let hits = hits_in_text.or(self.whole_number("hits")?).unwrap_or(self.limits.default_hits);
        // An estimate is the number of hits, which is always exact.
        let hits = if self.flag("hitcountestimate", false)? { 0 } else { hits };
        let offset = offset_in_text.or(self.whole_number("offset")?).unwrap_or(0);
        let max_hits = self.limits.max_hits;
        if hits > max_hits {
            let reason = format!(
                "{hits} hits requested, configured limit: {max_hits}; ask for fewer, or set maxHits in the query profile"
            );
            return Err(parameter(name_of(hits_in_text.is_some(), "hits"), reason));
        }
        let max_offset = self.limits.max_offset;
        if offset > max_offset {
            let reason = format!(
                "Offset of {offset} requested, configured limit: {max_offset}; set maxOffset in the query profile for more"
            );
            return Err(parameter(name_of(offset_in_text.is_some(), "offset"), reason));
        }
        Ok((hits, offset))
    }

    fn flag(&self, name: &str, default: bool) -> Result<bool, Error> {
        match self.get(name).map(str::trim) {
            None => Ok(default),
            Some("true" | "1" | "") => Ok(true),
            Some("false" | "0") => Ok(false),
            Some(text) => Err(parameter(name, format!("expected true or false, found {text:?}"))),
        }
    }

    fn float(&self, name: &str) -> Result<Option<f64>, Error> {
        let Some(text) = self.non_blank(name) else { return Ok(None) };
        match text.trim().parse::<f64>() {
            Ok(number) if !number.is_nan() => Ok(Some(number)),
            _ => Err(parameter(name, format!("expected a number, found {text:?}"))),
        }
    }

    /// Parses `yql`, `select` or `query`, whichever is there.
    fn query_text(&self) -> Result<QueryText, Error> {
        if self.is_programmatic() {
            return self.programmatic_text();
        }
        let grammar = self.grammar()?;
        let (type_is_yql, query_grammar) = match grammar {
            None => (true, QueryGrammar::default()),
            Some(grammar) => (false, grammar),
        };
        let is_default = self.flag("model.type.isYqlDefault", false)?;
        let user_query = self.text("model.queryString");
        let filter = self.text("model.filter");
        let default_field = self.default_field()?;
        let context = BuildContext {
            parameters: self.raw,
            default_field: &default_field,
            query_grammar,
            input_grammar: if is_default { query_grammar } else { QueryGrammar::default() },
            user_query: user_query.as_deref().filter(|_| !type_is_yql),
            filter: filter.as_deref(),
            copies: CopyBudget::of(self.raw),
        };
        let select = self.select()?;
        let from_query = user_query.clone().filter(|_| type_is_yql);
        let yql = self.text("yql").or_else(|| from_query.clone());
        self.check_unused(yql.is_some() || select.conditions.is_some())?;
        let mut query = self.stated_text(yql.as_deref(), select.conditions.as_ref(), &context)?;
        if from_query.is_some() && self.text("yql").is_none() {
            // A statement in a query string contributes its conditions only: sources and fields are
            // parameters then.
            query.sources = QuerySources::All;
            query.fields.clear();
        }
        query.root = self.with_position(self.with_predicate(self.with_wands(query.root)?)?)?;
        query.grouping.extend(select.grouping);
        query.fields = self.hit_fields(query.fields, select.fields);
        Ok(query)
    }

    /// The condition of a request without a statement: the text of `query`, or none if other parameters have
    /// conditions.
    fn user_text(&self, context: &BuildContext<'_>) -> Result<QueryItem, Error> {
        match context.user_query {
            Some(text) => Ok(QueryItem::Text(UserText {
                field: context.default_field.to_owned(),
                text: text.to_owned(),
                grammar: context.query_grammar,
                filter: context.filter.map(str::to_owned),
                allow_empty: false,
                target_hits: TARGET_HITS,
                distance: NEAR_DISTANCE,
                annotations: Default::default(),
            })),
            None if self.has_wand() || self.has_predicate() => Ok(QueryItem::True),
            None => Err(Error::NoQuery),
        }
    }

    /// Fields of the hits: those of a statement, else those of `select`, and those of
    /// `presentation.summaryFields`.
    fn hit_fields(&self, of_statement: Vec<String>, of_select: Vec<String>) -> Vec<String> {
        let mut fields = if of_statement.is_empty() { of_select } else { of_statement };
        if let Some(names) = self.text("presentation.summaryFields") {
            fields.extend(names.split([',', ' ']).filter(|name| !name.is_empty()).map(str::to_owned));
        }
        fields
    }

    /// Builds the query of a statement, of conditions in JSON, or else of the user's text.
    fn stated_text(
        &self,
        statement: Option<&str>,
        conditions: Option<&WhereConditions>,
        context: &BuildContext<'_>,
    ) -> Result<QueryText, Error> {
        match (statement, conditions) {
            (Some(_), Some(_)) => {
                let reason = "'where' cannot be used together with yql; give one of them";
                Err(parameter("select", reason))
            }
            (Some(text), None) => {
                let statement = yql::parse(text, self.limits.tokens_max);
                let statement = statement.map_err(|fault| fault.in_text("YQL", text))?;
                statement.into_query_text(context).map_err(|fault| fault.in_text("YQL", text))
            }
            (None, Some(conditions)) => {
                let root = build::item(&conditions.root, context).map_err(|fault| conditions.error(fault))?;
                Ok(QueryText::of(root))
            }
            (None, None) => Ok(QueryText::of(self.user_text(context)?)),
        }
    }

    /// Refuses parameters that would have no effect on the query. `has_conditions` is true if it has a
    /// statement, or conditions in JSON.
    fn check_unused(&self, has_conditions: bool) -> Result<(), Error> {
        if !has_conditions && self.get("model.type") == Some("select") {
            let reason =
                "a query of this type has its conditions in select.where; add them, or leave the type out";
            return Err(parameter("model.type", reason));
        }
        if has_conditions && self.text("model.filter").is_some() && self.text("model.queryString").is_none() {
            let reason =
                "it goes with the words of 'query', which are not given; add query=…, or make it a condition";
            return Err(parameter("model.filter", reason));
        }
        Ok(())
    }

    /// True if `query` contains machine-written items, and no other parameter defines the search.
    fn is_programmatic(&self) -> bool {
        self.get("model.type").is_some_and(|name| matches!(name, "prog" | "programmatic"))
            && self.get("model.queryString").is_some()
            && self.get("yql").is_none()
    }

    fn programmatic_text(&self) -> Result<QueryText, Error> {
        let text = self.text("model.queryString").unwrap_or_default();
        let field = self.default_field()?;
        let item = programmatic::parse(&text, &field).map_err(|fault| fault.in_text("query", &text))?;
        let select = self.select()?;
        let mut query = QueryText::of(item);
        query.grouping.extend(select.grouping);
        query.fields = select.fields;
        Ok(query)
    }

    /// `model.type` and its parts; `None` for `yql`.
    fn grammar(&self) -> Result<Option<QueryGrammar>, Error> {
        let wrong = |name: &str, reason: Error| parameter(name, reason.to_string());
        let mut grammar = match self.get("model.type") {
            // Conditions in JSON have no words to take apart.
            None | Some("" | "select") => QueryGrammar::default(),
            Some("yql") => return Ok(None),
            Some(name) => QueryGrammar::from_type(name).map_err(|reason| {
                parameter(
                    "model.type",
                    format!("{reason}; and yql, for a query that is YQL, and select, for one in JSON"),
                )
            })?,
        };
        if let Some(name) = self.get("model.type.composite") {
            grammar.composite =
                WordComposite::from_name(name).map_err(|reason| wrong("model.type.composite", reason))?;
        }
        match self.get("model.type.syntax") {
            None => {}
            Some("yql") => return Ok(None),
            Some(name) => {
                grammar.syntax =
                    TextSyntax::from_name(name).map_err(|reason| wrong("model.type.syntax", reason))?;
            }
        }
        if let Some(name) = self.get("model.type.tokenization") {
            grammar.tokenization = TextTokenization::from_name(name)
                .map_err(|reason| wrong("model.type.tokenization", reason))?;
        }
        Ok(Some(grammar))
    }

    /// Parts of `select`, either one JSON object or separate parameters; plain text is grouping.
    fn select(&self) -> Result<SelectParameters, Error> {
        let mut select = SelectParameters::default();
        let mut parts: Vec<(String, Value)> = Vec::new();
        match self.get("select").map(str::trim) {
            None | Some("") => {}
            Some(text) if text.starts_with('{') && is_json_text(text) => {
                match json("select", text, self.limits.values_max)? {
                    Value::Object(entries) => parts.extend(entries),
                    _ => {
                        return Err(parameter("select", "expected an object with where, grouping or fields"));
                    }
                }
            }
            Some(text) => {
                select.grouping =
                    yql::split_grouping(text, 0).map_err(|fault| fault.in_text("grouping", text))?;
                if let Some(continuations) = self.text("continue") {
                    continue_at(&mut select.grouping, &continuations)?;
                }
            }
        }
        for part in ["where", "grouping", "fields"] {
            let name = format!("select.{part}");
            if let Some(text) = self.get(&name) {
                parts.push((part.to_owned(), json(&name, text, self.limits.values_max)?));
            }
        }
        for (name, value) in parts {
            // A part may be the text of JSON, as it is in a parameter of its own.
            let value = match value {
                Value::String(text) if is_json_text(&text) => {
                    json(&format!("select.{name}"), &text, self.limits.values_max)?
                }
                value => value,
            };
            match (name.as_str(), value) {
                ("where", value) => select.conditions = Some(WhereConditions::read(&value)?),
                ("grouping", value) => {
                    select.grouping = grouping_requests(&value)
                        .map_err(|error| parameter("select.grouping", error.to_string()))?;
                }
                ("fields", Value::Array(items)) => {
                    let names: Option<Vec<String>> =
                        items.iter().map(|item| item.as_str().map(str::to_owned)).collect();
                    select.fields = names
                        .ok_or_else(|| parameter("select.fields", "expected a list of names of fields"))?;
                }
                ("fields", _) => {
                    return Err(parameter("select.fields", "expected a list, as in [\"title\", \"date\"]"));
                }
                (other, _) => {
                    let reason = format!("there is no '{other}' in it; there are where, grouping and fields");
                    return Err(parameter("select", reason));
                }
            }
        }
        Ok(select)
    }
}

/// True for the text of a JSON list or object. A grouping request may open with an annotation, but ends with
/// a parenthesis.
fn is_json_text(text: &str) -> bool {
    let text = text.trim();
    text.starts_with(['{', '[']) && !text.ends_with(')')
}

/// Inserts continuations, separated by blanks, before each grouping request.
fn continue_at(requests: &mut [String], continuations: &str) -> Result<(), Error> {
    if continuations.len().saturating_mul(requests.len()) > CONTINUED_BYTES_MAX {
        let reason = format!(
            "its bytes, once for each grouping request, are more than {CONTINUED_BYTES_MAX}; ask in several queries"
        );
        return Err(parameter("continue", reason));
    }
    let quoted: Vec<String> =
        continuations.split_whitespace().map(|text| Value::String(text.to_owned()).to_string()).collect();
    let quoted = format!("{{ 'continuations': [{}] }} ", quoted.join(", "));
    requests.iter_mut().for_each(|request| request.insert_str(0, &quoted));
    Ok(())
}

#[derive(Default)]
struct SelectParameters {
    conditions: Option<WhereConditions>,
    grouping: Vec<String>,
    fields: Vec<String>,
}

impl QueryText {
    fn of(root: QueryItem) -> Self {
        QueryText {
            root,
            fields: Vec::new(),
            sources: QuerySources::All,
            order: Vec::new(),
            hits: None,
            offset: None,
            timeout: None,
            grouping: Vec::new(),
        }
    }
}

impl YqlStatement {
    fn into_query_text(self, context: &BuildContext<'_>) -> Result<QueryText, SyntaxFault> {
        let amount = |node: &Option<crate::syntax::SyntaxNode>, what| {
            node.as_ref().map(|node| build::amount(node, context, what)).transpose()
        };
        let offset = amount(&self.offset, "offset")?;
        // `limit` is the end of the page, counted from the first hit of all.
        let hits = amount(&self.limit, "limit")?.map(|limit| limit.saturating_sub(offset.unwrap_or(0)));
        // Either of them gives the whole page: the parameters have no part in it.
        let (hits, offset) = match (hits, offset) {
            (None, None) => (None, None),
            (hits, offset) => (Some(hits.unwrap_or(STATEMENT_HITS)), Some(offset.unwrap_or(0))),
        };
        let order = self.order.iter().map(|(node, order)| build::sort_key(node, *order, context));
        Ok(QueryText {
            root: build::item(&self.root, context)?,
            order: order.collect::<Result<_, _>>()?,
            hits,
            offset,
            timeout: amount(&self.timeout, "timeout")?.map(|ms| Duration::from_millis(ms as u64)),
            fields: self.fields,
            sources: self.sources,
            grouping: self.grouping,
        })
    }
}

fn json(name: &str, text: &str, values_max: usize) -> Result<Value, Error> {
    json_text::parse(text.as_bytes(), values_max).map_err(|error| Error::Syntax {
        language: "select",
        line: error.line(),
        column: error.column(),
        reason: format!("parameter '{name}' is not JSON: {error}"),
    })
}

fn parameter(name: &str, reason: impl Into<String>) -> Error {
    Error::Parameter { parameter: name.to_owned(), reason: reason.into() }
}
