//! Keys beside the values that they stand for: their order, and the conditions that ranges answer.

use std::cmp::Ordering;
use std::collections::BTreeSet;
use std::sync::Arc;

use millrace_document::DocumentValue;
use millrace_keys::{
    CUT_LENGTH, ComponentCondition, ComponentValue, DocumentKeys, ELEMENTS_MAX, Error, KeyBound,
    KeyComponent, KeyLayout, KeyType, KeyWriter, KeyedValue, overflow_range,
};
use millrace_linguistics::{FieldAnalyzer, TextLanguage};
use proptest::prelude::*;

fn component(key_type: KeyType) -> KeyComponent {
    KeyComponent { key_type, analyzer: None, descending: false, several: false }
}

fn layout(components: Vec<KeyComponent>) -> KeyLayout {
    KeyLayout::new(components).expect("the components are those of a key")
}

fn only(layout: &KeyLayout, values: &[&DocumentValue]) -> Vec<u8> {
    let lists: Vec<Vec<&DocumentValue>> = values.iter().map(|value| vec![*value]).collect();
    let mut keys = layout.entries(&lists).keys;
    assert_eq!(keys.len(), 1);
    keys.remove(0)
}

fn values(key_type: KeyType) -> BoxedStrategy<DocumentValue> {
    let near = prop_oneof![Just(i64::MIN), Just(i64::MAX), -3..3_i64, any::<i64>()];
    let floats = prop_oneof![
        Just(0.0),
        Just(f64::INFINITY),
        Just(f64::NEG_INFINITY),
        Just(f64::MIN_POSITIVE),
        any::<f64>().prop_filter("NaN and -0 are compared apart", |number| {
            !number.is_nan() && number.to_bits() != (-0.0_f64).to_bits()
        })
    ];
    match key_type {
        KeyType::Bool => any::<bool>().prop_map(DocumentValue::Bool).boxed(),
        KeyType::Integer => near.prop_map(DocumentValue::Long).boxed(),
        KeyType::Float => floats.prop_map(DocumentValue::Double).boxed(),
        KeyType::Text => "[\\x00\\x01a-cÿ]{0,4}".prop_map(DocumentValue::String).boxed(),
    }
}

fn compare(one: &DocumentValue, other: &DocumentValue) -> Ordering {
    match (one, other) {
        (DocumentValue::Bool(one), DocumentValue::Bool(other)) => one.cmp(other),
        (DocumentValue::Long(one), DocumentValue::Long(other)) => one.cmp(other),
        (DocumentValue::Double(one), DocumentValue::Double(other)) => {
            one.partial_cmp(other).expect("no value is NaN")
        }
        (DocumentValue::String(one), DocumentValue::String(other)) => one.as_bytes().cmp(other.as_bytes()),
        _ => unreachable!("both have the type of the component"),
    }
}

fn component_value(value: &DocumentValue) -> ComponentValue {
    match value {
        DocumentValue::Bool(value) => ComponentValue::Bool(*value),
        DocumentValue::Long(number) => ComponentValue::Integer(*number),
        DocumentValue::Double(number) => ComponentValue::Float(*number),
        DocumentValue::String(text) => ComponentValue::Text(text.clone()),
        _ => unreachable!("it has the type of a component"),
    }
}

const TYPES: [KeyType; 4] = [KeyType::Bool, KeyType::Integer, KeyType::Float, KeyType::Text];

fn some_type() -> impl Strategy<Value = KeyType> {
    (0..TYPES.len()).prop_map(|number| TYPES[number])
}

fn two_pairs() -> impl Strategy<Value = ([KeyType; 2], [bool; 2], [DocumentValue; 2], [DocumentValue; 2])> {
    (some_type(), some_type()).prop_flat_map(|(first, second)| {
        let pair = || [values(first), values(second)];
        (Just([first, second]), any::<[bool; 2]>(), pair(), pair())
    })
}

/// Plain form of the writer: the keys of a document, put together of those of single values.
fn plain_keys(components: &[KeyComponent], values: &[Vec<&DocumentValue>]) -> Vec<Vec<u8>> {
    if values[0].is_empty() {
        return Vec::new();
    }
    if values.iter().any(|values| values.len() > ELEMENTS_MAX) {
        return vec![overflow_range().low];
    }
    let mut keys = BTreeSet::from([vec![0x10]]);
    let mut has_negative_zero = false;
    for (position, (component, values)) in components.iter().zip(values).enumerate() {
        let alone = layout(vec![component.clone()]);
        let mut parts = BTreeSet::new();
        for value in values {
            let is_negative_zero = component.key_type == KeyType::Float
                && matches!(value, DocumentValue::Double(number) if number.to_bits() == 1 << 63);
            has_negative_zero |= is_negative_zero;
            let zero = DocumentValue::Double(0.0);
            let value = if is_negative_zero { &zero } else { *value };
            parts.extend(alone.entries(&[vec![value]]).keys.iter().map(|key| key[1..].to_vec()));
        }
        if parts.is_empty() && position > 0 {
            parts.insert(vec![if component.descending { !1 } else { 1 }]);
        }
        keys = keys.iter().flat_map(|key| parts.iter().map(|part| [&key[..], part].concat())).collect();
    }
    let end: &[u8] = if has_negative_zero { &[0x30] } else { &[] };
    keys.into_iter().map(|key| [&key[..], end].concat()).collect()
}

/// Values of two components of some documents: of any type, also of others than the component's.
fn documents() -> impl Strategy<Value = Vec<[Vec<DocumentValue>; 2]>> {
    let negative_zero = Just(DocumentValue::Double(-0.0)).boxed();
    let other = Just(DocumentValue::Raw(vec![1])).boxed();
    let of_types = TYPES.map(values).into_iter().chain([negative_zero, other]);
    let value = proptest::strategy::Union::new(of_types);
    let list = prop::collection::vec(value, 0..4);
    prop::collection::vec([list.clone(), list], 1..6)
}

proptest! {
    #[test]
    fn a_writer_makes_the_keys_of_one_document_after_another(
        types in (some_type(), some_type()),
        descending in any::<[bool; 2]>(),
        documents in documents(),
        several in any::<bool>(),
    ) {
        let several = [several, !several];
        let components: Vec<KeyComponent> = [types.0, types.1].into_iter().zip(descending).zip(several)
            .map(|((key_type, descending), several)| KeyComponent { descending, several, ..component(key_type) })
            .collect();
        let layout = layout(components.clone());
        let mut writer = KeyWriter::default();
        for document in &documents {
            writer.begin();
            for values in document {
                values.iter().for_each(|value| writer.add(&layout, KeyedValue::from(value)));
                writer.next_component(&layout);
            }
            let values = document.iter().map(|values| values.iter().collect());
            let values: Vec<Vec<&DocumentValue>> = values.collect();
            prop_assert_eq!(writer.finish(&layout), plain_keys(&components, &values));
        }
    }

    #[test]
    fn keys_compare_as_their_values((types, descending, one, other) in two_pairs()) {
        let components = types.iter().zip(descending);
        let components = components.map(|(key_type, descending)| KeyComponent { descending, ..component(*key_type) });
        let layout = layout(components.collect());
        let of = |values: &[DocumentValue; 2]| only(&layout, &[&values[0], &values[1]]);
        let expected = (0..2).map(|at| {
            let order = compare(&one[at], &other[at]);
            if descending[at] { order.reverse() } else { order }
        });
        let expected = expected.fold(Ordering::Equal, Ordering::then);
        prop_assert_eq!(of(&one).cmp(&of(&other)), expected);
    }

    #[test]
    fn the_leading_part_of_a_key_is_that_of_its_first_values((types, descending, one, _) in two_pairs()) {
        let components = types.iter().zip(descending);
        let components = components.map(|(key_type, descending)| KeyComponent { descending, ..component(*key_type) });
        let components: Vec<KeyComponent> = components.collect();
        let (both, first) = (layout(components.clone()), layout(components[..1].to_vec()));
        let key = only(&both, &[&one[0], &one[1]]);
        let missing = both.entries(&[vec![&one[0]], Vec::new()]).keys.remove(0);
        let leading = only(&first, &[&one[0]]);
        for key in [&key, &missing] {
            prop_assert_eq!(both.length_of(key, 0), Some(1));
            prop_assert_eq!(both.length_of(key, 1), Some(leading.len()));
            prop_assert_eq!(&key[..leading.len()], &leading[..]);
            prop_assert_eq!(both.length_of(key, 2), Some(key.len()));
            prop_assert_eq!(both.length_of(key, 3), None);
        }
        prop_assert_eq!(both.length_of(&key[..key.len() - 1], 2), None);
        prop_assert_eq!(both.length_of(&overflow_range().low, 1), None);
    }

    #[test]
    fn a_key_has_its_values((types, descending, one, _) in two_pairs()) {
        let components = types.iter().zip(descending);
        let components = components.map(|(key_type, descending)| KeyComponent { descending, ..component(*key_type) });
        let layout = layout(components.collect());
        let key = only(&layout, &[&one[0], &one[1]]);
        let expected: Vec<ComponentValue> = one.iter().map(component_value).collect();
        prop_assert_eq!(layout.values(&key), Some(expected));
        let missing = layout.entries(&[vec![&one[0]], Vec::new()]).keys.remove(0);
        let expected = vec![component_value(&one[0]), ComponentValue::Missing];
        prop_assert_eq!(layout.values(&missing), Some(expected));
        prop_assert_eq!(layout.values(&key[..key.len() - 1]), None);
        prop_assert_eq!(layout.values(&[&key[..], &[0]].concat()), None);
        prop_assert_eq!(layout.values(&overflow_range().low), None);
    }

    #[test]
    fn a_range_has_exactly_the_numbers_between_its_bounds(
        numbers in prop::collection::vec(prop_oneof![-5..5_i64, any::<i64>()], 1..20),
        low in prop_oneof![-5..5_i64, any::<i64>()],
        high in prop_oneof![-5..5_i64, any::<i64>()],
        descending in any::<bool>(),
    ) {
        let layout = layout(vec![KeyComponent { descending, ..component(KeyType::Integer) }]);
        let ranges = layout.ranges(&[ComponentCondition::IntegerRange(low, high)]).expect("it fits the type");
        for number in numbers {
            let key = only(&layout, &[&DocumentValue::Long(number)]);
            prop_assert_eq!(ranges.iter().any(|range| range.contains(&key)), (low..=high).contains(&number));
        }
    }

    #[test]
    fn a_range_has_all_floats_between_its_bounds(
        numbers in prop::collection::vec(values(KeyType::Float), 1..20), low in -9.0..9.0, high in -9.0..9.0,
    ) {
        let layout = layout(vec![component(KeyType::Float)]);
        let bound = |number| KeyBound { number, inclusive: false };
        let range = ComponentCondition::FloatRange(bound(low), bound(high));
        let ranges = layout.ranges(&[range]).expect("it fits the type");
        for value in numbers {
            let DocumentValue::Double(number) = value else { unreachable!("all values are doubles") };
            let found = ranges.iter().any(|range| range.contains(&only(&layout, &[&value])));
            prop_assert_eq!(found, low <= number && number <= high);
        }
    }

    #[test]
    fn texts_are_found_by_their_beginning_and_as_a_whole(
        texts in prop::collection::vec("[\\x00ab]{0,4}", 1..20), wanted in "[\\x00ab]{0,3}", descending in any::<bool>(),
    ) {
        let layout = layout(vec![KeyComponent { descending, ..component(KeyType::Text) }]);
        let prefix = layout.ranges(&[ComponentCondition::Prefix(wanted.clone())]).expect("it fits the type");
        let whole = layout.ranges(&[ComponentCondition::Texts(vec![wanted.clone()])]).expect("it fits the type");
        for text in texts {
            let key = only(&layout, &[&DocumentValue::String(text.clone())]);
            prop_assert_eq!(prefix[0].contains(&key), text.starts_with(&wanted), "{:?}", text);
            prop_assert_eq!(whole[0].contains(&key), text == wanted, "{:?}", text);
        }
    }
}

#[test]
fn a_number_that_is_none_is_above_all_others() {
    let layout = layout(vec![component(KeyType::Float)]);
    let of = |number| only(&layout, &[&DocumentValue::Double(number)]);
    assert!(of(f64::NAN) > of(f64::INFINITY));
    assert_eq!(of(f64::NAN), of(-f64::NAN));
    let values = layout.values(&of(-f64::NAN)).expect("the key has it");
    let [ComponentValue::Float(number)] = values[..] else { unreachable!("the component is a number") };
    assert_eq!(number.to_bits(), f64::NAN.to_bits());
}

#[test]
fn negative_zero_is_found_as_zero_and_is_not_in_the_key() {
    for descending in [false, true] {
        let float = KeyComponent { descending, ..component(KeyType::Float) };
        let layout = layout(vec![float.clone(), float]);
        let (zero, double) = (DocumentValue::Double(0.0), DocumentValue::Double(-0.0));
        let float = DocumentValue::Float(-0.0);
        let key = only(&layout, &[&zero, &zero]);
        assert_eq!(layout.values(&key), Some(vec![ComponentValue::Float(0.0); 2]));
        let bound = KeyBound { number: 0.0, inclusive: true };
        let range = ComponentCondition::FloatRange(bound, bound);
        let ranges = layout.ranges(&[range]).expect("it fits the type");
        for values in [[&double, &zero], [&zero, &double], [&float, &float]] {
            let negative = only(&layout, &values);
            assert_eq!(layout.length_of(&negative, 2), Some(key.len()));
            assert_eq!(negative[..key.len()], key[..], "they are equal");
            assert!(ranges[0].contains(&negative));
            assert_eq!(layout.values(&negative), None);
        }
    }
}

#[test]
fn case_and_accents_are_folded_as_in_matching() {
    let analyzer = Arc::new(FieldAnalyzer::text(TextLanguage::from_tag("en")));
    let layout = layout(vec![KeyComponent { analyzer: Some(analyzer), ..component(KeyType::Text) }]);
    let of = |text: &str| only(&layout, &[&DocumentValue::String(text.to_owned())]);
    assert_eq!(of("Café"), of("cafe"));
    let ranges = layout.ranges(&[ComponentCondition::Texts(vec!["CAFÉ".to_owned()])]).expect("it is text");
    assert!(ranges[0].contains(&of("cafe")));
}

#[test]
fn long_text_is_cut_and_found() {
    let layout = layout(vec![component(KeyType::Text)]);
    let text = |end: &str| DocumentValue::String("x".repeat(CUT_LENGTH) + end);
    let (one, other, exact) = (text("one"), text("other"), text(""));
    let key = only(&layout, &[&one]);
    assert!(key.len() < CUT_LENGTH + 8);
    assert_eq!(key, only(&layout, &[&other]), "the document tells them apart");
    assert_ne!(key, only(&layout, &[&exact]), "the mark tells a cut text from a whole one");
    let DocumentValue::String(wanted) = one else { unreachable!("it is text") };
    let ranges = layout.ranges(&[ComponentCondition::Texts(vec![wanted.clone()])]).expect("it is text");
    assert!(ranges[0].contains(&key));
    let prefix = layout.ranges(&[ComponentCondition::Prefix(wanted)]).expect("it is text");
    assert!(prefix[0].contains(&key));
    assert_eq!(layout.values(&key), None, "the key does not have the text");
    assert!(layout.values(&only(&layout, &[&exact])).is_some());
}

#[test]
fn each_element_has_an_entry_and_too_many_have_one_together() {
    let mut components = vec![component(KeyType::Integer), component(KeyType::Bool)];
    components[0].several = true;
    let layout = layout(components);
    let elements: Vec<DocumentValue> = [7, 3, 7].into_iter().map(DocumentValue::Int).collect();
    let read = DocumentValue::Bool(true);
    let keys = layout.entries(&[elements.iter().collect(), vec![&read]]);
    assert_eq!((keys.keys.len(), keys.overflowed), (2, false));
    let many: Vec<DocumentValue> = (0..=ELEMENTS_MAX as i32).map(DocumentValue::Int).collect();
    let keys = layout.entries(&[many.iter().collect(), Vec::new()]);
    assert!(keys.overflowed);
    assert!(overflow_range().contains(&keys.keys[0]));
    assert!(!layout.ranges(&[]).expect("no condition fits all")[0].contains(&keys.keys[0]));
}

/// Two fields that had several values each by an earlier schema.
#[test]
fn values_of_several_components_make_no_more_keys_than_elements_may() {
    let layout = layout(vec![component(KeyType::Integer), component(KeyType::Integer)]);
    let numbers: Vec<DocumentValue> = (0..101).map(DocumentValue::Int).collect();
    let hundred: Vec<&DocumentValue> = numbers[..100].iter().collect();
    let keys = layout.entries(&[hundred.clone(), hundred.clone()]);
    assert_eq!((keys.keys.len(), keys.overflowed), (ELEMENTS_MAX, false));
    let keys = layout.entries(&[hundred, numbers.iter().collect()]);
    assert_eq!((keys.keys, keys.overflowed), (vec![overflow_range().low], true));
}

#[test]
fn a_document_without_a_first_value_has_no_entry_and_missing_later_values_come_first() {
    let layout = layout(vec![component(KeyType::Integer), component(KeyType::Integer)]);
    let (one, two) = (DocumentValue::Long(1), DocumentValue::Long(i64::MIN));
    assert_eq!(layout.entries(&[Vec::new(), vec![&one]]), DocumentKeys::default());
    let missing = layout.entries(&[vec![&one], Vec::new()]).keys.remove(0);
    assert!(missing < only(&layout, &[&one, &two]));
    let text = DocumentValue::String("of another type".to_owned());
    assert_eq!(layout.entries(&[vec![&text], vec![&one]]), DocumentKeys::default());
}

#[test]
fn conditions_that_do_not_fit_are_refused() {
    let several = KeyComponent { several: true, ..component(KeyType::Text) };
    let refused = KeyLayout::new(vec![several.clone(), several]).err();
    assert_eq!(refused, Some(Error::Several { first: 1, second: 2 }));
    assert_eq!(KeyLayout::new(Vec::new()).err(), Some(Error::Components(0)));
    let layout = layout(vec![component(KeyType::Integer), component(KeyType::Text)]);
    let text = || ComponentCondition::Texts(vec![String::new()]);
    let refused = layout.ranges(&[text()]).expect_err("the component is a number");
    assert_eq!(
        refused.to_string(),
        "component 1 of the key is a whole number, and the condition is about text"
    );
    let range = || ComponentCondition::IntegerRange(1, 2);
    assert_eq!(layout.ranges(&[range(), text()]), Err(Error::Order));
    let many = ComponentCondition::Integers((0..1001).collect());
    assert_eq!(layout.ranges(&[many]), Err(Error::Ranges(1001)));
}
