//! Random sentences of grammars: what a grammar of Vespa accepts is accepted, or refused for a reason that
//! `docs/compatibility.md` lists.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::sync::{Arc, LazyLock};
use std::time::{Duration, UNIX_EPOCH};

use millrace_grouping::{GroupingRequest, Settings};
use millrace_plan::{Plan, PlanContext, grouping_schema};
use millrace_query::{Query, QueryLimits};
use millrace_schema::{Application, Schema};
use millrace_selection::DocumentSelection;

use crate::InputMutator;
use crate::schemas::mistakes;
use crate::world::{application, services};

/// Files that services.xml names.
const SIGNIFICANCE: &str = r#"{"version": "1.0", "id": "x", "description": "y", "languages": {"en":
    {"description": "", "document-count": 1, "document-frequencies": {"a": 1}}}}"#;
const CERTIFICATE: &str = include_str!("../grammars/client.pem");

/// Depth from which only the first alternative of a rule is taken, so that sentences end.
const DEPTH_MAX: usize = 14;

/// A language: its grammar, and what becomes of a sentence.
pub struct SentenceLanguage {
    /// The name.
    pub name: &'static str,
    /// The grammar, in lines `rule = alternative`. In an alternative `$(rule)` is a sentence of that rule,
    /// `$(rule?)` one or none, `$(rule*)` up to five, `$(rule+)` one to three, and `$(#)` a new number; `\n`
    /// ends a line, and all else is text.
    pub grammar: &'static str,
    /// Processes a sentence as a request or a deployment does; returns why it is refused.
    pub check: fn(&str) -> Result<(), SentenceRefusal>,
}

/// Reason for which a sentence is refused, as a user would read it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SentenceRefusal(pub String);

impl SentenceRefusal {
    fn of(error: impl Display) -> Self {
        SentenceRefusal(error.to_string())
    }
}

/// All languages.
pub const LANGUAGES: [SentenceLanguage; 6] = [
    SentenceLanguage { name: "schema", grammar: include_str!("../grammars/schema.txt"), check: schema },
    SentenceLanguage { name: "services", grammar: include_str!("../grammars/services.txt"), check: package },
    SentenceLanguage { name: "yql", grammar: include_str!("../grammars/yql.txt"), check: yql },
    SentenceLanguage { name: "typed", grammar: include_str!("../grammars/typed.txt"), check: typed },
    SentenceLanguage { name: "grouping", grammar: include_str!("../grammars/grouping.txt"), check: grouping },
    SentenceLanguage {
        name: "selection",
        grammar: include_str!("../grammars/selection.txt"),
        check: selection,
    },
];

/// Rules by name, each with its alternatives.
pub struct SentenceGrammar<'g>(BTreeMap<&'g str, Vec<&'g str>>);

impl<'g> SentenceGrammar<'g> {
    /// Reads a grammar.
    ///
    /// # Panics
    /// A line is none of a rule.
    pub fn parse(text: &'g str) -> Self {
        let mut rules: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with("# ")) {
            let (name, alternative) = match line.split_once(" = ") {
                Some(parts) => parts,
                None => (line.strip_suffix(" =").expect("a line is `rule = alternative`"), ""),
            };
            rules.entry(name).or_default().push(alternative);
        }
        SentenceGrammar(rules)
    }

    /// A sentence of the rule `start`.
    ///
    /// # Panics
    /// A rule that is named does not exist.
    pub fn sentence(&self, random: &mut InputMutator<'_>) -> String {
        let (mut sentence, mut number) = (String::new(), 0);
        self.expand("start", 0, random, &mut number, &mut sentence);
        sentence.replace("\\n", "\n")
    }

    fn expand(
        &self,
        rule: &str,
        depth: usize,
        random: &mut InputMutator<'_>,
        number: &mut u32,
        sentence: &mut String,
    ) {
        if rule == "#" {
            *number += 1;
            return sentence.push_str(&number.to_string());
        }
        let alternatives = self.0.get(rule).unwrap_or_else(|| panic!("no rule '{rule}'"));
        let is_deep = depth > DEPTH_MAX;
        let mut rest = alternatives[if is_deep { 0 } else { random.below(alternatives.len()) }];
        while let Some((before, after)) = rest.split_once("$(") {
            sentence.push_str(before);
            let (name, after) = after.split_once(')').expect("a reference ends with a parenthesis");
            rest = after;
            let (name, count) = match name.strip_suffix(['?', '*', '+']) {
                None => (name, 1),
                Some(inner) if name.ends_with('+') => (inner, 1 + random.below(3)),
                Some(inner) if is_deep => (inner, 0),
                Some(inner) if name.ends_with('?') => (inner, random.below(2)),
                Some(inner) => (inner, random.below(6)),
            };
            for _ in 0..count {
                self.expand(name, depth + 1, random, number, sentence);
            }
        }
        sentence.push_str(rest);
    }
}

fn schema(text: &str) -> Result<(), SentenceRefusal> {
    let files = [
        ("services.xml", services("thing")),
        ("schemas/thing.sd", text.to_owned()),
        ("constants/c.json", "[1, 2]".to_owned()),
    ];
    let files: Vec<(&str, &str)> = files.iter().map(|(path, text)| (*path, text.as_str())).collect();
    let application = application(&files).map_err(SentenceRefusal::of)?;
    mistakes(&application).first().map_or(Ok(()), |mistake| Err(SentenceRefusal::of(mistake)))
}

/// Deploys services.xml, and the files after it, each of which begins with a line `--- PATH`.
fn package(text: &str) -> Result<(), SentenceRefusal> {
    let (services, others) = text.split_once("--- ").unwrap_or((text, ""));
    let mut files = vec![
        ("services.xml", services),
        ("schemas/thing.sd", include_str!("../grammars/world.sd")),
        ("models/significance.json", SIGNIFICANCE),
        ("more/search/a.xml", "<search><chain id='included' inherits='vespa'/></search>"),
        ("security/client.pem", CERTIFICATE),
    ];
    files.extend(others.split("--- ").filter_map(|file| file.split_once('\n')));
    application(&files).map(drop).map_err(SentenceRefusal::of)
}

/// The schema that queries and selections are about.
fn world() -> &'static Arc<Schema> {
    static WORLD: LazyLock<Application> = LazyLock::new(|| {
        let files = [
            ("services.xml", &*services("thing")),
            ("schemas/thing.sd", include_str!("../grammars/world.sd")),
        ];
        application(&files).expect("the schema beside the grammars deploys")
    });
    &WORLD.schemas["thing"]
}

fn query(parameters: &[(&str, &str)]) -> Result<Query, SentenceRefusal> {
    let given = [
        ("streaming.groupname", "ann"),
        ("number", "3"),
        ("word", "small"),
        ("typed", "small world"),
        ("none", ""),
        ("set", r#"{"a": 1, "b": 2}"#),
        ("query", "small world"),
        ("input.query(v)", "[1, 2, 3]"),
        ("input.query(w)", "[1, 2]"),
        ("input.query(b)", "[1, 2, 3, 4]"),
    ];
    let all = given.iter().chain(parameters).map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    Query::from_parameters(all.collect(), &QueryLimits::default()).map_err(SentenceRefusal::of)
}

fn plan(query: Query) -> Result<(), SentenceRefusal> {
    groups(&query)?;
    let clock = UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let context = PlanContext { clock, ..PlanContext::standalone() };
    Plan::new(Arc::new(query), world(), &context).map(drop).map_err(SentenceRefusal::of)
}

fn groups(query: &Query) -> Result<(), SentenceRefusal> {
    let settings = Settings::new(&query.grouping_defaults, 1_700_000_000).map_err(SentenceRefusal::of)?;
    for request in &query.grouping {
        for request in GroupingRequest::parse(request).map_err(SentenceRefusal::of)? {
            request.check(&grouping_schema(world()), &settings).map_err(SentenceRefusal::of)?;
        }
    }
    Ok(())
}

fn yql(text: &str) -> Result<(), SentenceRefusal> {
    plan(query(&[("yql", text)])?)
}

fn typed(text: &str) -> Result<(), SentenceRefusal> {
    for grammar in ["weakAnd", "all", "any", "web", "adv"] {
        let parameters = [("query", text), ("type", grammar), ("default-index", "text")];
        plan(query(&parameters)?)?;
    }
    Ok(())
}

fn grouping(text: &str) -> Result<(), SentenceRefusal> {
    groups(&query(&[("yql", "select * from sources * where true"), ("select", text)])?)
}

fn selection(text: &str) -> Result<(), SentenceRefusal> {
    let selection = DocumentSelection::parse(text).map_err(SentenceRefusal::of)?;
    let schema = world();
    let of_name = |name: &str| (name == &*schema.name).then_some(&*schema.document_type);
    selection.check(of_name).map_err(SentenceRefusal::of)
}
