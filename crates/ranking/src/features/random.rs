use millrace_column::{Column, ColumnKey};
use millrace_expression::FeatureName;
use millrace_matching::RankingDemands;

use super::{
    ClosureExecutor, FeatureChunk, FeatureExecutor, FeatureRequest, FeatureSetup, FeatureValues, RankFeature,
};
use crate::Error;

/// Numbers drawn from the document id and a seed, so that repeating a query with the same time gives the same
/// numbers.
struct HashedRandom {
    seed: u64,
    /// True if all queries get the same numbers.
    stable: bool,
    spread: RandomSpread,
}

enum RandomSpread {
    /// Uniform over 0 to 1.
    Even,
    /// Whole numbers from 1 to 2^48.
    Sequence,
    Normal {
        mean: f64,
        deviation: f64,
    },
}

/// `random`, `random(name)`, `random.match`
pub(crate) fn setup(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    let stable = match name.output.as_deref() {
        None => false,
        Some("match") => true,
        Some(_) => return Err(Error::setup(format!("{name}: random has the output match"))),
    };
    random(setup, name, stable, RandomSpread::Even)
}

/// `randomNormal`, `randomNormal(mean,stddev,name)`
pub(crate) fn normal(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    random(setup, name, false, normal_spread(name)?)
}

/// `randomNormalStable`, `randomNormalStable(mean,stddev,name)`
pub(crate) fn normal_stable(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
) -> Result<Box<dyn RankFeature>, Error> {
    random(setup, name, true, normal_spread(name)?)
}

/// `globalSequence`
pub(crate) fn sequence(setup: &FeatureSetup<'_>, name: &FeatureName) -> Result<Box<dyn RankFeature>, Error> {
    random(setup, name, true, RandomSpread::Sequence)
}

fn normal_spread(name: &FeatureName) -> Result<RandomSpread, Error> {
    let number = |at: usize, default: f64| match name.parameters.get(at) {
        None => Ok(default),
        Some(text) => text
            .parse()
            .map_err(|_| Error::setup(format!("{name}: write {}(mean,stddev), two numbers", name.name))),
    };
    Ok(RandomSpread::Normal { mean: number(0, 0.0)?, deviation: number(1, 1.0)? })
}

fn random(
    setup: &FeatureSetup<'_>,
    name: &FeatureName,
    stable: bool,
    spread: RandomSpread,
) -> Result<Box<dyn RankFeature>, Error> {
    let default = if stable { 1024.0 } else { 0.0 };
    let key = if name.output.is_some() { "random.match" } else { name.name.as_str() };
    let seed = setup.properties.number(key, "", "seed", default)?;
    let named = name.parameters.iter().flat_map(|parameter| parameter.bytes());
    let seed = named.fold(seed.to_bits(), |seed, byte| mixed(seed ^ u64::from(byte)));
    Ok(Box::new(HashedRandom { seed, stable, spread }))
}

impl RankFeature for HashedRandom {
    fn demands(&self) -> RankingDemands {
        RankingDemands::default()
    }

    fn bind<'q>(&'q self, request: &mut FeatureRequest<'q>) -> Box<dyn FeatureExecutor + 'q> {
        let asked = request.plan.query.ranking.properties.get("random.match.seed").filter(|_| self.stable);
        let asked = asked.and_then(|seed| seed.trim().parse::<f64>().ok()).map_or(0, f64::to_bits);
        let seed =
            if self.stable { mixed(self.seed ^ asked) } else { mixed(self.seed ^ request.plan.now as u64) };
        let ids = request.column(ColumnKey::id());
        Box::new(ClosureExecutor(move |chunk: &FeatureChunk<'_>, values: &mut FeatureValues| {
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

impl RandomSpread {
    fn of(&self, drawn: u64) -> f64 {
        // 53 bits, which a double represents exactly.
        let even = |drawn: u64| (drawn >> 11) as f64 / (1u64 << 53) as f64;
        match self {
            RandomSpread::Even => even(drawn),
            RandomSpread::Sequence => ((1u64 << 48) - (drawn >> 16)) as f64,
            RandomSpread::Normal { mean, deviation } => {
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
