//! Line plots as SVG.

use std::fmt::Write;

use super::FigureUnit;

/// Curves over one pair of axes.
#[derive(Debug, Clone, PartialEq)]
pub struct CurvePlot {
    /// Title.
    pub title: String,
    /// Horizontal axis, from left to right.
    pub x: PlotAxis,
    /// Vertical axis, from bottom to top.
    pub y: PlotAxis,
    /// The curves.
    pub lines: Vec<PlotCurve>,
}

/// An axis.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotAxis {
    /// Name of the measured quantity.
    pub label: String,
    /// Unit of its numbers.
    pub unit: FigureUnit,
    /// True if equal distances are equal ratios; numbers of 0 and less are left out.
    pub logarithmic: bool,
}

/// A curve.
#[derive(Debug, Clone, PartialEq)]
pub struct PlotCurve {
    /// Its name in the legend.
    pub name: String,
    /// Its points from left to right.
    pub points: Vec<(f64, f64)>,
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 420.0;
const LEFT: f64 = 110.0;
const RIGHT: f64 = 190.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 60.0;
const COLORS: [&str; 8] =
    ["#0b6e99", "#d9730d", "#0f7b6c", "#ad1a72", "#6940a5", "#64473a", "#dfab01", "#455a64"];

pub(super) fn svg(plots: &[CurvePlot]) -> String {
    let height = HEIGHT * plots.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n"
    );
    for (index, plot) in plots.iter().enumerate() {
        let _ = writeln!(out, "<g transform=\"translate(0 {})\">", HEIGHT * index as f64);
        plot.draw(&mut out);
        out += "</g>\n";
    }
    out + "</svg>\n"
}

impl CurvePlot {
    fn draw(&self, out: &mut String) {
        let all = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let x = AxisScale::new(&self.x, all().map(|(x, _)| x), LEFT, WIDTH - RIGHT);
        let y = AxisScale::new(&self.y, all().map(|(_, y)| y), HEIGHT - BOTTOM, TOP);
        text(out, LEFT, TOP - 16.0, "start", "font-size=\"15\" font-weight=\"bold\"", &self.title);
        for tick in x.ticks() {
            let at = x.place(tick);
            let (top, bottom) = (TOP, HEIGHT - BOTTOM);
            let _ = writeln!(out, "<path d=\"M{at:.1} {top}V{bottom}\" stroke=\"#ddd\"/>");
            text(out, at, bottom + 18.0, "middle", "", self.x.unit.format(tick).trim_end());
        }
        for tick in y.ticks() {
            let at = y.place(tick);
            let _ = writeln!(out, "<path d=\"M{LEFT} {at:.1}H{}\" stroke=\"#ddd\"/>", WIDTH - RIGHT);
            text(out, LEFT - 8.0, at + 4.0, "end", "", &self.y.unit.format(tick));
        }
        text(out, (LEFT + WIDTH - RIGHT) / 2.0, HEIGHT - BOTTOM + 42.0, "middle", "", &self.x.label);
        let middle = (TOP + HEIGHT - BOTTOM) / 2.0;
        text(out, 16.0, middle, "middle", &format!("transform=\"rotate(-90 16 {middle})\""), &self.y.label);
        for (index, line) in self.lines.iter().enumerate() {
            let color = COLORS[index % COLORS.len()];
            let points: Vec<(f64, f64)> = line
                .points
                .iter()
                .filter(|(px, py)| x.has(*px) && y.has(*py))
                .map(|(px, py)| (x.place(*px), y.place(*py)))
                .collect();
            let path: Vec<String> = points.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
            let _ = writeln!(
                out,
                "<polyline points=\"{}\" fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"/>",
                path.join(" ")
            );
            for (x, y) in points {
                let _ = writeln!(out, "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>");
            }
            let at = TOP + 8.0 + 20.0 * index as f64;
            let start = WIDTH - RIGHT + 14.0;
            let _ = writeln!(
                out,
                "<path d=\"M{start} {at}H{}\" stroke=\"{color}\" stroke-width=\"2\"/>",
                start + 18.0
            );
            text(out, start + 24.0, at + 4.0, "start", "", &line.name);
        }
    }
}

fn text(out: &mut String, x: f64, y: f64, anchor: &str, attributes: &str, text: &str) {
    let text = text.replace('&', "&amp;").replace('<', "&lt;");
    let _ =
        writeln!(out, "<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\" {attributes}>{text}</text>");
}

/// Leading digits of the numbers at a logarithmic axis.
const STEPS: [f64; 3] = [1.0, 2.0, 5.0];
/// Number of decades above which a logarithmic axis has powers of ten alone.
const DECADES_IN_STEPS: f64 = 4.0;

/// The largest of the steps that is not above a positive number.
fn step_below(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    STEPS.into_iter().rev().map(|step| step * power).find(|step| *step <= number * 1.0001).unwrap_or(power)
}

/// The smallest of the steps that is not below a positive number.
fn step_above(number: f64) -> f64 {
    let power = 10f64.powf(number.log10().floor());
    STEPS.into_iter().map(|step| step * power).find(|step| *step >= number * 0.9999).unwrap_or(10.0 * power)
}

/// Conversion of numbers to positions along an axis.
struct AxisScale {
    low: f64,
    high: f64,
    start: f64,
    end: f64,
    logarithmic: bool,
}

impl AxisScale {
    fn new(axis: &PlotAxis, numbers: impl Iterator<Item = f64>, start: f64, end: f64) -> Self {
        let is_shown = |number: &f64| number.is_finite() && (!axis.logarithmic || *number > 0.0);
        let (mut low, mut high) = numbers
            .filter(is_shown)
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), n| (low.min(n), high.max(n)));
        if low > high {
            (low, high) = (1.0, 10.0);
        }
        if axis.logarithmic {
            (low, high) = (step_below(low).log10(), step_above(high).log10());
        } else {
            low = low.min(0.0);
        }
        if low == high {
            high = low + 1.0;
        }
        AxisScale { low, high, start, end, logarithmic: axis.logarithmic }
    }

    fn has(&self, number: f64) -> bool {
        number.is_finite() && (!self.logarithmic || number > 0.0)
    }

    fn place(&self, number: f64) -> f64 {
        let number = if self.logarithmic { number.log10() } else { number };
        self.start + (number - self.low) / (self.high - self.low) * (self.end - self.start)
    }

    /// Ticks: powers of ten, or numbers that begin with 1, 2 and 5 if those are few, or about five round
    /// numbers.
    fn ticks(&self) -> Vec<f64> {
        if self.logarithmic {
            let begin: &[f64] = if self.high - self.low > DECADES_IN_STEPS { &STEPS[..1] } else { &STEPS };
            let decades = self.low.floor() as i32..=self.high.ceil() as i32;
            let steps = decades.flat_map(|power| begin.iter().map(move |step| step * 10f64.powi(power)));
            let shown = self.low - 1e-9..=self.high + 1e-9;
            return steps.filter(|step| shown.contains(&step.log10())).collect();
        }
        let rough = (self.high - self.low) / 5.0;
        let power = 10f64.powf(rough.log10().floor());
        let step = [1.0, 2.0, 5.0, 10.0].into_iter().map(|n| n * power).find(|step| *step >= rough);
        let step = step.unwrap_or(rough);
        let first = (self.low / step).ceil() as i64;
        (first..first + 12).map(|n| n as f64 * step).take_while(|tick| *tick <= self.high * 1.0001).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_logarithmic_axis_begins_and_ends_where_its_numbers_do() {
        let axis = PlotAxis { label: String::new(), unit: FigureUnit::Count(""), logarithmic: true };
        let check = |numbers: &[f64], expected: &[f64]| {
            let scale = AxisScale::new(&axis, numbers.iter().copied(), 0.0, 1.0);
            let ticks: Vec<String> = scale.ticks().iter().map(|tick| format!("{tick:.3}")).collect();
            let expected: Vec<String> = expected.iter().map(|tick| format!("{tick:.3}")).collect();
            assert_eq!(ticks, expected, "{numbers:?}");
        };
        check(&[1.0, 64.0], &[1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0]);
        check(&[0.03, 0.4], &[0.02, 0.05, 0.1, 0.2, 0.5]);
        check(&[1.0, 2e5], &[1.0, 10.0, 100.0, 1e3, 1e4, 1e5]);
        // A single number gets a decade.
        check(&[5.0], &[5.0, 10.0, 20.0, 50.0]);
    }

    #[test]
    fn a_plot_shows_its_lines_and_survives_odd_numbers() {
        let axis =
            |logarithmic| PlotAxis { label: "a < b".to_owned(), unit: FigureUnit::Seconds, logarithmic };
        for logarithmic in [false, true] {
            let line = |points| PlotCurve { name: "x".to_owned(), points };
            let plot = CurvePlot {
                title: "t".to_owned(),
                x: axis(logarithmic),
                y: axis(logarithmic),
                lines: vec![
                    line(vec![(1.0, 2.0), (10.0, 3.0), (100.0, f64::NAN), (0.0, -1.0)]),
                    line(Vec::new()),
                    line(vec![(5.0, 5.0)]),
                ],
            };
            let svg = svg(&[plot]);
            assert!(svg.contains("a &lt; b") && svg.contains("<polyline"), "{svg}");
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
