//! Results of a benchmark: figures with their limits, and curves.

mod plot;
mod table;
mod unit;

use serde_json::{Map, Value, json};

pub use plot::{CurvePlot, PlotAxis, PlotCurve};
pub use unit::FigureUnit;

/// The figures of one benchmark.
#[derive(Debug, Clone, PartialEq)]
pub struct BenchReport {
    /// The benchmark's name.
    pub bench: &'static str,
    /// Figures in the order of their measurement.
    pub figures: Vec<Figure>,
    /// Curves, for plotting.
    pub plots: Vec<CurvePlot>,
    /// Additional information for readers: the machine, the sizes.
    pub notes: Vec<String>,
    /// Number of figures that were published already.
    published: usize,
}

/// Callbacks of a running benchmark.
#[derive(Debug, Clone, Copy)]
pub struct BenchProgress {
    /// Receives each figure once, as a line of JSON without its end.
    pub figure: fn(&str),
    /// Receives the last step and the progress of the run, for people.
    pub step: fn(&str),
}

impl Default for BenchProgress {
    /// Callbacks that do nothing.
    fn default() -> Self {
        BenchProgress { figure: |_| (), step: |_| () }
    }
}

/// One figure.
#[derive(Debug, Clone, PartialEq)]
pub struct Figure {
    /// Name of the case: `10000 documents`.
    pub case: String,
    /// Name of the measurement: `p99`, `scan`.
    pub measure: String,
    /// Value in the base unit: seconds, bytes, bytes per second, times per second.
    pub value: f64,
    /// Its unit.
    pub unit: FigureUnit,
    /// Name and value of the limit or peer, in the same unit, measured in the same run.
    pub limit: Option<(String, f64)>,
    /// Goal, if any.
    pub goal: Option<FigureGoal>,
}

/// Goal of a figure.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum FigureGoal {
    /// The ratio of figure and limit is at least this.
    RatioAtLeast(f64),
    /// The ratio of figure and limit is at most this.
    RatioAtMost(f64),
    /// The figure itself is at least this.
    AtLeast(f64),
    /// The figure itself is at most this.
    AtMost(f64),
}

impl BenchReport {
    /// Creates an empty report.
    pub fn new(bench: &'static str) -> Self {
        BenchReport { bench, figures: Vec::new(), plots: Vec::new(), notes: Vec::new(), published: 0 }
    }

    /// Adds a figure.
    pub fn push(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// Adds a note.
    pub fn note(&mut self, note: impl Into<String>) {
        self.notes.push(note.into());
    }

    /// Passes on the figures that were not passed on yet.
    pub fn publish(&mut self, progress: BenchProgress) {
        for figure in &self.figures[self.published.min(self.figures.len())..] {
            (progress.figure)(&figure.json(self.bench).to_string());
        }
        self.published = self.figures.len();
    }

    /// JSON lines, one object per figure.
    pub fn json_lines(&self) -> String {
        self.figures.iter().map(|figure| format!("{}\n", figure.json(self.bench))).collect()
    }

    /// An aligned table for people.
    pub fn table(&self) -> String {
        table::table(self)
    }

    /// Draws plots as SVG, one below the other; `None` if there are none.
    pub fn draw(plots: &[CurvePlot]) -> Option<String> {
        (!plots.is_empty()).then(|| plot::svg(plots))
    }

    /// True if every figure with a goal reaches it.
    pub fn is_met(&self) -> bool {
        self.figures.iter().all(|figure| figure.is_met() != Some(false))
    }
}

impl Figure {
    /// Creates a figure without a limit.
    pub fn new(case: impl Into<String>, measure: impl Into<String>, value: f64, unit: FigureUnit) -> Self {
        Figure { case: case.into(), measure: measure.into(), value, unit, limit: None, goal: None }
    }

    /// Adds a limit or peer.
    pub fn beside(mut self, what: impl Into<String>, limit: f64) -> Self {
        self.limit = Some((what.into(), limit));
        self
    }

    /// Sets a minimum: as a ratio if there is a limit.
    pub fn at_least(mut self, goal: f64) -> Self {
        self.goal = Some(if self.limit.is_some() {
            FigureGoal::RatioAtLeast(goal)
        } else {
            FigureGoal::AtLeast(goal)
        });
        self
    }

    /// Sets a maximum: as a ratio if there is a limit.
    pub fn at_most(mut self, goal: f64) -> Self {
        self.goal =
            Some(if self.limit.is_some() { FigureGoal::RatioAtMost(goal) } else { FigureGoal::AtMost(goal) });
        self
    }

    /// Sets a goal, independent of a limit.
    pub fn with_goal(mut self, goal: FigureGoal) -> Self {
        self.goal = Some(goal);
        self
    }

    /// Figure divided by its limit.
    pub fn ratio(&self) -> Option<f64> {
        self.limit.as_ref().map(|(_, limit)| self.value / limit)
    }

    /// True if it reaches its goal; `None` without a goal.
    pub fn is_met(&self) -> Option<bool> {
        Some(match self.goal? {
            FigureGoal::RatioAtLeast(goal) => self.ratio()? >= goal,
            FigureGoal::RatioAtMost(goal) => self.ratio()? <= goal,
            FigureGoal::AtLeast(goal) => self.value >= goal,
            FigureGoal::AtMost(goal) => self.value <= goal,
        })
    }

    fn json(&self, bench: &str) -> Value {
        let mut object = Map::new();
        object.insert("bench".to_owned(), json!(bench));
        object.insert("case".to_owned(), json!(self.case));
        object.insert("measure".to_owned(), json!(self.measure));
        object.insert("figure".to_owned(), json!(self.value));
        object.insert("unit".to_owned(), json!(self.unit.name()));
        if let Some((what, limit)) = &self.limit {
            object.insert("limit".to_owned(), json!({ "what": what, "figure": limit }));
            object.insert("ratio".to_owned(), json!(self.ratio()));
        }
        if let Some(goal) = self.goal {
            object.insert("goal".to_owned(), json!(table::goal(goal, self.unit)));
            object.insert("met".to_owned(), json!(self.is_met()));
        }
        Value::Object(object)
    }
}
