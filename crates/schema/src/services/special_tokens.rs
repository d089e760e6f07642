//! Special tokens of queries: `<config name='vespa.configdefinition.specialtokens'>`.

use millrace_linguistics::SpecialTokens;
use roxmltree::Node;

use super::FILE;
use super::settings::{GivenSetting, ServiceBlock, SettingReader, SettingTable, entries, settings};
use crate::{Error, xml};

const NAME: &str = "vespa.configdefinition.specialtokens";

/// Name of the list that queries use.
const USED: &str = "default";

/// All lists, as they are given.
#[derive(Default)]
pub(super) struct ListsOfTokens {
    names: Vec<String>,
    used: SpecialTokens,
}

pub(super) static LISTS: SettingTable<SettingReader<ListsOfTokens>> = SettingTable {
    block: "Settings of vespa.configdefinition.specialtokens",
    rows: &[settings! {
        "tokenlist", "<tokenlist><item><name>default</name><tokens><item><token>c++</token></item></tokens></item></tokenlist>",
            "Lists of special tokens; queries use the one with the name `default`.", lists;
        "makefsaPath", "<makefsaPath>bin/vespa-makefsa</makefsaPath>", "No effect: tokens are not compiled.",
            |given, _| { given.warn_of_no_effect("tokens are not compiled"); Ok(()) };
    }],
};

/// One list, as it is given.
#[derive(Default)]
pub(super) struct ListOfTokens {
    name: Option<String>,
    tokens: SpecialTokens,
}

pub(super) static LIST: SettingTable<SettingReader<ListOfTokens>> = SettingTable {
    block: "tokenlist of specialtokens",
    rows: &[settings! {
        "name", "<name>default</name>", "Name of the list.",
            |given, list| { list.name = given.text(); Ok(()) };
        "tokens", "<tokens><item><token>c++</token></item></tokens>", "The tokens.", tokens;
    }],
};

/// One token, as it is given.
#[derive(Default)]
pub(super) struct TokenParts {
    text: Option<String>,
    word: Option<String>,
}

pub(super) static TOKEN: SettingTable<SettingReader<TokenParts>> = SettingTable {
    block: "tokens of specialtokens",
    rows: &[settings! {
        "token", "<token>c++</token>", "The text, in any case of letters, that is one word in a query.",
            |given, parts| { parts.text = given.text(); Ok(()) };
        "replace", "<replace>cpp</replace>", "The word in its place; by default the text itself.",
            |given, parts| { parts.word = given.text(); Ok(()) };
    }],
};

/// The tables of this definition, as documented.
pub(super) fn documented() -> Vec<ServiceBlock> {
    vec![LISTS.documented(), LIST.documented(), TOKEN.documented()]
}

/// True if this is an element to read, in the places where it counts.
pub(super) fn is_read(node: Node<'_, '_>) -> bool {
    let parent = node.parent().map_or("", |parent| parent.tag_name().name());
    is_config(node) && matches!(parent, "services" | "container" | "")
}

fn is_config(node: Node<'_, '_>) -> bool {
    node.tag_name().name() == "config" && node.attribute("name") == Some(NAME)
}

/// Tokens of a container cluster: its own, and those of services.xml for all of them.
pub(super) fn read(container: Node<'_, '_>, warnings: &mut Vec<String>) -> Result<SpecialTokens, Error> {
    let mut lists = ListsOfTokens::default();
    let around = container.parent().into_iter().flat_map(xml::elements);
    for config in around.chain(xml::elements(container)).filter(|node| is_config(*node)) {
        for setting in xml::elements(config) {
            LISTS.read_element(setting, &mut lists, warnings, unknown)?;
        }
    }
    Ok(lists.used)
}

/// Message about a setting that the tables lack.
fn unknown(name: &str, hint: &str) -> String {
    format!("unknown setting <{name}> of {NAME}{hint}")
}

/// Reads `<tokenlist>`.
fn lists(given: &mut GivenSetting<'_, '_, '_>, lists: &mut ListsOfTokens) -> Result<(), Error> {
    for entry in entries(given.node) {
        let mut list = ListOfTokens::default();
        for setting in xml::elements(entry) {
            LIST.read_element(setting, &mut list, given.warnings, unknown)?;
        }
        let Some(name) = list.name else {
            let reason = format!("a list of special tokens needs <name>, which is '{USED}' for queries");
            return xml::invalid(FILE, entry, reason);
        };
        if lists.names.contains(&name) {
            let reason =
                format!("there are two lists of special tokens with the name '{name}': put them together");
            return xml::invalid(FILE, entry, reason);
        }
        if name == USED {
            lists.used = list.tokens;
        } else {
            let position = xml::position_of(FILE, entry);
            given.warnings.push(format!(
                "{position}: the list of special tokens '{name}' has no effect: queries use the list '{USED}'"
            ));
        }
        lists.names.push(name);
    }
    Ok(())
}

/// Reads `<tokens>`.
fn tokens(given: &mut GivenSetting<'_, '_, '_>, list: &mut ListOfTokens) -> Result<(), Error> {
    for entry in entries(given.node) {
        let mut parts = TokenParts::default();
        TOKEN.read_elements(entry, &mut parts, given.warnings, unknown)?;
        let Some(text) = parts.text else {
            return xml::invalid(FILE, entry, "a special token needs its text: <token>c++</token>");
        };
        if !list.tokens.add(&text, parts.word.as_deref()) {
            let reason =
                format!("the special token '{text}' is listed twice: case of letters does not count");
            return xml::invalid(FILE, entry, reason);
        }
    }
    Ok(())
}
