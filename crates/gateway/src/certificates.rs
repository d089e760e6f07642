//! The node's own certificates: operators are warned before one expires.

use std::sync::Arc;
use std::time::Duration;

use millrace_env::unix_time;
use millrace_node::metrics::MetricGauge;

use crate::GatewayState;

/// Interval between two log lines about the same certificate.
const REPEATED: Duration = Duration::from_secs(6 * 60 * 60);

impl GatewayState {
    /// Warnings of certificates that expire soon, or have expired: that for clients, and that for other
    /// nodes.
    pub(crate) fn certificate_warnings(&self) -> Vec<String> {
        let of_clients = self.certificate().and_then(|certificate| certificate.validity());
        let of_nodes = self.settings().trust.as_ref().and_then(|trust| trust.validity());
        let now = unix_time();
        [of_clients, of_nodes].into_iter().flatten().filter_map(|validity| validity.warning(now)).collect()
    }

    /// Gauge of these certificates.
    pub(crate) fn certificate_gauge(&self) -> MetricGauge {
        MetricGauge::new(
            "millrace.certificates.expiring",
            "Certificates of the node that expire within two weeks, or have expired",
            self.certificate_warnings().len() as f64,
        )
    }
}

/// Logs the warnings, again and again.
pub(crate) async fn log_expiring_forever(state: Arc<GatewayState>) {
    loop {
        for warning in state.certificate_warnings() {
            tracing::warn!("{warning}");
        }
        tokio::time::sleep(REPEATED).await;
    }
}
