//! What is served over HTTP: health and readiness.
//!
//! | path | answers |
//! |---|---|
//! | `/healthz` | 200 while the process can answer: `{"status":"ok"}` |
//! | `/readyz` | 200 while the broker serves: `{"status":"ready"}`; else 503 and why: `{"status":"not_ready","reason":"starting"}` |
//!
//! Anything else is 404. It knows nothing of the broker but its [`Readiness`], so that it can answer before there is a broker
//! and after it has failed.

use std::future::Future;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::routing::get;
use axum::serve::ListenerExt;
use axum::{Json, Router};
use danube_env::Clock;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::{oneshot, watch};

use crate::readiness::Readiness;

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
    let served = axum::serve(listener, routes(readiness)).with_graceful_shutdown(stop);
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

fn routes(readiness: watch::Receiver<Readiness>) -> Router {
    Router::new()
        .route("/healthz", get(async || Json(json!({ "status": "ok" }))))
        .route("/readyz", get(ready))
        .fallback(async || (StatusCode::NOT_FOUND, Json(json!({ "error": "no such path" }))))
        .with_state(readiness)
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
