//! What a text costs beside the model itself: tokenising, the scheduler, copying in and out, pooling.

use std::time::Duration;

use millrace_embedding::Text;
use millrace_model::{Caller, Purpose, Scheduler, SchedulerOptions};
use millrace_tensor::TensorType;

use super::{Bench, Settings};
use crate::embedders;
use crate::measure::repeatedly;
use crate::{Error, Figure, Report, Unit};

pub(super) const BENCH: Bench = Bench {
    name: "model --overhead",
    about: "a text to its vector, beside what ONNX Runtime's own call takes of it",
    run,
};

/// Models, and the cells of their vectors.
const MODELS: [(&str, usize); 3] = [("minilm", 384), ("small", 256), ("bert-base", 768)];
/// Tokens of a text, with the two around it.
const LENGTHS: [usize; 2] = [32, 128];
/// A word of one token.
const WORD: &str = "mail ";
const AROUND: usize = 2;

fn run(settings: &Settings) -> Result<Report, Error> {
    let mut report = Report::new(BENCH.name);
    for (name, cells) in MODELS {
        let Some(model) = embedders::model(name) else {
            report.note(format!("{name} is not there: scripts/models {name} makes it"));
            continue;
        };
        let scheduler = Scheduler::new(SchedulerOptions::default()).map_err(Error::failed)?;
        let embedder = embedders::embedder(&model, &scheduler)?;
        let target = TensorType::parse(&format!("tensor<float>(x[{cells}])")).map_err(Error::failed)?;
        let caller = Caller::patient(Purpose::Query);
        for length in LENGTHS {
            let text = WORD.repeat(length - AROUND);
            let embed = || embedder.embed(Text::One(&text), &target, &[], &caller);
            embed().map_err(Error::failed)?;
            let before = embedder.usage().unwrap_or_default();
            let times = repeatedly(settings.time_per_case, 20, embed);
            let usage = embedder.usage().unwrap_or_default();
            let runs = (usage.runs - before.runs) as f64;
            let inside = Duration::from_micros(usage.inside_us - before.inside_us);
            if usage.tokens - before.tokens != (usage.runs - before.runs) * length as u64 {
                return Err(Error::Failed(format!("{name} makes other than {length} tokens of {text:?}")));
            }
            report.push(
                Figure::new(
                    format!("{name} {length} tokens"),
                    "a text",
                    // The first of the calls is not among the times.
                    times.total() / times.len() as f64,
                    Unit::Seconds,
                )
                .beside("ONNX Runtime's call in it", inside.as_secs_f64() / runs)
                .at_most(1.05),
            );
        }
    }
    Ok(report)
}
