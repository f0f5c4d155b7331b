//! Files as installations have them: they load, or are refused by exactly the key that this build lacks.

use danube_server::config::{Config, Loaded, Problems, SettingsFile, Sources};

fn load(name: &str, text: &str) -> Result<Loaded, Problems> {
    let file = SettingsFile { name: name.to_owned(), text: text.to_owned() };
    Config::load(&Sources { file: Some(file), ..Sources::default() })
}

#[test]
fn a_file_for_one_broker_loads() {
    let Loaded { config, .. } = load("local.yml", include_str!("configs/local.yml")).unwrap();
    assert_eq!(config.cluster_name, "orders");
    assert_eq!(config.listen.client.to_string(), "0.0.0.0:6650");
    assert_eq!(config.storage.segment_bytes, 512 << 20);
    assert_eq!(config.data_dir(), std::path::Path::new("/var/lib/danube"));
    assert_eq!(config.namespaces.len(), 2);
}

#[test]
fn files_for_what_this_build_lacks_are_refused_by_that_key_alone() {
    for (name, text, problem) in [
        (
            "rebalance.yml",
            include_str!("configs/rebalance.yml"),
            "`load_manager.rebalancing.enabled`: `true` needs clustering",
        ),
        (
            "secure.yml",
            include_str!("configs/secure.yml"),
            "`auth.mode`: `tls` needs authentication",
        ),
        (
            "shared_fs.yml",
            include_str!("configs/shared_fs.yml"),
            "`storage.mode`: `shared_fs` needs the cold tier",
        ),
        (
            "object_store.yml",
            include_str!("configs/object_store.yml"),
            "`storage.mode`: `object_store` needs the cold tier",
        ),
        (
            "write_buffer.yml",
            include_str!("configs/write_buffer.yml"),
            "`storage.write_buffer` needs the warm tier",
        ),
    ] {
        let problems = load(name, text).expect_err(name);
        let [only] = &problems.0[..] else { panic!("{name}: {problems}") };
        assert_eq!(only.what, format!("{problem}, which this build lacks"), "{name}");
    }
}
