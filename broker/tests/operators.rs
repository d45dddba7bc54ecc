//! What operators do when something is lost, through the program itself: a new state for a controller, an election at the price of records,
//! partitions that move.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod kafka;
mod program;

use std::path::{Path, PathBuf};
use std::process::Output;

use highwater_broker::ask::{self, ClusterStatus, Connection};
use highwater_broker::settings::HostPort;
use highwater_replication::wire::Response;
use highwater_replication::wire::init_producer_id::InitProducerIdRequest;
use kafka::{batch, client, consume, produce, until};
use program::{Cluster, highwater, ports, refusal};

/// A cluster of three, its directory and its brokers' ports.
struct Three {
    root: tempfile::TempDir,
    port: u16,
}

impl Three {
    fn new() -> Self {
        Self { root: tempfile::tempdir().unwrap(), port: ports(3) }
    }

    fn data(&self) -> PathBuf {
        self.root.path().join("data")
    }

    fn controller(&self) -> PathBuf {
        self.data().join("controller")
    }

    fn of_broker(&self, broker: i32) -> PathBuf {
        self.data().join(broker.to_string())
    }

    fn start(&self) -> Cluster {
        let cluster = Cluster::start(3, &self.data(), self.port);
        cluster.until(" status");
        cluster
    }

    fn address(&self, broker: i32) -> HostPort {
        let port = self.port + u16::try_from(broker - 1).unwrap();
        HostPort { host: "127.0.0.1".to_owned(), port }
    }

    /// A command of an operator's, to whichever broker is there.
    fn order(&self, arguments: &[&str]) -> Output {
        let all: Vec<String> = (1..=3).map(|broker| self.address(broker).to_string()).collect();
        highwater().args(arguments).args(["--bootstrap", &all.join(",")]).output().unwrap()
    }

    fn done(&self, arguments: &[&str]) -> String {
        text(&self.order(arguments))
    }

    fn broker(&self, order: &str, broker: i32) {
        let output =
            highwater().args(["broker", order, &broker.to_string(), "--data"]).arg(self.data()).output();
        text(&output.unwrap());
    }

    fn rebuild(&self, controller: &Path, execute: bool) -> Output {
        let mut command = highwater();
        command.args(["controller", "rebuild", "--data"]).arg(controller);
        command.args((1..=3).map(|broker| self.of_broker(broker)));
        if execute {
            command.arg("--execute");
        }
        command.output().unwrap()
    }

    fn status(&self, broker: i32) -> Option<ClusterStatus> {
        ask::gather(&mut Connection::open(&self.address(broker)).ok()?).ok()
    }

    fn leader(&self, through: i32, topic: &str) -> Option<i32> {
        self.status(through)?.partitions.into_iter().find(|line| line.topic == topic)?.leader
    }

    fn produce(&self, through: i32, topic: &str, value: &str) {
        until("it is acknowledged", || {
            let leader = self.leader(through, topic)?;
            produce(&mut client(&self.address(leader)), topic, -1, batch(None, &[value])).ok()
        });
    }

    fn values(&self, through: i32, topic: &str) -> Vec<String> {
        let leader = until("somebody leads", || self.leader(through, topic));
        consume(&mut client(&self.address(leader)), topic).into_iter().map(|(_, value)| value).collect()
    }

    fn producer_id(&self, through: i32) -> i64 {
        until("a producer id is given", || {
            let request = InitProducerIdRequest::default().into();
            let answer = client(&self.address(through)).call(4, &request).unwrap();
            let Response::InitProducerId(answer) = answer else { panic!("{answer:?}") };
            answer.error_code.is_none().then_some(answer.producer_id)
        })
    }
}

fn text(output: &Output) -> String {
    let (out, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{out}{errors}");
    out.into_owned()
}

fn copy(from: &Path, to: &Path) {
    assert!(std::process::Command::new("cp").arg("-a").arg(from).arg(to).status().unwrap().success());
}

/// The controller's directory is gone. Nothing goes on without it, and with the new one everything that was acknowledged is there.
#[test]
fn a_lost_controller_is_rebuilt_and_nothing_is_given_out_twice() {
    let three = Three::new();
    let cluster = three.start();
    three.done(&["topics", "create", "t", "--partitions", "1", "--replication-factor", "3"]);
    let values: Vec<String> = (0..20).map(|number| format!("record {number}")).collect();
    for value in &values {
        three.produce(1, "t", value);
    }
    let id = three.producer_id(1);
    let written = until("it is there", || {
        let leader = three.leader(1, "t")?;
        produce(&mut client(&three.address(leader)), "t", -1, batch(Some((id, 0)), &["with an id"])).ok()
    });
    assert_eq!(written, 20);
    let epoch = three.status(1).unwrap().partitions[0].leader_epoch;
    let running = three.rebuild(&three.data().join("another"), false);
    assert!(refusal(&running, 1).contains("stop the whole cluster first"));
    assert_eq!(cluster.stop().0, Some(0));

    std::fs::remove_dir_all(three.controller()).unwrap();
    let start = ["--brokers", "3", "--port", &three.port.to_string(), "--data"];
    let lost = highwater().args(start).arg(three.data()).output();
    assert!(refusal(&lost.unwrap(), 1).contains("`highwater controller rebuild`"));
    let shown = text(&three.rebuild(&three.controller(), false));
    for words in ["broker 3: ", "topic t, id ", "  t-0: broker 1 with epoch 0, ", "nothing was changed"] {
        assert!(shown.contains(words), "{shown}");
    }
    assert!(!three.controller().exists());
    text(&three.rebuild(&three.controller(), true));
    assert!(refusal(&three.rebuild(&three.controller(), true), 1).contains("is there; move it away"));

    let cluster = three.start();
    let mut all = values;
    all.push("with an id".to_owned());
    assert_eq!(three.values(1, "t"), all);
    assert!(three.status(1).unwrap().partitions[0].leader_epoch > epoch + 1_000);
    assert!(three.producer_id(1) > id + 1_000);
    three.produce(1, "t", "goes on");
    all.push("goes on".to_owned());
    assert_eq!(three.values(1, "t"), all);
    assert_eq!(cluster.stop().0, Some(0));

    // Yesterday's state is put back: the brokers have had sessions that it does not know.
    let yesterday = three.root.path().join("yesterday");
    copy(&three.controller(), &yesterday);
    assert_eq!(three.start().stop().0, Some(0));
    std::fs::remove_dir_all(three.controller()).unwrap();
    copy(&yesterday, &three.controller());
    let cluster = Cluster::start(3, &three.data(), three.port);
    cluster.until("`highwater controller rebuild`");
}

/// Broker 1 alone has what was acknowledged last, and does not come back.
#[test]
fn an_unclean_election_says_what_may_be_lost_and_is_recorded() {
    let three = Three::new();
    let _cluster = three.start();
    let create =
        ["topics", "create", "u", "--replica-assignment", "1:2", "--config", "min.insync.replicas=1"];
    three.done(&create);
    three.produce(3, "u", "on both");
    three.broker("kill", 2);
    three.produce(3, "u", "on one");
    three.broker("kill", 1);
    let order = ["elect", "u", "0", "--to", "2", "--unclean"];
    let unknown = until("nobody leads", || {
        let output = three.order(&order);
        (!String::from_utf8_lossy(&output.stderr).contains("leads u-0")).then_some(output)
    });
    assert!(refusal(&unknown, 1).contains("broker 2 has not said what it has of u-0; start it"));
    three.broker("start", 2);
    let shown = until("2 has said what it has", || {
        let output = three.order(&order);
        output.status.success().then(|| text(&output))
    });
    for words in ["broker 2 has everything below 1", "broker 1 is away", "--accept-loss does it"] {
        assert!(shown.contains(words), "{shown}");
    }
    assert_eq!(three.leader(3, "u"), None);
    let done = three.done(&["elect", "u", "0", "--to", "2", "--unclean", "--accept-loss"]);
    assert!(done.ends_with("u-0: broker 2 leads\n"), "{done}");
    until("it leads", || three.leader(3, "u").filter(|leader| *leader == 2));
    let line = three.status(3).unwrap().partitions.remove(0);
    assert_eq!(line.lost, [(1, None)]);
    three.produce(3, "u", "goes on");
    three.broker("start", 1);
    until("1 is in sync", || {
        let line = three.status(3)?.partitions.into_iter().next()?;
        (line.isr.len() == 2).then_some(())
    });
    assert_eq!(three.values(3, "u"), ["on both", "goes on"]);
    let led = three.order(&order);
    assert!(refusal(&led, 1).contains("broker 2 leads u-0: nothing has to be given up"));
}

#[test]
fn a_partition_moves_and_its_old_directory_goes() {
    let three = Three::new();
    let _cluster = three.start();
    three.done(&["topics", "create", "m", "--replica-assignment", "1:2"]);
    three.produce(1, "m", "before");
    assert!(three.of_broker(1).join("m-0").exists());
    let refused = three.order(&["reassign", "m", "0", "--to", "2,9"]);
    assert!(refusal(&refused, 1).contains("no such broker has registered"));
    assert!(three.done(&["reassign", "m", "0", "--to", "3,2"]).contains("m-0: on its way to 3,2"));
    until("it has moved", || {
        let line = three.status(2)?.partitions.into_iter().next()?;
        (line.replicas == [3, 2] && line.isr == [3, 2] && line.leader == Some(3)).then_some(())
    });
    assert_eq!(three.done(&["reassign"]), "nothing is on its way\n");
    three.produce(2, "m", "behind");
    assert_eq!(three.values(2, "m"), ["before", "behind"]);
    until("its directory is gone", || (!three.of_broker(1).join("m-0").exists()).then_some(()));
    let nothing = three.order(&["reassign", "m", "0", "--cancel"]);
    assert!(refusal(&nothing, 1).contains("no reassignment of this partition is under way"));
}
