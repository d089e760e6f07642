//! Cost of a text in addition to the model itself: tokenizing, the scheduler, copying in and out, pooling.

use std::time::{Duration, Instant};

use millrace_embedding::EmbeddedText;
use millrace_model::{ModelCaller, ModelScheduler, SchedulerOptions, SequencePurpose};
use millrace_tensor::TensorType;

use super::{Benchmark, Settings};
use crate::embedders;
use crate::measure::{TimeSamples, time};
use crate::{BenchReport, Error, Figure, FigureUnit};

pub(super) const BENCH: Benchmark = Benchmark {
    name: "model --overhead",
    about: "a text to its vector, beside what ONNX Runtime's own call takes of it",
    run,
};

/// Models, and the dimensions of their vectors.
const MODELS: [(&str, usize); 3] = [("minilm", 384), ("small", 256), ("bert-base", 768)];
/// Numbers of tokens of a text, including the two around it.
const LENGTHS: [usize; 2] = [32, 128];
/// A word of one token.
const WORD: &str = "mail ";
const AROUND: usize = 2;
/// Minimum number of texts that are measured.
const TEXTS_MIN: u64 = 20;

fn run(settings: &Settings) -> Result<BenchReport, Error> {
    let mut report = BenchReport::new(BENCH.name);
    for (name, cells) in MODELS {
        let Some(model) = embedders::model(name) else {
            report.note(format!("{name} is not there: scripts/models {name} makes it"));
            continue;
        };
        let scheduler = ModelScheduler::new(SchedulerOptions::default()).map_err(Error::failed)?;
        let embedder = embedders::embedder(&model, &scheduler)?;
        let target = TensorType::parse(&format!("tensor<float>(x[{cells}])")).map_err(Error::failed)?;
        let caller = ModelCaller::without_deadline(SequencePurpose::Query);
        for length in LENGTHS {
            let text = WORD.repeat(length - AROUND);
            let embed = || embedder.embed(EmbeddedText::One(&text), &target, &[], &caller);
            embed().map_err(Error::failed)?;
            let (mut whole, mut inside) = (TimeSamples::new(), TimeSamples::new());
            let began = Instant::now();
            while whole.len() < TEXTS_MIN || began.elapsed() < settings.time_per_case {
                let before = embedder.usage().unwrap_or_default();
                whole.add(time(embed));
                let after = embedder.usage().unwrap_or_default();
                if after.tokens - before.tokens != length as u64 {
                    return Err(Error::Failed(format!(
                        "{name} makes other than {length} tokens of {text:?}"
                    )));
                }
                inside.add(Duration::from_micros(after.inside_us - before.inside_us));
            }
            report.push(
                Figure::new(format!("{name} {length} tokens"), "p50", whole.median(), FigureUnit::Seconds)
                    .beside("ONNX Runtime's call in it", inside.median())
                    .at_most(1.05),
            );
        }
    }
    Ok(report)
}
