//! Settings of the node itself.

use std::time::Duration;

use millrace_node::{OutboundPolicy, Settings as NodeSettings};
use millrace_store::SegmentFormat;

use super::{ServeArguments, listed, parse_each, parsed, seconds};
use crate::error::Error;

impl ServeArguments {
    /// Settings of the node, with these for the missing ones.
    pub(super) fn node_settings(&self, defaults: NodeSettings) -> Result<NodeSettings, Error> {
        let outbound = self.outbound_allow.as_deref().map(OutboundPolicy::parse).transpose();
        // All nodes of a cluster read this one; its state names a newer one.
        let segment_format =
            if self.cluster.is_some() { SegmentFormat::Plain } else { defaults.segment_format };
        Ok(NodeSettings {
            outbound: parsed("outbound-allow", outbound)?.unwrap_or(defaults.outbound),
            secrets: parsed("secret", parse_each(&listed(self.secret.clone())))?,
            threads: self.threads.unwrap_or(defaults.threads),
            queue_max: self.queue_max.unwrap_or(defaults.queue_max),
            query_regexes_max: self.query_regexes_max.unwrap_or(defaults.query_regexes_max),
            query_memory_max: self.query_memory_max.unwrap_or(defaults.query_memory_max),
            queries_memory_max: self.queries_memory_max.unwrap_or(defaults.queries_memory_max),
            cache_bytes: self.cache_bytes.unwrap_or(defaults.cache_bytes),
            disk_reserve: self.disk_reserve.unwrap_or(defaults.disk_reserve),
            space_wait: defaults.space_wait,
            deferred_sync: self.async_sync_ms.map_or(defaults.deferred_sync, Duration::from_millis),
            erase_within: seconds(self.erase_within_s, defaults.erase_within),
            keep_logs: seconds(self.keep_logs_s, defaults.keep_logs),
            keep_logs_bytes_max: self.keep_logs_bytes_max.unwrap_or(defaults.keep_logs_bytes_max),
            open_files_max: defaults.open_files_max,
            segment_format,
            model_idle: seconds(self.model_idle_s, defaults.model_idle),
            plain_paths: self.plain_paths,
            sync_delay: self.sync_delay_ms.map_or(defaults.sync_delay, Duration::from_millis),
            disk: defaults.disk,
            data_dir: defaults.data_dir,
        })
    }
}
