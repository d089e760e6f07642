//! Tables of settings in services.xml: the names of elements and attributes, their documentation, and the
//! functions that read them.
//!
//! Settings are read by their table alone, so that the names in messages and in the reference are those that
//! are read.

use roxmltree::Node;

use super::{FILE, number, one_of_these};
use crate::suggest::did_you_mean;
use crate::{Error, xml};

/// A setting in services.xml as documented.
#[derive(Debug)]
pub struct ServiceSetting {
    /// Name of the element or attribute.
    pub name: &'static str,
    /// An example of its use.
    pub usage: &'static str,
    /// Description of its effect.
    pub doc: &'static str,
}

/// The settings of one element, component or config definition.
#[derive(Debug)]
pub struct ServiceBlock {
    /// Name of the block, such as `federationoptions`.
    pub name: &'static str,
    /// Its settings, in the order of messages.
    pub settings: Vec<&'static ServiceSetting>,
}

/// A setting and its reader.
pub(super) struct SettingRow<R> {
    pub setting: ServiceSetting,
    pub read: R,
}

/// The settings of a block, with readers of type `R`. Several blocks may share rows.
pub(super) struct SettingTable<R: 'static> {
    /// Name of the block in the reference.
    pub block: &'static str,
    pub rows: &'static [&'static [SettingRow<R>]],
}

impl<R> SettingTable<R> {
    fn all(&self) -> impl Iterator<Item = &'static SettingRow<R>> + use<R> {
        self.rows.iter().flat_map(|rows| *rows)
    }

    /// Names of the settings.
    pub(super) fn names(&self) -> impl Iterator<Item = &'static str> + use<R> {
        self.all().map(|row| row.setting.name)
    }

    /// The reader of a setting.
    pub(super) fn find(&self, name: &str) -> Option<&'static R> {
        self.all().find(|row| row.setting.name == name).map(|row| &row.read)
    }

    /// The known name nearest to an unknown one, as the end of a message.
    pub(super) fn hint(&self, name: &str) -> String {
        did_you_mean(name, self.names())
    }

    /// The block as documented.
    pub(super) fn documented(&self) -> ServiceBlock {
        ServiceBlock { name: self.block, settings: self.all().map(|row| &row.setting).collect() }
    }
}

/// Rows of a [`SettingTable`]: the name, an example, a description, and the reader.
macro_rules! settings {
    ($($name:literal, $usage:literal, $doc:literal, $read:expr;)*) => {
        &[$($crate::services::settings::SettingRow {
            setting: $crate::services::settings::ServiceSetting { name: $name, usage: $usage, doc: $doc },
            read: $read,
        }),*]
    };
}

pub(super) use settings;

/// A setting as it stands in services.xml.
pub(super) struct GivenSetting<'a, 'i, 'w> {
    /// The element, or the one that has the attribute.
    pub node: Node<'a, 'i>,
    /// Name of the element or attribute.
    pub name: &'a str,
    /// Text of the element, or value of the attribute.
    pub text: &'a str,
    pub warnings: &'w mut Vec<String>,
}

/// Entries of a list in a config definition: each `<item>`, or the element itself, which stands for one entry
/// with `operation='append'`; an empty element has none.
pub(super) fn entries<'a, 'i>(list: Node<'a, 'i>) -> Vec<Node<'a, 'i>> {
    let items: Vec<Node<'_, '_>> = xml::named(list, "item").collect();
    if items.is_empty() && xml::elements(list).next().is_some() { vec![list] } else { items }
}

/// Function that reads one setting into the parts of its block.
pub(super) type SettingReader<T> = fn(&mut GivenSetting<'_, '_, '_>, &mut T) -> Result<(), Error>;

impl<'a, 'i, 'w> GivenSetting<'a, 'i, 'w> {
    /// The setting in an element.
    pub(super) fn element(node: Node<'a, 'i>, warnings: &'w mut Vec<String>) -> Self {
        GivenSetting { node, name: node.tag_name().name(), text: xml::content(node), warnings }
    }

    /// The number in an element.
    pub(super) fn number<T: std::str::FromStr>(&self) -> Result<Option<T>, Error> {
        number(self.node, self.text).map(Some)
    }

    /// Text of an element; `None` if it is empty.
    pub(super) fn text(&self) -> Option<String> {
        (!self.text.is_empty()).then(|| self.text.to_owned())
    }

    /// Value of an element, which must be one of these.
    pub(super) fn one_of<T: Copy>(&self, values: &[(&str, T)]) -> Result<Option<T>, Error> {
        one_of_these(self.node, values).map(Some)
    }

    /// Warns that the setting has no effect, for this reason.
    pub(super) fn warn_of_no_effect(&mut self, reason: &str) {
        let position = xml::position_of(FILE, self.node);
        self.warnings.push(format!("{position}: <{}> has no effect: {reason}", self.name));
    }
}

impl<T> SettingTable<SettingReader<T>> {
    /// Reads the child elements of a node. The first of several with one name counts. `unknown` makes the
    /// message about an element that the table lacks from its name and a hint.
    pub(super) fn read_elements(
        &self,
        node: Node<'_, '_>,
        parts: &mut T,
        warnings: &mut Vec<String>,
        unknown: impl Fn(&str, &str) -> String,
    ) -> Result<(), Error> {
        let mut seen: Vec<&str> = Vec::new();
        for child in xml::elements(node) {
            let name = child.tag_name().name();
            if !seen.contains(&name) {
                seen.push(name);
                self.read_element(child, parts, warnings, &unknown)?;
            }
        }
        Ok(())
    }

    /// Reads one element.
    pub(super) fn read_element(
        &self,
        element: Node<'_, '_>,
        parts: &mut T,
        warnings: &mut Vec<String>,
        unknown: impl Fn(&str, &str) -> String,
    ) -> Result<(), Error> {
        let name = element.tag_name().name();
        match self.find(name) {
            Some(read) => read(&mut GivenSetting::element(element, warnings), parts),
            None => xml::invalid(FILE, element, unknown(name, &self.hint(name))),
        }
    }
}
