//! Traces of requests.

use millrace_gateway::SpanSettings;

use crate::error::Error;

/// Settings of the traces; `None` without a collector. `instance` is the name of the node in them.
pub(super) fn settings(
    endpoint: Option<String>,
    sampled: Option<f64>,
    instance: impl FnOnce() -> Result<String, Error>,
) -> Result<Option<SpanSettings>, Error> {
    let Some(endpoint) = endpoint else {
        return match sampled {
            None => Ok(None),
            Some(_) => Err(Error::Argument(
                "otlp-sampled needs otlp-endpoint; give the address of the collector as well".to_owned(),
            )),
        };
    };
    let sampled = sampled.unwrap_or(1.0);
    if !(0.0..=1.0).contains(&sampled) {
        return Err(Error::Argument(format!(
            "otlp-sampled {sampled} is not a share from 0 to 1; give 0.1 for a tenth"
        )));
    }
    Ok(Some(SpanSettings { endpoint, sampled, instance: instance()? }))
}
