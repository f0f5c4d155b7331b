//! What is served over HTTP: health and readiness.
//!
//! | path | answers |
//! |---|---|
//! | `/healthz` | 200 while the process can answer: `{"status":"ok"}`; `degraded` in its place while an alarm stands |
//! | `/readyz` | 200 while the broker serves: `{"status":"ready"}`; else 503 and why: `{"status":"not_ready","reason":"starting"}` |
//! | `/metrics` | 200: everything in numbers, in the text format of Prometheus |
//! | `/api/v1/alarms` | 200: the alarms that stand |
//!
//! Anything else is 404. It answers before there is a broker, and after it has failed.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, HeaderName};
use axum::routing::get;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use danube_env::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::readiness::Readiness;
use crate::watched::{Watched, to_json};

/// How long calls in progress are waited for when the listener is to end.
const GRACE: Duration = Duration::from_millis(500);

/// Serves until `stop` completes, and for a moment longer while calls are in progress.
///
/// # Errors
///
/// If the listener fails for good.
pub async fn serve(
    listener: TcpListener,
    readiness: watch::Receiver<Readiness>,
    watched: Watched,
    clock: Arc<dyn Clock>,
    stop: impl Future<Output = ()> + Send + 'static,
) -> io::Result<()> {
    // Without it an answer may wait 40 ms for the acknowledgement of the segment before. Where a socket refuses, it does.
    let listener = listener.tap_io(|socket| drop(socket.set_nodelay(true)));
    let (stopping, stopped) = oneshot::channel();
    let stop = async move {
        stop.await;
        // Fails only when the listener has ended by itself.
        let _ = stopping.send(());
    };
    let served = axum::serve(listener, routes(readiness, watched)).with_graceful_shutdown(stop);
    let too_long = async {
        match stopped.await {
            Ok(()) => clock.sleep(GRACE).await,
            Err(_) => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        result = served => result,
        () = too_long => Ok(()),
    }
}

fn routes(readiness: watch::Receiver<Readiness>, watched: Watched) -> Router {
    let observed = Router::new()
        .route("/healthz", get(health))
        .route("/metrics", get(metrics))
        .route("/api/v1/alarms", get(alarms))
        .with_state(watched);
    observed
        .route("/readyz", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, Json(json!({ "error": "no such path" }))))
        .with_state(readiness)
}

async fn health(State(watched): State<Watched>) -> Json<Value> {
    let status = if watched.alarms().is_empty() { "ok" } else { "degraded" };
    Json(json!({ "status": status }))
}

async fn metrics(State(watched): State<Watched>) -> ([(HeaderName, &'static str); 1], String) {
    ([(CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")], watched.metrics().await)
}

async fn alarms(State(watched): State<Watched>) -> Json<Value> {
    Json(to_json(&watched.alarms()))
}

async fn ready(State(readiness): State<watch::Receiver<Readiness>>) -> (StatusCode, Json<Value>) {
    match readiness.borrow().reason() {
        None => (StatusCode::OK, Json(json!({ "status": "ready" }))),
        Some(reason) => {
            let body = json!({ "status": "not_ready", "reason": reason });
            (StatusCode::SERVICE_UNAVAILABLE, Json(body))
        }
    }
}
