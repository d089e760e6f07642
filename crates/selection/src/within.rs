//! Selections where a group is implied, and ids are shown without it.

use millrace_document::DocumentGroup;

use crate::DocumentSelection;
use crate::expression::IdLiteral;

impl DocumentSelection {
    /// Text of the selection where a group is implied: ids, and patterns of ids, that have no group have this
    /// one. Regular expressions and functions of ids concern complete ids.
    pub fn text_within(&self, group: &DocumentGroup) -> String {
        let (mut text, mut end) = (String::with_capacity(self.text.len()), 0);
        for literal in &self.id_literals {
            // A text on the left of `in` is compared several times.
            if literal.range.start < end {
                continue;
            }
            if let Some(filled) = literal.within(group) {
                text.push_str(&self.text[end..literal.range.start]);
                push_quoted(&mut text, &filled);
                end = literal.range.end;
            }
        }
        text.push_str(&self.text[end..]);
        text
    }
}

impl DocumentSelection {
    /// Text of the selection for the documents of one group, if it names no groups, and asks for none of
    /// other groups. `true`, which asks for all documents, does.
    pub fn text_of_group(&self, group: &DocumentGroup) -> Option<String> {
        let names_other_groups =
            self.selects_all() || self.foreign_group_condition(std::slice::from_ref(group)).is_some();
        if names_other_groups || self.groups().is_some() {
            return None;
        }
        let mut text = String::new();
        match group {
            DocumentGroup::None => return None,
            DocumentGroup::Number(number) => text.push_str(&format!("id.user == {number}")),
            DocumentGroup::Name(name) => {
                text.push_str("id.group == ");
                push_quoted(&mut text, name);
            }
        }
        text.push_str(&format!(" and ({})", self.text));
        // The text of a number can be one that a selection cannot have.
        let restricted = DocumentSelection::parse(&text).ok()?;
        restricted.groups().filter(|groups| groups.iter().eq([group])).map(|_| text)
    }
}

impl IdLiteral {
    /// The id with the group; `None` if it is not an id without a group.
    fn within(&self, group: &DocumentGroup) -> Option<String> {
        let (before, name) = self.text.split_once("::")?;
        let colons = before.matches(':').count();
        // In a pattern, an asterisk stands for the namespace and the type together, too.
        let is_whole = colons == 2 || (self.is_pattern && colons == 1 && before.ends_with('*'));
        let names_group = before.split(':').any(|part| part.starts_with("g=") || part.starts_with("n="));
        let is_filled = before.starts_with("id:") && is_whole && !(self.is_pattern && names_group);
        is_filled.then(|| format!("{before}:{group}:{name}"))
    }
}

fn push_quoted(out: &mut String, text: &str) {
    out.push('"');
    for letter in text.chars() {
        if matches!(letter, '"' | '\\') {
            out.push('\\');
        }
        out.push(letter);
    }
    out.push('"');
}
