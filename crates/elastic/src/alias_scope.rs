//! Filters and routing values of the aliases by which a search names its indexes.

use serde_json::{Map, Value, json};

use crate::Error;
use crate::catalog::{CatalogEntries, OpenIndex};
use crate::names::{self, NameOptions};
use crate::query::{self, BoolQuery, SearchQuery};
use crate::search_request::HitSearch;

/// Restricts a search to what its expression shows of each index. An index that is named by aliases alone has
/// the filter and the routing values of these; several aliases together show what one of them shows.
/// Dates in the expression are written out.
///
/// # Errors
/// A filter is malformed.
pub(crate) fn restrict(
    entries: &CatalogEntries,
    expression: &str,
    options: NameOptions,
    indexes: &[OpenIndex],
    search: &mut HitSearch,
) -> Result<(), Error> {
    let mut filters: Vec<Option<Vec<&Value>>> = Vec::with_capacity(indexes.len());
    for index in indexes {
        let aliases = names::aliases_of(entries, expression, options, index);
        filters.push(in_all(&aliases, "filter"));
        if let Some(routing) = in_all(&aliases, "search_routing") {
            let values = routing.into_iter().filter_map(Value::as_str).flat_map(|values| values.split(','));
            let values: Vec<String> = values.map(str::to_owned).collect();
            if !values.is_empty() {
                search.alias_routing.insert(index.entry.name.clone(), values);
            }
        }
    }
    let filter = match filters.as_slice() {
        [] => return Ok(()),
        all if all.iter().all(Option::is_none) => return Ok(()),
        [first, others @ ..] if others.iter().all(|other| other == first) => one_of(first.as_deref())?,
        all => {
            let of_index =
                |(index, filter): (&OpenIndex, &Option<Vec<&Value>>)| -> Result<SearchQuery, Error> {
                    let name = query::parse(&json!({ "term": { "_index": index.entry.name } }))?;
                    Ok(SearchQuery::Bool(BoolQuery {
                        filter: vec![name, one_of(filter.as_deref())?],
                        ..BoolQuery::default()
                    }))
                };
            let should = indexes.iter().zip(all).map(of_index).collect::<Result<Vec<_>, _>>()?;
            SearchQuery::Bool(BoolQuery { should, ..BoolQuery::default() })
        }
    };
    let query = std::mem::replace(&mut search.query, SearchQuery::All);
    let combined = BoolQuery { must: vec![query], filter: vec![filter], ..BoolQuery::default() };
    search.query = SearchQuery::Bool(combined);
    Ok(())
}

/// Values of a member of all aliases; `None` if one does not have it, or there are no aliases.
fn in_all<'i>(aliases: &[&'i Map<String, Value>], member: &str) -> Option<Vec<&'i Value>> {
    let values: Option<Vec<&Value>> = aliases.iter().map(|alias| alias.get(member)).collect();
    values.filter(|values| !values.is_empty())
}

/// Query for what one of some filters finds; all documents without filters.
fn one_of(filters: Option<&[&Value]>) -> Result<SearchQuery, Error> {
    match filters {
        None => Ok(SearchQuery::All),
        Some([filter]) => query::parse(filter),
        Some(filters) => {
            let should = filters.iter().map(|filter| query::parse(filter)).collect::<Result<Vec<_>, _>>()?;
            Ok(SearchQuery::Bool(BoolQuery { should, ..BoolQuery::default() }))
        }
    }
}
