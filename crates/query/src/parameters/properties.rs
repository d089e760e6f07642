//! Rank properties that stand for the engine's own settings and state: the names that Vespa's query nodes use
//! when they talk to its content nodes.

use std::str::FromStr;
use std::time::Duration;

use super::parameter;
use crate::{Error, RankingOptions, RankingTime};

/// Name before that of a field.
const ELEMENT_GAP: &str = "vespa.matching.element_gap.";

/// Applies a rank property that is a setting of ranking under another name. A parameter of the request takes
/// precedence over such a property. Other properties are read by rank features; the plan refuses those of the
/// engine that it does not have.
///
/// # Errors
/// The value is invalid.
pub(super) fn engine_property(
    name: &str,
    property: &str,
    value: &str,
    ranking: &mut RankingOptions,
) -> Result<(), Error> {
    match property.to_ascii_lowercase().as_str() {
        "vespa.now" => ranking.now = now(name, value)?,
        "vespa.hitcollector.heapsize" | "vespa.hitcollector.totalheapsize" => {
            set_default(&mut ranking.rerank_count, name, value)?
        }
        "vespa.hitcollector.arraysize" | "vespa.hitcollector.totalarraysize" => {
            set_default(&mut ranking.keep_rank_count, name, value)?
        }
        "vespa.hitcollector.rankscoredroplimit" => set_default(&mut ranking.score_drop_limit, name, value)?,
        "vespa.hitcollector.secondphase.rankscoredroplimit" => {
            set_default(&mut ranking.second_phase_drop_limit, name, value)?;
        }
        "vespa.globalphase.rerankcount" => set_default(&mut ranking.global_rerank_count, name, value)?,
        "vespa.globalphase.rankscoredroplimit" => {
            set_default(&mut ranking.global_phase_drop_limit, name, value)?
        }
        "vespa.softtimeout.enable" => ranking.soft_timeout = !matches!(value.trim(), "false" | "0"),
        "vespa.softtimeout.factor" => {
            let factor: f64 = number(name, value)?;
            if !(factor > 0.0 && factor <= 1.0) {
                let reason = format!("expected a number above 0 and at most 1, found {factor}");
                return Err(parameter(name, reason));
            }
            ranking.soft_timeout_factor.get_or_insert(factor);
        }
        lower => {
            if lower.starts_with(ELEMENT_GAP) {
                let gap = element_gap(name, value)?;
                ranking.element_gaps.entry(property[ELEMENT_GAP.len()..].to_owned()).or_insert(gap);
            }
            let term = lower.strip_prefix("vespa.term.").and_then(|rest| rest.strip_suffix(".significance"));
            if let Some(term) = term {
                let term: usize = term.parse().map_err(|_| {
                    parameter(name, format!("expected the number of a term, from 1, found {term:?}"))
                })?;
                ranking.term_significance.insert(term, number(name, value)?);
            }
        }
    }
    Ok(())
}

/// Parses the number of positions between elements; `None` for `infinity`.
pub(super) fn element_gap(name: &str, value: &str) -> Result<Option<u32>, Error> {
    match value.trim() {
        text if text.eq_ignore_ascii_case("infinity") => Ok(None),
        number => number
            .parse()
            .map(Some)
            .map_err(|_| parameter(name, format!("expected a whole number or infinity, found {number:?}"))),
    }
}

/// Sets what the request has not set itself.
fn set_default<T: FromStr>(setting: &mut Option<T>, name: &str, value: &str) -> Result<(), Error> {
    let value = number(name, value)?;
    setting.get_or_insert(value);
    Ok(())
}

fn number<T: FromStr>(name: &str, value: &str) -> Result<T, Error> {
    let is_nan = value.trim().trim_start_matches(['-', '+']).eq_ignore_ascii_case("nan");
    let number = value.trim().parse().ok().filter(|_| !is_nan);
    number.ok_or_else(|| parameter(name, format!("expected a number, found {value:?}")))
}

/// Parses `now`, `now-3600`, or seconds since 1970.
pub(super) fn now(name: &str, text: &str) -> Result<RankingTime, Error> {
    let wrong = || {
        let reason = format!("expected seconds since 1970, now, or now-3600; found {text:?}");
        parameter(name, reason)
    };
    match text.trim().strip_prefix("now") {
        Some("") => Ok(RankingTime::WallClock(Duration::ZERO)),
        Some(before) => {
            let seconds = before.strip_prefix('-').and_then(|seconds| seconds.parse().ok());
            seconds.map(|seconds| RankingTime::WallClock(Duration::from_secs(seconds))).ok_or_else(wrong)
        }
        None => text.trim().parse().map(RankingTime::At).map_err(|_| wrong()),
    }
}
