//! Health and readiness, over real sockets.

use std::net::SocketAddr;
use std::time::Duration;

use danube_env::Env;
use danube_env::spawn::Running;
use danube_server::{Readiness, Watched, http, readiness};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{oneshot, watch};

struct Served {
    address: SocketAddr,
    readiness: watch::Sender<Readiness>,
    stop: oneshot::Sender<()>,
    task: Running,
}

async fn serve() -> Served {
    let env = Env::real();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (readiness, watched) = readiness::channel();
    let (stop, stopped) = oneshot::channel();
    let (clock, observed) = (env.clock.clone(), Watched::new(env.process.clone()));
    let serving = async move {
        http::serve(listener, watched, observed, clock, async { stopped.await.unwrap() })
            .await
            .unwrap();
    };
    Served { address, readiness, stop, task: env.spawn.task("http", Box::pin(serving)) }
}

async fn get(address: SocketAddr, path: &str) -> (u16, Value) {
    let mut socket = TcpStream::connect(address).await.unwrap();
    let request = format!("GET {path} HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n");
    socket.write_all(request.as_bytes()).await.unwrap();
    let mut answer = String::new();
    socket.read_to_string(&mut answer).await.unwrap();
    let status = answer.split(' ').nth(1).unwrap().parse().unwrap();
    let (_, body) = answer.split_once("\r\n\r\n").unwrap();
    (status, serde_json::from_str(body).unwrap())
}

#[tokio::test]
async fn readiness_is_what_the_broker_says() {
    let served = serve().await;
    let not_ready = |reason: &str| json!({ "status": "not_ready", "reason": reason });
    assert_eq!(get(served.address, "/readyz").await, (503, not_ready("starting")));
    served.readiness.send_replace(Readiness::Ready);
    assert_eq!(get(served.address, "/readyz").await, (200, json!({ "status": "ready" })));
    served.readiness.send_replace(Readiness::Failed("sync failed".to_owned()));
    assert_eq!(get(served.address, "/readyz").await, (503, not_ready("sync failed")));
    served.readiness.send_replace(Readiness::Stopping);
    assert_eq!(get(served.address, "/readyz").await, (503, not_ready("stopping")));
    // Alive all the while.
    assert_eq!(get(served.address, "/healthz").await, (200, json!({ "status": "ok" })));
    assert_eq!(get(served.address, "/").await.0, 404);
}

#[tokio::test]
async fn a_call_that_never_ends_does_not_keep_the_listener() {
    let served = serve().await;
    let mut open = TcpStream::connect(served.address).await.unwrap();
    open.write_all(b"GET /healthz HTTP/1.1\r\n").await.unwrap();
    // Connections are accepted in order: the open one is being served when a later one has its answer.
    assert_eq!(get(served.address, "/healthz").await.0, 200);
    served.stop.send(()).unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), served.task.join());
    ended.await.expect("it ends although a call is open").unwrap();
}
