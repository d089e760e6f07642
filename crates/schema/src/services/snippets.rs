//! Size of dynamic summaries: `<config name='vespa.config.search.summary.juniperrc'>`.

use roxmltree::Node;

use super::{FILE, number};
use crate::suggest::did_you_mean;
use crate::{Error, SnippetLengths, SnippetSettings, xml};

const NAME: &str = "vespa.config.search.summary.juniperrc";

/// Settings with an effect.
const LENGTHS: &[&str] = &["max_matches", "length", "surround_max", "min_length", "prefix"];

/// Settings of an algorithm that is not used here.
const WITHOUT_EFFECT: &[&str] =
    &["winsize", "winsize_fallback_multiplier", "max_match_candidates", "stem_min_length", "stem_max_extend"];

/// True if this is the element to read.
pub(super) fn is_config(node: Node<'_, '_>) -> bool {
    node.tag_name().name() == "config" && node.attribute("name") == Some(NAME)
}

/// Settings of a content cluster, or of services.xml for all of them.
pub(super) fn read(cluster: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<SnippetSettings, Error> {
    let mut snippets = SnippetSettings::default();
    let around = cluster.parent().into_iter().flat_map(xml::elements);
    for config in around.chain(xml::elements(cluster)).filter(|node| is_config(*node)) {
        for setting in xml::elements(config) {
            if setting.tag_name().name() == "override" {
                overrides(setting, &mut snippets, warnings)?;
            } else {
                length(setting, &mut snippets.usual, &["override"], warnings)?;
            }
        }
    }
    Ok(snippets)
}

/// `<override>`: a list of `<item>`, or one element for each entry with `operation='append'`.
fn overrides(
    node: Node<'_, '_>,
    snippets: &mut SnippetSettings,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let items: Vec<Node<'_, '_>> = xml::named(node, "item").collect();
    for item in if items.is_empty() { vec![node] } else { items } {
        let Some(field) = xml::child(item, "fieldname") else {
            return xml::invalid(FILE, item, "an <override> needs <fieldname>, the name of its field");
        };
        let mut lengths = SnippetLengths::default();
        for setting in xml::elements(item).filter(|setting| *setting != field) {
            length(setting, &mut lengths, &["fieldname"], warnings)?;
        }
        snippets.fields.insert(xml::content(field).to_owned(), lengths);
    }
    Ok(())
}

/// Reads one setting; `others` are further names that may stand beside it.
fn length(
    setting: Node<'_, '_>,
    lengths: &mut SnippetLengths,
    others: &[&str],
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let text = xml::content(setting);
    match setting.tag_name().name() {
        "max_matches" => lengths.max_matches = Some(number(setting, text)?),
        "length" => lengths.length = Some(number(setting, text)?),
        "surround_max" => lengths.surround_max = Some(number(setting, text)?),
        "min_length" => lengths.min_length = Some(number(setting, text)?),
        "prefix" => lengths.prefix = Some(number(setting, text)?),
        name if WITHOUT_EFFECT.contains(&name) => {
            let place = xml::place(FILE, setting);
            warnings.push(format!(
                "{place}: <{name}> has no effect: words are matched as the query matches them"
            ));
        }
        name => {
            let known = || LENGTHS.iter().chain(others).chain(WITHOUT_EFFECT).copied();
            let hint = did_you_mean(name, known());
            let reason = format!("unknown setting <{name}> of {NAME}{hint}");
            return xml::invalid(FILE, setting, reason);
        }
    }
    Ok(())
}
