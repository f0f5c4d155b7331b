//! What HTTP shows of the server: its numbers and its alarms, once there is a broker.

use std::sync::{Arc, OnceLock};

use danube_broker::{Alarm, AlarmMetrics, Broker, MetricsLimits};
use danube_env::Process;
use danube_model::metric::Counter;
use serde_json::{Value, json};

use crate::listen::Connections;
use crate::metrics::{self, Exposed, ProcessMetrics, ServerMetrics};
use crate::sessions::Sessions;

/// Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Watched {
    process: Arc<dyn Process>,
    open: Arc<OnceLock<Open>>,
}

/// A server that is open.
pub(crate) struct Open {
    pub(crate) broker: Broker,
    pub(crate) connections: Connections,
    pub(crate) sessions: Sessions,
    pub(crate) calls: Arc<Counter>,
    pub(crate) limits: MetricsLimits,
}

impl Watched {
    /// A server that is not open yet.
    pub fn new(process: Arc<dyn Process>) -> Watched {
        Watched { process, open: Arc::default() }
    }

    /// It is open.
    pub(crate) fn opened(&self, open: Open) {
        assert!(self.open.set(open).is_ok(), "a server opens once");
    }

    /// Everything in numbers, in the text format of Prometheus.
    pub(crate) async fn metrics(&self) -> String {
        let process = ProcessMetrics(self.process.usage());
        let broker = match self.open.get() {
            Some(open) => {
                let (connections, refused_connections) = open.connections.counted();
                let server = ServerMetrics {
                    connections,
                    refused_connections,
                    streams: open.sessions.active(),
                    calls: open.calls.get(),
                };
                let alarms = AlarmMetrics::of(&open.broker.alarms());
                Some((server, open.broker.metrics(open.limits).await, alarms))
            }
            None => None,
        };
        metrics::write(&Exposed { process, broker })
    }

    /// The alarms that stand.
    pub(crate) fn alarms(&self) -> Vec<Alarm> {
        self.open.get().map_or_else(Vec::new, |open| open.broker.alarms())
    }
}

/// As the API says it: 64-bit numbers are strings.
pub(crate) fn to_json(alarms: &[Alarm]) -> Value {
    let alarm = |alarm: &Alarm| {
        json!({
            "name": alarm.name.as_str(),
            "subject": alarm.subject,
            "what": alarm.what,
            "remedy": alarm.name.remedy(),
            "since_ms": alarm.since.get().to_string(),
        })
    };
    json!({ "alarms": alarms.iter().map(alarm).collect::<Vec<_>>() })
}
