//! Numbers of settings with which nothing could be served.

use super::ServeArguments;
use crate::error::Error;

impl ServeArguments {
    /// Checks that rates and bounds are above 0 where 0 would let no request in. A bound of one kind of
    /// request may be 0, to keep that kind out.
    pub(super) fn check_bounds(&self) -> Result<(), Error> {
        self.check_rates()?;
        let zeros = [
            ("request-bytes-max", self.request_bytes_max == Some(0)),
            ("bodies-bytes-max", self.bodies_bytes_max == Some(0)),
            ("work-bytes-max", self.work_bytes_max == Some(0)),
            ("answers-bytes-max", self.answers_bytes_max == Some(0)),
            ("query-memory-max", self.query_memory_max == Some(0)),
            ("queries-memory-max", self.queries_memory_max == Some(0)),
            ("streams-max", self.streams_max == Some(0)),
            ("connections-max", self.connections_max == Some(0)),
            ("connections-per-address-max", self.connections_per_address_max == Some(0)),
            ("head-timeout-s", self.head_timeout_s == Some(0)),
            ("connection-idle-s", self.connection_idle_s == Some(0)),
            ("document-timeout-max-s", self.document_timeout_max_s == Some(0)),
            ("threads", self.threads == Some(0)),
            ("queue-max", self.queue_max == Some(0)),
            ("transfer-rate-max", self.transfer_rate_max == Some(0)),
        ];
        match zeros.into_iter().find(|(_, is_zero)| *is_zero) {
            Some((name, _)) => Err(Error::Argument(format!(
                "{name} is 0, with which nothing could be done; give a number above 0, or leave it out for the default"
            ))),
            None => Ok(()),
        }
    }

    /// Checks that rates are above 0, and numbers.
    fn check_rates(&self) -> Result<(), Error> {
        let rates = [
            ("group-rate-max", "requests a second", self.group_rate_max),
            ("address-rate-max", "requests a second", self.address_rate_max),
            ("group-concurrent-max", "requests", self.group_concurrent_max.map(f64::from)),
            ("group-fed-bytes-max", "bytes a second", self.group_fed_bytes_max.map(|bytes| bytes as f64)),
        ];
        match rates
            .into_iter()
            .find(|(_, _, rate)| rate.is_some_and(|rate| !(rate.is_finite() && rate > 0.0)))
        {
            Some((name, of, _)) => Err(Error::Argument(format!(
                "{name} is not a number of {of} above 0; give one, or leave it out for no limit"
            ))),
            None => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_that_could_serve_nothing_does_not_start() {
        let refusal = |file: &str| {
            let given: ServeArguments = toml::from_str(file).expect("they are settings");
            given.check_bounds().err().map(|error| error.to_string())
        };
        for (file, expected) in [
            ("threads = 0", "threads is 0, with which nothing could be done; give a number above 0"),
            ("queue-max = 0", "queue-max is 0"),
            ("connections-max = 0", "connections-max is 0"),
            ("request-bytes-max = 0", "request-bytes-max is 0"),
            ("group-rate-max = 0.0", "group-rate-max is not a number of requests a second above 0"),
            ("address-rate-max = nan", "address-rate-max is not a number of requests a second above 0"),
            ("group-concurrent-max = 0", "group-concurrent-max is not a number of requests above 0"),
            ("group-fed-bytes-max = 0", "group-fed-bytes-max is not a number of bytes a second above 0"),
        ] {
            let refused_with = refusal(file).unwrap_or_default();
            assert!(refused_with.contains(expected), "{file}: {refused_with}");
        }
        // Each of them keeps some requests out, and lets others in.
        for file in [
            "",
            "threads = 1",
            "cache-bytes = 0",
            "drain-s = 0",
            "slow-query-ms = 0",
            "keep-logs-s = 0",
            "query-bytes-max = 0",
            "query-values-max = 0",
            "parameters-max = 0",
        ] {
            assert_eq!(refusal(file), None, "{file}");
        }
    }
}
