//! Features that are expressions of other features: small building blocks for profiles that check ranking.

use millrace_expression::FeatureName;

use super::FeatureSetup;
use crate::Error;

/// Maximum number of links of a `chain`.
const LINKS_MAX: u32 = 1000;

/// Expands such a feature to an expression; `None` for any other.
pub(crate) fn expand(setup: &FeatureSetup<'_>, name: &FeatureName) -> Option<Result<String, Error>> {
    let parameters: Vec<&str> = name.parameters.iter().map(String::as_str).collect();
    Some(match (name.name.as_str(), parameters.as_slice()) {
        ("double", [_, ..]) => output(name, &parameters).map(|feature| format!("2 * ({feature})")),
        ("mysum", [_, ..]) => check_output(name, "out").map(|()| format!("({})", parameters.join(") + ("))),
        ("staticrank", [field]) => check_output(name, "out").map(|()| format!("attribute({field})")),
        ("unbox", [feature]) => check_output(name, "value").map(|()| format!("({feature})")),
        ("chain", ["basic", links, number]) => match links.parse() {
            Ok(1..=LINKS_MAX) => check_output(name, "out").map(|()| format!("value({number})")),
            _ => Err(Error::setup(format!("{name}: a chain has 1 to {LINKS_MAX} links"))),
        },
        ("test_cfgvalue", [key]) => match setup.properties.numbers("test_cfgvalue", key, "value") {
            Ok(numbers) if numbers.is_empty() => {
                Err(Error::setup(format!("{name} needs the rank property test_cfgvalue({key}).value")))
            }
            Ok(numbers) => output(name, &numbers).map(|number| format!("({number})")),
            Err(error) => Err(error),
        },
        ("double" | "mysum" | "staticrank" | "unbox" | "chain" | "test_cfgvalue", _) => {
            Err(Error::setup(format!(
                "{name}: write double(feature,…).n, mysum(feature,…), staticrank(attribute), unbox(feature), \
                 chain(basic,links,number) or test_cfgvalue(key).n"
            )))
        }
        _ => return None,
    })
}

/// The value of an output, which is named by its number; the first if none is named.
fn output<'v, T>(name: &FeatureName, values: &'v [T]) -> Result<&'v T, Error> {
    let number = name.output.as_deref().map_or(Ok(0), str::parse::<usize>);
    number.ok().and_then(|number| values.get(number)).ok_or_else(|| {
        Error::setup(format!(
            "{name}: its outputs are the numbers from 0 to {}",
            values.len().saturating_sub(1)
        ))
    })
}

/// Refuses any other output than this one.
fn check_output(name: &FeatureName, output: &str) -> Result<(), Error> {
    match &name.output {
        Some(other) if other != output => {
            Err(Error::setup(format!("{name}: {} has the output {output}", name.name)))
        }
        _ => Ok(()),
    }
}
