//! Indexes over attributes of every kind: what a build reads from columns, and what is taken from changes, is
//! what the documents say.

use millrace_document::DocumentValue::{
    Array, Bool, Byte, Double, Float, Int, Long, Map, String as Text, Struct, WeightedSet,
};

use super::*;

const NOTE: &str = "schema note { document note {
  struct person {
    field name type string {}
    field age type int {}
  }
  field flag type bool { indexing: attribute }
  field small type byte { indexing: attribute }
  field count type int { indexing: attribute }
  field date type long { indexing: attribute }
  field half type float16 { indexing: attribute }
  field score type float { indexing: attribute }
  field exact type double { indexing: attribute }
  field name type string { indexing: attribute }
  field code type string { indexing: attribute
    match: cased }
  field tags type array<string> { indexing: attribute }
  field sizes type array<int> { indexing: attribute }
  field weights type weightedset<string> { indexing: attribute }
  field scores type map<string, int> { indexing: summary
    struct-field key { indexing: attribute }
    struct-field value { indexing: attribute } }
  field people type array<person> { indexing: summary
    struct-field name { indexing: attribute }
    struct-field age { indexing: attribute } }
} }";

/// Each kind as the first key, and some together.
const KEYS: [&str; 18] = [
    "<key field='flag'/>",
    "<key field='small' order='descending'/>",
    "<key field='count'/>",
    "<key field='date'/>",
    "<key field='half'/>",
    "<key field='score'/><key field='id.group'/>",
    "<key field='exact' order='descending'/>",
    "<key field='name'/><stored field='name'/>",
    "<key field='code'/><stored field='score'/><stored field='flag'/>",
    "<key field='tags' order='descending'/><key field='count'/>",
    "<key field='sizes'/>",
    "<key field='weights'/>",
    "<key field='scores.key'/>",
    "<key field='scores.value'/>",
    "<key field='people.name'/>",
    "<key field='people.age'/>",
    "<key field='id.group'/><key field='tags'/>",
    "<key field='count'/><key field='code'/><key field='sizes'/><stored field='date'/>",
];

fn services() -> String {
    let indexes = KEYS.iter().enumerate().map(|(number, keys)| {
        let selection = if number % 5 == 3 { " selection='note.count &gt; 2'" } else { "" };
        format!("<index name='i{number}' document='note' build='deferred'{selection}>{keys}</index>")
    });
    format!(
        "<services version='1.0'><content id='c' version='1.0'>
<documents><document type='note' mode='streaming'/></documents>
<index-service>{}</index-service></content></services>",
        indexes.collect::<String>()
    )
}

fn text(text: &str) -> DocumentValue {
    Text(text.to_owned())
}

/// Values of the fields, of which documents have one or none each.
fn values() -> Vec<(&'static str, Vec<DocumentValue>)> {
    let numbers = [0, 1, -1, 5, 127, -128];
    let floats = [0.0, -0.0, 1.5, -2.25, f32::NAN, f32::INFINITY];
    let texts = ["", "a", "Ä", "ä b", "\u{e9}t\u{e9} 😀", "A"];
    let long = "x".repeat(3000);
    let person = |name: &str, age: Option<i32>| {
        let age = age.map(|age| ("age".into(), Int(age)));
        Struct(std::iter::once(("name".into(), text(name))).chain(age).collect())
    };
    vec![
        ("flag", vec![Bool(true), Bool(false)]),
        ("small", numbers.map(|number| Byte(number as i8)).to_vec()),
        ("count", numbers.map(Int).into_iter().chain([Int(i32::MIN)]).collect()),
        ("date", numbers.map(|number| Long(i64::from(number))).into_iter().chain([Long(i64::MAX)]).collect()),
        ("half", vec![Float(0.5), Float(-0.0), Float(-3.0)]),
        ("score", floats.map(Float).to_vec()),
        ("exact", floats.map(|number| Double(f64::from(number))).into_iter().chain([Double(0.1)]).collect()),
        ("name", texts.map(text).into_iter().chain([text(&long)]).collect()),
        ("code", texts.map(text).into_iter().chain([text(&long)]).collect()),
        ("tags", vec![Array(vec![text("b"), text("a"), text("B")]), Array(vec![text("c")])]),
        ("sizes", vec![Array(numbers.map(Int).to_vec()), Array(vec![Int(1), Int(1)])]),
        ("weights", vec![WeightedSet(vec![(text("a"), 1), (text("b"), -7)])]),
        (
            "scores",
            vec![Map(vec![(text("k"), Int(3)), (text("K"), Int(-3))]), Map(vec![(text("z"), Int(0))])],
        ),
        ("people", vec![Array(vec![person("Ann", Some(7)), person("bob", None)])]),
    ]
}

#[test]
fn indexes_have_the_keys_that_the_documents_say() {
    let application = application_of(&services(), NOTE);
    let directory = tempfile::tempdir().expect("a directory");
    let node = IndexedStore::with(directory, Arc::new(SystemClock), &application);
    let values = values();
    let first = now() - HOUR_US;
    let version = |number: usize, round: usize| {
        let id = format!("id:n:note:{}:{number}", ["g=ann", "n=7", "", "g=bob"][number % 4]);
        // A field has another of its values, or none, in most of the documents.
        let value = |(at, (name, of_field)): (usize, &(&'static str, Vec<DocumentValue>))| {
            let value = of_field.get((number / (at % 3 + 1) + round + at) % (of_field.len() + 1));
            value.map(|value| (Arc::<str>::from(*name), value.clone()))
        };
        let fields = values.iter().enumerate().filter_map(value).collect();
        // The last round is of now, so that its versions are not late ones.
        let begins = if round < 3 { first } else { now() };
        let timestamp = Timestamp(begins + (round * 1000 + number) as u64);
        DocumentVersion::put(&Document { id: parsed(&id), fields }, timestamp)
    };
    // Two segments that share documents, and rows of the tail.
    node.apply_all((0..120).map(|number| version(number, 0)).collect());
    node.store.seal().expect("the store seals");
    node.apply_all((60..180).map(|number| version(number, 1)).collect());
    node.store.seal().expect("the store seals");
    node.apply_all((150..200).map(|number| version(number, 2)).collect());
    let removed = parsed("id:n:note:g=ann:0");
    node.apply_all(vec![DocumentVersion::removal(removed, Timestamp(first + 5000))]);
    // Changes that wait until now are not for deferred indexes, so that the documents come from the store.
    node.indexes.inner().settle().expect("they are taken in");
    for number in 0..KEYS.len() {
        assert!(node.indexes.build(&format!("i{number}")).expect("it is there"));
    }
    let check = |when: &str| {
        node.work();
        for (number, keys) in KEYS.iter().enumerate() {
            let found = node.indexes.verify(&format!("i{number}")).expect("it is compared");
            assert_eq!((found.documents, found.differences), (199, 0), "{when}: {keys}: {found:?}");
            assert!(found.entries > 30, "{when}: {keys}: {found:?}");
        }
    };
    check("built");
    node.apply_all((20..60).map(|number| version(number, 3)).collect());
    check("changed");
}

/// The directories of indexes, and the messages of placed ones, have these hashes: with others all indexes
/// are built again at an upgrade.
#[test]
fn definitions_have_hashes_that_stay() {
    let expected: [u64; KEYS.len()] = [
        0x5b27_7e1c_3aa4_ad0e,
        0xc0a0_f03f_63dd_5d4c,
        0xf2e5_1c12_f6fd_43ab,
        0xda45_8547_9e10_8d72,
        0x2a27_9676_246b_9e41,
        0xb7a3_0e2a_ab98_5463,
        0xffaf_e47c_3a4d_79b3,
        0x5a86_c7b6_583e_6b19,
        0x420c_fdf6_6d05_75c0,
        0x33f4_e074_0a3a_e9a7,
        0x6157_1bf1_0226_0774,
        0x2b58_9640_0d66_ca30,
        0x2c80_27ad_90da_2633,
        0xa7bc_d982_bc19_42a1,
        0x1865_8962_1bcd_0e9a,
        0x9e29_9f62_dbd4_bae3,
        0x7fa0_26f8_09b4_4cec,
        0x3dbc_d415_46f2_a933,
    ];
    let definitions = defined(&application_of(&services(), NOTE));
    assert_eq!(definitions.len(), KEYS.len());
    for (number, (keys, expected)) in KEYS.iter().zip(expected).enumerate() {
        let definition = definitions.iter().find(|definition| definition.name() == format!("i{number}"));
        let hash = definition.expect("it is declared").hash;
        assert_eq!(hash, expected, "{keys}: {hash:#018x} builds the index again");
    }
}
