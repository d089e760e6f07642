use std::time::Duration;

use crate::http::whole;
use crate::{DownloadFailure, Error, OutboundHttp};

/// Returns the text at an address, of at most `bytes_max` bytes, if it comes within `timeout`.
///
/// # Errors
/// [`Error::Download`]: the address may not be connected to, or does not answer with a text in time.
pub fn fetch_text(
    http: &OutboundHttp,
    url: &str,
    bytes_max: usize,
    timeout: Duration,
) -> Result<String, Error> {
    let (client, address) = (http.clone(), url.to_owned());
    let exchange = async move {
        let response = client.get(&address).await?;
        let answer = whole(response, bytes_max).await;
        let answer = answer.map_err(|fault| DownloadFailure::Broken(fault.to_string()))?;
        let text = String::from_utf8(answer.body.to_vec());
        text.map_err(|_| DownloadFailure::Broken("it is not UTF-8 text".to_owned()))
    };
    // A timer needs the runtime on which it is polled.
    let bounded = async move { tokio::time::timeout(timeout, exchange).await };
    let outcome = match http.wait(bounded) {
        Some(Ok(outcome)) => outcome,
        Some(Err(_)) => Err(DownloadFailure::Silent(timeout.as_secs())),
        None => Err(DownloadFailure::Stopping),
    };
    outcome.map_err(|reason| Error::Download { url: url.to_owned(), reason })
}
