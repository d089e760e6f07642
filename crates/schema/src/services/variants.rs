//! `deploy:…` attributes: elements of some deployments only.

use std::collections::BTreeMap;

use roxmltree::Node;

use super::FILE;
use crate::{Error, xml};

/// Conditions, with their values here: those of Vespa on machines of one's own, where nothing has tags.
const DEPLOYMENT: [(&str, &str); 6] = [
    ("environment", "prod"),
    ("region", "default"),
    ("instance", "default"),
    ("application", "default"),
    ("cloud", "default"),
    ("tags", ""),
];

/// Returns the text without the elements of other deployments, and without those that elements with more
/// conditions, and of the same name and id, take the place of.
///
/// # Errors
/// The text is not well-formed.
pub(super) fn select(text: &str) -> Result<String, Error> {
    let document = xml::parse(FILE, text)?;
    let mut others = Vec::new();
    find(document.root_element(), &mut others);
    let mut selected = String::with_capacity(text.len());
    let mut end = 0;
    for node in others {
        let range = node.range();
        selected.push_str(&text[end..range.start]);
        end = range.end;
        selected.push_str(&xml::skipped(&text[range]));
    }
    selected.push_str(&text[end..]);
    Ok(selected)
}

/// Collects the elements below `parent` that are left out, in their order.
fn find<'a, 'i>(parent: Node<'a, 'i>, others: &mut Vec<Node<'a, 'i>>) {
    let mut largest: BTreeMap<_, usize> = BTreeMap::new();
    for child in xml::elements(parent) {
        if let Some(count) = conditions(child) {
            let largest = largest.entry(identity(child)).or_default();
            *largest = count.max(*largest);
        }
    }
    for child in xml::elements(parent) {
        let count = conditions(child);
        if count.is_some() && count == largest.get(&identity(child)).copied() {
            find(child, others);
        } else {
            others.push(child);
        }
    }
}

/// Name and id of an element: elements with the same ones are variants of each other.
fn identity<'a>(node: Node<'a, '_>) -> (&'a str, Option<&'a str>) {
    (node.tag_name().name(), node.attribute("id").or(node.attribute("idref")))
}

/// Number of conditions of an element; `None` if one of them does not hold here.
fn conditions(node: Node<'_, '_>) -> Option<usize> {
    let mut count = 0;
    for attribute in node.attributes().filter(|given| matches!(given.namespace(), Some("vespa" | "?"))) {
        let Some((_, here)) = DEPLOYMENT.iter().find(|(name, _)| *name == attribute.name()) else { continue };
        if !attribute.value().split_whitespace().any(|value| value == *here) {
            return None;
        }
        count += 1;
    }
    Some(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_those_of_this_deployment() {
        for (given, expected) in [
            ("<a n='1' d:environment='dev'/><a n='2' d:environment='test prod'/>", "2"),
            ("<a n='1'/><a n='2' d:environment='prod'/>", "2"),
            ("<a n='1'/><a n='2' d:environment='dev'/><a n='3'/>", "1 3"),
            ("<a n='1' d:environment='prod'/><a n='2' d:environment='prod' d:region='default'/>", "2"),
            ("<a n='1'/><a n='2' d:environment='prod' d:region='aws-us-east-1c'/>", "1"),
            ("<a n='1' d:instance='default'/><a n='2' d:application='default' d:cloud='default'/>", "2"),
            ("<a n='1' d:tags='x y'/><a n='2'/>", "2"),
            ("<a id='x' n='1'/><a id='y' n='2' d:environment='prod'/>", "1 2"),
            ("<a n='1' d:environment='prod'><b n='2'/><b n='3' d:instance='alpha'/></a><b n='4'/>", "1 2 4"),
            ("<a n='1' d:environment='dev'><b n='2'/></a>", ""),
            ("<a n='1' d:other='x'/>", "1"),
        ] {
            let text = format!("<services xmlns:d='vespa'>\n{given}\n<end/></services>");
            let selected = select(&text).expect("it is well-formed");
            let document = xml::parse(FILE, &selected).expect("it still is");
            let numbers: Vec<&str> =
                document.descendants().filter_map(|element| element.attribute("n")).collect();
            assert_eq!(numbers.join(" "), expected, "{given}: {selected}");
            let end = selected.find("<end/>").expect("it stays");
            assert_eq!(xml::position(FILE, &selected, end).line, 3, "{given}");
        }
    }
}
