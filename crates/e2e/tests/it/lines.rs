//! The command line: what goes in comes out.

use danube_e2e::broker::Options;
use danube_e2e::scenario::lines;
use danube_e2e::{Broker, Cli};
use serde_json::{Value, json};

use crate::beside_others;

#[test]
fn p1_p3_lines_come_back_byte_by_byte() {
    let _guard = beside_others();
    println!("{}", lines::run(100_000, 1));
}

#[test]
fn p6_compressed_lines_come_back_byte_by_byte() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let input = lines::lines(5_000, 2);
    for compression in ["none", "lz4", "zstd"] {
        let topic = format!("/default/{compression}");
        let produced = cli.run_with(["produce", &topic, "--compression", compression], &input);
        assert_eq!(produced.success().text(), "");
        assert!(cli.run(["read", &topic]).success().stdout == input, "{compression} differs");
        let raw: Vec<u8> = input.iter().copied().filter(|byte| *byte != b'\n').collect();
        let read = cli.run(["read", &topic, "--output", "raw"]).success();
        assert!(read.stdout == raw, "{compression} differs in raw");
    }
    broker.stop();
}

#[test]
fn keys_attributes_and_empty_payloads_come_back() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    let cli = Cli::of(&broker);
    let topic = "/default/fields";
    let arguments = ["produce", topic, "--key-separator", ":", "--attr", "a=1", "--attr", "b=x y"];
    drop(cli.run_with(arguments, b"k1:one\nk2:\n:no key\n").success());
    drop(cli.run_with(["produce", topic], b"\n\xff\xfe\n").success());
    let read = cli.run(["read", topic, "--output", "json"]).success().json_lines();
    let fields = |line: &Value| {
        let fields = ["offset", "key", "attributes", "payload", "payload_base64"];
        fields.map(|field| line.get(field).cloned().unwrap_or_default())
    };
    let attributes = json!({ "a": "1", "b": "x y" });
    let read: Vec<[Value; 5]> = read.iter().map(fields).collect();
    assert_eq!(read.len(), 5, "{read:?}");
    assert_eq!(read[0], [json!(0), json!("k1"), attributes.clone(), json!("one"), Value::Null]);
    assert_eq!(read[1], [json!(1), json!("k2"), attributes, json!(""), Value::Null]);
    assert_eq!((&read[2][0], &read[2][3]), (&json!(2), &json!("no key")));
    assert_eq!((&read[3][1], &read[3][3]), (&Value::Null, &json!("")));
    assert_eq!((&read[4][3], &read[4][4]), (&Value::Null, &json!("//4=")));
    broker.stop();
}
