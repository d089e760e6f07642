//! Settings and headers that decide who may send requests, and where the server may connect to.

use millrace_gateway::fuzz;

use crate::text;

/// Names of `--allowed-hosts`, and values of `Host`.
pub(crate) fn hosts(input: &[u8]) {
    fuzz::hosts(text(input));
}

/// Values of `Authorization`, files of API keys, and key sets.
pub(crate) fn credentials(input: &[u8]) {
    millrace_access::fuzz::credentials(text(input));
}

/// Origins of `--allowed-origins`, and values of `Origin`.
pub(crate) fn origins(input: &[u8]) {
    fuzz::origins(text(input));
}

/// Ranges of `--trusted-proxies`, and values of `X-Forwarded-For`.
pub(crate) fn addresses(input: &[u8]) {
    fuzz::client_addresses(text(input));
}

/// Bindings of `--secret`, and endpoints.
pub(crate) fn secrets(input: &[u8]) {
    millrace_remote::fuzz_secrets(text(input));
}

/// Rules of `--outbound-allow`, and URLs.
pub(crate) fn outbound(input: &[u8]) {
    millrace_remote::fuzz(text(input));
}
