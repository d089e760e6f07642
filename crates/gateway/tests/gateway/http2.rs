//! Bounds of HTTP/2 connections: requests whose bodies stand still do not stop the others, and a request has
//! so many headers.

use std::time::Duration;

use axum::Router;
use axum::extract::Request as Received;
use axum::routing::{get, post};
use h2::client::SendRequest;
use hyper::Request;
use hyper::body::Bytes;
use millrace_gateway::{PortLimits, RequestLimits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Streams whose bodies may stand still at a time, by the default of the memory for bodies: half of it, in
/// parts of 3 MB.
const STILL: usize = 16;

/// Time after which a request that is stopped fails the test.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// Connects to a server with these endpoints. It ends when the sender is dropped.
async fn connected(endpoints: Router) -> (SendRequest<Bytes>, watch::Sender<bool>) {
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (running, stop) = watch::channel(false);
    let limits = PortLimits::new(&RequestLimits::default());
    let service = millrace_gateway::routed(endpoints);
    tokio::spawn(millrace_gateway::serve(listener, None, limits, service, stop, Duration::ZERO));
    let socket = TcpStream::connect(address).await.expect("the server listens");
    let (client, connection) = h2::client::handshake(socket).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    (client, running)
}

#[tokio::test]
async fn bodies_that_stand_still_do_not_stop_others_of_their_connection() {
    // As a stream of operations that waits for the store, or for its client to read.
    let still = |request: Received| async move {
        let _request = request;
        std::future::pending::<()>().await;
    };
    let read = |body: Bytes| async move { body.len().to_string() };
    let endpoints = Router::new().route("/still", post(still)).route("/read", post(read));
    let (mut client, _running) = connected(endpoints).await;
    let mut in_flight = Vec::new();
    for _ in 0..STILL {
        client = client.ready().await.expect("there may be another request");
        let request = Request::post("http://localhost/still").body(()).expect("its address is valid");
        let (answer, mut body) = client.send_request(request, false).expect("it is sent");
        // The server takes what its windows allow; the rest waits here.
        body.send_data(Bytes::from(vec![0; 1 << 20]), false).expect("it is queued");
        in_flight.push((answer, body));
    }
    client = client.ready().await.expect("there may be another request");
    let request = Request::post("http://localhost/read").body(()).expect("its address is valid");
    let (answer, mut body) = client.send_request(request, false).expect("it is sent");
    body.send_data(Bytes::from(vec![0; 40_000]), true).expect("it is queued");
    let answer = tokio::time::timeout(REQUEST_TIMEOUT, answer).await.expect("the others do not stop it");
    let mut answer = answer.expect("it is answered").into_body();
    let length = answer.data().await.expect("the answer has a body").expect("it comes");
    assert_eq!(length, "40000");
    drop(in_flight);
}

#[tokio::test]
async fn a_request_with_very_many_headers_is_refused_alone() {
    let (mut client, _running) = connected(Router::new().route("/", get(|| async {}))).await;
    for (headers, status) in [(100, 200), (3000, 431), (1, 200)] {
        client = client.ready().await.expect("there may be another request");
        let mut request = Request::get("http://localhost/");
        for _ in 0..headers {
            request = request.header("a", "");
        }
        let request = request.body(()).expect("its headers are valid");
        let (answer, _) = client.send_request(request, true).expect("it is sent");
        assert_eq!(answer.await.expect("it is answered").status(), status, "{headers}");
    }
}
