//! Settings are read, refused with a reason, and layered.

use super::*;

#[test]
fn every_default_is_allowed_and_every_name_is_there_once() {
    let mut names = std::collections::BTreeSet::new();
    for setting in ALL {
        assert!(setting.accepts(setting.default()), "{}={}", setting.name(), setting.default());
        assert!(names.insert(setting.name()), "{} is there twice", setting.name());
        assert!(!setting.meaning().is_empty() && !setting.meaning().ends_with('.'), "{}", setting.name());
    }
}

#[test]
fn what_was_set_is_read_with_its_type() {
    let settings =
        Settings::from_pairs(["num.partitions=6", "segment.bytes=2097152", "durability=fsync"]).unwrap();
    assert_eq!(settings.value(&NUM_PARTITIONS), 6);
    assert_eq!(settings.count(&SEGMENT_BYTES), 2 << 20);
    assert_eq!(settings.value(&DURABILITY), Durability::Fsync);
    assert_eq!(settings.duration_ms(&REPLICA_LAG_TIME_MAX_MS), std::time::Duration::from_secs(10));
    assert!(settings.is_set(&NUM_PARTITIONS) && !settings.is_set(&INSECURE));
    let pairs: Vec<_> = settings.pairs().collect();
    assert_eq!(pairs, ["durability=fsync", "log.segment.bytes=2097152", "num.partitions=6"]);
    assert_eq!(Settings::from_pairs(pairs).unwrap(), settings, "what a broker is handed says the same");
}

#[test]
fn refusals_name_the_key_and_what_is_allowed() {
    let text = |pair: &str| Settings::from_pairs([pair]).unwrap_err().to_string();
    assert_eq!(
        text("min.insync.replica=1"),
        "there is no setting \"min.insync.replica\"; did you mean min.insync.replicas? `highwater config` lists them all"
    );
    assert_eq!(text("num.partitions=0"), "num.partitions=0: allowed is a whole number from 1 to 10000");
    assert_eq!(
        text("message.max.bytes=134217729"),
        "message.max.bytes=134217729: allowed is a whole number from 0 to 134217728",
        "no log would take it"
    );
    assert_eq!(text("durability=yes"), "durability=yes: allowed is written or fsync");
    assert_eq!(text("retention.ms=x"), "retention.ms=x: allowed is a whole number from -1");
    assert_eq!(text("insecure"), "\"insecure\" is not of the form key=value");
    assert_eq!(text("compression.type=gzip"), "compression.type=gzip: allowed is producer");
    assert_eq!(
        Settings::from_pairs(["durability=fsync", "truncation=high-watermark"]),
        Err(SettingError::FsyncCutsAtHighWatermark)
    );
}

#[test]
fn a_topics_own_values_lie_over_the_brokers() {
    let broker = Settings::from_pairs(["log.retention.ms=1000", "truncation=high-watermark"]).unwrap();
    let topic = broker.with_topic([("retention.ms", "-1")]).unwrap();
    assert_eq!((broker.value(&RETENTION_MS), topic.value(&RETENTION_MS)), (1000, -1));
    assert_eq!(
        broker.with_topic([("num.partitions", "3")]),
        Err(SettingError::NotOfATopic { key: "num.partitions" })
    );
    assert_eq!(broker.with_topic([("durability", "fsync")]), Err(SettingError::FsyncCutsAtHighWatermark));
}

#[test]
fn replication_is_at_most_what_is_configured() {
    let settings = Settings::default();
    assert_eq!(settings.replication(None, 3), Replication { factor: 3, min_insync: 2 });
    assert_eq!(settings.replication(None, 1), Replication { factor: 1, min_insync: 1 });
    assert_eq!(settings.replication(Some(1), 3), Replication { factor: 1, min_insync: 1 });
    assert_eq!(settings.replication(None, 5), Replication { factor: 3, min_insync: 2 });
}

#[test]
fn listeners_have_hosts_and_ports() {
    let listener =
        |text: &str| Settings::from_pairs([format!("listeners={text}")]).map(|s| s.value(&LISTENERS));
    let at = |host: &str, port| Some(HostPort { host: host.to_owned(), port });
    assert_eq!(listener("PLAINTEXT://127.0.0.1:9092"), Ok(at("127.0.0.1", 9092)));
    assert_eq!(listener("[::1]:9092"), Ok(at("::1", 9092)));
    assert_eq!(listener(""), Ok(None));
    for bad in ["9092", "::1:9092", ":9092", "host:99999", "a b:1"] {
        assert!(listener(bad).is_err(), "{bad}");
    }
    assert_eq!(HostPort { host: "::1".to_owned(), port: 1 }.to_string(), "[::1]:1");
}

#[test]
fn the_table_shows_every_setting() {
    let text = table_for_people(&Settings::from_pairs(["num.partitions=6"]).unwrap());
    for setting in ALL {
        assert!(text.contains(setting.name()), "{}", setting.name());
    }
    assert!(text.contains("num.partitions = 6 partitions\n"), "{text}");
}
