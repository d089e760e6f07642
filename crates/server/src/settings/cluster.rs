//! Settings of a node's part in a cluster.

use millrace_cluster::CLUSTER_DIRECTORY;
use millrace_gateway::{GroupHeaders, Settings};
use millrace_membership::NodeRole;

use super::ServeArguments;
use super::tls::{etcd_tls, nodes_tls};
use crate::cluster::ClusterSettings;
use crate::error::Error;

/// Default port for other nodes.
const PEER_PORT: u16 = 19_100;

impl ServeArguments {
    /// Settings of the node's part in a cluster; `None` for a node that is alone. Those of the server are
    /// resolved; `is_closed` is true if clients need credentials.
    pub(super) fn cluster_settings(
        &self,
        server: &Settings,
        is_closed: bool,
    ) -> Result<Option<ClusterSettings>, Error> {
        let nodes_tls = nodes_tls(
            self.peer_tls_authority.clone(),
            self.peer_tls_certificate.clone(),
            self.peer_tls_key.clone(),
        )?;
        let etcd_tls = etcd_tls(
            self.etcd_tls_authority.clone(),
            self.etcd_tls_certificate.clone(),
            self.etcd_tls_key.clone(),
        )?;
        let Some(coordination) = self.cluster.clone() else { return Ok(None) };
        if nodes_tls.is_none() {
            let has_group_headers = server.group_headers.clone().optional(false) != GroupHeaders::default();
            check_open_nodes(is_closed, server.tls.is_some(), has_group_headers)?;
        }
        Ok(Some(ClusterSettings {
            coordination,
            etcd_tls,
            nodes_tls,
            roles: self.roles.as_deref().map_or(Ok(NodeRole::ALL.to_vec()), roles)?,
            name: self.node_name()?,
            peer_port: self.peer_port.unwrap_or(PEER_PORT),
            advertise: self.advertise.clone(),
            listen: server.listen,
            transfer_rate_max: self.transfer_rate_max,
            directory: server.node.data_dir.join(CLUSTER_DIRECTORY),
        }))
    }

    /// Name of the node: the given one, or the machine's.
    pub(super) fn node_name(&self) -> Result<String, Error> {
        self.name.clone().map_or_else(machine_name, Ok)
    }
}

/// Refuses to let nodes communicate without certificates while clients need credentials or certificates: what
/// they protect would be open between the nodes. So would be the groups of a proxy, which sends on the header
/// by which nodes know each other's requests.
fn check_open_nodes(is_closed: bool, has_tls: bool, has_group_headers: bool) -> Result<(), Error> {
    if has_group_headers {
        return Err(Error::Argument(
            "in a cluster whose proxy names groups, nodes need certificates for each other; give peer-tls-authority, \
             peer-tls-certificate and peer-tls-key, or leave out group-header and group-number-header"
                .to_owned(),
        ));
    }
    if is_closed {
        return Err(Error::Argument(
            "in a cluster whose clients need credentials, nodes need certificates for each other; give peer-tls-authority, \
             peer-tls-certificate and peer-tls-key"
                .to_owned(),
        ));
    }
    if has_tls {
        return Err(Error::Argument(
            "in a cluster whose data ports have TLS nodes need certificates for each other; give peer-tls-authority, \
             peer-tls-certificate and peer-tls-key"
                .to_owned(),
        ));
    }
    Ok(())
}

/// Roles of a node, in a text with commas between them.
fn roles(text: &str) -> Result<Vec<NodeRole>, Error> {
    text.split(',').map(role).collect()
}

fn role(text: &str) -> Result<NodeRole, Error> {
    text.trim().parse().map_err(|error: millrace_membership::Error| Error::Argument(error.to_string()))
}

/// Host name of the machine.
fn machine_name() -> Result<String, Error> {
    let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
    if name.is_empty() {
        Err(Error::Argument("the machine has no name; give one with --name".to_owned()))
    } else {
        Ok(name)
    }
}
