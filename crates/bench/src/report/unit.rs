/// The base unit of a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FigureUnit {
    /// Seconds.
    Seconds,
    /// Bytes.
    Bytes,
    /// Bytes per second.
    BytesPerSecond,
    /// Events per second: `PerSecond("documents")`.
    PerSecond(&'static str),
    /// Items: `Count("documents")`.
    Count(&'static str),
    /// Bytes per item: `BytesPer("document")`.
    BytesPer(&'static str),
}

impl FigureUnit {
    /// Unit of figures in JSON.
    pub fn name(self) -> String {
        match self {
            FigureUnit::Seconds => "s".to_owned(),
            FigureUnit::Bytes => "B".to_owned(),
            FigureUnit::BytesPerSecond => "B/s".to_owned(),
            FigureUnit::PerSecond(what) => format!("{what}/s"),
            FigureUnit::Count(what) => what.to_owned(),
            FigureUnit::BytesPer(what) => format!("B/{what}"),
        }
    }

    /// Formats a figure with three digits and a suitable prefix: `9.10 GB/s`, `350 µs`.
    pub fn format(self, value: f64) -> String {
        const LARGE: [(f64, &str); 4] = [(1e12, "T"), (1e9, "G"), (1e6, "M"), (1e3, "k")];
        const SMALL: [(f64, &str); 4] = [(1.0, ""), (1e-3, "m"), (1e-6, "µ"), (1e-9, "n")];
        let magnitude = value.abs();
        let large = || LARGE.into_iter().find(|(factor, _)| magnitude >= *factor).unwrap_or((1.0, ""));
        let (factor, prefix) = match self {
            FigureUnit::Seconds => {
                SMALL.into_iter().find(|(factor, _)| magnitude >= *factor).unwrap_or((1.0, ""))
            }
            FigureUnit::Count(_) if magnitude < 1e6 => (1.0, ""),
            _ => large(),
        };
        let scaled = value / factor;
        let digits = match scaled.abs() {
            _ if scaled.fract() == 0.0 && factor == 1.0 => 0,
            size if size >= 100.0 => 0,
            size if size >= 10.0 => 1,
            _ => 2,
        };
        match self {
            FigureUnit::PerSecond(_) | FigureUnit::Count(_) if prefix.is_empty() => {
                format!("{scaled:.digits$} {}", self.name())
            }
            FigureUnit::PerSecond(what) => format!("{scaled:.digits$} {prefix} {what}/s"),
            FigureUnit::Count(what) => format!("{scaled:.digits$} {prefix} {what}"),
            _ => format!("{scaled:.digits$} {prefix}{}", self.name()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_have_three_digits_and_a_prefix() {
        for (unit, value, expected) in [
            (FigureUnit::Seconds, 0.00035, "350 µs"),
            (FigureUnit::Seconds, 1.25, "1.25 s"),
            (FigureUnit::Seconds, 0.0, "0 s"),
            (FigureUnit::Seconds, 2.5e-9, "2.50 ns"),
            (FigureUnit::BytesPerSecond, 9.1e9, "9.10 GB/s"),
            (FigureUnit::Bytes, 512.0, "512 B"),
            (FigureUnit::Bytes, 60e6, "60.0 MB"),
            (FigureUnit::PerSecond("documents"), 31.25e6, "31.2 M documents/s"),
            (FigureUnit::PerSecond("queries"), 12.0, "12 queries/s"),
            (FigureUnit::Count("documents"), 10_000.0, "10000 documents"),
            (FigureUnit::BytesPer("document"), 0.25, "0.25 B/document"),
        ] {
            assert_eq!(unit.format(value), expected);
        }
    }
}
