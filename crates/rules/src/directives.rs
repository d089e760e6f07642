//! The table of directives outside of statements, with the functions that read them.

use millrace_schema::{SourcePosition, did_you_mean};

use crate::Error;
use crate::parser::RuleParser;
use crate::syntax::{RuleFile, RuleStatement};

/// A directive of rule bases as documented.
#[derive(Debug)]
pub struct RuleDirective {
    /// Name, without its `@`.
    pub name: &'static str,
    /// An example of its use.
    pub usage: &'static str,
    /// Description of its effect.
    pub doc: &'static str,
    /// False for directives that are refused here, which messages do not suggest.
    is_suggested: bool,
}

/// Function that reads the text after a directive; the position is that of its `@`.
type DirectiveReader = fn(&mut RuleParser, &mut RuleFile, &SourcePosition) -> Result<(), Error>;

/// A directive and its reader.
pub(crate) struct DirectiveRow {
    pub(crate) directive: RuleDirective,
    pub(crate) read: DirectiveReader,
}

const fn row(
    name: &'static str,
    usage: &'static str,
    doc: &'static str,
    read: DirectiveReader,
) -> DirectiveRow {
    DirectiveRow { directive: RuleDirective { name, usage, doc, is_suggested: true }, read }
}

const fn refused(
    name: &'static str,
    usage: &'static str,
    doc: &'static str,
    read: DirectiveReader,
) -> DirectiveRow {
    DirectiveRow { directive: RuleDirective { name, usage, doc, is_suggested: false }, read }
}

/// All directives that begin a line.
pub(crate) static DIRECTIVES: [DirectiveRow; 6] = [
    row("default", "@default", "The rule base is applied to every query.", |_, file, position| {
        file.default = Some(position.clone());
        Ok(())
    }),
    row(
        "include",
        "@include(example)",
        "The rules of another rule base, at this place.",
        |parser, file, position| {
            let base = parser.argument("the name of a rule base, as in '@include(example)'")?;
            let base = base.strip_suffix(".sr").unwrap_or(&base).to_owned();
            file.statements.push(RuleStatement::Include { base, position: position.clone() });
            Ok(())
        },
    ),
    row(
        "stemming",
        "@stemming(false)",
        "With `false`, words are equal only as they are written; before all rules.",
        |parser, file, position| {
            is_at_top("stemming", file, position)?;
            match parser.argument("true or false, as in '@stemming(false)'")?.as_str() {
                "true" => file.stemming = true,
                "false" => file.stemming = false,
                other => {
                    let reason = format!("expected @stemming(true) or @stemming(false), found '{other}'");
                    return Err(Error::Invalid { position: position.clone(), reason });
                }
            }
            Ok(())
        },
    ),
    row(
        "language",
        "@language(en)",
        "The language of the words in conditions; before all rules.",
        |parser, file, position| {
            is_at_top("language", file, position)?;
            file.language = Some(parser.argument("the code of a language, as in '@language(en)'")?);
            Ok(())
        },
    ),
    refused("automata", "@automata(brands.fsa)", "An error: automata are not read.", |_, _, position| {
        let reason = "automata are not read here: write what the automaton lists as conditions, as in '[brand] :- sony, dell;'";
        Err(Error::Invalid { position: position.clone(), reason: reason.to_owned() })
    }),
    refused(
        "super",
        "@super",
        "An error outside of conditions. In a condition, `@super` stands for the condition of the same name in an included rule base.",
        |_, _, position| {
            let reason = "@super stands in a condition, as in '[name] :- @super, more;'";
            Err(Error::Invalid { position: position.clone(), reason: reason.to_owned() })
        },
    ),
];

/// The directives of rule bases.
pub fn rule_directives() -> impl Iterator<Item = &'static RuleDirective> {
    DIRECTIVES.iter().map(|row| &row.directive)
}

/// The error for a directive that the table lacks.
pub(crate) fn unknown_directive(name: &str, position: SourcePosition) -> Error {
    let known = || rule_directives().filter(|directive| directive.is_suggested).map(|known| known.name);
    let hint = did_you_mean(name, known());
    let listed: Vec<String> = known().map(|name| format!("@{name}")).collect();
    let reason =
        format!("no directive '@{name}'{hint}: there are {}, and @super in conditions", listed.join(", "));
    Error::Invalid { position, reason }
}

fn is_at_top(name: &str, file: &RuleFile, position: &SourcePosition) -> Result<(), Error> {
    if file.statements.iter().any(|statement| matches!(statement, RuleStatement::Rule(_))) {
        let reason = format!("@{name} stands before all rules: move it to the top of the file");
        return Err(Error::Invalid { position: position.clone(), reason });
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use crate::parser::parse;

    #[test]
    fn every_example_is_read_as_documented() {
        let mut names = std::collections::BTreeSet::new();
        for directive in super::rule_directives() {
            assert!(names.insert(directive.name), "@{} is there twice", directive.name);
            assert!(directive.usage.starts_with(&format!("@{}", directive.name)), "{}", directive.usage);
            let read = parse("rules/a.sr", "a", directive.usage);
            assert_eq!(read.is_err(), directive.doc.starts_with("An error"), "{}", directive.usage);
        }
    }
}
