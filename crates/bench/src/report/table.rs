//! Reports as aligned text.

use super::{BenchReport, FigureGoal, FigureUnit};

const HEAD: [&str; 7] = ["case", "measure", "figure", "beside", "", "ratio", "goal"];

pub(super) fn table(report: &BenchReport) -> String {
    let mut rows = vec![HEAD.map(str::to_owned)];
    for figure in &report.figures {
        let (what, limit) = match &figure.limit {
            Some((what, limit)) => (what.clone(), figure.unit.format(*limit)),
            None => Default::default(),
        };
        let goal = match (figure.goal, figure.is_met()) {
            (Some(wanted), Some(true)) => format!("{} ✓", goal(wanted, figure.unit)),
            (Some(wanted), _) => format!("{} ✗", goal(wanted, figure.unit)),
            _ => String::new(),
        };
        rows.push([
            figure.case.clone(),
            figure.measure.clone(),
            figure.unit.format(figure.value),
            limit,
            what,
            figure.ratio().map(|ratio| format!("{ratio:.2}")).unwrap_or_default(),
            goal,
        ]);
    }
    let width = |column: usize| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0);
    let widths: [usize; 7] = std::array::from_fn(width);
    let mut text = format!("{}\n", report.bench);
    for row in &rows {
        let mut line = String::new();
        for (column, cell) in row.iter().enumerate() {
            // Figures are right-aligned, so that their digits are below each other.
            let is_figure = matches!(column, 2 | 3 | 5);
            let blanks = " ".repeat(widths[column] - cell.chars().count());
            line += &if is_figure { format!("  {blanks}{cell}") } else { format!("  {cell}{blanks}") };
        }
        text += line.trim_end();
        text.push('\n');
    }
    for note in &report.notes {
        text += &format!("  {note}\n");
    }
    text
}

/// A goal in words: `≥ 0.70 ×`, `≤ 350 µs`.
pub(super) fn goal(goal: FigureGoal, unit: FigureUnit) -> String {
    match goal {
        FigureGoal::RatioAtLeast(ratio) => format!("≥ {ratio} ×"),
        FigureGoal::RatioAtMost(ratio) => format!("≤ {ratio} ×"),
        FigureGoal::AtLeast(value) => format!("≥ {}", unit.format(value)),
        FigureGoal::AtMost(value) => format!("≤ {}", unit.format(value)),
    }
}
