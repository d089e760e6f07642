//! A model in the three settings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_model::{
    EncoderOptions, ModelCaller, ModelLane, ModelScheduler, ModelThreads, RunGrant, SchedulerOptions,
    SequenceModel, SequencePurpose, TextEncoder, TokenizedText,
};

use crate::Error;
use crate::measure::time;

/// Policy for the number of threads of a text.
#[derive(Debug, Clone, Copy)]
pub(super) enum ThreadPolicy {
    AllCores,
    OneThread,
    Scheduler,
}

/// Settings in the order of their numbers, with their names.
pub(super) const SETTINGS: [(ThreadPolicy, &str); 3] = [
    (ThreadPolicy::AllCores, "all cores per request"),
    (ThreadPolicy::OneThread, "one thread per request"),
    (ThreadPolicy::Scheduler, "scheduler"),
];

pub(super) struct ModelUnderTest {
    pub name: &'static str,
    pub cores: usize,
    /// Maximum number of tokens of a batch.
    pub batch_tokens: usize,
    all_cores: TextEncoder,
    one_thread: TextEncoder,
    lane: ModelLane,
    /// Scheduler of the lane.
    _scheduler: ModelScheduler,
}

impl ModelUnderTest {
    pub fn load(name: &'static str, file: &Path, cores: usize) -> Result<Self, Error> {
        let options = |intra_op| EncoderOptions {
            name: name.to_owned(),
            ids: "input_ids".to_owned(),
            mask: "attention_mask".to_owned(),
            types: Some("token_type_ids".to_owned()),
            output: "last_hidden_state".to_owned(),
            output_rank: 3,
            threads: ModelThreads { intra_op, ..ModelThreads::default() },
        };
        let load = |intra_op| TextEncoder::load(file, options(intra_op)).map_err(Error::failed);
        let scheduler = ModelScheduler::new(SchedulerOptions::default()).map_err(Error::failed)?;
        let shared = Arc::new(load(None)?);
        Ok(ModelUnderTest {
            name,
            cores,
            batch_tokens: shared.limits().tokens,
            all_cores: load(Some(cores))?,
            one_thread: load(Some(1))?,
            lane: scheduler.lane(name, shared),
            _scheduler: scheduler,
        })
    }

    /// Runs one text in a setting.
    pub fn ask(&self, setting: ThreadPolicy, text: &TokenizedText) {
        match setting {
            ThreadPolicy::AllCores => direct(&self.all_cores, &[text]),
            ThreadPolicy::OneThread => direct(&self.one_thread, &[text]),
            ThreadPolicy::Scheduler => {
                let outcome =
                    self.lane.run(vec![text.clone()], &ModelCaller::without_deadline(SequencePurpose::Query));
                assert!(outcome.is_ok(), "the model and the text are ours: {:?}", outcome.err());
            }
        }
    }

    /// Runs a batch on one thread.
    pub fn batch(&self, texts: &[&TokenizedText]) {
        direct(&self.one_thread, texts);
    }

    /// Approximate time of one text on one thread.
    pub fn time_of(&self, length: usize) -> Duration {
        let text = text(length);
        let once = || time(|| direct(&self.one_thread, &[&text]));
        once().min(once())
    }
}

fn direct(encoder: &TextEncoder, texts: &[&TokenizedText]) {
    let outcome = encoder.run(texts, &RunGrant::default());
    assert!(outcome.is_ok(), "the model and the text are ours: {:?}", outcome.err());
}

pub(super) fn text(length: usize) -> TokenizedText {
    TokenizedText { ids: vec![2000; length], ..TokenizedText::default() }
}
