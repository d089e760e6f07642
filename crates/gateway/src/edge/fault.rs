/// A setting that does not name what it should name, with the cure.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum EdgeNameFault {
    /// Not a host.
    #[error(
        "'{0}' is not the name of a host: write names without scheme and port, such as search.example.com"
    )]
    Host(String),
    /// Not an origin.
    #[error(
        "'{0}' is not the origin of a web page: write scheme and host, and the port if there is one, such as \
         https://app.example.com or http://localhost:3000"
    )]
    Origin(String),
    /// Not a header for groups.
    #[error(
        "'{0}' is not a header that can name a group: write a name such as X-Group, and another one for numbers; \
         Authorization, Host, Content-… and Millrace-… have another meaning"
    )]
    GroupHeader(String),
}
