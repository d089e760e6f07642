//! `minimum_should_match`: the number of clauses, or of words, that must match.

use crate::Error;

/// Conditions, at most: they are kept with each clause that they are about.
const CONDITIONS_MAX: usize = 20;

/// Number of clauses that must match, by the number of all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct MinimumMatch {
    /// Shares of more clauses than a number, the last that holds counting. Up to the first number, all
    /// clauses must match.
    steps: Vec<(usize, ClauseShare)>,
}

/// Part of all clauses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClauseShare {
    /// A number of them; all but some if it is negative.
    Count(i64),
    /// A percentage, rounded down; all but that part if it is negative.
    Percent(i64),
}

impl MinimumMatch {
    /// Parses a number (`2`, `-1`), a percentage (`75%`, `-25%`) or several conditions (`2<-25% 9<-3`).
    ///
    /// # Errors
    /// The text is none of these, or has too many conditions.
    pub(crate) fn parse(text: &str) -> Result<Self, Error> {
        let malformed = || {
            Error::IllegalArgument(format!(
                "[minimum_should_match] is [{text}], and must be a number, a percentage such as 75%, or conditions such as \
                 2<-25% 9<-3"
            ))
        };
        let share = |text: &str| match text.strip_suffix('%') {
            Some(percent) => percent.parse().map(ClauseShare::Percent).map_err(|_| malformed()),
            None => text.parse().map(ClauseShare::Count).map_err(|_| malformed()),
        };
        if !text.contains('<') {
            return Ok(MinimumMatch { steps: vec![(0, share(text.trim())?)] });
        }
        // Blanks around a sign do not end a condition.
        let signs: Vec<&str> = text.trim().split('<').map(str::trim).collect();
        let steps = signs.join("<");
        if steps.split_whitespace().count() > CONDITIONS_MAX {
            return Err(Error::IllegalArgument(format!(
                "[minimum_should_match] may have {CONDITIONS_MAX} conditions, and has {}",
                steps.split_whitespace().count()
            )));
        }
        let step = |step: &str| -> Result<(usize, ClauseShare), Error> {
            let (count, part) = step.split_once('<').ok_or_else(malformed)?;
            Ok((count.parse().map_err(|_| malformed())?, share(part)?))
        };
        Ok(MinimumMatch { steps: steps.split_whitespace().map(step).collect::<Result<_, _>>()? })
    }

    /// Number of clauses that must match, of `count`.
    pub(crate) fn of(&self, count: usize) -> usize {
        let holds = self.steps.iter().take_while(|(least, _)| count > *least).last();
        let all = count as i64;
        let wanted = match holds.map(|(_, share)| *share) {
            None => all,
            Some(ClauseShare::Count(number)) if number < 0 => all.saturating_add(number),
            Some(ClauseShare::Count(number)) => number,
            Some(ClauseShare::Percent(percent)) => {
                let part = all.saturating_mul(percent) / 100;
                if percent < 0 { all.saturating_add(part) } else { part }
            }
        };
        wanted.max(0) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_percentages_and_conditions_say_how_many_must_match() {
        for (text, count, expected) in [
            ("2", 4, 2),
            (" 2 ", 4, 2),
            ("-1", 4, 3),
            ("-9", 4, 0),
            ("9", 4, 9),
            ("50%", 4, 2),
            ("75%", 5, 3),
            ("-25%", 4, 3),
            ("-25%", 3, 3),
            ("2<75%", 0, 0),
            ("2<75%", 2, 2),
            ("2<75%", 4, 3),
            ("2 < 75%", 4, 3),
            ("2<-25% 9<-3", 2, 2),
            ("2<-25% 9<-3", 9, 7),
            ("2<-25% 9<-3", 10, 7),
        ] {
            let minimum = MinimumMatch::parse(text).expect(text);
            assert_eq!(minimum.of(count), expected, "{text} of {count}");
        }
        for text in ["", "many", "50 %", "1.5", "<2", "2<", "2<x", "a<2", "2<50% 3"] {
            let error = MinimumMatch::parse(text).expect_err(text).to_string();
            assert!(error.contains(&format!("is [{text}]")), "{error}");
        }
        assert!(MinimumMatch::parse(&"2<1 ".repeat(20)).is_ok());
        assert!(MinimumMatch::parse(&"2<1 ".repeat(21)).is_err());
    }
}
