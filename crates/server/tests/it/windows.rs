//! What a client may send ahead, as the server says it.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::fixture::Directory;

/// Numbers of RFC 9113: the type of a SETTINGS frame, and of the setting for a stream's window.
const SETTINGS: u8 = 4;
const INITIAL_WINDOW_SIZE: u16 = 4;

#[tokio::test(flavor = "multi_thread")]
async fn streams_have_windows_of_4_mib_on_each_port() {
    let directory = Directory::new();
    let server = directory.start().await;
    let addresses = server.addresses();
    for address in [addresses.client, addresses.admin, addresses.raft] {
        let mut connection = TcpStream::connect(address).await.unwrap();
        // The preface, and settings that change nothing.
        connection.write_all(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n").await.unwrap();
        connection.write_all(&[0, 0, 0, SETTINGS, 0, 0, 0, 0, 0]).await.unwrap();
        let mut header = [0; 9];
        connection.read_exact(&mut header).await.unwrap();
        let [length @ .., kind, _flags, _, _, _, _] = header;
        assert_eq!(kind, SETTINGS, "the first frame of a connection");
        let length = length.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
        let mut settings = vec![0; length];
        connection.read_exact(&mut settings).await.unwrap();
        let setting = |setting: &[u8]| {
            let number = u16::from_be_bytes(setting[..2].try_into().unwrap());
            (number, u32::from_be_bytes(setting[2..].try_into().unwrap()))
        };
        let mut settings = settings.chunks_exact(6).map(setting);
        let window = settings.find(|(number, _)| *number == INITIAL_WINDOW_SIZE);
        assert!(window.is_some_and(|(_, bytes)| bytes >= 4 << 20), "{window:?} at {address}");
    }
    server.stop().await.unwrap();
}
