//! What does not belong on a port.

use std::io::{Read, Write};
use std::net::{Shutdown, TcpStream};
use std::time::Duration;

use danube_client::{Durability, Message};
use danube_e2e::broker::Options;
use danube_e2e::scenario::kills::assert_no_panic;
use danube_e2e::{Broker, Generator, Native};

use crate::beside_others;

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
const SETTINGS: &[u8] = &[0, 0, 0, 4, 0, 0, 0, 0, 0];

#[test]
fn malformed_input_on_any_port_harms_nobody() {
    let _guard = beside_others();
    let mut broker = Broker::start(Options::default());
    let native = Native::of(&broker);
    let producer = native.producer("/default/good", Durability::Disk);
    let ready = broker.ready().clone();
    let mut next = 0;
    for address in [&ready.client, &ready.admin, &ready.http, &ready.raft] {
        for input in inputs() {
            // The other side may close while we write.
            let _ = throw(address, &input);
            let message = Message { payload: "good".into(), ..Message::default() };
            assert_eq!(native.send_all(&producer, [message]), [next], "after {input:?}");
            next += 1;
        }
    }
    assert_eq!(native.read("/default/good").messages.len() as u64, next);
    broker.stop();
    assert_no_panic(&broker);
}

fn throw(address: &str, input: &[u8]) -> std::io::Result<()> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(Duration::from_millis(50)))?;
    stream.write_all(input)?;
    let _ = stream.read(&mut [0; 4096]);
    stream.shutdown(Shutdown::Write)?;
    let _ = stream.read(&mut [0; 4096]);
    Ok(())
}

fn inputs() -> Vec<Vec<u8>> {
    let chance = Generator::new(6);
    let random = |length| (0..length).map(|_| chance.below(256) as u8).collect::<Vec<u8>>();
    let frame = |length: u32, kind: u8, flags: u8, stream: u32, body: &[u8]| {
        let head = [&length.to_be_bytes()[1..], &[kind, flags], &stream.to_be_bytes()].concat();
        [PREFACE, SETTINGS, &head, body].concat()
    };
    let paths = [
        "danube.stream.v1.Stream/Lookup",
        "danube.stream.v1.Stream/Produce",
        "danube.admin.v1.Admin/CreateTopic",
        "x",
    ];
    let mut inputs = vec![
        Vec::new(),
        random(1),
        random(100),
        random(100_000),
        b"GET / HTTP/1.1\r\nhost: x\r\n\r\n".to_vec(),
        b"POST /danube.stream.v1.Stream/Lookup HTTP/1.1\r\ncontent-length: 99999999999\r\n\r\n"
            .to_vec(),
        [b"GET /".to_vec(), vec![b'a'; 1 << 20]].concat(),
        PREFACE.to_vec(),
        [PREFACE, &random(1000)].concat(),
        // The longest frames there are, of each kind and of kinds that there are not.
        frame(0xff_ffff, 0, 0, 1, &random(1000)),
        frame(0xff_ffff, 1, 4, 1, &random(1000)),
        frame(8, 6, 0, 0, &random(8)),
        frame(4, 8, 0, 0, &[0xff; 4]),
        frame(9, 200, 255, u32::MAX, &random(9)),
        frame(20, 1, 5, 1, &random(20)),
    ];
    for path in paths {
        // A message that claims 1 GiB; one that is no protobuf; one that says it is compressed; many small ones.
        for body in [
            &[0, 0x40, 0, 0, 0, 1][..],
            &[0, 0, 0, 0, 4, 255, 255, 255, 255],
            &[1, 0, 0, 0, 1, 7],
            &[0; 500],
        ] {
            inputs.push(call(path, body));
        }
    }
    inputs
}

/// A gRPC call with `body` as its first bytes.
fn call(path: &str, body: &[u8]) -> Vec<u8> {
    let path = format!("/{path}");
    let fields = [
        (":method", "POST"),
        (":scheme", "http"),
        (":authority", "x"),
        (":path", &path),
        ("content-type", "application/grpc"),
        ("te", "trailers"),
    ];
    // Literal fields that are not indexed (RFC 7541, section 6.2.2).
    let field = |(name, value): (&str, &str)| {
        [&[0, name.len() as u8], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
    };
    let headers: Vec<u8> = fields.into_iter().flat_map(field).collect();
    let head = |length: usize, kind: u8, flags: u8| {
        [&(length as u32).to_be_bytes()[1..], &[kind, flags, 0, 0, 0, 1]].concat()
    };
    // END_HEADERS; then END_STREAM.
    [PREFACE, SETTINGS, &head(headers.len(), 1, 4), &headers, &head(body.len(), 0, 1), body]
        .concat()
}
