//! Boost tables: functions named in rank properties and by rank types, evaluated once for each whole number.

use std::sync::Arc;

use crate::Error;

/// Values of a function at 0, 1, 2 …
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BoostTable {
    numbers: Arc<[f64]>,
    max: f64,
}

/// Default size of a table.
const SIZE: usize = 256;
/// Maximum size of a table.
const SIZE_MAX: usize = 1 << 20;

impl BoostTable {
    /// Parses `expdecay(w,t)`, `loggrowth(w,t,s)` or `linear(w,t)`, each with the size as an optional last
    /// parameter.
    pub fn parse(text: &str) -> Result<Self, Error> {
        let fail = || {
            Error::setup(format!(
                "'{text}' is not a boost table; write expdecay(w,t), loggrowth(w,t,s) or linear(w,t) with numbers"
            ))
        };
        let (name, rest) = text.trim().split_once('(').ok_or_else(fail)?;
        let parameters = rest.strip_suffix(')').ok_or_else(fail)?;
        let numbers: Result<Vec<f64>, _> =
            parameters.split(',').map(|number| number.trim().parse()).collect();
        let numbers = numbers.map_err(|_| fail())?;
        let known = if name == "loggrowth" { 3 } else { 2 };
        let size = match numbers.get(known) {
            None => SIZE,
            Some(size) if *size >= 1.0 && *size <= SIZE_MAX as f64 => *size as usize,
            Some(_) => return Err(fail()),
        };
        let function: Box<dyn Fn(f64) -> f64> = match (name, numbers.as_slice()) {
            ("expdecay", [w, t, ..]) => Box::new(move |x| w * (-x / t).exp()),
            ("loggrowth", [w, t, s, ..]) => Box::new(move |x| w * (1.0 + x / s).ln() + t),
            ("linear", [w, t, ..]) => Box::new(move |x| w * x + t),
            _ => return Err(fail()),
        };
        if numbers.len() > known + 1 {
            return Err(fail());
        }
        let numbers: Arc<[f64]> = (0..size).map(|x| function(x as f64)).collect();
        let max = numbers.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        Ok(BoostTable { numbers, max })
    }

    /// The value at `index`; the last value if `index` is past the end.
    pub fn at(&self, index: usize) -> f64 {
        self.numbers[index.min(self.numbers.len() - 1)]
    }

    pub fn len(&self) -> usize {
        self.numbers.len()
    }

    pub fn max(&self) -> f64 {
        self.max
    }
}

/// The table of a rank type: for the first occurrence, the number of occurrences, forward or backward
/// proximity, or weights.
pub(crate) fn of_rank_type(rank_type: &str, table: &str) -> &'static str {
    match (rank_type, table) {
        ("identity", "firstOccurrenceTable") => "expdecay(100,12.50)",
        ("identity", "occurrenceCountTable") => "loggrowth(1500,4000,19)",
        ("identity", "proximityTable") => "expdecay(5000,3)",
        ("identity", "reverseProximityTable") => "expdecay(3000,3)",
        ("tags", "firstOccurrenceTable") => "expdecay(8000,12.50)",
        ("tags", "weightTable") => "loggrowth(38,50,1)",
        ("empty", _) => "linear(0,0)",
        (_, "firstOccurrenceTable") => "expdecay(8000,12.50)",
        (_, "occurrenceCountTable") => "loggrowth(1500,4000,19)",
        (_, "proximityTable") => "expdecay(500,3)",
        (_, "reverseProximityTable") => "expdecay(400,3)",
        _ => "linear(1,0)",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_their_functions() {
        let check = |text: &str, index: usize, expected: f64| {
            let found = BoostTable::parse(text).map(|table| table.at(index));
            assert!(found.as_ref().is_ok_and(|found| (found - expected).abs() < 1e-9), "{text}: {found:?}");
        };
        check("linear(1,0)", 7, 7.0);
        check("linear(2,3)", 999, 2.0 * 255.0 + 3.0);
        check("linear(1.5,0,512)", 511, 766.5);
        check("expdecay(500,3)", 3, 500.0 * (-1.0f64).exp());
        check("loggrowth(1500,4000,19)", 19, 1500.0 * 2.0f64.ln() + 4000.0);
        for wrong in ["linear", "linear(1)", "linear(1,x)", "linear(1,2,3,4)", "linear(1,2,0)", "cubic(1,2)"]
        {
            assert!(BoostTable::parse(wrong).is_err(), "{wrong}");
        }
    }
}
