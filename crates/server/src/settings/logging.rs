//! The log on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::error::Error;

/// Reads the filter of the log. A single word has to be a level, or to begin with the name of the program:
/// another one would be the name of a module that does not exist, and the log would stay empty.
pub fn log_filter(text: &str) -> Result<EnvFilter, Error> {
    let refused = |reason: &str| Error::Argument(format!("log '{text}': {reason}"));
    let is_word = |part: &str| part.chars().all(|letter| letter.is_alphanumeric() || "_-:".contains(letter));
    let is_known = |part: &str| part.parse::<LevelFilter>().is_ok() || part.starts_with("millrace");
    let mut words = text.split(',').map(str::trim).filter(|part| !part.is_empty() && is_word(part));
    if let Some(word) = words.find(|word| !is_known(word)) {
        return Err(refused(&format!(
            "'{word}' is not a level; write error, warn, info or debug, or a filter such as millrace_store=debug"
        )));
    }
    EnvFilter::try_new(text).map_err(|error| refused(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_no_level_is_refused() {
        for filter in
            ["warn", "INFO", "off", "warn,millrace_store=debug", "millrace_store", "hyper=trace", ""]
        {
            assert!(log_filter(filter).is_ok(), "{filter}");
        }
        for (filter, expected) in [
            ("verbose", "log 'verbose': 'verbose' is not a level; write error, warn, info or debug"),
            ("warning", "'warning' is not a level"),
            ("warn, store", "'store' is not a level"),
            ("millrace_store=loud", "log 'millrace_store=loud': "),
        ] {
            let error = log_filter(filter).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{filter}: {error}");
        }
    }
}
