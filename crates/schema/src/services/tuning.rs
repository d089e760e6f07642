//! Limits of a content cluster in services.xml.

use roxmltree::Node;

use super::{FILE, bytes, document_size, number};
use crate::{ContentTuning, Error, xml};

/// Each bucket has files of its own: smaller ones would be mostly overhead.
const BUCKET_DOCUMENTS_MIN: u64 = 1024;
const BUCKET_BYTES_MIN: u64 = 1 << 20;
/// Each bucket has an entry in the store's manifest, even if it has few documents.
const BUCKET_BITS_MAX: u8 = 12;

/// Maximum age and interval in seconds: three thousand years.
const SECONDS_MAX: f64 = 1e11;
/// Maximum `query-timeout` in seconds.
const QUERY_TIMEOUT_MAX_S: f64 = 600.0;

/// Reads the limits of a `<content>`.
pub(super) fn read(node: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<ContentTuning, Error> {
    let mut tuning = ContentTuning {
        document_size_max: xml::at_path(node, "tuning/max-document-size").map(document_size).transpose()?,
        ..ContentTuning::default()
    };
    // If both are set, that of the cluster is used: it is the one that stops feeding.
    for path in ["engine/proton/resource-limits/disk", "tuning/resource-limits/disk"] {
        if let Some(limit) = xml::at_path(node, path) {
            let share: f64 = number(limit, xml::content(limit))?;
            if !(0.0..=1.0).contains(&share) {
                return xml::invalid(FILE, limit, "<disk> is a share between 0 and 1");
            }
            tuning.disk_limit = Some(share);
        }
    }
    let prune = xml::at_path(node, "engine/proton/tuning/searchnode/removed-db/prune");
    let seconds = |name: &str| {
        let element = prune.and_then(|prune| xml::child(prune, name))?;
        Some(whole_seconds(element))
    };
    tuning.removed_age_s = seconds("age").transpose()?;
    tuning.removed_prune_interval_s = seconds("interval").transpose()?;
    if let Some(splitting) = xml::at_path(node, "tuning/bucket-splitting") {
        splitting_limits(splitting, &mut tuning, warnings)?;
    }
    let timeout = xml::at_path(node, "search/query-timeout");
    let older_timeout = xml::at_path(node, "engine/proton/query-timeout");
    if let (Some(_), Some(older)) = (timeout, older_timeout) {
        return xml::invalid(FILE, older, "<search> has a <query-timeout> too: remove this one");
    }
    if let Some(timeout) = timeout.or(older_timeout) {
        let seconds: f64 = number(timeout, xml::content(timeout))?;
        if !(0.0..=QUERY_TIMEOUT_MAX_S).contains(&seconds) {
            return xml::invalid(FILE, timeout, "<query-timeout> is a number of seconds from 0 to 600");
        }
        tuning.query_timeout_s = Some(seconds);
    }
    Ok(tuning)
}

/// A number of seconds, which may have a fraction, as a whole number.
fn whole_seconds(element: Node<'_, '_>) -> Result<u64, Error> {
    let seconds: f64 = number(element, xml::content(element))?;
    if !(0.0..=SECONDS_MAX).contains(&seconds) {
        let reason =
            format!("<{}> is a number of seconds from 0 to {SECONDS_MAX}", element.tag_name().name());
        return xml::invalid(FILE, element, reason);
    }
    Ok(seconds.round() as u64)
}

fn splitting_limits(
    node: Node<'_, '_>,
    tuning: &mut ContentTuning,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let mut at_least = |attribute: &str, least: u64| -> Result<Option<u64>, Error> {
        let Some(text) = node.attribute(attribute) else { return Ok(None) };
        let asked = bytes(node, text)?;
        if asked < least {
            let position = xml::position_of(FILE, node);
            warnings.push(format!(
                "{position}: {attribute}='{text}' is read as {least}: each bucket has files of its own"
            ));
        }
        Ok(Some(asked.max(least)))
    };
    tuning.bucket_documents_max = at_least("max-documents", BUCKET_DOCUMENTS_MIN)?;
    tuning.bucket_bytes_max = at_least("max-size", BUCKET_BYTES_MIN)?;
    if let Some(text) = node.attribute("minimum-bits") {
        let asked: u8 = number(node, text)?;
        if asked > BUCKET_BITS_MAX {
            let position = xml::position_of(FILE, node);
            warnings.push(format!(
                "{position}: minimum-bits='{text}' is read as {BUCKET_BITS_MAX}: documents that need more buckets make them"
            ));
        }
        tuning.bucket_bits_min = Some(asked.min(BUCKET_BITS_MAX));
    }
    Ok(())
}
