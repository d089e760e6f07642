//! Addresses of the ports.

use std::net::IpAddr;

use crate::error::Error;

/// Addresses of the ports, with the operator's statement if this is safe.
pub(super) struct ListenSettings {
    pub(super) listen: IpAddr,
    pub(super) config_listen: IpAddr,
    pub(super) insecure: bool,
    /// True if clients need credentials.
    pub(super) is_closed: bool,
}

impl ListenSettings {
    /// Refuses to admit other machines while clients need no credentials. Certificates of nodes do not count:
    /// they identify the nodes of the cluster, not its users.
    pub(super) fn check(&self) -> Result<(), Error> {
        let ports = [
            ("listen", self.listen, "read, write and delete all documents"),
            (
                "config-listen",
                self.config_listen,
                "deploy applications, delete all documents and administer the cluster",
            ),
        ];
        let open = ports.into_iter().find(|(_, address, _)| !address.to_canonical().is_loopback());
        match open.filter(|_| !self.insecure && !self.is_closed) {
            None => Ok(()),
            Some((flag, address, powers)) => Err(Error::Argument(format!(
                "--{flag} {address} lets other machines in, and clients need no credentials: every machine that reaches the port may \
                 {powers}. Create a key first: millrace token create NAME --read --write --deploy --admin; or, where only trusted machines \
                 reach the port, add --insecure"
            ))),
        }
    }
}
