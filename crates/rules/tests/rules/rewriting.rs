//! Rules and a query in, the rewritten query out, as text.

use std::collections::BTreeMap;

use millrace_query::simple::{self, SpecialTokenRules, TermEnd};
use millrace_query::{BriefItem, QueryGrammar, QueryItem, TextSyntax, UserText, WordComposite};
use millrace_rules::{QueryRewriting, RewriteStep, RuleBases};
use millrace_schema::{PackageFindings, PackageMistakes};

const FIELDS: [&str; 7] = ["title", "brand", "company", "category", "name", "place", "artist"];

/// Typed text whose words must all match.
pub(crate) fn typed(text: &str) -> QueryItem {
    let grammar =
        QueryGrammar { composite: WordComposite::And, syntax: TextSyntax::Simple, ..QueryGrammar::default() };
    composed(text, grammar)
}

fn composed(text: &str, grammar: QueryGrammar) -> QueryItem {
    let text = UserText {
        field: "default".to_owned(),
        text: text.to_owned(),
        grammar,
        filter: None,
        allow_empty: false,
        target_hits: 100,
        distance: 2,
        annotations: Default::default(),
    };
    let fields = |name: &str| FIELDS.contains(&name).then_some(TermEnd::Word);
    QueryItem::Typed(Box::new(
        simple::parse(&text, &fields, SpecialTokenRules::NONE).expect("a query with a word"),
    ))
}

fn package(files: &[(&str, &str)]) -> BTreeMap<String, Vec<u8>> {
    files.iter().map(|(name, text)| (format!("rules/{name}"), text.as_bytes().to_vec())).collect()
}

/// Rule bases of a package with its warnings, or all of its errors.
fn read(files: &BTreeMap<String, Vec<u8>>) -> Result<(RuleBases, Vec<String>), PackageMistakes> {
    let mut findings = PackageFindings::default();
    let bases = RuleBases::read(files, &mut findings);
    Ok((bases, findings.finish()?))
}

fn bases(files: &[(&str, &str)]) -> RuleBases {
    let (bases, warnings) = read(&package(files)).unwrap_or_else(|mistakes| panic!("{mistakes}"));
    assert!(warnings.is_empty(), "{warnings:?}");
    bases
}

pub(crate) fn rewriting(
    rules: &str,
    query: &QueryItem,
    parameters: &[(&str, &str)],
) -> Option<QueryRewriting> {
    let parameters =
        parameters.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    bases(&[("x.sr", rules)]).get("x").expect("the rule base").rewrite(query, &parameters, true)
}

/// Short form of the query after the rules, with the parameters that they set; unchanged if no rule matches.
fn rewritten(rules: &str, query: &QueryItem, parameters: &[(&str, &str)]) -> String {
    match rewriting(rules, query, parameters) {
        Some(QueryRewriting { root, set, .. }) => {
            let set = set.iter().map(|(name, value)| format!(" {name}={value}")).collect::<String>();
            format!("{}{set}", BriefItem(&root))
        }
        None => format!("{} unchanged", BriefItem(query)),
    }
}

pub(crate) fn check(rules: &str, cases: &[(&str, &str)]) {
    for (query, expected) in cases {
        assert_eq!(rewritten(rules, &typed(query), &[]), *expected, "{query} by {rules}");
    }
}

#[test]
fn terms_are_replaced() {
    check(
        "lotr -> lord of the rings;",
        &[
            ("lotr", "AND lord of the rings"),
            ("see lotr today", "AND see lord of the rings today"),
            ("Lotr, now", "AND lord of the rings now"),
            ("see it", "AND see it unchanged"),
            ("title:lotr", "title:lotr unchanged"),
        ],
    );
    check("colour -> color; color -> hue;", &[("colour colour", "AND hue hue")]);
    check(
        "colour -> color;",
        &[
            ("colour colour", "AND color color"),
            ("\"red colour\" a", "AND \"red color\" a"),
            ("a -colour", "+a -color"),
        ],
    );
    check(
        "new york -> nyc;",
        &[
            ("in new york", "AND in nyc"),
            ("york new", "AND york new unchanged"),
            ("new title:york", "AND new title:york unchanged"),
            ("\"new york\" times", "AND nyc times"),
        ],
    );
}

#[test]
fn what_is_replaced_by_nothing_goes() {
    let rules = "[stopword] -> ;  # (Replace them by nothing)\n[stopword] :- and, or, the, be;";
    check(
        rules,
        &[
            ("the fox and the hound", "AND fox hound"),
            ("to be or not to be", "AND to not to"),
            ("the", "the unchanged"),
            ("the the the", "the"),
            ("fox -the", "fox"),
            ("-fox the", "FALSE"),
            ("\"the fox\"", "fox"),
        ],
    );
}

#[test]
fn named_conditions_stand_for_what_they_match() {
    check(
        "[brand] -> company:[brand];\n[brand] :- sony, dell, ibm, hp;",
        &[
            ("sony tv", "AND company:sony tv"),
            ("hp and ibm", "AND company:hp and company:ibm"),
            ("company:sony tv", "AND company:sony tv unchanged"),
        ],
    );
    let destinations = "[destination] (in, by, at, on) [place] +> $name:[destination];
        [destination] :- restaurant, hotel, bar; [place] :- paris, new york;";
    check(
        destinations,
        &[
            ("hotel in paris", "RANK (AND hotel in paris) name:hotel"),
            ("cheap bar at new york", "RANK (AND cheap bar at new york) name:bar"),
            ("hotel paris", "AND hotel paris unchanged"),
        ],
    );
    check("a/[word] b/[word] -> title:[b] title:[a]; [word] :- x, y;", &[("x y", "AND title:y title:x")]);
    check("both/(x y) -> [both];", &[("\"w x y z\"", "\"w x y z\"")]);
    check("both/(x y) -> title:[both];", &[("w x y z", "AND w title:\"x y\" z")]);
    check("[outer] -> title:[inner]; [outer] :- the [inner]; [inner] :- fox;", &[("the fox", "title:fox")]);
}

#[test]
fn the_guides_rule_base_does_what_it_says() {
    let rules = "# Replacements
lotr -> lord of the rings;
colour -> color;
audi -> skoda;

# Stopwords
[stopword] -> ;  # (Replace them by nothing)
[stopword] :- and, or, the, be;

# Focus brands to the brand field.
[brand] -> brand:[brand];
[brand] :- sony, dell, ibm, hp;

# Boost recognized categories
[category] +> $category:[category];
[category] :- laptop, digital camera, camera;
";
    check(
        rules,
        &[
            ("lotr", "AND lord of rings"),
            ("audi or dell", "AND skoda brand:dell"),
            ("the colour laptop", "RANK (AND color laptop) category:laptop"),
            (
                "sony digital camera",
                "RANK (AND brand:sony digital camera) category:\"digital camera\" category:camera",
            ),
            ("palmtop", "palmtop unchanged"),
        ],
    );
    let including = "@include(example)\n[category] :- @super, palmtop, phone;";
    let bases =
        bases(&[("example.sr", rules), ("more.sr", including), ("dotted.sr", "@include(example.sr)")]);
    for (base, query, expected) in [
        ("more", "dell palmtop", "RANK (AND brand:dell palmtop) category:palmtop"),
        ("more", "laptop", "RANK laptop category:laptop"),
        ("more.sr", "colour", "color"),
        ("dotted", "colour", "color"),
    ] {
        let base = bases.get(base).expect("the rule base");
        let rewriting = base.rewrite(&typed(query), &BTreeMap::new(), true).expect("rules that hold");
        assert_eq!(BriefItem(&rewriting.root).to_string(), expected, "{query}");
    }
    let palmtop = bases.get("example").expect("it").rewrite(&typed("palmtop"), &BTreeMap::new(), true);
    assert_eq!(palmtop, None, "the included rule base stays as it is");
}

#[test]
fn what_is_made_is_put_to_the_query_by_its_type() {
    for (production, expected) in [
        ("b", "AND x a b y"),
        ("+b", "AND x a y b"),
        ("?b", "OR (AND x a y) b"),
        ("=b", "AND x EQUIV{a b} y"),
        ("$b", "RANK (AND x a y) b"),
        ("-b", "+(AND x a y) -b"),
        ("b c", "AND x a b c y"),
        ("?b ?c", "OR (AND x a y) b c"),
        ("$b -c", "+(RANK (AND x a y) b) -c"),
        ("=b =c", "AND x EQUIV{a b c} y"),
        ("=title:b", "AND x (OR a title:b) y"),
        ("title:b", "AND x a title:b y"),
        ("\"b c\"", "AND x a \"b c\" y"),
        ("?title:\"b c\"", "AND x (OR a title:\"b c\") y"),
    ] {
        check(&format!("a +> {production};"), &[("x a y", expected)]);
    }
    for (production, expected) in [
        ("b", "AND x b y"),
        ("?b", "OR (AND x y) b"),
        ("=b =c", "AND x EQUIV{b c} y"),
        ("=b", "AND x b y"),
        ("$b", "RANK (AND x y) b"),
        ("-b", "+(AND x y) -b"),
        ("b ?c", "OR (AND x b y) c"),
    ] {
        check(&format!("a -> {production};"), &[("x a y", expected)]);
    }
    check("a -> ?b ?c;", &[("a", "OR b c")]);
    check("a -> $b;", &[("a", "b")]);
    check("a -> -b;", &[("a", "FALSE")]);
    check("a +> ~b;", &[("a", "WEAKAND a b"), ("x a y", "WEAKAND (AND x a y) b")]);
    check("a -> ~b ~c;", &[("a", "WEAKAND b c"), ("x a y", "WEAKAND (AND x y) b c")]);
    check(
        "under 5000 -> price:<5000; over [...] -> price:>[...];",
        &[
            ("shoes under 5000", "AND shoes price:<5000"),
            ("shoes over 70", "AND shoes price:>70"),
            ("shoes over all", "AND shoes price:all"),
        ],
    );
    check("a +> =b; b +> =c =a;", &[("x a", "AND x EQUIV{a b c}")]);
    check("a b +> ?\"c d\";", &[("x a b", "AND x (OR (AND a b) \"c d\")"), ("a b", "OR (AND a b) \"c d\"")]);
    check("dvd player +> =recorder;", &[("a dvd player", "AND a EQUIV{\"dvd player\" recorder}")]);
    check("m/(a b) +> ?title:[m];", &[("a b c", "OR (AND a b c) title:\"a b\"")]);
    check("b +> title:c;", &[("\"a b\" d", "AND \"a b\" title:c d")]);
}

#[test]
fn the_context_of_typed_text_is_its_own() {
    let phrase = composed("\"a b c\" d", QueryGrammar::default());
    assert_eq!(rewritten("b -> title:x;", &phrase, &[]), "WEAKAND \"a c\" title:x d");
    let weak = composed("see lotr", QueryGrammar::default());
    assert_eq!(rewritten("lotr -> lord rings;", &weak, &[]), "WEAKAND see lord rings");
    let or = composed("see lotr", QueryGrammar { composite: WordComposite::Or, ..QueryGrammar::default() });
    assert_eq!(rewritten("lotr -> lord rings;", &or, &[]), "OR see lord rings");
    let within = QueryItem::And(vec![composed("the", QueryGrammar::default()), typed("title:fox")]);
    assert_eq!(rewritten("the -> ;", &within, &[]), "title:fox");
    let root = rewriting("lotr +> ?rings;", &weak, &[]).expect("a rule that holds").root;
    assert!(matches!(root, QueryItem::Typed(_)), "it is still what a person typed: {root}");
}

#[test]
fn weights_are_those_of_terms() {
    let shown = |rules: &str, query: &str| {
        rewriting(rules, &typed(query), &[]).expect("a rule that holds").root.to_string()
    };
    assert_eq!(shown("a +> ?b!150;", "a"), r#"TYPED(OR(default:"a" default:"b"{weight:150}))"#);
    assert_eq!(shown("[w] -> title:[w]!70; [w] :- a;", "a"), r#"TYPED(title:"a"{weight:70})"#);
    assert_eq!(shown("a -> \"b c\"!50;", "a"), r#"TYPED(default:PHRASE("b" "c"){weight:50})"#);
}

#[test]
fn conditions_can_be_combined() {
    check(
        "title:colour -> title:color;",
        &[
            ("title:colour", "title:color"),
            ("colour", "colour unchanged"),
            ("title:\"the colour\"", "title:\"the color\""),
        ],
    );
    check(
        "title:[brand] -> company:[brand]; [brand] :- sony, dell;",
        &[("title:sony dell", "AND company:sony dell")],
    );
    check("(a, b) (c, d) -> x;", &[("a d b c", "AND x x"), ("a b", "AND a b unchanged")]);
    check("a, b c -> x;", &[("a b c", "AND x x")]);
    check("a !b -> x;", &[("a c", "AND x c"), ("a b", "AND a b unchanged"), ("a", "x")]);
    check(
        "[short] & [tool] -> x; [short] :- saw, see; [tool] :- saw, axe;",
        &[("see saw axe", "AND see x axe")],
    );
    check("[word] = 'b' -> x; [word] :- a, b;", &[("a b", "AND a x")]);
    check(
        "[island] = [drink] +> x; [island] :- java, crete; [drink] :- java, tea;",
        &[("java", "AND java x"), ("crete tea", "AND crete tea unchanged")],
    );
    check("[word] =~ 'ar' -> x; [word] :- art, bar, cat;", &[("art bar cat", "AND x x cat")]);
    check("[n] > '9' -> x; [n] :- 5, 10;", &[("5 10", "AND 5 x")]);
    check(". the -> ;", &[("the fox the", "AND fox the")]);
    check("please . -> ;", &[("please say please", "AND please say")]);
    check(". a . -> x;", &[("a", "x"), ("a a", "AND a a unchanged")]);
}

#[test]
fn an_ellipsis_is_any_sequence() {
    check("a ... b -> x;", &[("a c d b e", "AND x c d e"), ("a b", "x"), ("a c", "AND a c unchanged")]);
    check("a … b -> x;", &[("a c b", "AND x c")]);
    check("from [...] to -> place:[...];", &[("from new york to paris", "AND place:\"new york\" paris")]);
    check("buy […] -> title:[…];", &[("buy red shoes", "title:\"red shoes\"")]);
    check(
        "from x/[...] to y/[...] -> place:[y] place:[x];",
        &[("from a b to c d", "AND place:\"c d\" place:\"a b\"")],
    );
    check("[...] +> $title:[...];", &[("a b a", "RANK (AND a b a) title:\"a b a\"")]);
    check("[...] > 'o' +> high;", &[("z", "AND z high"), ("b", "b unchanged")]);
    check(
        "[...] by [artist] -> title:[...] artist:[artist]; [artist] :- bach;",
        &[("air by bach", "AND title:air artist:bach")],
    );
}

#[test]
fn all_terms_of_a_condition_can_be_made() {
    check(
        "[car*] -> ?[car]; [car] :- audi, skoda, volkswagen golf;",
        &[("red skoda", "OR red audi skoda \"volkswagen golf\"")],
    );
    check("[car] +> =[car*]; [car] :- audi, skoda;", &[("red audi", "AND red EQUIV{audi skoda}")]);
}

#[test]
fn parameters_are_read_and_set() {
    let check = |rules: &str, query: &str, parameters: &[(&str, &str)], expected: &str| {
        assert_eq!(rewritten(rules, &typed(query), parameters), expected, "{query} by {rules}");
    };
    let rules = "music parameter.hits > '9' -> parameter.ranking='music' audio;";
    check(rules, "music", &[("hits", "10")], "audio ranking=music");
    check(rules, "music", &[("count", "10")], "audio ranking=music");
    check(rules, "music", &[("hits", "9")], "music unchanged");
    check(rules, "music", &[], "music unchanged");
    check("parameter.shop +> +title:sale;", "shoes", &[("shop", "")], "AND shoes title:sale");
    check("parameter.shop = 'a' -> b;", "shoes bags", &[("shop", "a")], "AND shoes bags b");
    check("!parameter.shop a -> b;", "a", &[], "b");
    check("a +> parameter.x='1'; b parameter.x = '1' -> c;", "a b", &[], "AND a c x=1");
    check("a -> parameter.x.y='z' a;", "a", &[("x.y", "w")], "a x.y=z");
    check("a -> parameter.x.y=1 a parameter.on=true;", "a", &[], "a on=true x.y=1");
    check("a -> parameter.x=some -title:c;", "b a", &[], "+b -title:c x=some");
    check("a -> b =c;", "a", &[], "AND c b");
    check("a parameter.x != '1' -> b;", "a", &[("x", "1.0")], "a unchanged");
    check("a parameter.x != '1' -> b;", "a", &[("x", "2")], "b");
    check("a parameter.x != '1' -> b;", "a", &[], "a unchanged");
}

#[test]
fn words_are_the_same_by_their_stems_unless_the_base_says_otherwise() {
    check("camera -> title:camera;", &[("Cameras", "title:camera")]);
    check("cameras -> title:camera;", &[("camera", "title:camera")]);
    check(
        "@stemming(false)\ncamera -> title:camera;",
        &[("cameras", "cameras unchanged"), ("CAMERA", "title:camera")],
    );
    check("@language(de)\nkind -> title:kind;", &[("Kindern", "title:kind")]);
    check("@language(en)\nkind -> title:kind;", &[("Kindern", "Kindern unchanged")]);
    check("e-mail -> mail;", &[("e-mail", "mail")]);
}

#[test]
fn every_rule_comes_to_an_end() {
    check("a -> a;", &[("a", "a")]);
    check("a -> b a;", &[("a", "AND b a")]);
    check("a +> a;", &[("a a", "AND a a a a")]);
    check("a a -> a;", &[("a a a a a", "a")]);
    check("a -> b; b -> a;", &[("a", "a")]);
    check("!nothing +> +x;", &[("a b", "AND a b x")]);
    let doubling: String = (0..40).map(|_| "a -> a a; ").collect();
    let QueryRewriting { root, steps, .. } = rewriting(&doubling, &typed("a"), &[]).expect("rules that hold");
    let Some(RewriteStep::Stopped { reason }) = steps.last() else {
        panic!("it goes on: {:?}", steps.last())
    };
    assert!(reason.contains("terms") || reason.contains("conditions"), "{reason}");
    assert!(BriefItem(&root).to_string().len() < 100_000);
    let hostile = format!("{} zz -> y;", "... ".repeat(30));
    let many = "a ".repeat(60);
    let QueryRewriting { steps, .. } = rewriting(&hostile, &typed(&many), &[]).expect("it is told of");
    assert_eq!(
        steps,
        [RewriteStep::Stopped { reason: "more than 1000000 conditions were tried".to_owned() }]
    );
}

#[test]
fn only_words_are_looked_at() {
    let prefix = composed("lotr*", QueryGrammar::default());
    let before = BriefItem(&prefix).to_string();
    assert_eq!(rewritten("lotr -> rings;", &prefix, &[]), format!("{before} unchanged"));
    assert_eq!(
        rewritten("lotr -> rings;", &QueryItem::And(vec![QueryItem::True, typed("lotr")]), &[]),
        "AND TRUE rings"
    );
    assert_eq!(rewritten("parameter.a -> rings;", &QueryItem::True, &[("a", "1")]), "AND TRUE rings");
}

#[test]
fn errors_of_rules_have_place_and_cure() {
    let fails = |files: &[(&str, &str)], expected: &str| {
        // What does not follow the syntax names the rule base once more.
        let error = read(&package(files)).expect_err(expected).to_string();
        assert_eq!(error.replacen("Could not parse rule 'x': ", "", 1), expected);
    };
    let wrong = |text: &str, expected: &str| fails(&[("x.sr", text)], &format!("rules/x.sr:{expected}"));
    wrong("a - b;", "1:3: expected a condition, '->' or '+>', found '-'");
    wrong(
        "a -> b",
        "1:7: expected a production: a term, '[name]' or parameter.NAME='value'; or ';' at the end of the rule, found the end of the file",
    );
    wrong(
        "# one\n\n  [a] -> b;",
        "3:3: no condition [a]: define it with '[a] :- …;' here or in an included rule base",
    );
    wrong(
        "[brnad] -> b; [brand] :- c;",
        "1:1: no condition [brnad] (did you mean 'brand'?): define it with '[brnad] :- …;' here or in an included rule base",
    );
    wrong(
        "[a] -> [b]; [a] :- c; [b] :- d;",
        "1:8: the condition of the rule has no [b] (did you mean 'a'?): a production refers to what stands in brackets there, or before a '/'",
    );
    wrong(
        "[a] :- b [c]; [c] :- [a];",
        "1:10: conditions refer to themselves, c → a → c: take one of the references out",
    );
    wrong("@include(other)", "1:1: no rule base 'other': add rules/other.sr");
    wrong(
        "[a] :- @super, b;",
        "1:8: no included rule base has a condition [a] that @super could mean: include one with @include(name)",
    );
    wrong(
        "a -> b;\n@stemming(false)",
        "2:1: @stemming stands before all rules: move it to the top of the file",
    );
    wrong("@stemming(no)", "1:1: expected @stemming(true) or @stemming(false), found 'no'");
    wrong(
        "@automata(/etc/x.fsa)",
        "1:1: automata are not read here: write what the automaton lists as conditions, as in '[brand] :- sony, dell;'",
    );
    wrong(
        "@defualt",
        "1:1: no directive '@defualt' (did you mean 'default'?): there are @default, @include, @stemming, @language, and @super in conditions",
    );
    wrong("@default a -> b;", "1:10: expected the end of the line, which ends '@default', found 'a'");
    wrong(
        "parameter.a -> parameter.b;",
        "1:16: expected a value for the parameter, as in parameter.b='value'",
    );
    wrong("a -> price:<cheap;", "1:13: expected a number, as in price:<5000, found 'cheap'");
    wrong("a -> <5;", "1:8: a bound is one of a field: write it as in price:<5000");
    wrong("a -> b='c';", "1:6: only parameters have values, as in parameter.b='value'; a term has none");
    wrong(
        "request.a -> b;",
        "1:1: no namespace 'request': there are the query's terms, which need none, and 'parameter'; terms have no dots",
    );
    wrong("a -> b!much;", "1:8: a weight is a whole number from 0 to 65535, as in '!150'; found 'much'");
    wrong("a = 'b -> c;", "1:5: the quote ' is not closed: close it on the same line");
    wrong(
        "a { b",
        "1:3: '{' has no meaning here: terms are letters and digits, as those that a query is split into",
    );
    wrong("a :- b;", "1:3: only a name in brackets can be defined, as in '[name] :- condition;'");
    wrong(
        &format!("{} a", "(".repeat(60)),
        "1:51: conditions are nested more than 50 deep: give an inner one a name, as in '[name] :- condition;'",
    );
    wrong(
        &format!("{}({}a) -> b;", "!".repeat(30), "!".repeat(30)),
        "1:51: '!' is repeated too often: once is enough",
    );
    // Each of them is valid, but they are nested.
    let nested = |number: usize| format!("[c{number}] :- {}[c{}];\n", "!".repeat(45), number + 1);
    let deep: String = (0..20).map(nested).chain(["[c20] :- x;\n[c0] -> y;".to_owned()]).collect();
    wrong(
        &deep,
        "9:54: more than 400 conditions are within each other, with those that they refer to: put some of them together",
    );
    let include = |number: usize| (format!("{number:02}.sr"), format!("@include({:02})", number + 1));
    let mut chain: Vec<(String, String)> = (0..60).map(include).collect();
    chain.push(("60.sr".to_owned(), "a -> b;".to_owned()));
    let chain: Vec<(&str, &str)> = chain.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
    fails(
        &chain,
        "rules/50.sr:1:1: rule bases include each other more than 50 deep: put some of them together",
    );
    fails(
        &[("a.sr", "@include(b)"), ("b.sr", "\n@include(a)")],
        "rules/b.sr:2:1: rule bases include each other in a circle, a → b → a: take one @include out",
    );
    fails(
        &[("a.sr", "@default"), ("b.sr", "a -> b;\n@default")],
        "rules/b.sr:2:1: rules/a.sr:1:1 is the default already: leave @default in one rule base",
    );
    let files = BTreeMap::from([("rules/x.sr".to_owned(), b"a -> b;\n\xff".to_vec())]);
    let error = read(&files).expect_err("it is not text");
    assert_eq!(
        error.to_string(),
        "rules/x.sr:2:1: Could not parse rule 'x': the line is not UTF-8: save the file in UTF-8"
    );
}

#[test]
fn rule_bases_do_not_hide_each_other() {
    let files = [
        ("a.sr", "a - b;"),
        ("b.sr", "@include(a)\n[nosuch] -> c;"),
        ("c.sr", "[nosuch] -> c;"),
        ("d.sr", "@include(c)\n[other] -> c;"),
        ("e.sr", "@include(f)"),
        ("f.sr", "@include(e)"),
        ("g.sr", "a -> b;"),
        ("h.sr", "@include(g)\n[h] -> c;"),
    ];
    let mistakes = read(&package(&files)).expect_err("mistakes").to_string();
    let expected = [
        "rules/a.sr:1:3: Could not parse rule 'a': expected a condition, '->' or '+>', found '-'",
        "rules/c.sr:1:1: no condition [nosuch]: define it with '[nosuch] :- …;' here or in an included rule base",
        "rules/f.sr:1:1: rule bases include each other in a circle, e → f → e: take one @include out",
        "rules/h.sr:2:1: no condition [h]: define it with '[h] :- …;' here or in an included rule base",
    ];
    assert_eq!(mistakes.lines().collect::<Vec<_>>(), expected);
}

#[test]
fn what_has_no_effect_is_warned_of() {
    let files = package(&[("x.sr", "[a] :- b;\n[a] :- c;"), ("x.txt", ""), ("more/y.sr", "")]);
    let (_, warnings) = read(&files).expect("rules that work");
    assert_eq!(
        warnings,
        [
            "rules/more/y.sr: is passed over: rule bases are files rules/NAME.sr",
            "rules/x.txt: is passed over: rule bases are files rules/NAME.sr",
            "rules/x.sr:2:1: condition [a] is defined at rules/x.sr:1:1 already; the last definition holds",
        ]
    );
}

#[test]
fn deep_and_broken_texts_are_refused_not_fatal() {
    let pieces = [
        "[a]",
        "(",
        ")",
        "->",
        "+>",
        ";",
        "...",
        "!",
        "'",
        "@include(x)",
        ".",
        "a",
        ":-",
        "=",
        ",",
        "/",
        ":",
        "[",
        "]",
    ];
    let mut state = 1_u32;
    for _ in 0..2000 {
        let text: String = (0..12)
            .map(|_| {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                format!("{} ", pieces[(state >> 16) as usize % pieces.len()])
            })
            .collect();
        if let Ok((bases, _)) = read(&package(&[("x.sr", &text)])) {
            bases.get("x").expect("the rule base").rewrite(&typed("a b \"a c\" -a"), &BTreeMap::new(), true);
        }
    }
    let long: String = "a ".repeat(20_000);
    let rules = format!("{long} -> b;");
    assert_eq!(
        rewriting(&rules, &typed(&"a ".repeat(1000)), &[]).map(|rewriting| rewriting.steps.len()),
        None
    );
}
