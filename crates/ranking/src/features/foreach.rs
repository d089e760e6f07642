//! `foreach(dimension,variable,feature,condition,operation)`: an aggregate of one feature over many terms or
//! fields.
//!
//! It is not a feature of its own but an abbreviation: it expands to the expression that lists all of them.

use millrace_expression::FeatureName;

use super::FeatureSetup;
use super::native::is_index;
use crate::Error;

/// Default number of terms.
const TERMS: f64 = 16.0;

/// Maximum size of the expansion, in bytes.
const BYTES: usize = 1 << 20;

/// Expands the feature to an expression.
pub(crate) fn expand(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<String, Error> {
    let [dimension, variable, feature, condition, operation] = name.parameters.as_slice() else {
        return Err(Error::setup(format!(
            "{name}: write foreach(dimension,variable,feature,condition,operation)"
        )));
    };
    let items = items(setup, dimension).map_err(|reason| Error::setup(format!("{name}: {reason}")))?;
    if variable.is_empty() || items.len().saturating_mul(feature.len() + 64) > BYTES {
        return Err(Error::setup(format!(
            "{name}: the variable needs a name, and all features together less than {BYTES} bytes"
        )));
    }
    let holds = condition_of(name, condition)?;
    let items: Vec<ForeachItem> = items
        .iter()
        .enumerate()
        .map(|(number, item)| {
            let value = format!("({})", feature.replace(variable.as_str(), item));
            // A query may have fewer terms than the expansion lists.
            let is_there = (dimension == "terms").then(|| format!("queryTermCount>{number}"));
            let holds = holds.as_ref().map(|bound| format!("{value}{bound}"));
            let condition = match (is_there, holds) {
                (Some(is_there), Some(holds)) => Some(format!("({is_there} && {holds})")),
                (one, other) => one.or(other),
            };
            ForeachItem { value, condition }
        })
        .collect();
    combine(&items, operation).ok_or_else(|| {
        Error::setup(format!(
            "{name}: the operation is sum, product, average, max, min or count, found '{operation}'"
        ))
    })
}

/// The values of the variable, in order.
fn items(setup: &FeatureSetup<'_>, dimension: &str) -> Result<Vec<String>, Error> {
    let fields = setup.schema.fields.values();
    match dimension {
        "terms" => {
            let count = setup.properties.number("foreach", "", "maxTerms", TERMS)?.clamp(0.0, 1000.0);
            Ok((0..count as usize).map(|term| term.to_string()).collect())
        }
        "fields" => Ok(fields.filter(|field| is_index(field)).map(|field| field.name.to_string()).collect()),
        "attributes" => {
            Ok(fields.filter(|field| field.attribute.is_some()).map(|field| field.name.to_string()).collect())
        }
        other => Err(Error::setup(format!("the dimension is terms, fields or attributes, found '{other}'"))),
    }
}

/// The comparison to append to a value; empty if all values count.
fn condition_of(name: &FeatureName, condition: &str) -> Result<Option<String>, Error> {
    if condition == "true" {
        return Ok(None);
    }
    let bound = condition.strip_prefix(['<', '>']).and_then(|bound| bound.trim().parse::<f64>().ok());
    let bound = bound.ok_or_else(|| {
        Error::setup(format!("{name}: the condition is true, \">a\" or \"<a\", found '{condition}'"))
    })?;
    Ok(Some(format!("{}({bound})", &condition[..1])))
}

/// One value and its condition; without a condition it always counts.
struct ForeachItem {
    value: String,
    condition: Option<String>,
}

impl ForeachItem {
    fn or(&self, neutral: &str) -> String {
        match &self.condition {
            None => self.value.clone(),
            Some(condition) => format!("if({condition},{},{neutral})", self.value),
        }
    }

    fn counts(&self) -> String {
        self.condition.as_ref().map_or_else(|| "1".to_owned(), |condition| format!("if({condition},1,0)"))
    }
}

fn combine(items: &[ForeachItem], operation: &str) -> Option<String> {
    let join = |operator: &str, neutral: &str| {
        items.iter().map(|item| item.or(neutral)).collect::<Vec<_>>().join(operator)
    };
    let count = || items.iter().map(ForeachItem::counts).collect::<Vec<_>>().join("+");
    // The best of no values is 0.
    let best = |function: &str, worst: &str| {
        let of = |best: String, item: &ForeachItem| format!("{function}({best},{})", item.or(worst));
        items
            .chunks(16)
            .map(|some| some.iter().fold(worst.to_owned(), of))
            .reduce(|a, b| format!("{function}({a},{b})"))
            .map(|best| format!("if({}>0,{best},0)", count()))
    };
    let known = ["sum", "product", "average", "max", "min", "count"].contains(&operation);
    if items.is_empty() {
        return known.then(|| "0".to_owned());
    }
    match operation {
        "sum" => Some(join("+", "0")),
        "product" => Some(format!("if({}>0,{},0)", count(), join("*", "1"))),
        "average" => Some(format!("({})/max({},1)", join("+", "0"), count())),
        "max" => best("max", "-1e308*10"),
        "min" => best("min", "1e308*10"),
        "count" => Some(count()),
        _ => None,
    }
}
