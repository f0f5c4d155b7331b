//! A server on a directory of its own.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};

use danube_client::{Client, Item, Message, Producer, Start};
use danube_env::Env;
use danube_server::config::{Flags, SettingsFile, Sources};
use danube_server::{Config, Server};

pub(crate) const TOPIC: &str = "/default/t";

/// A directory that goes with the value.
pub(crate) struct Directory {
    path: PathBuf,
    env: Env,
}

impl Directory {
    pub(crate) fn new() -> Directory {
        static COUNT: AtomicU32 = AtomicU32::new(0);
        let count = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("server-{}-{count}", std::process::id());
        let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
        let env = Env::real();
        // The directory of all tests is never empty while a server starts: an empty one gets its name anew.
        env.disk.create_dir_all(&path).unwrap();
        Directory { path, env }
    }

    /// Settings on free ports, with more of them from a file's text.
    pub(crate) fn config(&self, text: &str) -> Config {
        let address = || Some("127.0.0.1:0".to_owned());
        let sources = Sources {
            file: Some(SettingsFile {
                name: "test.yml".to_owned(),
                text: format!("cluster_name: test\n{text}"),
            }),
            environment: Vec::new(),
            flags: Flags {
                data_dir: Some(self.path.to_str().unwrap().to_owned()),
                listen: address(),
                admin_listen: address(),
                http_listen: address(),
                raft_listen: address(),
                ..Flags::default()
            },
        };
        Config::load(&sources).unwrap().config
    }

    pub(crate) async fn start(&self) -> Server {
        self.start_with("").await
    }

    pub(crate) async fn start_with(&self, text: &str) -> Server {
        Server::start(&self.config(text), self.env.clone()).await.unwrap()
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        // A test that failed may not have made it.
        let _ = self.env.disk.remove_dir_all(&self.path);
    }
}

pub(crate) fn client(server: &Server) -> Client {
    Client::connect(&format!("http://{}", server.addresses().client)).unwrap()
}

pub(crate) async fn producer(server: &Server) -> Producer {
    client(server).producer(TOPIC).unwrap().open().await.unwrap()
}

pub(crate) fn message(payload: impl Into<bytes::Bytes>) -> Message {
    Message { payload: payload.into(), ..Message::default() }
}

/// The payloads of a topic, which has no gaps, from the first to the durable end.
pub(crate) async fn payloads(server: &Server) -> Vec<String> {
    let reader = client(server).reader(TOPIC).unwrap().start(Start::Earliest);
    let mut reader = reader.open().await.unwrap();
    let mut payloads = Vec::new();
    while let Some(item) = reader.next().await.unwrap() {
        match item {
            Item::Message(received) => {
                assert_eq!(received.offset.get(), payloads.len() as u64);
                payloads.push(String::from_utf8(received.message.payload.to_vec()).unwrap());
            }
            Item::CaughtUp { durable_end, .. } => {
                assert_eq!(durable_end.get(), payloads.len() as u64);
            }
            other => panic!("{other:?}"),
        }
    }
    payloads
}

/// What is not the name of a topic.
pub(crate) fn bad_topics() -> Vec<String> {
    let short = ["", "x", "/x", "/default/", "//x", "/default/..", "/default/a/b", "/default/a b"];
    let long = format!("/default/{}", "x".repeat(5_000));
    short.map(str::to_owned).into_iter().chain([long]).collect()
}
