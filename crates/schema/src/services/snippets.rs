//! Size of dynamic summaries: `<config name='vespa.config.search.summary.juniperrc'>`.

use roxmltree::Node;

use super::{FILE, number};
use crate::{Error, SnippetLengths, xml};

const NAME: &str = "vespa.config.search.summary.juniperrc";

/// True if this is the element to read.
pub(super) fn is_config(node: Node<'_, '_>) -> bool {
    node.tag_name().name() == "config" && node.attribute("name") == Some(NAME)
}

/// Settings of a content cluster, or of services.xml for all of them.
pub(super) fn read(cluster: Node<'_, '_>) -> Result<SnippetLengths, Error> {
    let mut snippets = SnippetLengths::default();
    let around = cluster.parent().into_iter().flat_map(xml::elements);
    for config in around.chain(xml::elements(cluster)).filter(|node| is_config(*node)) {
        for setting in xml::elements(config) {
            let text = xml::content(setting);
            match setting.tag_name().name() {
                "max_matches" => snippets.max_matches = Some(number(setting, text)?),
                "length" => snippets.length = Some(number(setting, text)?),
                "surround_max" => snippets.surround_max = Some(number(setting, text)?),
                "min_length" => snippets.min_length = Some(number(setting, text)?),
                "prefix" => snippets.prefix = Some(number(setting, text)?),
                name => {
                    let reason = format!(
                        "unknown setting <{name}>: expected max_matches, length, surround_max, min_length or prefix"
                    );
                    return xml::invalid(FILE, setting, reason);
                }
            }
        }
    }
    Ok(snippets)
}
