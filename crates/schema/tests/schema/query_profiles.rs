//! Packages with query profiles, and their values for requests.

use std::collections::BTreeMap;

use millrace_schema::Application;

const SERVICES: &str = "<services><content id='mail'><documents><document type='mail' mode='streaming'/></documents></content></services>";

/// An application with these profiles; texts that start with `<query-profile-type` are types.
fn application(profiles: &[&str]) -> Result<Application, String> {
    let mut files = vec![
        ("services.xml".to_owned(), SERVICES),
        ("schemas/mail.sd".to_owned(), "schema mail { document mail { field title type string { } } }"),
    ];
    for (number, text) in profiles.iter().enumerate() {
        let directory = if text.starts_with("<query-profile-type") { "types/" } else { "" };
        files.push((format!("search/query-profiles/{directory}{number}.xml"), *text));
    }
    let files = files.into_iter().map(|(path, text)| (path, text.as_bytes().to_vec())).collect();
    Application::from_files(files).map_err(|error| error.to_string())
}

/// Value of a parameter of a request, where `count` is another name for `hits`.
fn value_of<'p>(request: &'p BTreeMap<String, String>, name: &str) -> Option<&'p str> {
    let of = |name: &str| request.get(name).map(String::as_str);
    of(name).or_else(|| if name == "hits" { of("count") } else { None })
}

/// Values for a request given as `a=b&c=d`; `name!=value` for values that a request cannot override.
fn values(profiles: &[&str], request: &str) -> String {
    let application = application(profiles).expect("the package is right");
    let request: BTreeMap<String, String> = request
        .split('&')
        .filter_map(|pair| pair.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    // The query API has two names for the number of hits.
    let is_built_in = |name: &str| matches!(name, "hits" | "count" | "queryProfile");
    match application.query_profiles.values(&request, &is_built_in, value_of) {
        Ok(values) => {
            let text = values.iter().map(|value| {
                format!("{}{}={}", value.name, if value.overridable { "" } else { "!" }, value.value)
            });
            text.collect::<Vec<_>>().join(" ")
        }
        Err(error) => format!("! {error}"),
    }
}

#[track_caller]
fn refused(profiles: &[&str], expected: &str) {
    let message = application(profiles).expect_err("the package is wrong");
    assert!(message.contains(expected), "{message}");
}

#[test]
fn profiles_inherit_and_nest() {
    let base = "<query-profile id='base'><field name='hits'>20</field><field name='timeout'>1s</field></query-profile>";
    let second = "<query-profile id='second'><field name='timeout'>9s</field><field name='x'>1</field></query-profile>";
    let own = "<query-profile id='default' inherits='base second'>
        <field name='hits' overridable='false'>5</field>
        <field name='ranking'><query-profile><field name='profile'>recent</field></query-profile></field>
        <field name='user'><ref>base</ref></field></query-profile>";
    let other = "<query-profile id='other'><field name='age'>7</field></query-profile>";
    let all = [base, second, own, other];
    assert_eq!(
        values(&all, ""),
        "hits!=5 ranking.profile=recent timeout=1s user.hits=20 user.timeout=1s x=1"
    );
    assert_eq!(values(&all, "queryProfile=second"), "timeout=9s x=1");
    assert_eq!(values(&all, "queryProfile="), values(&all, ""), "the default one");
    assert_eq!(values(&all, "user=ref:other"), "hits!=5 ranking.profile=recent timeout=1s user.age=7 x=1");
    // It takes the place of the whole part, and of values that are written out.
    let written = "<query-profile id='default'><field name='user.hits'>3</field><field name='text'>%{user.hits}.</field></query-profile>";
    assert_eq!(values(&[other, written], ""), "text=3. user.hits=3");
    assert_eq!(values(&[other, written], "user=ref:other"), "text=. user.age=7");
    assert_eq!(values(&[base], ""), "");
    assert_eq!(
        values(&[base], "queryProfile=bse"),
        "! parameter 'queryProfile': there is none with id 'bse', only: base"
    );
    assert_eq!(
        values(&[], "queryProfile=bse"),
        "! parameter 'queryProfile': there is none with id 'bse'; the application has no query profiles"
    );
    assert_eq!(values(&all, "user=ref:none"), "! parameter 'user': no query profile 'none'");
}

#[test]
fn versions_are_distinguished() {
    let profile = |id: &str, hits: &str| {
        format!("<query-profile id='{id}'><field name='hits'>{hits}</field></query-profile>")
    };
    let (one, two, three) = (profile("p:1.2", "12"), profile("p:1.10.1.beta", "110"), profile("p:2", "2"));
    let all = [one.as_str(), two.as_str(), three.as_str()];
    for (request, expected) in
        [("p", "hits=2"), ("p:1", "hits=110"), ("p:1.2", "hits=12"), ("p:1.10.1.beta", "hits=110")]
    {
        assert_eq!(values(&all, &format!("queryProfile={request}")), expected, "{request}");
    }
    assert_eq!(
        values(&all, "queryProfile=p:3"),
        "! parameter 'queryProfile': there is none with id 'p:3', only: p:1.2.0, p:1.10.1.beta, p:2.0.0"
    );
}

#[test]
fn the_most_specific_variant_holds() {
    let parent = "<query-profile id='parent'><field name='a'>of parent</field><field name='c'>of parent</field></query-profile>";
    let base = "<query-profile id='base'><dimensions>region, model, bucket</dimensions></query-profile>";
    let profile = "<query-profile id='default' inherits='base'>
        <field name='a'>general</field>
        <query-profile for='us'><field name='a'>us</field><field name='b'>us</field></query-profile>
        <query-profile for='us,*,test'><field name='a'>us test</field></query-profile>
        <query-profile for='us,nokia,*' inherits='parent'><field name='b'>us nokia</field></query-profile>
        <query-profile for='us,nokia,test'><field name='a'>us nokia test</field></query-profile>
    </query-profile>";
    let all = [parent, base, profile];
    for (request, expected) in [
        ("", "a=general"),
        ("region=us", "a=us b=us"),
        ("region=no&model=nokia", "a=general"),
        ("region=us&bucket=test", "a=us test b=us"),
        ("region=us&model=nokia", "a=of parent b=us nokia c=of parent"),
        ("region=us&model=nokia&bucket=test", "a=us nokia test b=us nokia c=of parent"),
    ] {
        assert_eq!(values(&all, request), expected, "{request}");
    }
}

/// Variants with `overridable` where they and the profile say so, or not.
#[test]
fn variants_leave_fixed_what_is_fixed() {
    let parent = "<query-profile id='parent'><field name='c'>of parent</field></query-profile>";
    let profile = "<query-profile id='default'><dimensions>region, model</dimensions>
        <field name='a' overridable='false'>1</field><field name='b'>1</field>
        <field name='c' overridable='false'>1</field><field name='d' overridable='true'>1</field>
        <query-profile for='us,nokia'><field name='b'>3</field></query-profile>
        <query-profile for='us'><field name='a'>2</field><field name='b' overridable='false'>2</field>
        <field name='d' overridable='false'>2</field></query-profile>
        <query-profile for='no' inherits='parent'><field name='a' overridable='true'>2</field></query-profile>
    </query-profile>";
    let all = [parent, profile];
    for (request, expected) in [
        ("", "a!=1 b=1 c!=1 d=1"),
        ("region=us", "a!=2 b!=2 c!=1 d!=2"),
        ("region=us&model=nokia", "a!=2 b!=3 c!=1 d!=2"),
        ("region=no", "a!=2 b=1 c!=of parent d=1"),
    ] {
        assert_eq!(values(&all, request), expected, "{request}");
    }
}

#[test]
fn values_are_put_into_values() {
    let inner = "<query-profile id='inner'><field name='greeting'>Hi %{.name} and %{name}</field><field name='name'>Bob</field></query-profile>";
    let profile = "<query-profile id='default'><field name='message'>Hello %{name}, %{message2}%{nobody}!</field>
        <field name='message2'>dear %{name}</field><field name='name'>Ann</field>
        <field name='loop'>x%{loop}</field><field name='fixed' overridable='false'>1</field><field name='shows'>%{fixed}</field>
        <field name='in'><ref>inner</ref></field></query-profile>";
    let all = [inner, profile];
    assert_eq!(
        values(&all, "fixed=2"),
        "fixed!=1 in.greeting=Hi Bob and Ann in.name=Bob loop=xxxxxxxxx message=Hello Ann, dear Ann! message2=dear Ann name=Ann shows=1"
    );
    assert!(values(&all, "name=Eve&nobody=x").contains("message=Hello Eve, dear Evex!"));
    // A value beside it is that of the profile, whatever the request says.
    assert!(values(&all, "in.name=Eve").contains("in.greeting=Hi Bob and Ann"));
    refused(&["<query-profile id='a'><field name='x'>%{y</field></query-profile>"], "is not closed");
    // The request may have the value under another name of the query API.
    let paged = "<query-profile id='default'><field name='text'>the first %{hits}</field><field name='hits'>5</field></query-profile>";
    assert_eq!(values(&[paged], ""), "hits=5 text=the first 5");
    assert_eq!(values(&[paged], "count=3"), "hits=5 text=the first 3");
}

/// `%{.name}` takes a value that the profile, a variant or an included profile sets; nothing else is known
/// when the package is deployed.
#[test]
fn values_put_in_from_beside_are_there() {
    let base = "<query-profile id='base'><field name='far'>1</field></query-profile>";
    let profile = |value: &str| {
        format!(
            "<query-profile id='default' inherits='base'><dimensions>region</dimensions>
            <field name='text'>{value}</field><field name='in.near'>2</field><field name='part'><ref>base</ref></field>
            <query-profile for='us'><field name='varied'>3</field></query-profile></query-profile>"
        )
    };
    for (value, expected) in [
        ("%{.far} %{.text2}", "'%{.text2}' puts in a value of the query profile, which has no field 'text2'"),
        ("%{.in.near}", "has no field 'in.near'"),
        ("%{.fat}", "has no field 'fat' (did you mean 'far'?)"),
        ("%{.us}", "has no field 'us'"),
    ] {
        refused(&[base, profile(value).as_str()], expected);
    }
    for value in ["%{.far}", "%{.near}", "%{.varied}", "%{.part}", "%{other}", "no.name"] {
        let accepted = application(&[base, profile(value).as_str()]);
        assert!(accepted.is_ok(), "{value}: {:?}", accepted.err());
    }
}

/// An alias stands for its field wherever a name is written: in requests, in values that are put into others,
/// in profiles, and as a part of a longer name.
#[test]
fn aliases_stand_for_names_everywhere() {
    let user = "<query-profile-type id='user'><strict/><field name='age' type='integer' alias='Years'/></query-profile-type>";
    let kind =
        "<query-profile-type id='kind'><strict/><field name='job' type='string' alias='Work profession'/>
        <field name='user' type='query-profile:user' alias='Person'/><field name='text' type='string'/>
        <field name='must' type='string' alias='shall' mandatory='true'/>
        <field name='queryProfile' type='string'/></query-profile-type>";
    let profile = "<query-profile id='default' type='kind'>
        <field name='text'>%{job} %{WORK} %{user.age} %{person.years}</field><field name='Shall'>x</field></query-profile>";
    let fixed = "<query-profile id='fixed' inherits='default'><field name='work' overridable='false'>1</field></query-profile>";
    let old = "<query-profile id='old' type='user'><field name='years'>90</field></query-profile>";
    let all = [user, kind, profile, fixed, old];
    for (request, expected) in [
        ("", "must=x text=   "),
        ("job=a", "must=x text=a a  "),
        ("WORK=a", "must=x text=a a   job=a"),
        ("Profession=a&job=b", "must=x text=b b  "),
        ("person.age=7", "must=x text=  7 7 user.age=7"),
        ("PERSON.YEARS=7", "must=x text=  7 7 user.age=7"),
        ("user.years=7", "must=x text=  7 7 user.age=7"),
        ("person=old", "must=x text=  90 90 user.age=90 user=old"),
        ("SHALL=y", "text=    must=y"),
        ("queryProfile=fixed&profession=2", "job!=1 must=x text=1 1  "),
        ("person.years=old", "! parameter 'person.years': expected a whole number of 32 bits, found 'old'"),
        (
            "person.month=1",
            "! parameter 'person.month': it is not declared in the strict query profile type 'user'",
        ),
    ] {
        assert_eq!(values(&all, request), expected, "{request}");
    }
}

#[test]
fn types_say_what_there_may_be() {
    let user = "<query-profile-type id='user'><strict/><field name='age' type='integer' mandatory='true'/></query-profile-type>";
    let base = "<query-profile-type id='base' inherits='native'><strict/><field name='level' type='long' overridable='false'/></query-profile-type>";
    let kind =
        "<query-profile-type id='kind' inherits='base'><field name='on' type='boolean' alias='Switch knob'/>
        <field name='user' type='query-profile:user' mandatory='true'/></query-profile-type>";
    let profile = "<query-profile id='default' type='kind'><field name='level'>3</field></query-profile>";
    let all = [user, base, kind, profile];
    for (request, expected) in [
        ("user.age=7", "level!=3"),
        ("user.age=7&hits=4&on=true", "level!=3"),
        ("user.age=7&SWITCH=false", "level!=3 on=false"),
        ("hits=4", "! parameter 'user': query profile 'default' wants it, and it is not given"),
        ("user.age=old", "! parameter 'user.age': expected a whole number of 32 bits, found 'old'"),
        ("user.age=7&on=maybe", "! parameter 'on': expected true or false, found 'maybe'"),
        (
            "user.agee=7",
            "! parameter 'user.agee': it is not declared in the strict query profile type 'user'",
        ),
        ("user.age=7&x=1", "! parameter 'x': it is not declared in the strict query profile type 'kind'"),
    ] {
        let found = values(&all, request);
        assert!(found.starts_with(expected), "{request}: {found}");
    }
    let wrong = "<query-profile id='default' type='kind'><field name='level'>high</field></query-profile>";
    refused(&[user, base, kind, wrong], "field 'level': expected a whole number of 64 bits, found 'high'");
    refused(&[profile], "no query profile type 'kind'");
    let odd = "<query-profile-type id='odd'><field name='x' type='text'/></query-profile-type>";
    refused(&[odd], "unknown type 'text': expected 'string'");
}

#[test]
fn every_type_of_a_parameter_has_its_values() {
    let profile = "<query-profile id='default' type='kind'><field name='y'>1</field></query-profile>";
    for (kind, right, wrong) in [
        ("string", "a b", ""),
        ("integer", "7", "8589934592"),
        ("long", "8589934592", "7.5"),
        ("float", "1.5", "x"),
        ("double", "1e300", "x"),
        ("boolean", "true", "maybe"),
        ("query", "select * from mail where true", ""),
        ("tensor(x[2])", "[1,2]", ""),
    ] {
        let declared =
            format!("<query-profile-type id='kind'><field name='x' type='{kind}'/></query-profile-type>");
        let all = [declared.as_str(), profile];
        assert_eq!(values(&all, &format!("x={right}")), "y=1", "{kind}");
        let faults = values(&all, &format!("x={wrong}"));
        assert!(wrong.is_empty() || faults.starts_with("! parameter 'x': expected "), "{kind}: {faults}");
    }
}

#[test]
fn a_parameter_of_a_profile_type_takes_the_id_of_a_profile() {
    let user = "<query-profile-type id='user'><field name='age' type='integer'/></query-profile-type>";
    let own = "<query-profile-type id='own'><field name='' type='string'/></query-profile-type>";
    let kind = "<query-profile-type id='kind'><field name='any' type='query-profile'/>
        <field name='user' type='query-profile:user'/><field name='own' type='query-profile:own'/></query-profile-type>";
    let young = "<query-profile id='young' type='user'><field name='age'>7</field></query-profile>";
    let plain = "<query-profile id='plain'><field name='age'>8</field></query-profile>";
    let profile = "<query-profile id='default' type='kind'><field name='text'>%{any.age}%{user.age}</field></query-profile>";
    let all = [user, own, kind, young, plain, profile];
    for (request, expected) in [
        ("any=plain", "any.age=8 text=8"),
        ("any=ref:plain", "any.age=8 text=8"),
        ("any=young", "any.age=7 text=7"),
        ("any=nosuch", "! parameter 'any': no query profile 'nosuch'"),
        ("user=young", "text=7 user.age=7"),
        ("user=ref:young", "text=7 user.age=7"),
        ("user=plain", "! parameter 'user': query profile 'plain' is not of the type 'user'"),
        ("user=nosuch", "! parameter 'user': no query profile 'nosuch'"),
        ("own=nosuch", "text="),
        ("user={\"age\":9}&user.age=9", "text=9"),
        ("other=nosuch", "text="),
    ] {
        assert_eq!(values(&all, request), expected, "{request}");
    }
}

#[test]
fn types_of_query_features_are_those_of_all_rank_profiles() {
    let user = "<query-profile-type id='root' inherits='native'>
        <field name='ranking.features.query(user)' type='tensor&lt;float&gt;(d0[50])'/>
        <field name='input.query(tags)' type='tensor(t{})'/><field name='other' type='tensor(x[2])'/></query-profile-type>";
    let application = application(&[user]).expect("the package is right");
    for (name, profile) in &application.schemas["mail"].rank_profiles {
        let inputs = profile.inputs.iter().map(|(name, input)| format!("{name} {:?}", input.input_type));
        let inputs = inputs.collect::<Vec<_>>().join(", ");
        assert!(inputs.starts_with("tags Tensor(") && inputs.contains(", user Tensor("), "{name}: {inputs}");
        assert!(!inputs.contains("other"), "{name}: {inputs}");
    }
    let again = "<query-profile-type id='more'><field name='input.query(user)' type='tensor(x[2])'/></query-profile-type>";
    refused(
        &[user, again],
        "query(user) is of type tensor<float>(d0[50]) in query profile type 'root', but of type tensor(x[2]) in 'more': give it one type",
    );
    let odd = "<query-profile-type id='odd'><field name='x' type='tensor(x['/></query-profile-type>";
    refused(&[odd], "type 'tensor(x['");
}

#[test]
fn names_can_be_paths() {
    let kind = "<query-profile-type id='kind'><match path='true'/></query-profile-type>";
    let outer = "<query-profile id='a1' type='kind'><field name='x'>1</field></query-profile>";
    let inner = "<query-profile id='a1/b1' inherits='a1'><field name='x'>2</field></query-profile>";
    let plain = "<query-profile id='c1'><field name='x'>3</field></query-profile>";
    let all = [kind, outer, inner, plain];
    assert_eq!(values(&all, "queryProfile=a1/b1/c1/d1"), "x=2");
    assert_eq!(values(&all, "queryProfile=a1/b"), "x=1");
    assert!(values(&all, "queryProfile=c1/d1").starts_with('!'));
}

#[test]
fn what_cannot_work_is_refused() {
    for (profile, expected) in [
        ("<query-profile id='base' inherits='base'/>", "inherits or contains itself"),
        (
            "<query-profile id='a'><field name='x'><ref>b</ref></field></query-profile>",
            "uses 'b', which is not declared",
        ),
        (
            "<query-profile id='a'><query-profile for='x' inherits='c'/></query-profile>",
            "uses 'c', which is not declared",
        ),
        ("<query-profile id='a'><query-profile/></query-profile>", "needs the attribute 'for'"),
        ("<query-profile id='a:x'/>", "'a:x' is not an id"),
        ("<query-profile/>", "needs the attribute 'id'"),
        ("<query-profile id='a'><feeld/></query-profile>", "unknown element <feeld>"),
        ("<query-profile id='a'><field/></query-profile>", "needs the attribute 'name'"),
        (
            "<query-profile id='a'><field name='x' overridable='no'>1</field></query-profile>",
            "true or false, not 'no'",
        ),
        ("<query-profile-type id='t' inherits='t'/>", "inherits itself"),
        ("<query-profile-type id='t' inherits='u'/>", "uses 'u', which is not declared"),
    ] {
        refused(&[profile], expected);
    }
    let twice = "<query-profile id='a'/>";
    refused(&[twice, twice], "is declared at search/query-profiles/0.xml:1:1 already");
}
