//! services.xml and the accompanying files.

use std::collections::BTreeMap;

use millrace_schema::{
    Application, DocumentMode, EmbedderImplementation, EmbedderKind, EmbeddingService, FederationConfig,
    FederationOptions, InvalidAnswerPolicy, ModelFile, PackageMistakes, SourceTarget, TokenPooling,
    VectorQuantization,
};

fn application(services: &str, files: &[(&str, &str)]) -> Result<Application, PackageMistakes> {
    let mut all: BTreeMap<String, Vec<u8>> =
        files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
    all.insert("services.xml".to_owned(), services.as_bytes().to_vec());
    for name in ["mail", "note"] {
        let schema = format!(
            "schema {name} {{ document {name} {{ field date type long {{ indexing: attribute }} }} }}"
        );
        all.insert(format!("schemas/{name}.sd"), schema.into_bytes());
    }
    Application::from_files(all)
}

const MAIL: &str =
    "<content id='c'><documents><document type='mail' mode='streaming'/></documents></content>";

fn refuses(services: &str, expected: &str) {
    match application(services, &[]) {
        Ok(_) => panic!("is not refused: {services}"),
        Err(error) => {
            let message = error.to_string();
            assert!(
                message.starts_with("services.xml:") && message.contains(expected),
                "'{message}' does not say '{expected}'"
            );
        }
    }
}

#[test]
fn clusters_are_read() {
    let services = r#"<?xml version="1.0" encoding="utf-8" ?>
        <services version="1.0" xmlns:preprocess="properties" xmlns:deploy="vespa">
          <preprocess:properties><the.port>4099</the.port></preprocess:properties>
          <admin version="2.0"><adminserver hostalias="node1"/></admin>
          <container id="front" version="1.0">
            <http><server id="s" port="${the.port}"/></http>
            <search><chain id="default" inherits="vespa"/></search>
            <document-api><ignore-undefined-fields>true</ignore-undefined-fields><max-document-size>20MiB</max-document-size></document-api>
            <component id="e5" type="hugging-face-embedder">
              <transformer-model path="models/e5.onnx"/>
              <tokenizer-model path="models/tokenizer.json"/>
              <transformer-token-type-ids/>
              <pooling-strategy>cls</pooling-strategy>
              <normalize>true</normalize>
              <prepend><query>query: </query></prepend>
              <onnx-intraop-threads>2</onnx-intraop-threads>
            </component>
            <component id="far" type="openai-embedder">
              <model>m-1</model>
              <dimensions>256</dimensions>
              <api-key-secret-ref>key</api-key-secret-ref>
              <batching max-size="8"/>
            </component>
            <component id="tokens" type="hugging-face-tokenizer"><model url="https://a.b/tokenizer.json"/></component>
            <model-evaluation>
              <onnx><models><model name="m"><intraop-threads>3</intraop-threads><gpu-device>0</gpu-device></model></models></onnx>
            </model-evaluation>
            <nodes><node hostalias="node1"/></nodes>
          </container>
          <content id="store" version="1.0">
            <min-redundancy>2</min-redundancy>
            <documents selection="true" garbage-collection="true" garbage-collection-interval="60">
              <document type="mail" mode="index" selection="mail.date &gt; now() - 86400"/>
              <document type="note" mode="store-only"/>
              <document-processing cluster="front"/>
            </documents>
            <engine><proton>
              <resource-limits><disk>0.9</disk></resource-limits>
              <tuning><searchnode><removed-db><prune><age>3600</age><interval>60</interval></prune></removed-db></searchnode></tuning>
            </proton></engine>
            <search><query-timeout>2.5</query-timeout></search>
            <tuning><max-document-size>10MiB</max-document-size><bucket-splitting max-documents="100" max-size="2MiB" minimum-bits="14"/></tuning>
          </content>
        </services>"#;
    let application = application(services, &[]).unwrap();
    let container = &application.container;
    assert_eq!(
        (container.id.as_str(), container.port, container.ignore_undefined_fields),
        ("front", Some(4099), true)
    );
    let [e5, far, tokens] = container.embedders.as_slice() else { panic!("three embedders") };
    assert_eq!((e5.prepend.query.as_str(), e5.prepend.document.as_str()), ("query: ", ""));
    let EmbedderImplementation::Transformer(transformer) = &e5.means else { panic!("a transformer") };
    let path = |path: &str| ModelFile::Path(path.to_owned());
    assert_eq!((e5.id.as_str(), transformer.max_tokens), ("e5", 512));
    assert_eq!(transformer.model, path("models/e5.onnx"));
    assert_eq!(transformer.tokenizer, path("models/tokenizer.json"));
    assert_eq!(transformer.kind, EmbedderKind::HuggingFace { pooling: TokenPooling::Cls, normalize: true });
    let names = &transformer.names;
    assert_eq!((names.types.as_deref(), names.output.as_str()), (None, "last_hidden_state"));
    assert_eq!(transformer.execution.intra_op_threads, Some(2));
    let EmbedderImplementation::Remote(remote) = &far.means else { panic!("another service") };
    assert_eq!((remote.model.as_str(), remote.dimensions, remote.batch_max), ("m-1", 256, 8));
    assert_eq!(remote.secret.as_deref(), Some("key"));
    assert_eq!(remote.endpoint, "https://api.openai.com/v1/embeddings");
    assert_eq!(
        tokens.means,
        EmbedderImplementation::Tokenizer(ModelFile::Url {
            url: "https://a.b/tokenizer.json".to_owned(),
            sha256: None
        })
    );
    let evaluation = container.model_evaluation.as_ref().expect("models are evaluated");
    assert_eq!((evaluation["m"].intra_op_threads, evaluation["m"].gpu_device), (Some(3), Some(0)));
    let cluster = application.cluster_of("mail").unwrap();
    assert_eq!(
        (cluster.topology.redundancy, cluster.garbage_collection, cluster.garbage_interval_s),
        (2, true, 60)
    );
    assert_eq!(cluster.belongs("mail").as_deref(), Some("(true) and (mail.date > now() - 86400)"));
    assert_eq!(cluster.belongs("note").as_deref(), Some("true"));
    assert_eq!(cluster.document("mail").unwrap().mode, DocumentMode::Index);
    assert_eq!(cluster.document("note").unwrap().mode, DocumentMode::StoreOnly);
    assert_eq!(cluster.tuning.document_size_max, Some(10 << 20));
    assert_eq!((cluster.tuning.disk_limit, cluster.tuning.removed_age_s), (Some(0.9), Some(3600)));
    assert_eq!(
        (cluster.tuning.bucket_documents_max, cluster.tuning.query_timeout_s),
        (Some(1024), Some(2.5))
    );
    assert_eq!((cluster.tuning.bucket_bytes_max, cluster.tuning.bucket_bits_min), (Some(2 << 20), Some(12)));
    assert_eq!(cluster.tuning.removed_prune_interval_s, Some(60));
    assert_eq!(container.document_size_max, Some(20 << 20));
    let warnings = application.warnings.join("\n");
    assert!(warnings.contains("services.xml:33:15: mode='index' of 'mail': no index is kept"), "{warnings}");
    assert!(warnings.contains("services.xml:35:15: <document-processing> has no effect"), "{warnings}");
    assert!(warnings.contains("max-documents='100' is read as 1024"), "{warnings}");
    assert!(warnings.contains("minimum-bits='14' is read as 12"), "{warnings}");
    assert!(warnings.contains("max-document-size of <document-api> is larger"), "{warnings}");
    assert!(!warnings.contains("model-evaluation"), "{warnings}");
}

#[test]
fn a_type_may_be_in_several_clusters_and_clusters_have_names() {
    let services = format!(
        "<services><container id='front'><search>\
         <chain id='default'><searcher id='com.yahoo.prelude.searcher.JSONDebugSearcher'/></chain>\
         <provider id='letters' type='local' cluster='c'/><provider id='more' type='local' cluster='d.mail'/>\
         </search></container>{MAIL}{}</services>",
        MAIL.replace("'c'", "'d'")
    );
    let application = application(&services, &[]).unwrap();
    let with_mail = application.content.iter().filter(|cluster| cluster.document("mail").is_some());
    assert_eq!(with_mail.map(|cluster| &*cluster.id).collect::<Vec<_>>(), ["c", "d"]);
    assert_eq!(sources(&application), ["letters c", "more d"]);
    let warnings = application.warnings.join("\n");
    assert!(warnings.contains("JSONDebugSearcher' has no effect"), "{warnings}");
}

/// One line per source: its name, the clusters that answer for it (with their providers, if others can be
/// selected), its wait options; in parentheses if only queries that name it use it.
fn sources(application: &Application) -> Vec<String> {
    let of = |(name, source): (&String, &SourceTarget)| {
        let mut line = format!("{name} {}", source.leader.cluster);
        for chain in &source.participants {
            line += &format!(" or {} {}", chain.provider, chain.cluster);
        }
        line += &waited_for(source.leader.options);
        if source.is_default { line } else { format!("({line})") }
    };
    application.sources.iter().map(of).collect()
}

fn waited_for(options: FederationOptions) -> String {
    let timeout = options.timeout.map(|timeout| format!(" {timeout:?}")).unwrap_or_default();
    let optional = options.optional.map(|optional| format!(" optional={optional}")).unwrap_or_default();
    timeout + &optional
}

/// Each chain that lists its sources, with its wait options.
fn federations(application: &Application) -> Vec<String> {
    let of = |(id, federation): (&String, &FederationConfig)| {
        let asked: Vec<String> = federation
            .sources
            .iter()
            .map(|source| format!("{}{}", source.name, waited_for(source.options)))
            .collect();
        format!("{id} {}: {}", if federation.blends { "blends" } else { "groups" }, asked.join(", "))
    };
    application.federations.iter().map(of).collect()
}

/// Two clusters, `c` and `d`, and a container with this text in its `<search>`.
fn searching(search: &str) -> String {
    format!(
        "<services><container id='front'><search>{search}</search></container>{MAIL}{}</services>",
        MAIL.replace("'c'", "'d'")
    )
}

#[test]
fn providers_have_sources_and_chains_federate_to_them() {
    let services = searching(
        "<provider id='p' type='local' cluster='c' excludes='com.yahoo.prelude.querytransform.StemmingSearcher'>\
           <federationoptions timeout='100 ms'/><source id='web'/>\
           <source id='api'><federationoptions timeout='2.5s' optional='true'/></source>\
         </provider>\
         <provider id='q' type='local' cluster='c'><source idref='web'/></provider>\
         <federation id='shared'><source-set inherits='default'/></federation>\
         <chain id='default' inherits='vespa'><federation id='f'><source idref='web'><federationoptions timeout='3' requestTimeout='4'/></source><source id='q'/></federation></chain>\
         <chain id='apart'><federation idref='shared'/></chain>\
         <chain id='heir' inherits='apart'/>\
         <chain id='unblended' inherits='vespa' excludes='com.yahoo.prelude.searcher.BlendingSearcher'/>\
         <chain id='plain' inherits='vespa'/>",
    );
    let application = application(&services, &[]).unwrap();
    assert_eq!(
        sources(&application),
        [
            "api c 2.5s optional=true",
            "(api@p c 2.5s optional=true)",
            "d d",
            "(p c 100ms)",
            "(q c)",
            "web c or q c 100ms",
            "(web@p c 100ms)",
            "(web@q c)"
        ]
    );
    assert_eq!(
        federations(&application),
        [
            "apart groups: api, d, web",
            "default blends: web 3s, q",
            "heir groups: api, d, web",
            "unblended groups: api, d, web"
        ]
    );
    let warnings = application.warnings.join("\n");
    assert!(warnings.contains("requestTimeout has no effect"), "{warnings}");
    assert!(
        warnings.contains("to exclude 'com.yahoo.prelude.querytransform.StemmingSearcher' has no effect")
    );
    assert!(!warnings.contains("BlendingSearcher"), "{warnings}");
}

#[test]
fn what_cannot_be_federated_is_refused() {
    let provider = "<provider id='p' type='local' cluster='c'";
    let in_provider = |inside: &str| format!("{provider}>{inside}</provider>");
    let chain = |inside: &str| format!("<chain id='x'>{inside}</chain>");
    for (search, expected) in [
        (in_provider("<source/>"), "<source> needs an 'id', or the 'idref' of one"),
        (in_provider("<source idref='web'/>"), "no provider has <source id='web'>"),
        (in_provider("<source id='web'/><source id='web'/>"), "two sources with the name 'web@p'"),
        (in_provider("<source id='p'/>"), "two sources with the name 'p'"),
        (in_provider("<source id='d'/>"), "'d' is the name of a content cluster"),
        (
            in_provider("<source id='w'><searcher id='a.B' bundle='b'/></source>"),
            "Java components do not run",
        ),
        (in_provider("<federation id='f'/>"), "a provider asks one content cluster: put it into a <chain>"),
        (in_provider("<federationoptions timeout='soon'/>"), "timeout is 'soon': expected seconds, or"),
        (in_provider("<federationoptions timeout='0'/>"), "timeout is '0': expected seconds, or"),
        (
            in_provider("<federationoptions optional='maybe'/>"),
            "optional is 'maybe': expected 'true' or 'false'",
        ),
        (in_provider("<federationoptions timout='1'/>"), "no attribute 'timout' (did you mean 'timeout'?)"),
        (format!("{provider}/>{provider}/>"), "two sources with the name 'p'"),
        (chain("<federation id='f'/>"), "<federation> names no sources: add <source idref='…'/>"),
        (chain("<federation id='f'><source/></federation>"), "<source> needs the attribute 'idref'"),
        (chain("<federation id='f'><source idref='e'/></federation>"), "no source 'e'"),
        (
            format!("{provider}/>{}", chain("<federation id='f'><source idref='c'/></federation>")),
            "no source 'c'",
        ),
        (chain("<federation idref='f'/>"), "there is no <federation id='f'> in <search>"),
        (
            chain("<federation id='f'><source-set inherits='all'/></federation>"),
            "no source set 'all', only 'default'",
        ),
        (
            chain("<federation id='f'><target-selector id='a.B'/></federation>"),
            "Java components do not run here",
        ),
        (
            chain(
                "<federation id='f'><source idref='c'/></federation><federation id='g'><source idref='d'/></federation>",
            ),
            "a chain has one <federation>",
        ),
    ] {
        refuses(&searching(&search), expected);
    }
}

#[test]
fn what_cannot_work_is_refused() {
    refuses("<services>", "not well-formed XML");
    refuses("<service/>", "expected <services>");
    refuses("<services/>", "no content cluster");
    refuses(
        "<services>\n  <contnt/></services>",
        "2:3: unknown element <contnt> in <services> (did you mean 'content'?)",
    );
    refuses("<services><content id='c'/></services>", "<content> needs <documents>");
    refuses("<services><content><documents/></content></services>", "names no document type");
    refuses(
        "<services><content><documents><document mode='index'/></documents></content></services>",
        "needs the attribute 'type'",
    );
    refuses(
        "<services><content><documents><document type='mial' mode='index'/></documents></content></services>",
        "no schema for document type 'mial' (did you mean 'mail'?)",
    );
    refuses(
        "<services><content><documents><document type='mail' mode='fast'/></documents></content></services>",
        "unknown mode 'fast'",
    );
    refuses(
        "<services><content><documents><document type='mail' mode='index' global='true'/></documents></content></services>",
        "global documents are not supported",
    );
    refuses(
        "<services><content><redundancy>many</redundancy><documents><document type='mail' mode='index'/></documents></content></services>",
        "'many' in <redundancy> is not a number",
    );
    refuses(
        "<services><content><documents><document type='mail' mode='index'/></documents><tuning><max-document-size>9e99</max-document-size></tuning></content></services>",
        "'9e99' is not a size",
    );
    for (tuning, expected) in [
        ("<tuning><max-document-size>100kB</max-document-size></tuning>", "from 1MiB to 2048MiB"),
        ("<tuning><resource-limits><disk>75</disk></resource-limits></tuning>", "a share between 0 and 1"),
        ("<search><query-timeout>601</query-timeout></search>", "seconds from 0 to 600"),
        ("<engine><proton><query-timeout>601</query-timeout></proton></engine>", "seconds from 0 to 600"),
        ("<tuning><bucket-splitting minimum-bits='many'/></tuning>", "'many' in <bucket-splitting>"),
    ] {
        refuses(
            &format!("<services>{}</services>", MAIL.replace("</content>", &format!("{tuning}</content>"))),
            expected,
        );
    }
    refuses(&format!("<services>{MAIL}{MAIL}</services>"), "two content clusters with the id 'c'");
    refuses(
        &format!(
            "<services>{MAIL}<container><search><provider id='p' type='local' cluster='e'/></search></container></services>"
        ),
        "no content cluster 'e'",
    );
    refuses(
        &format!(
            "<services>{MAIL}<container><search><provider id='p' cluster='c'/></search></container></services>"
        ),
        "other services are not searched",
    );
    for (inside, expected) in [
        ("<handler id='h' class='a.B' bundle='b'/>", "Java components do not run here"),
        (
            "<handler id='ai.vespa.mcp.MCPRequestHandler'/>",
            "do its work in the client (did you mean 'ai.vespa.mcp.McpRequestHandler'?)",
        ),
        (
            "<search><chain id='default'><searcher id='ai.vespa.llm.search.RagSearcher'/></chain></search>",
            "do its work in the client (did you mean 'ai.vespa.search.llm.RAGSearcher'?)",
        ),
        (
            "<search><chain id='default'><searcher id='s' bundle='b'/></chain></search>",
            "Java components do not run here",
        ),
        ("<component id='a.B' bundle='b'/>", "component 'a.B': Java components"),
        ("<component id='e' type='hugging-face-embedder'/>", "needs <transformer-model path='…'/>"),
        (
            "<component id='e' type='splade-embedder'><transformer-model model-id='splade'/></component>",
            "no model hub: put the file into the package",
        ),
        (
            "<component id='e' type='bert-embedder'><normalise>true</normalise></component>",
            "bert-embedder has no setting <normalise>",
        ),
        (
            "<component id='e' type='hugging-face-embedder'><pooling-strategy>max</pooling-strategy></component>",
            "<pooling-strategy> is 'max': expected",
        ),
        ("<component id='e' type='openai-embedder'><dimensions>3</dimensions></component>", "needs <model>"),
        (
            "<component id='e' type='openai-embedder'><model>m</model><dimensions>no</dimensions></component>",
            "<dimensions> must be a number above 0",
        ),
        (
            "<component id='e' type='openai-embedder'><model>m</model><dimensions>3</dimensions><endpoint>a.b</endpoint></component>",
            "expected an address such as https://",
        ),
        ("<component id='e' type='hugging-face-tokenizer'/>", "needs <model path='…'/>"),
        (
            "<component id='l' class='ai.vespa.llm.clients.LocalLLM'/>",
            "run a server that speaks OpenAI's protocol beside",
        ),
        (
            "<component id='l' class='ai.vespa.llm.clients.OpenAI'><config name='ai.vespa.llm.clients.llm-client'><modell/></config></component>",
            "has no setting <modell> (did you mean 'model'?)",
        ),
        (
            "<component id='l' class='ai.vespa.llm.clients.OpenAI'><config name='ai.vespa.llm.clients.llm-client'><endpoint>a.b</endpoint></config></component>",
            "<endpoint> is 'a.b': expected an address",
        ),
        (
            "<component id='l' class='ai.vespa.llm.clients.OpenAI'><config name='ai.vespa.llm.clients.llm-client'><maxTokens>few</maxTokens></config></component>",
            "'few' in <maxTokens> is not a number",
        ),
        (
            "<search><chain id='rag'><searcher id='ai.vespa.search.llm.RAGSearcher'/></chain></search>",
            "no language model to ask: add <component id='openai'",
        ),
        (
            "<component id='l' class='ai.vespa.llm.clients.OpenAI'/><search><chain id='rag'><searcher id='ai.vespa.search.llm.RAGSearcher'><config name='ai.vespa.search.llm.llm-searcher'><providerId>k</providerId></config></searcher></chain></search>",
            "no language model 'k': expected 'l'",
        ),
        (
            "<component id='l' class='ai.vespa.llm.clients.OpenAI'/><search><chain id='rag'><searcher id='ai.vespa.search.llm.RAGSearcher'><config name='ai.vespa.search.llm.llm-searcher'><promptTemplate>ask.txt</promptTemplate></config></searcher></chain></search>",
            "the package has no file 'ask.txt'",
        ),
        (
            "<search><chain id='rag' inherits='vespa'/><chain id='rag' inherits='native'/></search>",
            "there are two chains with the id 'rag'",
        ),
        ("<component id='e' type='magic-embedder'/>", "unknown component type 'magic-embedder'"),
        ("<http><server id='s' port='${port}'/></http>", "no property 'port'"),
        ("<http><server id='s' port='99999'/></http>", "'99999' in <server> is not a number"),
    ] {
        refuses(&format!("<services><container id='d'>{inside}</container>{MAIL}</services>"), expected);
    }
}

#[test]
fn chains_that_ask_language_models_are_read() {
    let services = r#"<services>
      <container id="default">
        <component id="openai" class="ai.vespa.llm.clients.OpenAI">
          <config name="ai.vespa.llm.clients.llm-client">
            <apiKeySecretRef>myApiKey</apiKeySecretRef>
            <endpoint>http://127.0.0.1:8080/v1/</endpoint>
            <model>m-1</model><maxTokens>200</maxTokens><temperature>0</temperature>
          </config>
        </component>
        <component id="other" class="ai.vespa.llm.clients.OpenAI"/>
        <search>
          <searcher id="shared" class="ai.vespa.search.llm.LLMSearcher">
            <config name="ai.vespa.llm.search.llm-searcher"><propertyPrefix>say</propertyPrefix><stream>false</stream></config>
          </searcher>
          <chain id="plain" inherits="vespa"/>
          <chain id="rag" inherits="vespa">
            <searcher id="ai.vespa.search.llm.RAGSearcher">
              <config name="ai.vespa.search.llm.llm-searcher">
                <providerId>other</providerId><promptTemplate>prompts/ask.txt</promptTemplate>
              </config>
            </searcher>
          </chain>
          <chain id="brief" inherits="rag">
            <searcher id="ai.vespa.search.llm.RAGSearcher">
              <config name="ai.vespa.search.llm.llm-searcher">
                <prompt>Briefly: @query</prompt><promptTemplate>prompts/ask.txt</promptTemplate>
              </config>
            </searcher>
          </chain>
          <chain id="heir" inherits="round rag"/>
          <chain id="round" inherits="heir"/>
          <chain id="say" inherits="vepsa"><searcher idref="shared"/></chain>
        </search>
      </container>"#;
    let files = [("prompts/ask.txt", "Answer in German.\n{context}\n@query\n")];
    let read = application(&format!("{services}{MAIL}</services>"), &files).unwrap();
    let expected = "services.xml:32:11: chain 'say' inherits 'vepsa', which is not a chain (did you mean 'vespa'?): it has no effect";
    assert_eq!(read.warnings, [expected]);
    let container = read.container;
    let [first, second] = &container.language_models[..] else { panic!("two models") };
    assert_eq!((first.endpoint.as_str(), first.model.as_str()), ("http://127.0.0.1:8080/v1/", "m-1"));
    assert_eq!(first.secret.as_deref(), Some("myApiKey"));
    assert_eq!((first.tokens_max, first.temperature), (Some(200), Some(0.0)));
    assert_eq!(second.endpoint, "https://api.openai.com/v1/");
    assert_eq!((second.tokens_max, second.temperature, &second.secret), (None, None, &None));
    let asks = |id: &str| {
        let chain = container.chains.iter().find(|chain| chain.id == id).expect(id);
        chain
            .asks
            .as_ref()
            .map(|asks| format!("{} {} {} {}", asks.model, asks.prefix, asks.streams, asks.about_hits))
    };
    assert_eq!(asks("plain"), None);
    assert_eq!(asks("rag").as_deref(), Some("other llm true true"));
    assert_eq!(asks("heir"), asks("rag"));
    assert_eq!(asks("round"), asks("rag"));
    assert_eq!(asks("say").as_deref(), Some("openai say false false"));
    let prompts = container.chains.iter().filter_map(|chain| {
        Some(format!("{}: {}", chain.id, chain.asks.as_ref()?.prompt.as_deref().unwrap_or("none")))
    });
    let of_file = "Answer in German.\n{context}\n@query";
    assert_eq!(
        prompts.collect::<Vec<_>>(),
        [
            format!("rag: {of_file}"),
            "brief: Briefly: @query".to_owned(),
            format!("heir: {of_file}"),
            format!("round: {of_file}"),
            "say: none".to_owned(),
        ]
    );
}

#[test]
fn embedders_of_other_services_are_read() {
    let component = |kind: &str, settings: &str| {
        format!(
            "<services><container id='c'><component id='e' type='{kind}'>{settings}</component></container>{MAIL}</services>"
        )
    };
    let check =
        |kind: &str, settings: &str, service: EmbeddingService, endpoint: &str, cells: VectorQuantization| {
            let application = application(&component(kind, settings), &[]).expect(settings);
            let EmbedderImplementation::Remote(remote) = &application.container.embedders[0].means else {
                panic!("another service")
            };
            assert_eq!((remote.service, remote.endpoint.as_str()), (service, endpoint));
            assert_eq!((remote.quantization, remote.secret.as_deref()), (cells, Some("k")));
        };
    let secret = "<api-key-secret-ref>k</api-key-secret-ref>";
    let settings = |model: &str, more: &str| {
        format!("<model>{model}</model>{secret}<dimensions>1024</dimensions>{more}")
    };
    let voyage = |truncates, in_context| EmbeddingService::Voyage { truncates, in_context };
    let at = "https://api.voyageai.com/v1/embeddings";
    check("voyage-ai-embedder", &settings("voyage-4", ""), voyage(true, false), at, VectorQuantization::Auto);
    let more =
        "<truncate>false</truncate><quantization>binary</quantization><endpoint>http://h/v1</endpoint>";
    let all = settings("voyage-law-2", &format!("{more}<batching max-size='16' max-delay='200ms'/>"));
    check("voyage-ai-embedder", &all, voyage(false, false), "http://h/v1", VectorQuantization::Binary);
    let at = "https://api.voyageai.com/v1/contextualizedembeddings";
    check(
        "voyage-ai-embedder",
        &settings("voyage-context-3", ""),
        voyage(true, true),
        at,
        VectorQuantization::Auto,
    );
    let (mistral, at) = (EmbeddingService::Mistral, "https://api.mistral.ai/v1/embeddings");
    let int8 = settings("codestral-embed", "<quantization>int8</quantization>");
    check("mistral-embedder", &int8, mistral, at, VectorQuantization::Int8);
    let auto = settings("mistral-embed", "<quantization>auto</quantization>");
    check("mistral-embedder", &auto, mistral, at, VectorQuantization::Auto);
    for (kind, settings, expected) in [
        (
            "mistral-embedder",
            "<model>m</model><dimensions>8</dimensions>".to_owned(),
            "needs <api-key-secret-ref>",
        ),
        ("mistral-embedder", settings("m", "<truncate>true</truncate>"), "has no setting <truncate>"),
        (
            "openai-embedder",
            settings("m", "<quantization>int8</quantization>"),
            "has no setting <quantization>",
        ),
        (
            "voyage-ai-embedder",
            settings("m", "<quantization>bits</quantization>"),
            "<quantization> is 'bits': expected 'auto', 'float', 'int8' or 'binary'",
        ),
        (
            "voyage-ai-embedder",
            settings("m", "").replace("1024", "1000"),
            "<dimensions> is 1000: expected one of [256, 512, 1024, 1536, 2048]",
        ),
        ("voyage-ai-embedder", settings("voyage-multimodal-3", ""), "only models of text are asked"),
    ] {
        refuses(&component(kind, &settings), expected);
    }
}

#[test]
fn field_generators_are_read() {
    const PROMPT: &str = "About {input}, as {jsonSchema}: {input}\n";
    let read = |config: &str| {
        let services = format!(
            "<services><container id='default'>
              <component id='ask' class='ai.vespa.llm.generation.LanguageModelFieldGenerator'>
                <config name='ai.vespa.llm.generation.language-model-field-generator'>{config}</config>
              </component>
              <component id='far' class='ai.vespa.llm.clients.OpenAI'/>
              <component id='other' class='ai.vespa.llm.clients.OpenAI'/>
            </container>{MAIL}</services>"
        );
        application(&services, &[("prompts/ask.txt", PROMPT), ("prompts/none.txt", "{Input}")])
    };
    let check =
        |config: &str, model: &str, structured: bool, on_misfit: InvalidAnswerPolicy, prompt: &str| {
            let application = read(config).unwrap();
            let [generator] = &application.container.generators[..] else { panic!("one generator") };
            assert_eq!((generator.id.as_str(), generator.model.as_str()), ("ask", model));
            assert_eq!((generator.structured, generator.on_misfit), (structured, on_misfit), "{config}");
            assert_eq!(generator.template.fill("the {jsonSchema} {input}", "{}"), prompt);
            assert_eq!(application.warnings, Vec::<String>::new());
        };
    check(
        "<providerId>other</providerId>",
        "other",
        true,
        InvalidAnswerPolicy::Discard,
        "the {jsonSchema} {input}",
    );
    let all = "<promptTemplate>{input}!</promptTemplate><responseFormatType>TEXT</responseFormatType>
               <invalidResponseFormatPolicy>FAIL</invalidResponseFormatPolicy>";
    check(all, "far", false, InvalidAnswerPolicy::Fail, "the {jsonSchema} {input}!");
    let file = "<promptTemplate>no</promptTemplate><promptTemplateFile>prompts/ask.txt</promptTemplateFile>
                <invalidResponseFormatPolicy>WARN</invalidResponseFormatPolicy>";
    let prompt = "About the {jsonSchema} {input}, as {}: the {jsonSchema} {input}\n";
    check(file, "far", true, InvalidAnswerPolicy::Warn, prompt);
    for (config, expected) in [
        ("<promptTemplate>why?</promptTemplate>", "the prompt template has no {input}"),
        ("<promptTemplateFile>prompts/none.txt</promptTemplateFile>", "the prompt template has no {input}"),
        ("<promptTemplateFile>ask.txt</promptTemplateFile>", "the package has no file 'ask.txt'"),
        ("<providerId>near</providerId>", "no language model 'near': expected 'far' or 'other'"),
        (
            "<responseFormatType>XML</responseFormatType>",
            "<responseFormatType> is 'XML': expected 'JSON' or 'TEXT'",
        ),
        (
            "<invalidResponseFormatPolicy>DROP</invalidResponseFormatPolicy>",
            "expected 'DISCARD', 'WARN' or 'FAIL'",
        ),
        ("<providerid>far</providerid>", "has no setting <providerid> (did you mean 'providerId'?)"),
    ] {
        let error = read(config).expect_err(expected).to_string();
        assert!(error.contains(expected), "{error}");
    }
}

#[test]
fn files_are_included_where_they_are_named() {
    let services = |path: &str| {
        format!(
            "<services xmlns:preprocess='properties'>\n<preprocess:properties><kept>77</kept></preprocess:properties>\n<preprocess:include file='{path}'/>\n</services>"
        )
    };
    let content = "<?xml version='1.0'?>\n<content id='c'>\n<preprocess:include file='parts/documents.xml'/>\n<tuning><bucket-splitting max-documents='${kept}77'/></tuning></content>\n";
    let documents = "<documents>\n<document type='mail' mode='streaming'/></documents>";
    let files = [
        ("parts/content.xml", content),
        ("parts/documents.xml", documents),
        ("parts/itself.xml", "<preprocess:include file='parts/itself.xml'/>"),
        ("parts/wrong.xml", "<content id='c'>\n<dokuments/></content>"),
        ("parts/open.xml", "<content id='c'>\n  </kontent>"),
        ("parts/unset.xml", "<content id='${kept}'>\n<a>${unset}</a></content>"),
        ("parts/two.xml", "<!-- nothing\nhere -->"),
        ("more/search/a.xml", "<search>\n <chain\n  id='c'>\n <zearcher/></chain></search>"),
    ];
    let cluster = &application(&services("parts/content.xml"), &files).expect("it works").content[0];
    assert_eq!((&*cluster.id, cluster.tuning.bucket_documents_max), ("c", Some(7777)));
    for (path, expected) in [
        ("parts/other.xml", "services.xml:3:1: the package has no file 'parts/other.xml'"),
        ("parts/itself.xml", "parts/itself.xml:1:1: files are included in files more than 8 deep"),
        ("parts/wrong.xml", "parts/wrong.xml:2:1: "),
        ("parts/open.xml", "parts/open.xml:2:"),
        ("parts/unset.xml", "parts/unset.xml:2:1: no property 'unset'"),
    ] {
        let error = application(&services(path), &files).map(|_| ()).expect_err(path).to_string();
        assert!(error.starts_with(expected), "{error}");
    }
    // What follows an included file has its place in services.xml.
    let lines = "<services><container id='d'><search><include\n dir='more/search'/></search>\n<x/></container></services>";
    for (services, expected) in [
        (services("parts/two.xml' /><wrong a='"), "services.xml:3:44: unknown element <wrong>"),
        (lines.to_owned(), "more/search/a.xml:4:2: unknown element <zearcher>"),
        (lines.to_owned(), "services.xml:3:1: unknown element <x>"),
    ] {
        let error = application(&services, &files).map(|_| ()).expect_err(expected).to_string();
        assert!(error.contains(expected), "{expected}: {error}");
    }
}

#[test]
fn a_package_without_its_files_says_which() {
    let check = |files: &[(&str, &str)], expected: &str| {
        let files = files.iter().map(|(path, text)| ((*path).to_owned(), text.as_bytes().to_vec())).collect();
        let message = Application::from_files(files).unwrap_err().to_string();
        assert!(message.contains(expected), "{message}");
    };
    check(&[("schemas/a.sd", "")], "no services.xml");
    check(&[("app/services.xml", "")], "not at the root but at app/services.xml");
    check(&[("services.xml", "<services/>")], "no schemas");
}

#[test]
fn bindings_are_addresses_with_paths() {
    let services = |handler: &str, binding: &str| {
        let inside = format!("<{handler}><binding>{binding}</binding></{handler}>");
        format!("<services><container id='a'>{inside}</container>{MAIL}</services>")
    };
    for (handler, binding, path) in [
        ("search", "http://*/find/*", "/find/*"),
        ("search", " https://host:8080/find ", "/find"),
        ("search", "*://*:*/*", "/*"),
        ("document-api", "http://*/api", "/api/"),
        ("document-api", "http://*/", "/"),
    ] {
        let application = application(&services(handler, binding), &[]).unwrap();
        let paths: Vec<&str> =
            application.container.bindings.iter().map(|binding| binding.path.as_str()).collect();
        assert_eq!(paths, ["/search/*", path], "{binding}");
        assert!(application.warnings.iter().all(|warning| !warning.contains("binding")), "{binding}");
    }
    for binding in [
        "",
        "find",
        "/find/*",
        "http://host",
        "http:///find",
        "http://*:x/find",
        "http://*:/find",
        "a:b://*/find",
    ] {
        refuses(&services("search", binding), "is not a scheme, host, port and path");
    }
    for path in ["/find?a=*", "/a//b", "/a/../b", "/%66ind", "/a#b"] {
        let application = application(&services("search", &format!("http://*{path}")), &[]).unwrap();
        let warned =
            application.warnings.iter().any(|warning| warning.contains(&format!("'http://*{path}'")));
        assert!(warned, "{path}: {:?}", application.warnings);
    }
}

#[test]
fn words_of_the_query_have_the_markup_of_the_container() {
    let tag = |inside: &str| format!("<config name='container.qr-searchers'><tag>{inside}</tag></config>");
    let bold = tag("<bold><open>&lt;b&gt;</open><close/></bold>");
    let separator = tag("<separator> ... </separator>");
    for container in
        [format!("<search>{bold}</search>{separator}"), format!("<search>{separator}</search>{bold}")]
    {
        let services = format!("<services><container id='a'>{container}</container>{MAIL}</services>");
        let application = application(&services, &[]).unwrap();
        let markup = &application.content[0].snippets.markup;
        let texts = [&markup.open, &markup.close, &markup.separator].map(|text| text.as_deref());
        assert_eq!(texts, [Some("<b>"), Some(""), Some(" ... ")], "{container}");
        let warned = application.warnings.iter().any(|warning| warning.contains("config"));
        assert!(!warned, "{:?}", application.warnings);
    }
    refuses(&format!("<services>{}{MAIL}</services>", tag("<bald/>")), "unknown setting <bald>");
}

#[test]
fn snippets_have_their_lengths() {
    let config =
        |inside: &str| format!("<config name='vespa.config.search.summary.juniperrc'>{inside}</config>");
    let cluster = |inside: &str| MAIL.replace("<documents>", &format!("{inside}<documents>"));
    let all = config("<length>64</length><prefix>false</prefix>");
    let own = config(
        "<length>1000</length><max_matches>2</max_matches><surround_max>9</surround_max><min_length>5</min_length>",
    );
    let services = format!("<services>{all}{}</services>", cluster(&own));
    let application = application(&services, &[]).unwrap();
    let snippets = application.content[0].snippets.usual;
    assert!(application.content[0].snippets.fields.is_empty());
    assert_eq!((snippets.length, snippets.max_matches), (Some(1000), Some(2)));
    assert_eq!(
        (snippets.surround_max, snippets.min_length, snippets.prefix),
        (Some(9), Some(5), Some(false))
    );
    let warned = |part: &str| application.warnings.iter().any(|warning| warning.contains(part));
    assert!(!warned("config"), "{:?}", application.warnings);
    refuses(
        &format!("<services>{}</services>", cluster(&config("<size>1</size>"))),
        "unknown setting <size>",
    );
    let fields = config(
        "<override><item><fieldname>f</fieldname><length>7</length></item></override><override operation='append'><fieldname>g</fieldname></override>",
    );
    let application = self::application(&format!("<services>{}</services>", cluster(&fields)), &[]).unwrap();
    let lengths = |field: &str| application.content[0].snippets.fields[field].length;
    assert_eq!((lengths("f"), lengths("g")), (Some(7), None));
    refuses(&format!("<services>{}</services>", cluster(&config("<length>-1</length>"))), "-1");
}
