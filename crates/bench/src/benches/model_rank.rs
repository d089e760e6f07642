//! Models that rank: all hits in one call compared with a call for each.

use std::path::Path;
use std::sync::Arc;

use millrace_model::{ModelEvaluator, ModelRows, ModelScheduler, ModelThreads, SchedulerOptions};
use millrace_tensor::TensorType;

use super::{Benchmark, Settings};
use crate::embedders;
use crate::measure::alternately;
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "model --rank",
    about: "a cross-encoder over 20 hits of a global phase and over 100 of a second: all in one call beside a call for each",
    run,
};

/// Number of tokens of a query and a hit together.
const TOKENS: usize = 128;
/// Phases, with their numbers of hits.
const PHASES: [(&str, usize); 2] = [("global phase", 20), ("second phase", 100)];

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    let Some(model) = embedders::model("cross-encoder") else {
        report.note("skipped: the model is not there; scripts/models cross-encoder makes it");
        return Ok(report);
    };
    let scheduler = ModelScheduler::new(SchedulerOptions::default()).map_err(Error::failed)?;
    let evaluation = bind(&model.join("model.onnx"), &scheduler)?;
    if !evaluation.is_batched() {
        return Err(Error::failed("the model does not take several rows at once"));
    }
    for (phase, hits) in PHASES {
        let rows: Vec<ModelRows> = (0..hits).map(row).collect();
        let mut all = rows[0].clone();
        rows[1..].iter().for_each(|row| all.append(row));
        let together = || evaluation.run(all.clone(), &|| false).map(drop);
        let separately = || rows.iter().try_for_each(|row| evaluation.run(row.clone(), &|| false).map(drop));
        together().and_then(|()| separately()).map_err(Error::failed)?;
        let (together, separately) = alternately(settings.time_per_case, 3, together, separately);
        report.push(
            Figure::new(
                format!("{phase}, {hits} hits of {TOKENS} tokens"),
                "in one call",
                together.median(),
                FigureUnit::Seconds,
            )
            .beside("a call for each", separately.median())
            .at_most(1.0),
        );
    }
    Ok(report)
}

fn tensor_type(text: &str) -> Result<TensorType, Error> {
    TensorType::parse(text).map_err(Error::failed)
}

fn bind(file: &Path, scheduler: &ModelScheduler) -> Result<millrace_model::BoundModel, Error> {
    let model = ModelEvaluator::load("cross-encoder", file.to_owned(), ModelThreads::default(), scheduler);
    let tokens = tensor_type(&format!("tensor(d0[1],d1[{TOKENS}])"))?;
    let inputs = [("input_ids", &tokens), ("attention_mask", &tokens), ("token_type_ids", &tokens)];
    Arc::new(model.map_err(Error::failed)?).bind(&inputs, &["logits"]).map_err(Error::failed)
}

/// Input of the model for the hit with this number.
fn row(number: usize) -> ModelRows {
    let cells = |of: &dyn Fn(usize) -> f64| (0..TOKENS).map(of).collect();
    let inputs = vec![
        cells(&|at| (1000 + (number * 31 + at * 7) % 20_000) as f64),
        cells(&|_| 1.0),
        cells(&|at| f64::from(u8::from(at >= TOKENS / 4))),
    ];
    ModelRows { count: 1, inputs }
}
