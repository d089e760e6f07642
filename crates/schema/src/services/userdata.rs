//! Version that an application has by its author's count:
//! `<config name='container.handler.observability.application-userdata'>`.

use roxmltree::Node;

use super::settings::{SettingReader, SettingTable, settings};
use crate::{Error, xml};

const NAME: &str = "container.handler.observability.application-userdata";

pub(super) static SETTINGS: SettingTable<SettingReader<String>> = SettingTable {
    block: "Settings of container.handler.observability.application-userdata",
    rows: &[settings! {
        "version", "<version>42</version>", "The version of the application, as `/ApplicationStatus` shows it.",
            |given, version| { given.text.clone_into(version); Ok(()) };
    }],
};

/// True if this is an element to read, in the places where it counts.
pub(super) fn is_read(node: Node<'_, '_>) -> bool {
    let parent = node.parent().map_or("", |parent| parent.tag_name().name());
    is_config(node) && matches!(parent, "services" | "container" | "")
}

fn is_config(node: Node<'_, '_>) -> bool {
    node.tag_name().name() == "config" && node.attribute("name") == Some(NAME)
}

/// The version that the containers inside an element have, or the element for all of them; the last one
/// counts.
pub(super) fn read(parent: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<String, Error> {
    let mut version = String::new();
    let places = std::iter::once(parent).chain(xml::named(parent, "container"));
    let unknown = |name: &str, hint: &str| format!("unknown setting <{name}> of {NAME}{hint}");
    for config in places.flat_map(xml::elements).filter(|node| is_config(*node)) {
        SETTINGS.read_elements(config, &mut version, warnings, unknown)?;
    }
    Ok(version)
}
