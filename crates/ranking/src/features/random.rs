use millrace_column::{Column, ColumnKey};
use millrace_expression::FeatureName;

use super::{Chunk, Executor, Feature, Request, Run, Setup, Values};

/// `random`, `random(name)`, `random.match`: numbers drawn from the document's id and a seed, so that a query that is asked
/// again with the same time gets the same.
struct Random {
    seed: u64,
    /// The same for every query.
    stable: bool,
}

pub(crate) fn setup(setup: &Setup<'_>, name: &FeatureName) -> Result<Box<dyn Feature>, String> {
    let stable = match name.output.as_deref() {
        None => false,
        Some("match") => true,
        Some(_) => return Err(format!("{name}: random has the output match")),
    };
    let default = if stable { 1024.0 } else { 0.0 };
    let seed =
        setup.properties.number(if stable { "random.match" } else { "random" }, "", "seed", default)?;
    let named = name.parameters.iter().flat_map(|parameter| parameter.bytes());
    let seed = named.fold(seed.to_bits(), |seed, byte| mixed(seed ^ u64::from(byte)));
    Ok(Box::new(Random { seed, stable }))
}

impl Feature for Random {
    fn bind<'q>(&'q self, request: &mut Request<'q>) -> Box<dyn Executor + 'q> {
        let seed = if self.stable { self.seed } else { mixed(self.seed ^ request.plan.now as u64) };
        let ids = request.column(ColumnKey::id());
        Box::new(Run(move |chunk: &Chunk<'_>, values: &mut Values| {
            let ids = match chunk.column(ids) {
                Some(Column::Bytes(ids)) => Some(ids),
                _ => None,
            };
            let out = values.numbers(chunk.len(), 0.0);
            for (at, document) in chunk.documents() {
                let id = ids.and_then(|ids| ids.get(document)).unwrap_or_default();
                let drawn = id.iter().fold(seed, |drawn, byte| mixed(drawn ^ u64::from(*byte)));
                // 53 bits, which a double holds exactly.
                out[at] = (drawn >> 11) as f64 / (1u64 << 53) as f64;
            }
        }))
    }
}

/// The finishing step of SplitMix64: every bit of the result depends on every bit given.
fn mixed(number: u64) -> u64 {
    let number = number.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}
