//! Which changes of an application need an explicit permission, since they lose documents or make them unreadable.

use millrace_schema::{Application, Error};

/// Refuses what a change from `before` to `after` would lose, unless validation-overrides.xml of `after` allows it today.
///
/// `today` is in days since 1970-01-01.
pub(super) fn check(before: &Application, after: &Application, today: i64) -> Result<(), Error> {
    let refuse = |id: &'static str, reason: String| match allowed(after, id, today) {
        true => Ok(()),
        false => Err(Error::Override { id, reason }),
    };
    for cluster in &before.content {
        if !after.content.iter().any(|other| other.id == cluster.id) {
            refuse(
                "content-cluster-removal",
                format!(
                    "Content cluster '{}' is removed. This will cause loss of all data in this cluster",
                    cluster.id
                ),
            )?;
        }
    }
    for (name, schema) in &before.schemas {
        let Some(new) = after.schemas.get(name) else {
            refuse(
                "schema-removal",
                format!("Schema '{name}' is removed. This will cause loss of all data in this schema"),
            )?;
            continue;
        };
        for field in schema.document_type.fields() {
            let Some(changed) = new.document_type.field(&field.name) else { continue };
            if changed.data_type != field.data_type {
                refuse(
                    "field-type-change",
                    format!(
                        "Document type '{name}': Field '{}' changed: data type: '{}' -> '{}'",
                        field.name, field.data_type, changed.data_type
                    ),
                )?;
            }
        }
    }
    Ok(())
}

fn allowed(after: &Application, id: &str, today: i64) -> bool {
    let names: &[&str] =
        if id == "schema-removal" { &["schema-removal", "content-type-removal"] } else { &[id] };
    after.overrides.iter().any(|given| names.contains(&given.id.as_str()) && today <= given.until_day)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn application(schema: &str, field: &str, overrides: &str) -> Application {
        let services = format!(
            "<services version='1.0'><container id='c' version='1.0'><search/><document-api/></container>\
             <content id='mail' version='1.0'><redundancy>1</redundancy><documents>\
             <document type='{schema}' mode='streaming'/></documents></content></services>"
        );
        let definition = format!("schema {schema} {{ document {schema} {{ {field} }} }}");
        let mut files = vec![
            ("services.xml".to_owned(), services.into_bytes()),
            (format!("schemas/{schema}.sd"), definition.into_bytes()),
        ];
        if !overrides.is_empty() {
            let text = format!("<validation-overrides>{overrides}</validation-overrides>");
            files.push(("validation-overrides.xml".to_owned(), text.into_bytes()));
        }
        Application::from_files(files.into_iter().collect()).expect("a package that works")
    }

    #[test]
    fn what_loses_data_needs_a_permission() {
        const A: &str = "field a type string { indexing: summary }";
        const A_INT: &str = "field a type int { indexing: summary }";
        const ALLOW: &str = "<allow until='2100-01-01'>field-type-change</allow>";
        const EXPIRED: &str = "<allow until='2001-01-01'>field-type-change</allow>";
        const TODAY: i64 = 20_000;
        #[track_caller]
        fn check_change(schema: &str, field: &str, overrides: &str, expected: Option<&str>) {
            let before = application("note", A, "");
            let got = check(&before, &application(schema, field, overrides), TODAY)
                .err()
                .map(|error| error.to_string());
            match (got, expected) {
                (None, None) => {}
                (Some(got), Some(expected)) if got.contains(expected) => {}
                (got, expected) => panic!("{got:?} is not {expected:?}"),
            }
        }
        check_change("note", A, "", None);
        check_change("note", "", "", None);
        check_change("note", A_INT, "", Some("field-type-change"));
        check_change("note", A_INT, EXPIRED, Some("field-type-change"));
        check_change("note", A_INT, ALLOW, None);
        check_change("page", A, "", Some("schema-removal"));
    }
}
