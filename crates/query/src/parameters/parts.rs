//! Parameters of ranking, presentation, grouping, collapsing and streaming.

use std::time::Duration;

use super::properties::{element_gap, engine_property, now};
use super::{ParameterReader, names, parameter};
use crate::build::check_name;
use crate::{
    CollapseOptions, Error, GroupingDefaults, PresentationOptions, QuerySources, RankingOptions,
    StreamingScope, TracingOptions, duration,
};

/// Parameter that takes the frequencies of words from a model.
const USE_MODEL: &str = "ranking.significance.useModel";

impl ParameterReader<'_> {
    /// Field of words without one.
    pub(super) fn default_field(&self) -> Result<String, Error> {
        Ok(self.field_name("model.defaultIndex")?.unwrap_or_else(|| "default".to_owned()))
    }

    /// Value of a parameter that names a field, if it is there and not blank.
    pub(super) fn field_name(&self, name: &str) -> Result<Option<String>, Error> {
        let Some(field) = self.text(name) else { return Ok(None) };
        check_name(&field).map_err(|reason| parameter(name, reason.to_string()))?;
        Ok(Some(field))
    }

    pub(super) fn ranking(&self) -> Result<RankingOptions, Error> {
        let mut ranking = RankingOptions {
            profile: self.text("ranking.profile"),
            keep_rank_count: self.total_or_each("ranking.totalKeepRankCount", "ranking.keepRankCount")?,
            score_drop_limit: self.float("ranking.rankScoreDropLimit")?,
            rerank_count: self
                .total_or_each("ranking.secondPhase.totalRerankCount", "ranking.secondPhase.rerankCount")?,
            second_phase_drop_limit: self.float("ranking.secondPhase.rankScoreDropLimit")?,
            global_rerank_count: self.whole_number("ranking.globalPhase.rerankCount")?,
            global_phase_drop_limit: self.float("ranking.globalPhase.rankScoreDropLimit")?,
            soft_timeout: self.flag("ranking.softtimeout.enable", true)?,
            soft_timeout_factor: self.share("ranking.softtimeout.factor")?,
            list_features: self.flag("ranking.listFeatures", false)?,
            use_significance_model: self.get(USE_MODEL).map(|_| self.flag(USE_MODEL, false)).transpose()?,
            location: self.text("ranking.location"),
            ..RankingOptions::default()
        };
        if let Some(text) = self.non_blank("ranking.freshness") {
            ranking.now = now("ranking.freshness", text)?;
        }
        for (name, value) in self.raw {
            if let Some(feature) = names::strip_prefix(name, &["ranking.features.", "input.", "rankfeature."])
            {
                let input = feature.strip_prefix("query(").and_then(|rest| rest.strip_suffix(')'));
                match input.map(|input| input.trim().trim_matches('"')).or(feature.strip_prefix('$')) {
                    Some("") => {
                        let reason = "the query feature has no name; for example: input.query(user)=5";
                        return Err(parameter(name, reason));
                    }
                    Some(input) => ranking.inputs.insert(input.to_owned(), value.clone()),
                    None if name.starts_with("input.") => {
                        let reason = "only query features are inputs; for example: input.query(user)=5";
                        return Err(parameter(name, reason));
                    }
                    None => ranking.feature_values.insert(feature.to_owned(), value.clone()),
                };
            } else if let Some(property) =
                names::strip_prefix(name, &["ranking.properties.", "rankproperty."])
            {
                engine_property(name, property, value, &mut ranking)?;
                ranking.properties.insert(property.to_owned(), value.clone());
            } else if let Some(field) = names::strip_prefix(name, &["ranking.elementGap."]) {
                ranking.element_gaps.insert(field.to_owned(), element_gap(name, value)?);
            }
        }
        Ok(ranking)
    }

    /// Tag of the query's language: given, or that of an encoding which is for one language alone.
    pub(super) fn language(&self) -> Option<String> {
        let of_encoding = || {
            let language = match self.text("model.encoding")?.to_ascii_lowercase().as_str() {
                "gb2312" => "zh-hans",
                "big5" => "zh-hant",
                "euc-jp" | "iso-2022-jp" | "shift-jis" => "ja",
                "euc-kr" => "ko",
                _ => return None,
            };
            Some(language.to_owned())
        };
        self.text("model.locale").or_else(|| self.text("model.language")).or_else(of_encoding)
    }

    /// Parses a share: above 0, and at most 1.
    fn share(&self, name: &'static str) -> Result<Option<f64>, Error> {
        match self.float(name)? {
            Some(share) if !(share > 0.0 && share <= 1.0) => {
                Err(parameter(name, format!("expected a number above 0 and at most 1, found {share}")))
            }
            share => Ok(share),
        }
    }

    pub(super) fn tracing(&self) -> Result<TracingOptions, Error> {
        let profiled = self.flag("trace.profile", false)?;
        let level =
            self.whole_number("trace.level")?.map_or(0, |level| u8::try_from(level).unwrap_or(u8::MAX));
        Ok(TracingOptions {
            level: level.max(u8::from(profiled)),
            explained: profiled || self.whole_number("trace.explainLevel")?.is_some_and(|level| level > 0),
            timestamps: profiled || self.flag("trace.timestamps", false)?,
            query: self.flag("trace.query", true)?,
        })
    }

    pub(super) fn presentation(&self, fields: Vec<String>) -> Result<PresentationOptions, Error> {
        const TENSORS: &str = "presentation.format.tensors";
        let tensors = self.text(TENSORS).map(|form| form.parse()).transpose();
        Ok(PresentationOptions {
            summary: self.text("presentation.summary"),
            fields,
            bolding: self.flag("presentation.bolding", true)?,
            format: self.text("presentation.format"),
            tensors: tensors
                .map_err(|error: millrace_tensor::Error| parameter(TENSORS, error.to_string()))?,
            timing: self.flag("presentation.timing", self.flag("trace.profile", false)?)?,
            maps_as_lists: !self.flag("renderer.json.jsonMaps", true)?,
            sets_as_lists: !self.flag("renderer.json.jsonWsets", true)?,
            raw_as_hex: !self.flag("renderer.json.rawAsBase64", true)?,
        })
    }

    pub(super) fn grouping_defaults(&self) -> Result<GroupingDefaults, Error> {
        let defaults = GroupingDefaults::default();
        Ok(GroupingDefaults {
            max_groups: self.limit("grouping.defaultMaxGroups", defaults.max_groups)?,
            max_hits: self.limit("grouping.defaultMaxHits", defaults.max_hits)?,
            global_max_groups: self.limit("grouping.globalMaxGroups", defaults.global_max_groups)?,
            precision_factor: self
                .float("grouping.defaultPrecisionFactor")?
                .unwrap_or(defaults.precision_factor),
            timezone: self.text("timezone").unwrap_or(defaults.timezone),
        })
    }

    pub(super) fn collapse(&self) -> Result<Option<CollapseOptions>, Error> {
        let Some(names) = self.text("collapsefield") else { return Ok(None) };
        let size = self.whole_number("collapsesize")?.unwrap_or(1);
        let mut fields = Vec::new();
        for field in names.split(',').map(str::trim).filter(|field| !field.is_empty()) {
            let own = self.whole_number(&format!("collapsesize.{field}"))?;
            fields.push((field.to_owned(), own.unwrap_or(size)));
        }
        Ok(Some(CollapseOptions { fields, summary: self.text("collapse.summary") }))
    }

    /// Adds `sources` and `restrict`, which take precedence, to the sources of a statement.
    pub(super) fn sources(&self, of_statement: QuerySources) -> QuerySources {
        let named = |name: &str| -> Vec<String> {
            let text = self.get(name).unwrap_or_default();
            text.split(',').map(str::trim).filter(|name| !name.is_empty()).map(str::to_owned).collect()
        };
        let sources = match named("model.sources") {
            names if names.is_empty() || names == ["*"] => of_statement,
            names => QuerySources::Named(names),
        };
        let schemas = named("model.restrict");
        if schemas.is_empty() {
            return sources;
        }
        let within = match sources {
            QuerySources::Named(names) => names,
            _ => Vec::new(),
        };
        QuerySources::Restricted { schemas, within }
    }

    pub(super) fn streaming(&self) -> Result<StreamingScope, Error> {
        let mut groups: Vec<String> =
            self.get("streaming.groupname").into_iter().map(str::to_owned).collect();
        if let Some(text) = self.get("streaming.groupnames") {
            match serde_json::from_str::<Vec<String>>(text) {
                Ok(names) => groups.extend(names),
                Err(_) => {
                    let reason = "expected a JSON list of names, as in [\"ann\", \"bob\"]";
                    return Err(parameter("streaming.groupnames", reason));
                }
            }
        }
        if groups.iter().any(String::is_empty) {
            return Err(parameter("streaming.groupname", "the name of the group is empty"));
        }
        if groups.iter().any(|name| name.chars().any(char::is_control)) {
            // No document can have such a group, see DocumentId.
            return Err(parameter("streaming.groupname", "the name of the group has a control character"));
        }
        // Without a value it is a mistake, like an empty group: a query must not search more for it.
        let user = self.get("streaming.userid").map(|text| {
            let wrong = || parameter("streaming.userid", format!("expected a whole number, found {text:?}"));
            text.trim().parse().map_err(|_| wrong())
        });
        Ok(StreamingScope { groups, user: user.transpose()?, selection: self.text("streaming.selection") })
    }

    /// The number for all nodes together, else the one for each node.
    fn total_or_each(&self, total: &str, each: &str) -> Result<Option<usize>, Error> {
        match self.whole_number(total)? {
            None => self.whole_number(each),
            total => Ok(total),
        }
    }

    /// A number from 0, or -1 for no limit.
    fn limit(&self, name: &str, default: Option<usize>) -> Result<Option<usize>, Error> {
        if self.get(name).is_some_and(|text| text.trim() == "-1") {
            return Ok(None);
        }
        Ok(self.whole_number(name)?.or(default))
    }
}

/// Parses `5`, `0.5 s` or `500ms`: seconds by default.
pub(super) fn timeout(text: &str) -> Result<Duration, Error> {
    duration(text).ok_or_else(|| {
        let text = text.trim();
        parameter(
            "timeout",
            format!("expected a number of seconds, or with a unit as in 500ms or 2s, found {text:?}"),
        )
    })
}
