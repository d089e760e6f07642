//! Markup of query words in document summaries: `<config name='container.qr-searchers'>`.

use roxmltree::Node;

use super::settings::{GivenSetting, ServiceBlock, SettingReader, SettingTable, settings};
use crate::{Error, SummaryMarkup, xml};

const NAME: &str = "container.qr-searchers";

pub(super) static TAG: SettingTable<SettingReader<SummaryMarkup>> = SettingTable {
    block: "tag of container.qr-searchers",
    rows: &[settings! {
        "bold", "<bold><open>[</open><close>]</close></bold>", "Markup of the words that a query matches.", bold;
        "separator", "<separator>...</separator>", "The text in place of what a dynamic summary leaves out; `<sep />` by default.",
            |given, markup| { markup.separator = Some(given.text.to_owned()); Ok(()) };
    }],
};

pub(super) static BOLD: SettingTable<SettingReader<SummaryMarkup>> = SettingTable {
    block: "bold of container.qr-searchers",
    rows: &[settings! {
        "open", "<open>[</open>", "The text before a word; `<hi>` by default.",
            |given, markup| { markup.open = Some(given.text.to_owned()); Ok(()) };
        "close", "<close>]</close>", "The text after a word; `</hi>` by default.",
            |given, markup| { markup.close = Some(given.text.to_owned()); Ok(()) };
    }],
};

/// The tables of this definition, as documented.
pub(super) fn documented() -> Vec<ServiceBlock> {
    vec![TAG.documented(), BOLD.documented()]
}

/// True if this is an element to read, in the places where it counts.
pub(super) fn is_read(node: Node<'_, '_>) -> bool {
    let parent = node.parent().map_or("", |parent| parent.tag_name().name());
    is_config(node) && matches!(parent, "services" | "container" | "search" | "")
}

fn is_config(node: Node<'_, '_>) -> bool {
    node.tag_name().name() == "config" && node.attribute("name") == Some(NAME)
}

/// Markup that the containers inside an element have, or the element for all of them; the last one counts.
pub(super) fn read(parent: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<SummaryMarkup, Error> {
    let mut markup = SummaryMarkup::default();
    let containers = || xml::named(parent, "container");
    let searches = containers().filter_map(|container| xml::child(container, "search"));
    let places = std::iter::once(parent).chain(containers()).chain(searches);
    for config in places.flat_map(xml::elements).filter(|node| is_config(*node)) {
        for setting in xml::elements(config) {
            if setting.tag_name().name() == "tag" {
                TAG.read_elements(setting, &mut markup, warnings, unknown)?;
            } else {
                GivenSetting::element(setting, warnings).warn_of_no_effect("only its <tag> is read");
            }
        }
    }
    Ok(markup)
}

/// Reads `<bold>`.
fn bold(given: &mut GivenSetting<'_, '_, '_>, markup: &mut SummaryMarkup) -> Result<(), Error> {
    BOLD.read_elements(given.node, markup, given.warnings, unknown)
}

/// Message about a setting that the tables lack.
fn unknown(name: &str, hint: &str) -> String {
    format!("unknown setting <{name}> of {NAME}{hint}")
}
