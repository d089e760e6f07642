//! Windows of HTTP/2 connections: requests whose bodies stand still do not stop the others.

use std::time::Duration;

use axum::Router;
use axum::extract::Request as Received;
use axum::routing::post;
use hyper::Request;
use hyper::body::Bytes;
use millrace_gateway::{PortLimits, RequestLimits};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Streams whose bodies may stand still at a time, by the default of the memory for bodies: half of it, in
/// parts of 3 MB.
const STILL: usize = 16;

/// Time after which a request that is stopped fails the test.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::test]
async fn bodies_that_stand_still_do_not_stop_others_of_their_connection() {
    // As a stream of operations that waits for the store, or for its client to read.
    let still = |request: Received| async move {
        let _request = request;
        std::future::pending::<()>().await;
    };
    let read = |body: Bytes| async move { body.len().to_string() };
    let endpoints = Router::new().route("/still", post(still)).route("/read", post(read));
    let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
    let address = listener.local_addr().expect("it is bound");
    let (_running, stop) = watch::channel(false);
    let limits = PortLimits::new(&RequestLimits::default());
    let service = millrace_gateway::routed(endpoints);
    tokio::spawn(millrace_gateway::serve(listener, None, limits, service, stop, Duration::ZERO));

    let socket = TcpStream::connect(address).await.expect("the server listens");
    let (mut client, connection) = h2::client::handshake(socket).await.expect("it speaks HTTP/2");
    tokio::spawn(connection);
    let mut under_way = Vec::new();
    for _ in 0..STILL {
        client = client.ready().await.expect("there may be another request");
        let request = Request::post("http://localhost/still").body(()).expect("its address is valid");
        let (answer, mut body) = client.send_request(request, false).expect("it is sent");
        // The server takes what its windows allow; the rest waits here.
        body.send_data(Bytes::from(vec![0; 1 << 20]), false).expect("it is queued");
        under_way.push((answer, body));
    }
    client = client.ready().await.expect("there may be another request");
    let request = Request::post("http://localhost/read").body(()).expect("its address is valid");
    let (answer, mut body) = client.send_request(request, false).expect("it is sent");
    body.send_data(Bytes::from(vec![0; 40_000]), true).expect("it is queued");
    let answer = tokio::time::timeout(PATIENCE, answer).await.expect("the others do not stop it");
    let mut answer = answer.expect("it is answered").into_body();
    let length = answer.data().await.expect("the answer has a body").expect("it comes");
    assert_eq!(length, "40000");
    drop(under_way);
}
