/// Errors of other services, by possible remedy.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not available or overloaded, even after several attempts: try again later.
    #[error("{service} cannot answer now: {reason}; try again later")]
    Retry {
        /// Address of the service.
        service: String,
        /// Status of its last answer, if there was one.
        status: Option<u16>,
        /// Its message, or the failure of the connection.
        reason: String,
    },
    /// It refuses the request: change the text.
    #[error("{service} refuses the text: {reason}")]
    Fix {
        /// Address of the service.
        service: String,
        /// Status of its answer.
        status: Option<u16>,
        /// Its message.
        reason: String,
    },
    /// It will refuse every request: change the settings, or the service.
    #[error(
        "{service} cannot be used: {reason}; check its endpoint, model, dimensions and secret in services.xml"
    )]
    GiveUp {
        /// Address of the service.
        service: String,
        /// Status of its answer.
        status: Option<u16>,
        /// Its message, or the problem of its answer.
        reason: String,
    },
    /// The caller's deadline has passed.
    #[error("{service} did not answer in time")]
    Deadline {
        /// Address of the service.
        service: String,
    },
    /// Too many texts wait for it already.
    #[error("{waiting} texts wait for {service} already: try again later")]
    Overloaded {
        /// Address of the service.
        service: String,
        /// Number of waiting texts.
        waiting: usize,
    },
    /// A file cannot be downloaded.
    #[error("{url} cannot be fetched: {reason}")]
    Download {
        /// Its address.
        url: String,
        /// Reason.
        reason: String,
    },
}

impl Error {
    /// Status of the service's answer, if there was one.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Retry { status, .. } | Error::Fix { status, .. } | Error::GiveUp { status, .. } => *status,
            Error::Deadline { .. } | Error::Overloaded { .. } | Error::Download { .. } => None,
        }
    }
}
