//! Sort keys of `order by`.

use super::{BuildContext, BuildResult, ItemBuilder, ROOT};
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{QuerySortKey, SortOrder};

/// The sort key of a name or call with its annotations.
pub(crate) fn sort_key(
    node: &SyntaxNode,
    order: SortOrder,
    context: &BuildContext<'_>,
) -> BuildResult<QuerySortKey> {
    let builder = ItemBuilder { context };
    let scope = &ROOT.inside(node);
    let mut key = from_call(node)?;
    key.order = Some(order);
    if let Some(function) = builder.string(scope, "function")? {
        let mut arguments = Vec::new();
        if let Some(locale) = builder.string(scope, "locale")? {
            arguments.push(locale);
            arguments.extend(builder.string(scope, "strength")?);
        } else if let Some(strength) = scope.annotation("strength") {
            return Err(SyntaxFault::new(
                strength.at,
                "strength needs a locale; for example: {function: \"uca\", locale: \"en_US\", strength: \"PRIMARY\"}name",
            ));
        }
        key.function = Some((function, arguments));
    } else if let Some(locale) = builder.string(scope, "locale")? {
        let strength = builder.string(scope, "strength")?;
        key.function = Some(("uca".to_owned(), std::iter::once(locale).chain(strength).collect()));
    }
    if let Some(policy) = builder.string(scope, "missing")? {
        key.missing = Some((policy, builder.string(scope, "missingValue")?));
    }
    key.check().map_err(|reason| SyntaxFault::new(node.at, reason))
}

/// Parses `field`, `lowercase(field)`, `uca(field, locale, strength)`, `missing(…, first)`.
fn from_call(node: &SyntaxNode) -> BuildResult<QuerySortKey> {
    let name_of = |node: &SyntaxNode| match &node.form {
        SyntaxForm::Name(name) | SyntaxForm::String(name) => Ok(name.clone()),
        SyntaxForm::Number(number) => Ok(number.to_string()),
        _ => Err(SyntaxFault::new(node.at, format!("expected a name, found {}", node.describe()))),
    };
    match &node.form {
        SyntaxForm::Name(field) => {
            Ok(QuerySortKey { field: field.clone(), order: None, function: None, missing: None })
        }
        SyntaxForm::Call(function, arguments)
            if function.eq_ignore_ascii_case("missing") && arguments.len() >= 2 =>
        {
            let mut key = from_call(&arguments[0])?;
            key.missing = Some((name_of(&arguments[1])?, arguments.get(2).map(name_of).transpose()?));
            Ok(key)
        }
        SyntaxForm::Call(function, arguments) if !arguments.is_empty() => {
            let rest = arguments[1..].iter().map(name_of).collect::<BuildResult<_>>()?;
            Ok(QuerySortKey {
                field: name_of(&arguments[0])?,
                order: None,
                function: Some((function.clone(), rest)),
                missing: None,
            })
        }
        _ => Err(SyntaxFault::new(
            node.at,
            format!(
                "expected a field to sort by, found {}; for example: order by date desc",
                node.describe()
            ),
        )),
    }
}
