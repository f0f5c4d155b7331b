//! Generates the code of the `.proto` files. Needs no `protoc`: the compiler is a crate.

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let root = "proto";
    let files =
        ["danube/stream/v1/stream.proto", "danube/admin/v1/admin.proto", "danube/danube.proto"];
    println!("cargo::rerun-if-changed={root}");
    let descriptors = protox::compile(files, [root])?;
    // `bytes`: payloads are slices of the received buffer, not copies of it.
    // A map in order: equal messages are stored as equal bytes.
    let messages = tonic_prost_build::configure().bytes(".").btree_map(".danube.StreamMessage");
    messages.compile_fds(descriptors)?;
    Ok(())
}
