//! The program itself, as a person starts it: what it says first, what it refuses, how it ends.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod program;

use program::{Cluster, highwater, ports, refusal};

#[test]
fn a_person_is_greeted_refused_and_let_go() {
    let parent = tempfile::tempdir().unwrap();
    let data = parent.path().join("data");
    let port = ports(2);
    let bootstrap = format!("127.0.0.1:{port}");
    let cluster = Cluster::start(2, &data, port);
    let greeting = cluster.until(" status");
    assert!(greeting[0].starts_with("highwater runs"), "{greeting:#?}");
    assert!(greeting.iter().all(|line| !line.contains("opened")), "nothing is there yet: {greeting:#?}");

    let made =
        highwater().args(["topics", "create", "t", "--partitions", "4", "--bootstrap", &bootstrap]).output();
    assert!(made.unwrap().status.success());
    let second = highwater().arg("--data").arg(&data).output().unwrap();
    assert!(refusal(&second, 1).contains("already runs on"));
    let port_in_use =
        highwater().args(["--port", &port.to_string(), "--data"]).arg(parent.path().join("other")).output();
    assert!(refusal(&port_in_use.unwrap(), 1).contains("is in use by process"));
    let at_work = highwater().args(["recover", "--dry-run"]).arg(data.join("1")).output();
    assert!(refusal(&at_work.unwrap(), 1).contains("stop it first"));
    let stranger = ["elect", "t", "0", "--to", "9", "--bootstrap", &bootstrap];
    assert!(refusal(&highwater().args(stranger).output().unwrap(), 1).contains("t-0: node 9 is not"));

    let (code, said) = cluster.stop();
    assert_eq!(code, Some(0), "{said:#?}");
    assert_eq!(said.iter().filter(|line| line.ends_with("stopped cleanly")).count(), 2, "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("left the ISR") || line.contains("fenced")), "{said:#?}");

    // The supervisor alone is killed: its brokers stop by themselves, and the next one waits for them.
    let cluster = Cluster::start(2, &data, port);
    cluster.until("broker 2 opened 4 partitions after a clean stop");
    cluster.signal("-KILL");
    let cluster = Cluster::start(2, &data, port);
    cluster.until(" status");
    assert_eq!(cluster.stop().0, Some(0));

    let gone = highwater().args(["status", "--bootstrap", &bootstrap]).output().unwrap();
    assert!(refusal(&gone, 1).contains("start the cluster with `highwater`"));
}
