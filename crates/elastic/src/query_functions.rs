//! Queries that change the scores of others: `function_score`, `script_score`, `boosting` and `terms_set`.

mod terms_set;

use std::hash::{BuildHasher, RandomState};

use jiff::tz::TimeZone;
use serde_json::{Map, Value};

use crate::Error;
use crate::dates::{DateReading, DateText};
use crate::evaluation::{FieldValueKind, SearchedDocument, kind_of, number_of};
use crate::fields::{all_at, whole_at};
use crate::formulas::{FormulaInputs, ScriptFormula};
use crate::mapping::type_of;
use crate::query::{SearchQuery, parse_at, text_of};
use crate::query_scope::ParseScope;
use crate::scan_limit::duration_of;
use crate::vector_similarity::{is_vector, vector_of};

/// Names of functions, and what stands in the place of one.
const FUNCTIONS: [&str; 7] =
    ["weight", "field_value_factor", "random_score", "script_score", "gauss", "exp", "linear"];

/// A query whose scores are combined with those of functions.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct FunctionQuery {
    pub(crate) query: SearchQuery,
    functions: Vec<ScoreFunction>,
    /// Combination of the functions, and of the query with these.
    score_mode: ScoreCombination,
    boost_mode: ScoreCombination,
    /// Highest value of the functions.
    boost_max: f64,
    /// Lowest score of a document that is found.
    score_min: Option<f64>,
}

/// A function with the documents that it counts for.
#[derive(Debug, Clone, PartialEq)]
struct ScoreFunction {
    filter: Option<SearchQuery>,
    weight: f64,
    value: FunctionValue,
}

/// Value of a function for a document.
#[derive(Debug, Clone, PartialEq)]
enum FunctionValue {
    One,
    Field { field: String, factor: f64, modifier: ValueModifier, missing: Option<f64> },
    Random { seed: u64 },
    Decay(ValueDecay),
    Formula(Box<ScriptFormula>),
}

/// Value that falls with the distance from an origin.
#[derive(Debug, Clone, PartialEq)]
struct ValueDecay {
    shape: DecayShape,
    field: String,
    /// None: the current time.
    origin: Option<Value>,
    scale: Value,
    offset: Value,
    decay: f64,
    several: SeveralDistances,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum DecayShape {
    Gauss,
    Exponential,
    Linear,
}

/// Distance of a document with several values.
#[derive(Debug, Clone, Copy, PartialEq)]
enum SeveralDistances {
    Min,
    Max,
    Average,
    Sum,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum ValueModifier {
    None,
    /// Logarithm to the base 10, or the natural one, of the value with this added.
    Log10(f64),
    Ln(f64),
    Square,
    Root,
    Reciprocal,
}

/// Combination of scores.
#[derive(Debug, Clone, Copy, PartialEq)]
enum ScoreCombination {
    Multiply,
    Sum,
    Average,
    Max,
    Min,
    /// The first function that counts.
    First,
    /// The functions alone.
    Replace,
}

fn number(name: &str, value: &Value) -> Result<f64, Error> {
    let malformed = || Error::Parsing(format!("[{name}] of a function must be a number, not [{value}]"));
    number_of(value).filter(|number| number.is_finite()).ok_or_else(malformed)
}

impl ScoreCombination {
    fn parse(name: &str, value: &Value) -> Result<Self, Error> {
        Ok(match (text_of(value).as_str(), name) {
            ("multiply", _) => ScoreCombination::Multiply,
            ("sum", _) => ScoreCombination::Sum,
            ("avg", _) => ScoreCombination::Average,
            ("max", _) => ScoreCombination::Max,
            ("min", _) => ScoreCombination::Min,
            ("first", "score_mode") => ScoreCombination::First,
            ("replace", "boost_mode") => ScoreCombination::Replace,
            (other, _) => return Err(Error::IllegalArgument(format!("illegal {name} [{other}]"))),
        })
    }

    /// Value of the functions that count, each with its weight: 1 without any.
    fn of(self, values: &[(f64, f64)]) -> f64 {
        let scores = values.iter().map(|(score, _)| *score);
        let weights: f64 = values.iter().map(|(_, weight)| weight).sum();
        let combined = match self {
            ScoreCombination::Multiply => Some(scores.product::<f64>()),
            ScoreCombination::Sum => scores.reduce(|sum, score| sum + score),
            ScoreCombination::Average => {
                Some(scores.sum::<f64>() / weights).filter(|score| score.is_finite())
            }
            ScoreCombination::Max => scores.reduce(f64::max),
            ScoreCombination::Min => scores.reduce(f64::min),
            ScoreCombination::First | ScoreCombination::Replace => values.first().map(|(score, _)| *score),
        };
        combined.unwrap_or(1.0)
    }

    /// Score of a query with the value of its functions.
    fn with(self, score: f64, value: f64) -> f64 {
        match self {
            ScoreCombination::Multiply => score * value,
            ScoreCombination::Sum => score + value,
            ScoreCombination::Average => (score + value) / 2.0,
            ScoreCombination::Max => score.max(value),
            ScoreCombination::Min => score.min(value),
            ScoreCombination::First | ScoreCombination::Replace => value,
        }
    }
}

impl FunctionQuery {
    /// Parses a query of these kinds, whose members are known.
    ///
    /// # Errors
    /// One is malformed or missing, or the query is too deep.
    pub(crate) fn parse(
        kind: &str,
        members: &Map<String, Value>,
        scope: ParseScope<'_>,
    ) -> Result<Self, Error> {
        let scope = scope.deeper()?;
        match kind {
            "boosting" => FunctionQuery::of_boosting(members, scope),
            "script_score" => FunctionQuery::of_script(members, scope),
            _ => FunctionQuery::of_functions(members, scope),
        }
    }

    fn of_functions(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let is_function = |name: &&String| FUNCTIONS.contains(&name.as_str());
        let own: Map<String, Value> = members
            .iter()
            .filter(|(name, _)| is_function(name))
            .map(|(name, value)| (name.clone(), value.clone()))
            .collect();
        let functions = match (members.get("functions"), own.is_empty()) {
            (None, true) => Vec::new(),
            (None, false) => vec![ScoreFunction::parse(&own, scope)?],
            (Some(Value::Array(all)), true) => {
                let one = |function: &Value| match function {
                    Value::Object(members) => ScoreFunction::parse(members, scope),
                    _ => Err(Error::Parsing("[functions] has objects alone".to_owned())),
                };
                all.iter().map(one).collect::<Result<_, Error>>()?
            }
            (Some(_), true) => return Err(Error::Parsing("[functions] must be an array".to_owned())),
            (Some(_), false) => {
                return Err(Error::Parsing(
                    "[function_score] has one function, or [functions], and not both".to_owned(),
                ));
            }
        };
        let mode = |name: &str| {
            members
                .get(name)
                .map_or(Ok(ScoreCombination::Multiply), |mode| ScoreCombination::parse(name, mode))
        };
        let limit = |name: &str| members.get(name).map(|value| number(name, value)).transpose();
        Ok(FunctionQuery {
            query: members.get("query").map_or(Ok(SearchQuery::All), |query| parse_at(query, scope))?,
            functions,
            score_mode: mode("score_mode")?,
            boost_mode: mode("boost_mode")?,
            boost_max: limit("max_boost")?.unwrap_or(f64::MAX),
            score_min: limit("min_score")?,
        })
    }

    /// The score is that of a formula.
    fn of_script(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let Some(query) = members.get("query") else {
            return Err(Error::Parsing("[script_score] requires 'query' field".to_owned()));
        };
        let mut formula = Map::new();
        formula.extend(members.get("script").map(|script| ("script".to_owned(), script.clone())));
        Ok(FunctionQuery {
            query: parse_at(query, scope)?,
            functions: vec![ScoreFunction {
                filter: None,
                weight: 1.0,
                value: FunctionValue::of_script(&formula)?,
            }],
            score_mode: ScoreCombination::Multiply,
            boost_mode: ScoreCombination::Replace,
            boost_max: f64::MAX,
            score_min: members.get("min_score").map(|value| number("min_score", value)).transpose()?,
        })
    }

    /// Documents that match `negative` have a part of their score.
    fn of_boosting(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let needed = |name: &str| {
            let missing = || Error::Parsing(format!("[boosting] query requires '{name}' to be set"));
            members.get(name).ok_or_else(missing)
        };
        let weight = number("negative_boost", needed("negative_boost")?)?;
        if weight < 0.0 {
            let reason = "[boosting] query requires 'negative_boost' to be set to be a positive value";
            return Err(Error::IllegalArgument(reason.to_owned()));
        }
        let filter = Some(parse_at(needed("negative")?, scope)?);
        Ok(FunctionQuery {
            query: parse_at(needed("positive")?, scope)?,
            functions: vec![ScoreFunction { filter, weight, value: FunctionValue::One }],
            score_mode: ScoreCombination::Multiply,
            boost_mode: ScoreCombination::Multiply,
            boost_max: f64::MAX,
            score_min: None,
        })
    }

    /// Bytes that its regular expressions take, about.
    pub(crate) fn pattern_bytes(&self) -> usize {
        let filters = self.functions.iter().filter_map(|function| function.filter.as_ref());
        self.query.pattern_bytes() + filters.map(SearchQuery::pattern_bytes).sum::<usize>()
    }
}

impl ScoreFunction {
    fn parse(members: &Map<String, Value>, scope: ParseScope<'_>) -> Result<Self, Error> {
        let (mut filter, mut weight, mut value) = (None, None, None);
        for (name, member) in members {
            let found = match name.as_str() {
                "filter" => {
                    filter = Some(parse_at(member, scope)?);
                    continue;
                }
                "weight" => {
                    weight = Some(number(name, member)?);
                    continue;
                }
                "field_value_factor" => FunctionValue::of_field(&object(name, member)?)?,
                "random_score" => FunctionValue::random(&object(name, member)?)?,
                "gauss" => ValueDecay::parse(DecayShape::Gauss, name, member)?,
                "exp" => ValueDecay::parse(DecayShape::Exponential, name, member)?,
                "linear" => ValueDecay::parse(DecayShape::Linear, name, member)?,
                "script_score" => FunctionValue::of_script(&object(name, member)?)?,
                other => return Err(Error::Parsing(format!("no function is named [{other}]"))),
            };
            if value.replace(found).is_some() {
                return Err(Error::Parsing(format!("[{name}] is the second function in one place")));
            }
        }
        if value.is_none() && weight.is_none() {
            return Err(Error::Parsing(
                "an entry of [functions] has no function, and no [weight]".to_owned(),
            ));
        }
        let value = value.unwrap_or(FunctionValue::One);
        Ok(ScoreFunction { filter, weight: weight.unwrap_or(1.0), value })
    }
}

/// Members of a function.
fn object(name: &str, value: &Value) -> Result<Map<String, Value>, Error> {
    let members = value.as_object().cloned();
    members.ok_or_else(|| Error::Parsing(format!("[{name}] must be an object")))
}

/// Refuses other members of a function than these.
fn check(name: &str, members: &Map<String, Value>, known: &[&str]) -> Result<(), Error> {
    match members.keys().find(|member| !known.contains(&member.as_str())) {
        Some(unknown) => Err(Error::Parsing(format!("[{name}] does not support [{unknown}]"))),
        None => Ok(()),
    }
}

impl FunctionValue {
    fn of_field(members: &Map<String, Value>) -> Result<Self, Error> {
        check("field_value_factor", members, &["field", "factor", "modifier", "missing"])?;
        let Some(Value::String(field)) = members.get("field") else {
            return Err(Error::Parsing("[field_value_factor] required field 'field' missing".to_owned()));
        };
        let modifier = match members.get("modifier").map(text_of).as_deref() {
            None | Some("none") => ValueModifier::None,
            Some("log") => ValueModifier::Log10(0.0),
            Some("log1p") => ValueModifier::Log10(1.0),
            Some("log2p") => ValueModifier::Log10(2.0),
            Some("ln") => ValueModifier::Ln(0.0),
            Some("ln1p") => ValueModifier::Ln(1.0),
            Some("ln2p") => ValueModifier::Ln(2.0),
            Some("square") => ValueModifier::Square,
            Some("sqrt") => ValueModifier::Root,
            Some("reciprocal") => ValueModifier::Reciprocal,
            Some(other) => return Err(Error::IllegalArgument(format!("[{other}] is not a modifier"))),
        };
        let of = |name: &str| members.get(name).map(|value| number(name, value)).transpose();
        let (factor, missing) = (of("factor")?.unwrap_or(1.0), of("missing")?);
        Ok(FunctionValue::Field { field: field.clone(), factor, modifier, missing })
    }

    fn of_script(members: &Map<String, Value>) -> Result<Self, Error> {
        check("script_score", members, &["script"])?;
        match members.get("script") {
            Some(script) => Ok(FunctionValue::Formula(Box::new(ScriptFormula::parse(script, &[])?))),
            None => Err(Error::Parsing("[script_score] requires 'script' field".to_owned())),
        }
    }

    /// Values that look random. Those of one seed stay the same.
    fn random(members: &Map<String, Value>) -> Result<Self, Error> {
        check("random_score", members, &["seed", "field"])?;
        let seed = members.get("seed").map(text_of);
        let seed = seed.map_or_else(|| RandomState::new().hash_one("seed"), |seed| digest(0, &seed));
        Ok(FunctionValue::Random { seed })
    }
}

/// A number from a text, in which each letter changes all bits.
fn digest(seed: u64, text: &str) -> u64 {
    let mut digest = text.bytes().fold(seed ^ 0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    for shift in [33, 29, 32] {
        digest = (digest ^ (digest >> shift)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    }
    digest
}

impl ValueModifier {
    fn of(self, value: f64) -> f64 {
        match self {
            ValueModifier::None => value,
            ValueModifier::Log10(more) => (value + more).log10(),
            ValueModifier::Ln(more) => (value + more).ln(),
            ValueModifier::Square => value * value,
            ValueModifier::Root => value.sqrt(),
            ValueModifier::Reciprocal => 1.0 / value,
        }
    }
}

impl ValueDecay {
    fn parse(shape: DecayShape, name: &str, value: &Value) -> Result<FunctionValue, Error> {
        let mut members = object(name, value)?;
        let several = match members.remove("multi_value_mode").as_ref().map(text_of).as_deref() {
            None | Some("min") => SeveralDistances::Min,
            Some("max") => SeveralDistances::Max,
            Some("avg") => SeveralDistances::Average,
            Some("sum") => SeveralDistances::Sum,
            Some(other) => {
                return Err(Error::IllegalArgument(format!("[{other}] is not a mode of several values")));
            }
        };
        let mut fields = members.into_iter();
        let (Some((field, options)), None) = (fields.next(), fields.next()) else {
            return Err(Error::Parsing(format!("[{name}] has one field")));
        };
        let options = object(&field, &options)?;
        check(name, &options, &["origin", "scale", "offset", "decay"])?;
        let Some(scale) = options.get("scale").cloned() else {
            return Err(Error::Parsing(format!("[{name}] of [{field}] needs a [scale]")));
        };
        let decay = options.get("decay").map_or(Ok(0.5), |decay| number("decay", decay))?;
        if decay <= 0.0 || decay >= 1.0 {
            return Err(Error::IllegalArgument(format!(
                "decay must be between 0 and 1, and is [{decay}] for [{field}]"
            )));
        }
        let offset = options.get("offset").cloned().unwrap_or(Value::from(0));
        let origin = options.get("origin").cloned();
        Ok(FunctionValue::Decay(ValueDecay { shape, field, origin, scale, offset, decay, several }))
    }

    /// Value at a distance.
    fn at(&self, distance: f64, scale: f64) -> f64 {
        match self.shape {
            DecayShape::Gauss => (self.decay.ln() * (distance / scale).powi(2)).exp(),
            DecayShape::Exponential => (self.decay.ln() * distance / scale).exp(),
            DecayShape::Linear => (1.0 - distance * (1.0 - self.decay) / scale).max(0.0),
        }
    }
}

/// A document with the score of a query, from which a formula is computed.
struct ScoredDocument<'s, 'd> {
    document: &'s SearchedDocument<'d>,
    score: f64,
}

impl FormulaInputs for ScoredDocument<'_, '_> {
    fn score(&self) -> f64 {
        self.score
    }

    fn figure(&self, _: &str) -> Option<f64> {
        None
    }

    fn numbers(&self, field: &str) -> Vec<f64> {
        self.document.numbers_of(field).1
    }

    fn count(&self, field: &str) -> usize {
        let Some((definition, source_path)) = self.document.field(field) else { return 0 };
        let values = all_at(self.document.source, &source_path);
        if is_vector(type_of(&definition)) { usize::from(!values.is_empty()) } else { values.len() }
    }

    fn vector(&self, field: &str) -> Option<Vec<f64>> {
        let (_, source_path) = self.document.field(field)?;
        let mut vectors = Vec::new();
        whole_at(self.document.source, &source_path, &mut |value| vectors.extend(vector_of(value)));
        vectors.into_iter().next()
    }
}

impl SearchedDocument<'_> {
    /// Score of the document by a query with functions. Names of matching queries are added to `names`.
    pub(crate) fn score_functions(
        &self,
        query: &FunctionQuery,
        names: &mut Vec<String>,
    ) -> Result<Option<f64>, Error> {
        let Some(own) = self.score(&query.query, names)? else { return Ok(None) };
        let mut values = Vec::with_capacity(query.functions.len());
        for ScoreFunction { filter, weight, value } in &query.functions {
            let counts = match filter {
                None => true,
                Some(filter) => self.score(filter, &mut Vec::new())?.is_some(),
            };
            if counts {
                values.push((self.function_value(value, own)? * weight, *weight));
                if query.score_mode == ScoreCombination::First {
                    break;
                }
            }
        }
        let score = query.boost_mode.with(own, query.score_mode.of(&values).min(query.boost_max));
        if !score.is_finite() || score < 0.0 {
            return Err(Error::IllegalArgument(format!(
                "function score query returned an invalid score: [{score}] for [{}]; scores are numbers that are not negative",
                self.id
            )));
        }
        Ok(Some(score).filter(|score| query.score_min.is_none_or(|limit| *score >= limit)))
    }

    fn function_value(&self, value: &FunctionValue, score: f64) -> Result<f64, Error> {
        match value {
            FunctionValue::Formula(formula) => formula.value(&ScoredDocument { document: self, score }),
            FunctionValue::One => Ok(1.0),
            FunctionValue::Field { field, factor, modifier, missing } => {
                let (_, numbers) = self.numbers_of(field);
                let least = numbers.into_iter().reduce(f64::min).or(*missing);
                let least = least
                    .ok_or_else(|| Error::IllegalArgument(format!("Missing value for field [{field}]")))?;
                Ok(modifier.of(least * factor))
            }
            // 53 bits of a number are those of a share of 1.
            FunctionValue::Random { seed } => {
                Ok((digest(*seed, self.id) >> 11) as f64 / (1_u64 << 53) as f64)
            }
            FunctionValue::Decay(decay) => self.decayed(decay),
        }
    }

    /// Numbers of a field, with true if they are times in milliseconds.
    pub(crate) fn numbers_of(&self, field: &str) -> (bool, Vec<f64>) {
        let Some((definition, place)) = self.field(field) else { return (false, Vec::new()) };
        let is_date = kind_of(type_of(&definition)) == FieldValueKind::Date;
        let format = definition.get("format").and_then(Value::as_str);
        let number = |value: &Value| match is_date {
            true => DateText::parse_value(value, format).map(|millis| millis as f64),
            false => number_of(value),
        };
        (is_date, all_at(self.source, &place).into_iter().filter_map(number).collect())
    }

    fn decayed(&self, decay: &ValueDecay) -> Result<f64, Error> {
        let (is_date, numbers) = self.numbers_of(&decay.field);
        if numbers.is_empty() {
            return Ok(1.0);
        }
        let malformed = |name: &str, value: &Value| {
            Error::IllegalArgument(format!("[{name}] of [{}] cannot be [{value}]", decay.field))
        };
        let length = |name: &str, value: &Value| {
            let length = match value {
                Value::String(text) if is_date => {
                    duration_of(text).ok().flatten().map(|length| length.as_secs_f64() * 1_000.0)
                }
                other => number_of(other),
            };
            length.ok_or_else(|| malformed(name, value))
        };
        let (scale, offset) = (length("scale", &decay.scale)?, length("offset", &decay.offset)?);
        if scale <= 0.0 || offset < 0.0 {
            return Err(malformed("scale", &decay.scale));
        }
        let reading =
            DateReading { format: None, now_ms: self.now_ms, zone: &TimeZone::UTC, round_up: false };
        let origin = match &decay.origin {
            None if is_date => Some(self.now_ms as f64),
            None => None,
            Some(origin) if is_date => {
                DateText::resolve(&text_of(origin), &reading).map(|millis| millis as f64)
            }
            Some(origin) => number_of(origin),
        };
        let origin =
            origin.ok_or_else(|| malformed("origin", decay.origin.as_ref().unwrap_or(&Value::Null)))?;
        let count = numbers.len() as f64;
        let distances = numbers.into_iter().map(|number| ((number - origin).abs() - offset).max(0.0));
        let distance = match decay.several {
            SeveralDistances::Min => distances.fold(f64::INFINITY, f64::min),
            SeveralDistances::Max => distances.fold(0.0, f64::max),
            SeveralDistances::Average => distances.sum::<f64>() / count,
            SeveralDistances::Sum => distances.sum::<f64>(),
        };
        Ok(decay.at(distance, scale))
    }
}
