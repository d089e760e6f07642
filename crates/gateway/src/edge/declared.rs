//! Clients that the active application declares: their effect on this server.

use std::sync::Arc;

use millrace_access::DeclaredClients;
use millrace_node::CompiledApplication;

use crate::GatewayState;

/// Reason for which the clients that an application declares have no effect on this server.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DeclarationObstacle {
    #[error(
        "the clients that the application declares have no effect, as the server was started with --application-clients=false"
    )]
    Setting,
    #[error(
        "the clients that the application declares have no effect, as the nodes of this cluster have no certificates for each other; \
         start them with --peer-tls-authority, --peer-tls-certificate and --peer-tls-key"
    )]
    Nodes,
    #[error(
        "security/clients.pem has no effect, as the data port has no TLS, so that clients cannot show certificates; start the server with \
         --tls-certificate and --tls-key, or declare <clients> with tokens in services.xml"
    )]
    NoTls,
}

impl GatewayState {
    /// Clients that the active application declares, if they have an effect: then requests to the data port
    /// need a credential.
    pub(crate) fn declared_clients(&self) -> Option<Arc<DeclaredClients>> {
        let deployment = self.deployments().active()?;
        let clients = deployment.clients.as_ref()?;
        self.declaration_obstacle(&deployment).is_none().then(|| Arc::clone(clients))
    }

    /// Reason for which the clients of an application have no effect, if it declares any.
    pub(crate) fn declaration_obstacle(
        &self,
        deployment: &CompiledApplication,
    ) -> Option<DeclarationObstacle> {
        let clients = deployment.application.container.clients.as_ref()?;
        let settings = self.settings();
        match () {
            () if !settings.application_clients => Some(DeclarationObstacle::Setting),
            // Requests between nodes would need a credential.
            () if !self.cluster().is_alone() && settings.trust.is_none() => Some(DeclarationObstacle::Nodes),
            // Packages for Vespa's cloud have this file, which has no effect outside of it.
            () if !clients.is_explicit && settings.tls.is_none() => Some(DeclarationObstacle::NoTls),
            () => None,
        }
    }

    /// Warnings about the clients that an application declares.
    pub(crate) fn declaration_warnings(&self, deployment: &CompiledApplication) -> Vec<String> {
        let Some(clients) = &deployment.clients else { return Vec::new() };
        if let Some(obstacle) = self.declaration_obstacle(deployment) {
            return vec![obstacle.to_string()];
        }
        let mut warnings = Vec::new();
        if clients.has_certificates() && self.settings().tls.is_none() {
            warnings.push(
                "services.xml declares certificates of clients, and the data port has no TLS, so that clients cannot show them; start the \
                 server with --tls-certificate and --tls-key"
                    .to_owned(),
            );
        }
        let known = self.credentials().key_names();
        let unknown = clients.tokens().filter(|token| !known.iter().any(|name| name == token));
        warnings.extend(unknown.map(|token| {
            format!("services.xml: no API key has the name of <token id='{token}'/>; create it: millrace token create {token}")
        }));
        warnings
    }
}
