/// Why another service gave no answer; the kinds differ in what can be done about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It is not there or has too much to do, also after several tries: try again later.
    #[error("{service} cannot answer now: {reason}; try again later")]
    Retry {
        /// Where it was asked.
        service: String,
        /// The status of its last answer, where there was one.
        status: Option<u16>,
        /// What it said, or what became of the connection.
        reason: String,
    },
    /// It refuses what it was asked: change the text.
    #[error("{service} refuses the text: {reason}")]
    Fix {
        /// Where it was asked.
        service: String,
        /// The status of its answer.
        status: Option<u16>,
        /// What it said.
        reason: String,
    },
    /// It will refuse whatever is asked: change the settings, or the service.
    #[error(
        "{service} cannot be used: {reason}; check its endpoint, model, dimensions and secret in services.xml"
    )]
    GiveUp {
        /// Where it was asked.
        service: String,
        /// The status of its answer.
        status: Option<u16>,
        /// What it said, or what is wrong with its answer.
        reason: String,
    },
    /// The caller's time was up.
    #[error("{service} did not answer in time")]
    Deadline {
        /// Where it was asked.
        service: String,
    },
    /// Too much waits for it already.
    #[error("{waiting} texts wait for {service} already: try again later")]
    Overloaded {
        /// Where it is asked.
        service: String,
        /// How many wait.
        waiting: usize,
    },
    /// A file cannot be fetched.
    #[error("{url} cannot be fetched: {reason}")]
    Download {
        /// Its address.
        url: String,
        /// What it was.
        reason: String,
    },
}

impl Error {
    /// The status that the service answered with, where there was an answer.
    pub fn status(&self) -> Option<u16> {
        match self {
            Error::Retry { status, .. } | Error::Fix { status, .. } | Error::GiveUp { status, .. } => *status,
            Error::Deadline { .. } | Error::Overloaded { .. } | Error::Download { .. } => None,
        }
    }
}
