//! Operators that are conditions.

use super::{KILOMETRES_PER_DEGREE, OperatorCall};
use crate::build::{BuildResult, ItemBuilder, NO_USER_QUERY, check_name};
use crate::item::{NEAR_DISTANCE, TARGET_HITS};
use crate::number_text::in_order;
use crate::syntax::{SyntaxFault, SyntaxForm, SyntaxNode};
use crate::{
    NearestNeighbor, PredicateAttribute, QueryItem, QueryNumber, RangeBound, UserText, WeightedOperator,
};

/// `rank(a, b)`
pub(super) fn rank(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    Ok(QueryItem::Rank(builder.children(call)?))
}

/// `labeled(a, "name", 2.5)`
pub(super) fn labeled(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let [item, label, score] = call.arguments else {
        return Err(SyntaxFault::new(call.at, format!("for example: {}", call.operator.example)));
    };
    Ok(QueryItem::Labeled {
        item: Box::new(builder.item(item, call.scope)?),
        label: builder.text(label)?.text,
        score: builder.number(score)?.as_f64(),
    })
}

/// `weakAnd(a, b)`
pub(super) fn weak_and(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    Ok(QueryItem::WeakAnd {
        children: builder.children(call)?,
        target_hits: builder.target_hits(call.scope)?.unwrap_or(TARGET_HITS),
        annotations: builder.annotations(call.scope)?,
    })
}

/// `nonEmpty(condition)`
pub(super) fn non_empty(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let mut item = builder.item(&call.arguments[0], call.scope)?;
    if let QueryItem::Text(text) = &mut item {
        // Punctuation alone is no word either.
        text.allow_empty = false;
    }
    match item.find_empty() {
        None => Ok(item),
        Some(what) => Err(SyntaxFault::new(call.at, format!("nonEmpty(…) has {what} without text"))),
    }
}

/// `userInput(@text)`
pub(super) fn user_input(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let field = builder.string(call.scope, "defaultIndex")?;
    // Inside `sameElement`, words without a field are those of the element itself.
    let default_field = if call.scope.in_element { "" } else { builder.context.default_field };
    if let Some(field) = &field {
        check_name(field).map_err(|reason| SyntaxFault::new(call.at, reason))?;
    }
    builder.user_text(
        field.as_deref().unwrap_or(default_field),
        &call.arguments[0],
        call.scope,
        builder.context.input_grammar.syntax,
    )
}

/// `userQuery()`. Without words it is left out of the conditions beside it.
pub(super) fn user_query(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let allow_empty = builder.flag(call.scope, "allowEmpty", true)?;
    let text = match builder.context.user_query {
        Some(text) => text,
        None if allow_empty => "",
        None => return Err(SyntaxFault::new(call.at, NO_USER_QUERY)),
    };
    let annotations = builder.annotations(call.scope)?;
    builder.context.copies.take(call.at, text.len() + builder.context.filter.map_or(0, str::len))?;
    builder.count_words(call.at, text, &annotations)?;
    Ok(QueryItem::Text(UserText {
        field: builder.context.default_field.to_owned(),
        text: text.to_owned(),
        grammar: builder.context.query_grammar,
        filter: builder.context.filter.map(str::to_owned),
        allow_empty,
        target_hits: builder.target_hits(call.scope)?.unwrap_or(TARGET_HITS),
        distance: builder.count(call.scope, "distance")?.unwrap_or(NEAR_DISTANCE),
        annotations,
    }))
}

/// `geoBoundingBox(place, south, west, north, east)`
pub(super) fn geo_bounding_box(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let (south, west) = builder.coordinates(&call.arguments[1], &call.arguments[2])?;
    let (north, east) = builder.coordinates(&call.arguments[3], &call.arguments[4])?;
    let corners = [south, west, north, east];
    let field = builder.field(&call.arguments[0])?.0.to_owned();
    Ok(QueryItem::GeoBoundingBox { field, corners, annotations: builder.annotations(call.scope)? })
}

/// `range(year, 2000, 2010)`
pub(super) fn range(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let bounds = builder.string(call.scope, "bounds")?.unwrap_or_else(|| "closed".to_owned());
    let (left_open, right_open) = match bounds.to_ascii_lowercase().as_str() {
        "closed" => (false, false),
        "open" => (true, true),
        "leftopen" => (true, false),
        "rightopen" => (false, true),
        _ => {
            let at = call.scope.annotation("bounds").map_or(call.at, |node| node.at);
            return Err(SyntaxFault::new(
                at,
                format!("bounds is one of closed, open, leftOpen, rightOpen, not {bounds:?}"),
            ));
        }
    };
    let bound = |node: &SyntaxNode, open: bool| -> BuildResult<RangeBound> {
        let number = builder.number(node)?;
        Ok(if open { RangeBound::Exclusive(number) } else { RangeBound::Inclusive(number) })
    };
    let unlimited = |bound: RangeBound| match bound.number() {
        Some(number) if number.is_infinite() => RangeBound::Open,
        _ => bound,
    };
    let (low, high) = in_order(bound(&call.arguments[1], left_open)?, bound(&call.arguments[2], right_open)?);
    let (field, element) = builder.field(&call.arguments[0])?;
    let item = QueryItem::Range {
        field: element.map_or(field.to_owned(), |_| String::new()),
        low: unlimited(low),
        high: unlimited(high),
        hit_limit: builder.hit_limit(call.scope)?,
        annotations: builder.annotations(call.scope)?,
    };
    builder.in_element(field, element, item)
}

/// `wand`, `dotProduct` and `weightedSet` of a field and `{"a": 1, "b": 2}`
pub(super) fn weighted_operator(
    builder: &ItemBuilder<'_>,
    call: &OperatorCall<'_>,
) -> BuildResult<QueryItem> {
    let weights = builder.weighted(&call.arguments[1], call.operator.example)?;
    let mut tokens = Vec::with_capacity(weights.len());
    for (token, weight) in weights {
        if weight.fract() != 0.0 || weight.abs() > f64::from(i32::MAX) {
            return Err(SyntaxFault::new(
                call.arguments[1].at,
                format!("the weight {weight} of {token:?} is not a whole number of 32 bits"),
            ));
        }
        tokens.push((token, weight as i32));
    }
    let operator = match call.operator.name {
        "weightedSet" => WeightedOperator::WeightedSet,
        "dotProduct" => WeightedOperator::DotProduct,
        _ => WeightedOperator::Wand {
            target_hits: builder.target_hits(call.scope)?.unwrap_or(TARGET_HITS),
            score_threshold: builder.float(call.scope, "scoreThreshold")?.unwrap_or(f64::NEG_INFINITY),
        },
    };
    let field = builder.field(&call.arguments[0])?.0.to_owned();
    Ok(QueryItem::Weighted { operator, field, tokens, annotations: builder.annotations(call.scope)? })
}

/// `nearestNeighbor(embedding, q)`
pub(super) fn nearest_neighbor(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    if let (Some(_), Some(total)) =
        (call.scope.annotation("targetHits"), call.scope.annotation("totalTargetHits"))
    {
        return Err(SyntaxFault::new(total.at, "expected targetHits or totalTargetHits, not both"));
    }
    let target_hits = match builder.target_hits(call.scope)? {
        Some(0) | None => {
            return Err(SyntaxFault::new(
                call.at,
                format!("expected targetHits of at least 1; for example: {}", call.operator.example),
            ));
        }
        Some(hits) => hits,
    };
    Ok(QueryItem::NearestNeighbor(NearestNeighbor {
        field: builder.field(&call.arguments[0])?.0.to_owned(),
        query_tensor: builder.text(&call.arguments[1])?.text,
        target_hits,
        distance_threshold: builder.float(call.scope, "distanceThreshold")?,
        annotations: builder.annotations(call.scope)?,
    }))
}

/// `geoLocation(place, 63.5, 10.5, "200 km")`
pub(super) fn geo_location(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let radius = builder.text(&call.arguments[3])?.text;
    let radius_km = kilometres(&radius).ok_or_else(|| {
        let units = "units are km, m, miles, mi, deg, d";
        SyntaxFault::new(
            call.arguments[3].at,
            format!("{radius:?} is not a radius; {units}; for example: {}", call.operator.example),
        )
    })?;
    let (latitude, longitude) = builder.coordinates(&call.arguments[1], &call.arguments[2])?;
    Ok(QueryItem::GeoLocation {
        field: builder.field(&call.arguments[0])?.0.to_owned(),
        latitude,
        longitude,
        radius_km,
        annotations: builder.annotations(call.scope)?,
    })
}

/// `predicate(conditions, {"gender": "female"}, {"age": 20})`, with attributes of some of 64 subqueries in
/// maps: `{"0x3": {"gender": "female"}, "[0, 5]": {"country": "no"}}`
pub(super) fn predicate(builder: &ItemBuilder<'_>, call: &OperatorCall<'_>) -> BuildResult<QueryItem> {
    let (mut attributes, mut ranges) = (Vec::new(), Vec::new());
    each_attribute(call, &call.arguments[1], &mut |name, value, subqueries| {
        let value = builder.text(value)?.text;
        attributes.push(PredicateAttribute { name, value, subqueries });
        Ok(())
    })?;
    each_attribute(call, &call.arguments[2], &mut |name, value, subqueries| match builder.number(value)? {
        QueryNumber::Integer(value) => {
            ranges.push(PredicateAttribute { name, value, subqueries });
            Ok(())
        }
        QueryNumber::Float(_) => Err(SyntaxFault::new(value.at, "expected a whole number")),
    })?;
    Ok(QueryItem::Predicate {
        field: builder.field(&call.arguments[0])?.0.to_owned(),
        attributes,
        ranges,
        annotations: builder.annotations(call.scope)?,
    })
}

/// Receives the name and a value of an attribute, and its subqueries.
type AttributeVisitor<'v> = dyn FnMut(String, &SyntaxNode, u64) -> BuildResult<()> + 'v;

/// Visits the values in a map of attributes; `0`, `void` and `null` stand for an empty one.
fn each_attribute(
    call: &OperatorCall<'_>,
    map: &SyntaxNode,
    visit: &mut AttributeVisitor<'_>,
) -> BuildResult<()> {
    for (key, value) in attribute_entries(call, map)? {
        let SyntaxForm::Map(_) = &value.form else {
            each_value(key, &value, PredicateAttribute::<()>::ALL_SUBQUERIES, visit)?;
            continue;
        };
        let subqueries = predicate_subqueries(&key).ok_or_else(|| {
            let reason = format!(
                "'{key}' names no subqueries: write their bits in hexadecimal, \"0x3\", or their numbers from 0 to 63, \"[0, 1]\""
            );
            SyntaxFault::new(value.at, reason)
        })?;
        for (name, of_subqueries) in attribute_entries(call, &value)? {
            each_value(name, &of_subqueries, subqueries, visit)?;
        }
    }
    Ok(())
}

fn attribute_entries(call: &OperatorCall<'_>, map: &SyntaxNode) -> BuildResult<Vec<(String, SyntaxNode)>> {
    match &map.form {
        SyntaxForm::Map(entries) => Ok(entries.clone()),
        SyntaxForm::Number(QueryNumber::Integer(0)) => Ok(Vec::new()),
        SyntaxForm::Name(none) | SyntaxForm::String(none) if matches!(none.as_str(), "void" | "null") => {
            Ok(Vec::new())
        }
        _ => Err(SyntaxFault::new(
            map.at,
            format!("expected a map, or 0 for none; for example: {}", call.operator.example),
        )),
    }
}

fn each_value(
    name: String,
    value: &SyntaxNode,
    subqueries: u64,
    visit: &mut AttributeVisitor<'_>,
) -> BuildResult<()> {
    match &value.form {
        SyntaxForm::List(values) => {
            // Each value has the name.
            check_name(&name).map_err(|reason| SyntaxFault::new(value.at, reason))?;
            values.iter().try_for_each(|value| visit(name.clone(), value, subqueries))
        }
        _ => visit(name, value, subqueries),
    }
}

/// The bits of subqueries: `0x3`, or `[0, 1]` for the same.
pub(crate) fn predicate_subqueries(key: &str) -> Option<u64> {
    if let Some(bits) = key.strip_prefix("0x") {
        return u64::from_str_radix(bits, 16).ok();
    }
    let numbers = key.strip_prefix('[')?.strip_suffix(']')?;
    numbers.split(',').map(str::trim).filter(|number| !number.is_empty()).try_fold(0, |bits, number| {
        let bit = 1_u64.checked_shl(number.parse().ok()?)?;
        Some(bits | bit)
    })
}

/// Parses a distance with its unit; returns kilometres.
pub(crate) fn kilometres(text: &str) -> Option<f64> {
    const UNITS: [(&str, f64); 6] = [
        ("km", 1.0),
        ("m", 0.001),
        ("miles", 1.609_344),
        ("mi", 1.609_344),
        ("deg", KILOMETRES_PER_DEGREE),
        ("d", KILOMETRES_PER_DEGREE),
    ];
    let text = text.trim();
    let (number, factor) =
        UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(*unit)?, *factor)))?;
    let number: f64 = number.trim().parse().ok()?;
    number.is_finite().then_some(number * factor)
}
