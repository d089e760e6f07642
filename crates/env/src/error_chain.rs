//! Chains of errors: an error, its source, the source of that, and so on.

use std::error::Error;
use std::io;
use std::iter::successors;

/// The error and its sources, outermost first. An [`io::Error`] that wraps an error of another type counts as
/// its source, which [`Error::source`] passes over.
pub fn error_causes<'e>(error: &'e (dyn Error + 'static)) -> impl Iterator<Item = &'e (dyn Error + 'static)> {
    successors(Some(error), |&error| match error.downcast_ref::<io::Error>() {
        Some(io) => io.get_ref().map(|inner| inner as &(dyn Error + 'static)),
        None => error.source(),
    })
}

/// Text of an error and of its sources, separated by `: `.
pub fn text_with_causes(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use std::fmt;

    use super::*;

    /// An error with another one below it.
    #[derive(Debug)]
    struct LayeredError(&'static str, Option<Box<dyn Error + Send + Sync>>);

    impl fmt::Display for LayeredError {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for LayeredError {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|error| error as &(dyn Error + 'static))
        }
    }

    #[test]
    fn an_error_inside_one_of_the_system_is_a_cause_and_is_written_once() {
        let inner = LayeredError("the host is not allowed", None);
        let error = LayeredError("connect", Some(Box::new(io::Error::other(inner))));
        let is_inner = |error: &&(dyn Error + 'static)| {
            error.downcast_ref::<LayeredError>().is_some_and(|error| error.1.is_none())
        };
        assert_eq!(error_causes(&error).filter(is_inner).count(), 1);
        assert_eq!(text_with_causes(&error), "connect: the host is not allowed");
    }
}
