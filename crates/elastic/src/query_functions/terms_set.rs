//! `terms_set` queries: documents with some of several terms, as many as a field or a script says.

use serde_json::{Map, Value, json};

use super::{FunctionQuery, FunctionValue, ScoreCombination, ScoreFunction, check};
use crate::Error;
use crate::evaluation::TermValues;
use crate::formulas::ScriptFormula;
use crate::query::{BoolQuery, CLAUSES_MAX, SearchQuery, text_of};

/// Members below the name of the field.
const MEMBERS: [&str; 6] = [
    "terms",
    "minimum_should_match",
    "minimum_should_match_field",
    "minimum_should_match_script",
    "boost",
    "_name",
];

impl FunctionQuery {
    /// Parses a `terms_set` query. The score of a document is the number of the terms that it has.
    ///
    /// # Errors
    /// It has no terms or too many, no minimum or several, or a script that is more than a formula.
    pub(crate) fn of_terms_set(members: &Map<String, Value>) -> Result<Self, Error> {
        let mut fields = members.iter().filter(|(name, _)| !["boost", "_name"].contains(&name.as_str()));
        let (Some((field, Value::Object(options))), None) = (fields.next(), fields.next()) else {
            return Err(Error::Parsing("[terms_set] needs one field, with an object of [terms]".to_owned()));
        };
        check("terms_set", options, &MEMBERS)?;
        let Some(terms) = options.get("terms").and_then(Value::as_array) else {
            return Err(Error::Parsing(format!("[terms] of [terms_set] on [{field}] must be an array")));
        };
        if terms.len() > CLAUSES_MAX {
            return Err(Error::IllegalArgument(format!("[terms_set] may have {CLAUSES_MAX} terms")));
        }
        let minimum = minimum_of(field, options, terms.len())?;
        let one = |value: &Value| {
            let values = TermValues::new(vec![value.clone()]);
            let term = SearchQuery::Terms { field: field.clone(), values, ignores_case: false };
            SearchQuery::Constant(Box::new(term), 1.0)
        };
        let query = match terms.is_empty() {
            true => SearchQuery::None,
            false => {
                let should = terms.iter().map(one).collect();
                SearchQuery::Bool(BoolQuery { should, ..BoolQuery::default() })
            }
        };
        Ok(FunctionQuery {
            query,
            functions: vec![ScoreFunction {
                filter: None,
                weight: 1.0,
                value: FunctionValue::Formula(Box::new(minimum.into_least_score())),
            }],
            score_mode: ScoreCombination::Multiply,
            boost_mode: ScoreCombination::Replace,
            boost_max: f64::MAX,
            // One term has to be there in any case.
            score_min: Some(1.0),
        })
    }
}

/// Formula of the number of terms that a document must have.
fn minimum_of(field: &str, options: &Map<String, Value>, count: usize) -> Result<ScriptFormula, Error> {
    let given = |name: &str| options.get(name);
    let number = given("minimum_should_match");
    match (number, given("minimum_should_match_field"), given("minimum_should_match_script")) {
        (Some(number), None, None) => match text_of(number).parse::<u32>() {
            Ok(number) => ScriptFormula::parse(&json!(number.to_string()), &[]),
            Err(_) => Err(Error::IllegalArgument(format!(
                "[minimum_should_match] of [terms_set] on [{field}] must be a number of terms"
            ))),
        },
        (None, Some(of), None) => {
            // Documents without the number are not found.
            let of = text_of(of);
            let source = format!("doc['{of}'].size() == 0 ? {count} + 1 : doc['{of}'].value");
            ScriptFormula::parse(&json!(source), &[])
        }
        (None, None, Some(script)) => {
            let mut script = match script {
                Value::String(source) => json!({ "source": source }),
                other => other.clone(),
            };
            if let Some(members) = script.as_object_mut() {
                let parameters = members.entry("params").or_insert_with(|| json!({}));
                if let Some(parameters) = parameters.as_object_mut() {
                    parameters.insert("num_terms".to_owned(), count.into());
                }
            }
            ScriptFormula::parse(&script, &[])
        }
        _ => Err(Error::IllegalArgument(format!(
            "[terms_set] on [{field}] needs one of [minimum_should_match_field], [minimum_should_match_script] and \
             [minimum_should_match]"
        ))),
    }
}
