//! Fields that a language model generates while documents are fed: the test plays the service, over real
//! sockets.

use std::sync::Arc;

use hyper::Method;
use parking_lot::Mutex;
use serde_json::{Value, json};

use crate::mock::{MockReply, MockRequest, MockServer};
use crate::support::{TestServer, services_with};

const NOTES: &str = "schema note {
  document note {
    field text type string { indexing: summary | index }
    field stars type int { indexing: summary | attribute }
  }
  field questions type array<string> { indexing: input text | generate asker | summary | index }
  field again type array<string> { indexing: input text | generate asker | summary }
  field length type int { indexing: input text | generate counter | summary | attribute }
  field mood type string { indexing: \"title: \" . input text | generate plain | summary | index }
  field strict type bool { indexing: input text | generate strict | summary | attribute }
  document-summary all { summary text { } summary questions { } summary again { } summary length { } summary mood { } summary strict { } }
}";

/// Secret of the tests' application, the host that it may be sent to, and the permitted services.
const SECRET: [(&str, &str); 3] = [
    ("MILLRACE_SECRET_MYKEY", "hush"),
    ("MILLRACE_SECRET", "myKey=127.0.0.1"),
    ("MILLRACE_OUTBOUND_ALLOW", "127.0.0.1"),
];

/// A service that answers according to the request, and a record of the requests.
struct GeneratorService {
    service: MockServer,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl GeneratorService {
    fn start() -> Self {
        let asked = Arc::new(Mutex::new(Vec::new()));
        let log = Arc::clone(&asked);
        let service = MockServer::start(move |request: &MockRequest| {
            let body = request.json();
            let answer = match request.authorization.as_deref() {
                Some("Bearer hush") => answer(&body),
                _ => MockReply::json(401, json!({ "error": { "message": "who are you" } })),
            };
            log.lock().push(body);
            answer
        });
        GeneratorService { service, asked }
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.asked.lock())
    }

    fn services(&self) -> String {
        let generator = |id: &str, config: &str| {
            format!(
                "<component id='{id}' class='ai.vespa.llm.generation.LanguageModelFieldGenerator'>
                  <config name='ai.vespa.llm.generation.language-model-field-generator'>
                    <providerId>far</providerId>{config}
                  </config>
                </component>"
            )
        };
        let policy =
            |name: &str| format!("<invalidResponseFormatPolicy>{name}</invalidResponseFormatPolicy>");
        services_with(&format!(
            "    <search/><document-api/>
            <component id='far' class='ai.vespa.llm.clients.OpenAI'>
              <config name='ai.vespa.llm.clients.llm-client'>
                <apiKeySecretRef>myKey</apiKeySecretRef>
                <endpoint>{}</endpoint><model>m-1</model><maxTokens>50</maxTokens><temperature>0</temperature>
              </config>
            </component>
            {}{}{}{}",
            self.service.url("/v1"),
            generator("asker", "<promptTemplateFile>prompts/ask.txt</promptTemplateFile>"),
            generator("counter", &policy("WARN")),
            generator(
                "plain",
                "<responseFormatType>TEXT</responseFormatType><promptTemplate>Mood of {input}</promptTemplate>"
            ),
            generator("strict", &policy("FAIL")),
        ))
    }

    fn deploy(&self, server: &TestServer, schema: &str) -> (u16, Value) {
        server.deploy(&[
            ("services.xml", &self.services()),
            ("schemas/note.sd", schema),
            ("prompts/ask.txt", "Two questions about {input}"),
        ])
    }
}

/// Answers with the requested type; with `odd` in the text, with another type; with `poison`, not at all.
fn answer(body: &Value) -> MockReply {
    let prompt = body["messages"][0]["content"].as_str().expect("a prompt");
    let form = &body["response_format"]["json_schema"]["schema"];
    let said = match form["required"][0].as_str() {
        _ if prompt.contains("poison") => {
            return MockReply::json(400, json!({ "error": { "message": "not this" } }));
        }
        None => format!("good ({prompt})"),
        Some(name) => {
            let value = match form["properties"][name]["type"].as_str().expect("a type") {
                "array" => json!(["What is it?", "Why is it?"]),
                "integer" if prompt.contains("odd") => json!("many"),
                "integer" => json!(prompt.len()),
                "boolean" if prompt.contains("strange") => json!("perhaps"),
                "boolean" => json!(true),
                other => panic!("{other} is not asked for"),
            };
            json!({ name: value }).to_string()
        }
    };
    MockReply::json(200, json!({ "choices": [{ "message": { "content": said } }] }))
}

fn put(server: &TestServer, id: &str, text: &str) -> (u16, Value) {
    let fields = json!({ "fields": { "text": text, "stars": 1 } }).to_string();
    server.call(Method::POST, &format!("/document/v1/n/note/group/ann/{id}"), &fields)
}

fn search(server: &TestServer, yql: &str) -> Value {
    let (status, answer) = server.query(&[("yql", yql), ("streaming.groupname", "ann"), ("summary", "all")]);
    assert_eq!(status, 200, "{answer}");
    answer["root"].clone()
}

#[test]
fn fields_are_written_by_a_model_when_documents_are() {
    let service = GeneratorService::start();
    let server = TestServer::start_with(&SECRET);
    let (status, answer) = service.deploy(&server, NOTES);
    assert_eq!(status, 200, "{answer}");
    assert!(!answer.to_string().contains("has no effect"), "{answer}");
    let (status, answer) = put(&server, "1", "barley");
    assert_eq!(status, 200, "{answer}");
    let root = search(&server, "select * from note where questions contains 'why'");
    let expected = json!({
        "text": "barley", "questions": ["What is it?", "Why is it?"], "again": ["What is it?", "Why is it?"], "length": 6,
        "mood": "good (Mood of title: barley)", "strict": true, "sddocname": "note",
    });
    assert_eq!(root["children"][0]["fields"], expected, "{root}");

    // One request of each generator, in the form of the field's type.
    let asked = service.asked();
    assert_eq!(asked.len(), 4, "{asked:?}");
    let ask = |part: &str| {
        let prompt =
            |body: &&Value| body["messages"][0]["content"].as_str().is_some_and(|text| text.contains(part));
        asked.iter().find(prompt).expect(part)
    };
    let ask = |part: &str| ask(part).clone();
    let schema = json!({
        "type": "object",
        "properties": { "note.questions": { "type": "array", "items": { "type": "string" } } },
        "required": ["note.questions"],
        "additionalProperties": false,
    });
    let format = json!({ "type": "json_schema", "json_schema": { "name": "answer", "schema": schema, "strict": false } });
    assert_eq!(
        ask("questions about"),
        json!({
            "model": "m-1", "max_completion_tokens": 50, "max_tokens": 50, "temperature": 0.0, "stream": false, "response_format": format,
            "messages": [{ "role": "user", "content": "Two questions about barley" }],
        })
    );
    assert_eq!(ask("Mood")["response_format"], Value::Null);

    // An update repeats the request if it changes the generator's input, and only then.
    let update = |fields: Value| {
        let body = json!({ "fields": fields }).to_string();
        let (status, answer) = server.call(Method::PUT, "/document/v1/n/note/group/ann/1", &body);
        assert_eq!(status, 200, "{answer}");
    };
    update(json!({ "stars": { "assign": 5 } }));
    assert_eq!(service.asked().len(), 0);
    update(json!({ "text": { "assign": "oats and rye" } }));
    assert_eq!(service.asked().len(), 4);
    let root = search(&server, "select * from note where length = 12 and stars = 5");
    assert_eq!(root["fields"]["totalCount"], 1, "{root}");
}

#[test]
fn an_answer_of_another_form_follows_the_policy_and_a_refusal_the_documents() {
    let service = GeneratorService::start();
    let server = TestServer::start_with(&SECRET);
    let (status, answer) = service.deploy(&server, NOTES);
    assert_eq!(status, 200, "{answer}");
    assert_eq!(put(&server, "1", "odd").0, 200);
    let root = search(&server, "select * from note where strict = true");
    let fields = &root["children"][0]["fields"];
    assert_eq!((&fields["text"], &fields["length"]), (&json!("odd"), &Value::Null), "{root}");
    let refused = |text: &str, expected: &str| {
        let (status, answer) = put(&server, "2", text);
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(expected), "{status} {answer}");
    };
    refused(
        "strange",
        "field 'strict': indexing: generator 'strict': the answer is not of type bool for note.strict",
    );
    refused("poison", "refuses the text: 400: not this");
    assert_eq!(search(&server, "select * from note where true")["fields"]["totalCount"], 1);
}

#[test]
fn generators_that_cannot_work_are_reported_at_deployment() {
    let service = GeneratorService::start();
    let server = TestServer::start_with(&SECRET);
    let refused = |from: &str, to: &str, expected: &str| {
        let (status, answer) = service.deploy(&server, &NOTES.replace(from, to));
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(status == 400 && message.contains(expected), "{status} {answer}");
    };
    refused("generate counter", "generate", "generate needs the id of a field generator");
    refused(
        "generate counter",
        "generate other",
        "note.sd:8:50: field 'length': indexing: no field generator 'other', only 'asker', 'counter', 'plain', 'strict'",
    );
    refused("length type int", "length type map<string, int>", "a map<string,int> cannot be generated");
    refused(
        "mood type string",
        "mood type int",
        "has the responseFormatType TEXT, which makes strings, not a int",
    );
    refused(
        "input text | generate counter",
        "input stars | generate counter",
        "generate needs a string, not a int",
    );
}
