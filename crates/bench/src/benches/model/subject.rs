//! A model in the three settings.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use millrace_model::{
    Caller, Encoder, EncoderOptions, Grant, Lane, Model, Purpose, Scheduler, SchedulerOptions, Sequence,
    Threads,
};

use crate::Error;
use crate::measure::time;

/// Policy for the number of threads of a text.
#[derive(Debug, Clone, Copy)]
pub(super) enum Setting {
    AllCores,
    OneThread,
    Scheduler,
}

/// Settings in the order of their numbers, with their names.
pub(super) const SETTINGS: [(Setting, &str); 3] = [
    (Setting::AllCores, "all cores per request"),
    (Setting::OneThread, "one thread per request"),
    (Setting::Scheduler, "scheduler"),
];

pub(super) struct Subject {
    pub name: &'static str,
    pub cores: usize,
    /// Maximum number of tokens of a batch.
    pub batch_tokens: usize,
    all_cores: Encoder,
    one_thread: Encoder,
    lane: Lane,
    /// Scheduler of the lane.
    _scheduler: Scheduler,
}

impl Subject {
    pub fn load(name: &'static str, file: &Path, cores: usize) -> Result<Self, Error> {
        let options = |intra_op| EncoderOptions {
            name: name.to_owned(),
            ids: "input_ids".to_owned(),
            mask: "attention_mask".to_owned(),
            types: Some("token_type_ids".to_owned()),
            output: "last_hidden_state".to_owned(),
            output_rank: 3,
            threads: Threads { intra_op, ..Threads::default() },
        };
        let load = |intra_op| Encoder::load(file, options(intra_op)).map_err(Error::failed);
        let scheduler = Scheduler::new(SchedulerOptions::default()).map_err(Error::failed)?;
        let shared = Arc::new(load(None)?);
        Ok(Subject {
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
    pub fn ask(&self, setting: Setting, text: &Sequence) {
        match setting {
            Setting::AllCores => direct(&self.all_cores, &[text]),
            Setting::OneThread => direct(&self.one_thread, &[text]),
            Setting::Scheduler => {
                let outcome = self.lane.run(vec![text.clone()], &Caller::patient(Purpose::Query));
                assert!(outcome.is_ok(), "the model and the text are ours: {:?}", outcome.err());
            }
        }
    }

    /// Runs a batch on one thread.
    pub fn batch(&self, texts: &[&Sequence]) {
        direct(&self.one_thread, texts);
    }

    /// Approximate time of one text on one thread.
    pub fn time_of(&self, length: usize) -> Duration {
        let text = text(length);
        let once = || time(|| direct(&self.one_thread, &[&text]));
        once().min(once())
    }
}

fn direct(encoder: &Encoder, texts: &[&Sequence]) {
    let outcome = encoder.run(texts, &Grant::default());
    assert!(outcome.is_ok(), "the model and the text are ours: {:?}", outcome.err());
}

pub(super) fn text(length: usize) -> Sequence {
    Sequence { ids: vec![2000; length], ..Sequence::default() }
}
