//! The log on standard error.

use tracing_subscriber::EnvFilter;
use tracing_subscriber::filter::LevelFilter;

use crate::error::Error;

/// Reads the filter of the log. A word that is not a level is the name of a module: if there are only such
/// words, one of them has to begin with the name of the program, since the log would stay empty otherwise.
pub fn log_filter(text: &str) -> Result<EnvFilter, Error> {
    let refused = |reason: &str| {
        let cure = "write error, warn, info or debug, or a filter such as warn,millrace_store=debug";
        Error::Argument(format!("log '{text}': {reason}; {cure}"))
    };
    let parts: Vec<&str> = text.split(',').map(str::trim).filter(|part| !part.is_empty()).collect();
    let is_word = |part: &str| part.chars().all(|letter| letter.is_alphanumeric() || "_-:".contains(letter));
    let is_known = |part: &str| part.parse::<LevelFilter>().is_ok() || part.starts_with("millrace");
    if let Some(word) = parts.first()
        && parts.iter().all(|part| is_word(part) && !is_known(part))
    {
        return Err(refused(&format!("'{word}' is not a level")));
    }
    // The library takes a blank after a comma for a part of the name.
    EnvFilter::try_new(parts.join(",")).map_err(|error| refused(&error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_word_that_is_not_a_level_is_refused() {
        for filter in [
            "warn",
            "INFO",
            "off",
            "warn,millrace_store=debug",
            "warn, millrace_store=debug",
            "millrace_store",
            "hyper=trace",
            "info,hyper",
            "",
        ] {
            assert!(log_filter(filter).is_ok(), "{filter}");
        }
        let filter = log_filter("warn, millrace_store=debug").expect("it is one").to_string();
        assert!(filter.to_lowercase().split(',').any(|part| part == "millrace_store=debug"), "{filter}");
        for (filter, expected) in [
            ("verbose", "log 'verbose': 'verbose' is not a level; write error, warn, info or debug"),
            ("warning", "'warning' is not a level"),
            ("store, gateway", "'store' is not a level"),
            ("millrace_store=loud", "log 'millrace_store=loud': "),
            ("info,millrace_store=loud", "; write error, warn, info or debug, or a filter"),
        ] {
            let error = log_filter(filter).err().map(|error| error.to_string()).unwrap_or_default();
            assert!(error.contains(expected), "{filter}: {error}");
        }
    }
}
