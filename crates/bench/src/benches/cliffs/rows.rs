//! The rows of the table: a query, and the plain loop that does the same.

use std::collections::{HashMap, HashSet};

use memchr::memmem::Finder;

use super::documents::{CELLS, CHUNKS, METRICS, PlainColumns, TOPICS, VALUES, topic_name, value_name};
use crate::application::{vector_json, word};
use crate::random::BenchRandom;

/// A query and its plain loop.
pub(super) struct CliffRow<'a> {
    pub name: String,
    /// Parameters of the request, without group and summary.
    pub parameters: Vec<(&'static str, String)>,
    pub plain: PlainLoop<'a>,
}

/// Loop over plain columns.
pub(super) enum PlainLoop<'a> {
    /// Counts the documents that the query finds.
    Count(Box<dyn Fn() -> u64 + 'a>),
    /// Computes what the query computes; its return value is not compared.
    Compute(Box<dyn Fn() -> u64 + 'a>),
    /// Reads the bytes of a field's column.
    Read(String),
}

impl PlainLoop<'_> {
    /// Name of the limit in the table.
    pub fn name(&self) -> &'static str {
        match self {
            PlainLoop::Count(_) | PlainLoop::Compute(_) => "plain loop",
            PlainLoop::Read(_) => "memory read",
        }
    }
}

impl<'a> CliffRow<'a> {
    /// A query that matches nothing.
    pub fn empty() -> Self {
        CliffRow::matching("nothing", "false", || 0)
    }

    /// A condition, with the number of documents that it matches.
    fn matching(name: &str, condition: &str, count: impl Fn() -> u64 + 'a) -> Self {
        CliffRow {
            name: format!("match: {name}"),
            parameters: vec![
                ("yql", format!("select * from mail where {condition}")),
                ("ranking", "unranked".to_owned()),
            ],
            plain: PlainLoop::Count(Box::new(count)),
        }
    }

    /// A query for all documents, with the end of its YQL, its rank profile and input.
    fn over_all(
        name: String,
        end: &str,
        profile: &str,
        input: Option<(&'static str, String)>,
        compute: impl Fn() -> u64 + 'a,
    ) -> Self {
        let mut parameters =
            vec![("yql", format!("select * from mail where true {end}")), ("ranking", profile.to_owned())];
        parameters.extend(input);
        CliffRow { name, parameters, plain: PlainLoop::Compute(Box::new(compute)) }
    }
}

/// All rows.
pub(super) fn all(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    let mut rows = single_values(plain);
    rows.extend(words(plain));
    rows.extend(collections(plain));
    rows.extend(rankings(plain));
    rows.extend(late_interactions(plain));
    rows.extend(nested_rankings(plain));
    rows.extend(orders_and_groups(plain));
    rows.extend(vectors());
    rows
}

fn count(documents: impl Iterator<Item = bool>) -> u64 {
    documents.filter(|matches| *matches).count() as u64
}

fn single_values(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    let wanted: Vec<i64> = (0..100).map(|value| value * 7).collect();
    let list = wanted.iter().map(i64::to_string).collect::<Vec<_>>().join(", ");
    let ranges = (0..50).map(|at| format!("range(number, {}, {})", at * 20, at * 20 + 3));
    let ranges = ranges.collect::<Vec<_>>().join(" or ");
    let names: Vec<String> = (0..20).map(|value| value_name(value * 31)).collect();
    let quoted = names.iter().map(|name| format!("\"{name}\"")).collect::<Vec<_>>().join(", ");
    let names: HashSet<Vec<u8>> = names.into_iter().map(String::into_bytes).collect();
    vec![
        CliffRow::matching("long = value", "number = 7", || count(plain.numbers.iter().map(|it| *it == 7))),
        CliffRow::matching("range of a long", "range(number, 100, 200)", || {
            count(plain.numbers.iter().map(|it| (100..=200).contains(it)))
        }),
        CliffRow::matching("long in 100 values", &format!("number in ({list})"), move || {
            count(plain.numbers.iter().map(|it| wanted.binary_search(it).is_ok()))
        }),
        CliffRow::matching("any of 50 ranges of a long", &ranges, || {
            count(plain.numbers.iter().map(|it| *it < 1_000 && it % 20 < 4))
        }),
        CliffRow::matching("range of a double", "price > 0.9", || {
            count(plain.prices.iter().map(|it| *it > 0.9))
        }),
        CliffRow::matching("string = value", &format!("label contains \"{}\"", value_name(7)), || {
            let name = value_name(7);
            count(plain.labels.iter().map(|it| it == name.as_bytes()))
        }),
        CliffRow::matching("string in 20 values", &format!("label in ({quoted})"), {
            let names = names.clone();
            move || count(plain.labels.iter().map(|it| names.contains(it)))
        }),
        CliffRow::matching("array of strings in 20 values", &format!("tags in ({quoted})"), move || {
            let document = |at| PlainColumns::elements(at).any(|at| names.contains(plain.tags.get(at)));
            count((0..plain.numbers.len()).map(document))
        }),
        CliffRow::matching("prefix of a string", "label contains ({prefix: true}\"value00\")", || {
            count(plain.labels.iter().map(|it| it.starts_with(b"value00")))
        }),
        CliffRow::matching("part of a string", "label contains ({substring: true}\"e00\")", || {
            let finder = Finder::new("e00");
            count(plain.labels.iter().map(|it| finder.find(it).is_some()))
        }),
        CliffRow::matching("regular expression of a string", "label matches \"e0.7$\"", || {
            let is_it = |text: &[u8]| matches!(text, [.., b'e', b'0', _, b'7']);
            count(plain.labels.iter().map(is_it))
        }),
        CliffRow {
            plain: PlainLoop::Compute(Box::new(|| {
                let (latitude, longitude) = (10.0_f64.to_radians(), 20.0_f64.to_radians());
                count(plain.spots.iter().map(|(lat, lon)| {
                    let (lat, lon) =
                        ((f64::from(*lat) / 1e6).to_radians(), (f64::from(*lon) / 1e6).to_radians());
                    let half = |angle: f64| (angle / 2.0).sin().powi(2);
                    half(lat - latitude) + lat.cos() * latitude.cos() * half(lon - longitude) < 0.006
                }))
            })),
            ..CliffRow::matching("circle", "geoLocation(spot, 10.0, 20.0, \"1000 km\")", || 0)
        },
    ]
}

fn words(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    let is_word = |text: &[u8], word: &str| {
        Finder::new(word).find_iter(text).any(|at| {
            let end = at + word.len();
            (at == 0 || text[at - 1] == b' ') && (end == text.len() || text[end] == b' ')
        })
    };
    let many: Vec<String> = (0..20).map(|number| word(2_000 + number * 17)).collect();
    let any = many.iter().map(|word| format!("body contains \"{word}\"")).collect::<Vec<_>>().join(" or ");
    let (rare, part) = (word(700), word(700)[1..].to_owned());
    let substring = format!("body contains ({{substring: true}}\"{part}\")");
    let (end, narrow_part) = (word(700)[2..].to_owned(), part.clone());
    let suffix = format!("body contains ({{suffix: true}}\"{end}\")");
    let narrowed = format!("price > 0.99 and {substring}");
    vec![
        CliffRow::matching("word", &format!("body contains \"{rare}\""), move || {
            count(plain.bodies.iter().map(|text| is_word(text, &rare)))
        }),
        CliffRow::matching("part of words", &substring, move || {
            let finder = Finder::new(&part);
            count(plain.bodies.iter().map(|text| finder.find(text).is_some()))
        }),
        CliffRow::matching("end of words", &suffix, move || {
            let finder = Finder::new(&end);
            let is_end = |text: &[u8], at: usize| text.get(at).is_none_or(|next| *next == b' ');
            let has = |text: &[u8]| finder.find_iter(text).any(|at| is_end(text, at + end.len()));
            count(plain.bodies.iter().map(has))
        }),
        CliffRow::matching("part of words, where one in a hundred is left", &narrowed, move || {
            let finder = Finder::new(&narrow_part);
            let texts = plain.bodies.iter().zip(&plain.prices);
            count(texts.map(|(text, price)| *price > 0.99 && finder.find(text).is_some()))
        }),
        CliffRow::matching("any of 20 words", &any, move || {
            count(plain.bodies.iter().map(|text| many.iter().any(|word| is_word(text, word))))
        }),
    ]
}

fn collections(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    let documents = plain.numbers.len();
    let any_element = move |is_it: &dyn Fn(usize) -> bool| {
        count((0..documents).map(|at| PlainColumns::elements(at).any(is_it)))
    };
    let name = value_name(7);
    let tag = move |at: usize| plain.tags.get(at) == b"value0007";
    let both = move |at: usize| tag(at) && plain.marks[at] > 500;
    vec![
        CliffRow::matching("array of strings = value", &format!("tags contains \"{name}\""), move || {
            any_element(&tag)
        }),
        CliffRow::matching("prefix in an array", "tags contains ({prefix: true}\"value00\")", move || {
            any_element(&|at| plain.tags.get(at).starts_with(b"value00"))
        }),
        CliffRow::matching("regular expression in an array", "tags matches \"ue0.7\"", move || {
            let is_it = |text: &[u8]| matches!(text, [_, _, _, b'u', b'e', b'0', _, b'7', ..]);
            any_element(&|at| is_it(plain.tags.get(at)))
        }),
        CliffRow::matching("array of ints = value", "marks = 7", move || {
            any_element(&|at| plain.marks[at] == 7)
        }),
        CliffRow::matching("range in an array of ints", "range(marks, 100, 110)", move || {
            any_element(&|at| (100..=110).contains(&plain.marks[at]))
        }),
        CliffRow::matching("weighted set = value", &format!("weights contains \"{name}\""), move || {
            any_element(&tag)
        }),
        CliffRow::matching("key of a map = value", &format!("props.key contains \"{name}\""), move || {
            any_element(&tag)
        }),
        CliffRow::matching(
            "entry of a map",
            &format!("props contains sameElement(key contains \"{name}\", value > 500)"),
            move || any_element(&both),
        ),
        CliffRow::matching(
            "member of structs = value",
            &format!("people.name contains \"{name}\""),
            move || any_element(&tag),
        ),
        CliffRow::matching(
            "element of structs",
            &format!("people contains sameElement(name contains \"{name}\", age > 500)"),
            move || any_element(&both),
        ),
    ]
}

fn rankings(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    let weights: HashMap<u32, f32> = (0..8).map(|topic| (topic * 13, 0.5 + topic as f32)).collect();
    let cells: Vec<String> =
        weights.iter().map(|(topic, weight)| format!("{}:{weight}", topic_name(*topic))).collect();
    let vector = BenchRandom::new(3).direction(CELLS);
    let set: Vec<String> =
        (0..20).map(|value| format!("\"{}\":{}", value_name(value * 3), value + 1)).collect();
    let dot_product = format!("dotProduct(weights, {{{}}})", set.join(", "));
    let wanted: HashMap<String, i64> =
        (0..20).map(|value| (value_name(value * 3), value as i64 + 1)).collect();
    let input = Some(("input.query(q)", vector_json(&vector)));
    let best = move || {
        let mut best = f32::MIN;
        for chunk in plain.chunks.as_chunks::<CELLS>().0 {
            best = best.max(chunk.iter().zip(&vector).map(|(a, b)| a * b).sum());
        }
        best.to_bits().into()
    };
    let dot = move || {
        let product = |at: usize| {
            let text = std::str::from_utf8(plain.tags.get(at)).unwrap_or_default();
            wanted.get(text).map_or(0, |weight| weight * i64::from(plain.marks[at]))
        };
        count((0..plain.numbers.len()).map(|at| PlainColumns::elements(at).map(product).sum::<i64>() != 0))
    };
    vec![
        CliffRow::over_all("rank: two attributes".to_owned(), "", "sum", None, || {
            let scores =
                plain.numbers.iter().zip(&plain.prices).map(|(number, price)| *number as f64 * 0.5 + price);
            scores.fold(f64::MIN, f64::max).to_bits()
        }),
        CliffRow::over_all(
            "rank: mapped tensor of 8 cells".to_owned(),
            "",
            "topics",
            Some(("input.query(t)", format!("{{{}}}", cells.join(",")))),
            move || {
                let of_document = |topics: &[(u32, f32); TOPICS]| {
                    topics
                        .iter()
                        .map(|(topic, cell)| weights.get(topic).map_or(0.0, |weight| weight * cell))
                        .sum()
                };
                let scores = plain.topics.as_chunks::<TOPICS>().0.iter().map(of_document);
                scores.fold(f32::MIN, f32::max).to_bits().into()
            },
        ),
        CliffRow::over_all(format!("rank: best of {CHUNKS} chunks"), "", "best_chunk", input, best),
        CliffRow {
            name: "rank: dotProduct of a weighted set".to_owned(),
            parameters: vec![
                ("yql", format!("select * from mail where {dot_product}")),
                ("ranking", "set".to_owned()),
            ],
            plain: PlainLoop::Count(Box::new(dot)),
        },
    ]
}

/// Number of vectors of a query for late interaction.
const QUERY_VECTORS: usize = 8;

/// Several vectors of a query with those of each document, and cells of mapped tensors by their size.
fn late_interactions(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    fn row<'a>(
        plain: &'a PlainColumns,
        (name, profile): (&str, &str),
        pair: impl Fn(f32, f32) -> f32 + 'a,
        combine: impl Fn([f32; CHUNKS]) -> f32 + 'a,
    ) -> CliffRow<'a> {
        let mut random = BenchRandom::new(5);
        let vectors: Vec<Vec<f32>> = (0..QUERY_VECTORS).map(|_| random.direction(CELLS)).collect();
        let blocks = vectors.iter().enumerate().map(|(at, vector)| format!("{at}:{}", vector_json(vector)));
        let input = format!("{{{}}}", blocks.collect::<Vec<_>>().join(","));
        let of_document = move |at: usize| -> f32 {
            let chunks = plain.chunks_of(at).as_chunks::<CELLS>().0;
            let of_vector = |vector: &Vec<f32>| {
                let mut sums = [0.0; CHUNKS];
                for (sum, chunk) in sums.iter_mut().zip(chunks) {
                    *sum = vector.iter().zip(chunk).map(|(a, b)| pair(*a, *b)).sum();
                }
                combine(sums)
            };
            vectors.iter().map(of_vector).sum()
        };
        let compute = move || {
            let scores = (0..plain.numbers.len()).map(&of_document);
            scores.fold(f32::MIN, f32::max).to_bits().into()
        };
        let input = Some(("input.query(l)", input));
        CliffRow::over_all(format!("rank: {name}"), "", profile, input, compute)
    }
    let distance = |a: f32, b: f32| (a - b) * (a - b);
    let nearest = |sums: [f32; CHUNKS]| sums.map(f32::sqrt).into_iter().fold(f32::MAX, f32::min);
    let largest = |topics: &[(u32, f32); TOPICS]| {
        let mut cells = topics.map(|(_, cell)| cell);
        cells.sort_unstable_by(|a, b| b.total_cmp(a));
        cells[..3].iter().sum::<f32>()
    };
    vec![
        row(
            plain,
            ("mean of late interaction", "late_mean"),
            |a, b| a * b,
            |sums| sums.iter().sum::<f32>() / CHUNKS as f32,
        ),
        row(plain, ("distances of late interaction", "late_distance"), distance, nearest),
        CliffRow::over_all("rank: three largest cells".to_owned(), "", "top_topics", None, move || {
            let scores = plain.topics.as_chunks::<TOPICS>().0.iter().map(largest);
            scores.fold(f32::MIN, f32::max).to_bits().into()
        }),
    ]
}

/// Part of the output that an element of a weighted set gives.
type ElementTerm = Box<dyn Fn(&[u8], i32) -> i64>;

/// Features of collections, positions and texts.
fn nested_rankings(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    let of_elements = |of: fn(&[i32]) -> i64| {
        move || {
            let elements = plain.marks.chunks(PlainColumns::elements(0).len());
            elements.map(of).max().unwrap_or(0) as u64
        }
    };
    let set: HashMap<String, i64> = (0..20).map(|value| (value_name(value * 3), value as i64 + 1)).collect();
    let of_structs = set.clone();
    let cells: Vec<String> = set.iter().map(|(label, cell)| format!("{label}:{cell}")).collect();
    let of_texts = move |of: ElementTerm| {
        move || {
            let document = |at: usize| {
                PlainColumns::elements(at).map(|at| of(plain.tags.get(at), plain.marks[at])).sum::<i64>()
            };
            (0..plain.numbers.len()).map(document).max().unwrap_or(0) as u64
        }
    };
    let wanted = value_name(7).into_bytes();
    let weight = Box::new(move |text: &[u8], mark: i32| if text == wanted { i64::from(mark) } else { 0 });
    let product = |set: HashMap<String, i64>| {
        Box::new(move |text: &[u8], mark: i32| {
            let text = std::str::from_utf8(text).unwrap_or_default();
            set.get(text).map_or(0, |cell| cell * i64::from(mark))
        })
    };
    fn row<'a>(
        name: &str,
        profile: &str,
        input: Option<(&'static str, String)>,
        compute: impl Fn() -> u64 + 'a,
    ) -> CliffRow<'a> {
        CliffRow::over_all(format!("rank: {name}"), "", profile, input, compute)
    }
    let vector = Some(("rankproperty.dotProduct.v", "[1 2 3 4 5]".to_owned()));
    let dot = of_elements(|marks| marks.iter().zip(1..).map(|(mark, by)| i64::from(*mark) * by).sum());
    let sparse = Some(("input.query(s)", format!("{{{}}}", cells.join(","))));
    let away = move || {
        let radians = |(lat, lng): (i32, i32)| (f64::from(lat) * 1e-6, f64::from(lng) * 1e-6);
        let spots = plain.spots.iter().map(|spot| radians(*spot));
        let distance = |(lat, lng): (f64, f64)| {
            let (a, b) = (lat.to_radians(), 10_f64.to_radians());
            let (across, along) = (((a - b) / 2.0).sin(), ((lng - 20.0).to_radians() / 2.0).sin());
            (across * across + a.cos() * b.cos() * along * along).sqrt().asin()
        };
        spots.map(distance).fold(f64::MAX, f64::min).to_bits()
    };
    vec![
        row("first of an array", "first_mark", None, of_elements(|marks| i64::from(marks[0]))),
        row("number of elements", "count", None, of_elements(|marks| marks.len() as i64)),
        row("weight in a set", "weight", None, of_texts(weight)),
        row("dotProduct of an array", "marks_product", vector, dot),
        row("tensor of a weighted set", "set_tensor", sparse.clone(), of_texts(product(set))),
        row("tensor of structs", "struct_tensor", sparse, of_texts(product(of_structs))),
        CliffRow {
            name: "rank: distance of a position".to_owned(),
            parameters: vec![
                (
                    "yql",
                    "select * from mail where rank(true, geoLocation(spot, 10.0, 20.0, \"1 km\"))".to_owned(),
                ),
                ("ranking", "away".to_owned()),
            ],
            plain: PlainLoop::Compute(Box::new(away)),
        },
        row(
            "hash of a string",
            "label_hash",
            None,
            Box::new(|| {
                let hash = |text: &[u8]| {
                    text.iter()
                        .fold(0_u64, |hash, byte| (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
                };
                plain.labels.iter().map(hash).max().unwrap_or(0)
            }),
        ),
    ]
}

fn orders_and_groups(plain: &PlainColumns) -> Vec<CliffRow<'_>> {
    vec![
        order("long", "number", || {
            tenth(plain.numbers.iter().enumerate().map(|(at, number)| (*number as u64, at)).collect())
        }),
        order("double", "price", || {
            tenth(plain.prices.iter().enumerate().map(|(at, price)| (price.to_bits(), at)).collect())
        }),
        order("string", "label", || {
            let mut texts: Vec<&[u8]> = plain.labels.iter().collect();
            let last = texts.len().min(10).saturating_sub(1);
            texts.select_nth_unstable(last).1.len() as u64
        }),
        CliffRow {
            parameters: vec![
                ("yql", "select * from mail where true".to_owned()),
                ("ranking", "unranked".to_owned()),
                ("sorting", "+uca(label,en)".to_owned()),
            ],
            ..order("string in a locale", "label", || {
                let mut texts: Vec<&[u8]> = plain.labels.iter().collect();
                let last = texts.len().min(10).saturating_sub(1);
                texts.select_nth_unstable(last).1.len() as u64
            })
        },
        order("array of ints", "marks", || {
            let marks = plain.marks.chunks(PlainColumns::elements(0).len());
            let least = marks.map(|marks| marks.iter().min().map_or(0, |mark| *mark as u64));
            tenth(least.enumerate().map(|(at, mark)| (mark, at)).collect())
        }),
        order("array of strings", "tags", || {
            let first = |at| PlainColumns::elements(at).map(|at| plain.tags.get(at)).min();
            let mut texts: Vec<_> = (0..plain.numbers.len()).map(first).collect();
            let last = texts.len().min(10).saturating_sub(1);
            texts.select_nth_unstable(last).1.map_or(0, |text| text.len() as u64)
        }),
        group("long", "group(number)", || largest_of_numbers(plain.numbers.iter().copied())),
        group("double", "group(price)", || {
            largest_of_numbers(plain.prices.iter().map(|price| price.to_bits() as i64))
        }),
        group("string", "group(label)", || largest_of_texts(plain.labels.iter())),
        group("array of strings", "group(tags)", || largest_of_texts(plain.tags.iter())),
        group("array of ints", "group(marks)", || {
            largest_of_numbers(plain.marks.iter().map(|it| i64::from(*it)))
        }),
        group("members of structs", "group(people.name)", || largest_of_texts(plain.tags.iter())),
        group("keys of maps", "group(props.key)", || largest_of_texts(plain.tags.iter())),
        group("two strings joined", "group(strcat(label, \"-\", label))", || {
            let joined = plain.labels.iter().map(|label| [label, b"-", label].concat());
            let joined: Vec<Vec<u8>> = joined.collect();
            largest_of_texts(joined.iter().map(Vec::as_slice))
        }),
        group("string, filtered", "group(label) filter(regex(\"value00.*\", label))", || {
            largest_of_texts(plain.labels.iter().filter(|label| label.starts_with(b"value00")))
        }),
    ]
}

fn order<'a>(name: &str, key: &str, compute: impl Fn() -> u64 + 'a) -> CliffRow<'a> {
    CliffRow::over_all(format!("order: {name}"), &format!("order by {key}"), "unranked", None, compute)
}

fn group<'a>(name: &str, list: &str, compute: impl Fn() -> u64 + 'a) -> CliffRow<'a> {
    let end = format!("limit 0 | all({list} max(10) order(-count()) each(output(count())))");
    CliffRow::over_all(format!("group: {name}"), &end, "unranked", None, compute)
}

/// The tenth smallest number, each with its document.
fn tenth(mut numbers: Vec<(u64, usize)>) -> u64 {
    let last = numbers.len().min(10).saturating_sub(1);
    numbers.select_nth_unstable(last).1.0
}

/// Size of the largest group of equal texts.
fn largest_of_texts<'a>(texts: impl Iterator<Item = &'a [u8]>) -> u64 {
    let mut counts: HashMap<&[u8], u64> = HashMap::with_capacity(VALUES as usize);
    texts.for_each(|text| *counts.entry(text).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}

/// Size of the largest group of equal numbers.
fn largest_of_numbers(numbers: impl Iterator<Item = i64>) -> u64 {
    let mut counts: HashMap<i64, u64> = HashMap::with_capacity(VALUES as usize);
    numbers.for_each(|number| *counts.entry(number).or_default() += 1);
    counts.into_values().max().unwrap_or(0)
}

fn vectors() -> Vec<CliffRow<'static>> {
    let vector = BenchRandom::new(9).direction(CELLS);
    let bits: Vec<String> = vector.iter().map(|cell| format!("{}", (cell * 100.0) as i8)).collect();
    let row = |field: String, input: &str, value: String| CliffRow {
        name: format!("nearest: {field}"),
        parameters: vec![
            ("yql", format!("select * from mail where {{targetHits: 10}}nearestNeighbor({field}, {input})")),
            ("ranking", "nearest".to_owned()),
            (if input == "b" { "input.query(b)" } else { "input.query(q)" }, value),
        ],
        plain: PlainLoop::Read(field),
    };
    let fields = METRICS.map(|metric| match metric {
        "hamming" => row(format!("v_{metric}"), "b", format!("[{}]", bits.join(","))),
        _ => row(format!("v_{metric}"), "q", vector_json(&vector)),
    });
    fields.into_iter().chain([row("chunks".to_owned(), "q", vector_json(&vector))]).collect()
}
