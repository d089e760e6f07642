//! Size of dynamic summaries: `<config name='vespa.config.search.summary.juniperrc'>`.

use roxmltree::Node;

use super::FILE;
use super::settings::{GivenSetting, SettingReader, SettingRow, SettingTable, entries, settings};
use crate::suggest::did_you_mean;
use crate::{Error, SnippetLengths, SnippetSettings, xml};

const NAME: &str = "vespa.config.search.summary.juniperrc";

/// Settings of all fields, and of one field inside `override`.
static LENGTHS: &[SettingRow<SettingReader<SnippetLengths>>] = settings! {
    "max_matches", "<max_matches>3</max_matches>", "The number of passages around words of the query.",
        |given, lengths| { lengths.max_matches = given.number()?; Ok(()) };
    "length", "<length>256</length>", "The wanted length of a snippet in bytes.",
        |given, lengths| { lengths.length = given.number()?; Ok(()) };
    "surround_max", "<surround_max>128</surround_max>", "The text beside each word of the query, at most.",
        |given, lengths| { lengths.surround_max = given.number()?; Ok(()) };
    "min_length", "<min_length>128</min_length>", "The length below which there are more passages than `max_matches`.",
        |given, lengths| { lengths.min_length = given.number()?; Ok(()) };
    "prefix", "<prefix>true</prefix>", "The beginning of the text is shown where it has no word of the query.",
        |given, lengths| { lengths.prefix = given.number()?; Ok(()) };
    "winsize", "<winsize>200</winsize>", "The length of a text within which words of the query belong together.",
        |given, lengths| { lengths.window = given.number()?; Ok(()) };
    "max_match_candidates", "<max_match_candidates>1000</max_match_candidates>",
        "How many incomplete matches of a condition are followed at a time.",
        |given, lengths| { lengths.max_candidates = given.number()?; Ok(()) };
};

/// Settings without an effect: the first has none in Vespa either, and words are not matched by their
/// beginnings.
static WITHOUT_EFFECT: &[SettingRow<SettingReader<SnippetLengths>>] = settings! {
    "winsize_fallback_multiplier", "<winsize_fallback_multiplier>10.0</winsize_fallback_multiplier>", "No effect.",
        without_effect;
    "stem_min_length", "<stem_min_length>5</stem_min_length>", "No effect.", without_effect;
    "stem_max_extend", "<stem_max_extend>3</stem_max_extend>", "No effect.", without_effect;
};

/// Settings of the config definition.
pub(super) static SETTINGS: SettingTable<SettingReader<SnippetLengths>> = SettingTable {
    block: "Settings of vespa.config.search.summary.juniperrc",
    rows: &[LENGTHS, WITHOUT_EFFECT],
};

/// True if this is an element to read, in the places where it counts.
pub(super) fn is_read(node: Node<'_, '_>) -> bool {
    let parent = node.parent().map_or("", |parent| parent.tag_name().name());
    is_config(node) && matches!(parent, "services" | "content" | "")
}

fn is_config(node: Node<'_, '_>) -> bool {
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
                length(setting, &mut snippets.usual, "override", warnings)?;
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
    for item in entries(node) {
        let Some(field) = xml::child(item, "fieldname") else {
            return xml::invalid(FILE, item, "an <override> needs <fieldname>, the name of its field");
        };
        let mut lengths = SnippetLengths::default();
        for setting in xml::elements(item).filter(|setting| *setting != field) {
            length(setting, &mut lengths, "fieldname", warnings)?;
        }
        snippets.fields.insert(xml::content(field).to_owned(), lengths);
    }
    Ok(())
}

/// Reads one setting; `other` is a further name that may stand beside it.
fn length(
    setting: Node<'_, '_>,
    lengths: &mut SnippetLengths,
    other: &'static str,
    warnings: &mut Vec<String>,
) -> Result<(), Error> {
    let name = setting.tag_name().name();
    let Some(read) = SETTINGS.find(name) else {
        let hint = did_you_mean(name, SETTINGS.names().chain([other]));
        return xml::invalid(FILE, setting, format!("unknown setting <{name}> of {NAME}{hint}"));
    };
    read(&mut GivenSetting::element(setting, warnings), lengths)
}

fn without_effect(given: &mut GivenSetting<'_, '_, '_>, _: &mut SnippetLengths) -> Result<(), Error> {
    given.warn_of_no_effect("words are matched as the query matches them");
    Ok(())
}
