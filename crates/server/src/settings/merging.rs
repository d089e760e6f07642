//! Settings from flags, the environment and the file together, with defaults.

use std::time::Duration;

use millrace_gateway::RequestLimits;

use super::ServeArguments;

impl ServeArguments {
    /// Merges settings: these, and from `others` those that are missing here.
    pub(super) fn or(self, others: ServeArguments) -> ServeArguments {
        ServeArguments {
            data_dir: self.data_dir.or(others.data_dir),
            listen: self.listen.or(others.listen),
            config_listen: self.config_listen.or(others.config_listen),
            insecure: self.insecure.or(others.insecure),
            allowed_hosts: self.allowed_hosts.or(others.allowed_hosts),
            allowed_origins: self.allowed_origins.or(others.allowed_origins),
            group_header: self.group_header.or(others.group_header),
            group_number_header: self.group_number_header.or(others.group_number_header),
            group_header_optional: self.group_header_optional.or(others.group_header_optional),
            outbound_allow: self.outbound_allow.or(others.outbound_allow),
            secret: self.secret.or(others.secret),
            access_log_queries: self.access_log_queries.or(others.access_log_queries),
            slow_query_log: self.slow_query_log.or(others.slow_query_log),
            slow_query_ms: self.slow_query_ms.or(others.slow_query_ms),
            slow_query_log_queries: self.slow_query_log_queries.or(others.slow_query_log_queries),
            trusted_proxies: self.trusted_proxies.or(others.trusted_proxies),
            port: self.port.or(others.port),
            config_port: self.config_port.or(others.config_port),
            elastic_port: self.elastic_port.or(others.elastic_port),
            app: self.app.or(others.app),
            config: self.config.or(others.config),
            tls_certificate: self.tls_certificate.or(others.tls_certificate),
            tls_key: self.tls_key.or(others.tls_key),
            access_file: self.access_file.or(others.access_file),
            token_keys: self.token_keys.or(others.token_keys),
            token_audience: self.token_audience.or(others.token_audience),
            application_clients: self.application_clients.or(others.application_clients),
            request_bytes_max: self.request_bytes_max.or(others.request_bytes_max),
            query_bytes_max: self.query_bytes_max.or(others.query_bytes_max),
            bodies_bytes_max: self.bodies_bytes_max.or(others.bodies_bytes_max),
            work_bytes_max: self.work_bytes_max.or(others.work_bytes_max),
            answers_bytes_max: self.answers_bytes_max.or(others.answers_bytes_max),
            bodies_wait_s: self.bodies_wait_s.or(others.bodies_wait_s),
            body_timeout_s: self.body_timeout_s.or(others.body_timeout_s),
            body_rate_min: self.body_rate_min.or(others.body_rate_min),
            element_bytes_max: self.element_bytes_max.or(others.element_bytes_max),
            query_text_bytes_max: self.query_text_bytes_max.or(others.query_text_bytes_max),
            query_tokens_max: self.query_tokens_max.or(others.query_tokens_max),
            query_values_max: self.query_values_max.or(others.query_values_max),
            query_regexes_max: self.query_regexes_max.or(others.query_regexes_max),
            query_memory_max: self.query_memory_max.or(others.query_memory_max),
            queries_memory_max: self.queries_memory_max.or(others.queries_memory_max),
            parameters_max: self.parameters_max.or(others.parameters_max),
            streams_max: self.streams_max.or(others.streams_max),
            connections_max: self.connections_max.or(others.connections_max),
            connections_per_address_max: self
                .connections_per_address_max
                .or(others.connections_per_address_max),
            head_timeout_s: self.head_timeout_s.or(others.head_timeout_s),
            connection_idle_s: self.connection_idle_s.or(others.connection_idle_s),
            query_timeout_max_s: self.query_timeout_max_s.or(others.query_timeout_max_s),
            document_timeout_max_s: self.document_timeout_max_s.or(others.document_timeout_max_s),
            sessions_bytes_max: self.sessions_bytes_max.or(others.sessions_bytes_max),
            erase_within_s: self.erase_within_s.or(others.erase_within_s),
            keep_logs_s: self.keep_logs_s.or(others.keep_logs_s),
            keep_logs_bytes_max: self.keep_logs_bytes_max.or(others.keep_logs_bytes_max),
            feed_keys_s: self.feed_keys_s.or(others.feed_keys_s),
            feed_keys_max: self.feed_keys_max.or(others.feed_keys_max),
            async_sync_ms: self.async_sync_ms.or(others.async_sync_ms),
            threads: self.threads.or(others.threads),
            queue_max: self.queue_max.or(others.queue_max),
            group_rate_max: self.group_rate_max.or(others.group_rate_max),
            group_concurrent_max: self.group_concurrent_max.or(others.group_concurrent_max),
            group_documents_max: self.group_documents_max.or(others.group_documents_max),
            group_bytes_max: self.group_bytes_max.or(others.group_bytes_max),
            group_fed_bytes_max: self.group_fed_bytes_max.or(others.group_fed_bytes_max),
            address_rate_max: self.address_rate_max.or(others.address_rate_max),
            cache_bytes: self.cache_bytes.or(others.cache_bytes),
            access_log: self.access_log.or(others.access_log),
            otlp_endpoint: self.otlp_endpoint.or(others.otlp_endpoint),
            otlp_sampled: self.otlp_sampled.or(others.otlp_sampled),
            disk_reserve: self.disk_reserve.or(others.disk_reserve),
            drain_s: self.drain_s.or(others.drain_s),
            model_idle_s: self.model_idle_s.or(others.model_idle_s),
            cluster: self.cluster.or(others.cluster),
            name: self.name.or(others.name),
            roles: self.roles.or(others.roles),
            peer_port: self.peer_port.or(others.peer_port),
            peer_tls_authority: self.peer_tls_authority.or(others.peer_tls_authority),
            peer_tls_certificate: self.peer_tls_certificate.or(others.peer_tls_certificate),
            peer_tls_key: self.peer_tls_key.or(others.peer_tls_key),
            etcd_tls_authority: self.etcd_tls_authority.or(others.etcd_tls_authority),
            etcd_tls_certificate: self.etcd_tls_certificate.or(others.etcd_tls_certificate),
            etcd_tls_key: self.etcd_tls_key.or(others.etcd_tls_key),
            advertise: self.advertise.or(others.advertise),
            transfer_rate_max: self.transfer_rate_max.or(others.transfer_rate_max),
            plain_paths: self.plain_paths || others.plain_paths,
            sync_delay_ms: self.sync_delay_ms.or(others.sync_delay_ms),
            log: self.log.or(others.log),
        }
    }

    /// Limits of the cost of one request and one client.
    pub(super) fn limits(&self, defaults: RequestLimits) -> RequestLimits {
        let seconds = |given: Option<u64>, default| given.map_or(default, Duration::from_secs);
        // One body of the largest size fits, both compressed and uncompressed.
        let bodies = self.request_bytes_max.map_or(0, |bytes| bytes.saturating_mul(2));
        RequestLimits {
            query_bytes_max: self.query_bytes_max.unwrap_or(defaults.query_bytes_max),
            bodies_bytes_max: self.bodies_bytes_max.unwrap_or(defaults.bodies_bytes_max.max(bodies)),
            work_bytes_max: self.work_bytes_max.unwrap_or(defaults.work_bytes_max),
            answers_bytes_max: self.answers_bytes_max.unwrap_or(defaults.answers_bytes_max),
            bodies_wait: seconds(self.bodies_wait_s, defaults.bodies_wait),
            body_timeout: seconds(self.body_timeout_s, defaults.body_timeout),
            body_rate_min: self.body_rate_min.unwrap_or(defaults.body_rate_min),
            element_bytes_max: self.element_bytes_max.unwrap_or(defaults.element_bytes_max),
            query_text_bytes_max: self.query_text_bytes_max.unwrap_or(defaults.query_text_bytes_max),
            query_tokens_max: self.query_tokens_max.unwrap_or(defaults.query_tokens_max),
            query_values_max: self.query_values_max.unwrap_or(defaults.query_values_max),
            parameters_max: self.parameters_max.unwrap_or(defaults.parameters_max),
            streams_max: self.streams_max.unwrap_or(defaults.streams_max),
            connections_max: self.connections_max.unwrap_or(defaults.connections_max),
            connections_per_address_max: self
                .connections_per_address_max
                .unwrap_or(defaults.connections_per_address_max),
            head_timeout: seconds(self.head_timeout_s, defaults.head_timeout),
            connection_idle: seconds(self.connection_idle_s, defaults.connection_idle),
            query_timeout_max: seconds(self.query_timeout_max_s, defaults.query_timeout_max),
            document_timeout_max: seconds(self.document_timeout_max_s, defaults.document_timeout_max),
            sessions_bytes_max: self.sessions_bytes_max.unwrap_or(defaults.sessions_bytes_max),
            feed_keys_time: seconds(self.feed_keys_s, defaults.feed_keys_time),
            feed_keys_max: self.feed_keys_max.unwrap_or(defaults.feed_keys_max),
        }
    }
}
