use millrace_column::{Column, ColumnKey};
use millrace_expression::FeatureName;

use super::{Chunk, Executor, Feature, Request, Run, Setup, Values};

/// Numbers drawn from the document id and a seed, so that repeating a query with the same time gives the same
/// numbers.
struct Random {
    seed: u64,
    /// True if all queries get the same numbers.
    stable: bool,
    spread: Spread,
}

enum Spread {
    /// Uniform over 0 to 1.
    Even,
    Normal {
        mean: f64,
        deviation: f64,
    },
}

/// `random`, `random(name)`, `random.match`
pub(crate) fn setup(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    let stable = match name.output.as_deref() {
        None => false,
        Some("match") => true,
        Some(_) => return Err(format!("{name}: random has the output match")),
    };
    random(setup, name, stable, Spread::Even)
}

/// `randomNormal`, `randomNormal(mean,stddev,name)`
pub(crate) fn normal(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    random(setup, name, false, normal_spread(name)?)
}

/// `randomNormalStable`, `randomNormalStable(mean,stddev,name)`
pub(crate) fn normal_stable(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    random(setup, name, true, normal_spread(name)?)
}

fn normal_spread(name: &FeatureName) -> Result<Spread, String> {
    let number = |at: usize, default: f64| match name.parameters.get(at) {
        None => Ok(default),
        Some(text) => {
            text.parse().map_err(|_| format!("{name}: write {}(mean,stddev), two numbers", name.name))
        }
    };
    Ok(Spread::Normal { mean: number(0, 0.0)?, deviation: number(1, 1.0)? })
}

fn random(
    setup: &Setup<'_>,
    name: &FeatureName,
    stable: bool,
    spread: Spread,
) -> Result<Box<dyn Feature>, String> {
    let default = if stable { 1024.0 } else { 0.0 };
    let key = if name.output.is_some() { "random.match" } else { name.name.as_str() };
    let seed = setup.properties.number(key, "", "seed", default)?;
    let named = name.parameters.iter().flat_map(|parameter| parameter.bytes());
    let seed = named.fold(seed.to_bits(), |seed, byte| mixed(seed ^ u64::from(byte)));
    Ok(Box::new(Random { seed, stable, spread }))
}

impl Feature for Random {
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let asked = request.plan.query.ranking.properties.get("random.match.seed").filter(|_| self.stable);
        let asked = asked.and_then(|seed| seed.trim().parse::<f64>().ok()).map_or(0, f64::to_bits);
        let seed =
            if self.stable { mixed(self.seed ^ asked) } else { mixed(self.seed ^ request.plan.now as u64) };
        let ids = request.column(ColumnKey::id());
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            let ids = match chunk.column(ids) {
                Some(Column::Bytes(ids)) => Some(ids),
                _ => None,
            };
            let out = values.numbers(chunk.len(), 0.0);
            for (at, document) in chunk.documents() {
                let id = ids.and_then(|ids| ids.get(document)).unwrap_or_default();
                out[at] = self.spread.of(id.iter().fold(seed, |drawn, byte| mixed(drawn ^ u64::from(*byte))));
            }
        }))
    }
}

impl Spread {
    fn of(&self, drawn: u64) -> f64 {
        // 53 bits, which a double represents exactly.
        let even = |drawn: u64| (drawn >> 11) as f64 / (1u64 << 53) as f64;
        match self {
            Spread::Even => even(drawn),
            Spread::Normal { mean, deviation } => {
                // The Box–Muller transform; its first number must not be 0.
                let (radius, angle) = (1.0 - even(drawn), even(mixed(drawn)));
                mean + deviation * (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
            }
        }
    }
}

/// The finishing step of SplitMix64: every bit of the result depends on every bit given.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
