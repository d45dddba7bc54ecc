//! The loop with processes that are not brokers: shell scripts that say that they listen, and stop when their pipe ends.

use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, Mutex};

use super::*;
use crate::settings::Settings;
use crate::supervisor::process::Order;

/// `$7` is the id. Says that it listens, then copies what it hears to a file until its pipe ends.
const SCRIPT: &str = r#"#!/bin/sh
id=$6
echo "{\"event\":\"listening\",\"broker\":$id,\"address\":\"127.0.0.1:1\",\"process\":$$}"
cat >> "$0.heard-$id"
echo "goodbye"
"#;

#[derive(Clone, Default)]
struct Seen {
    events: Arc<Mutex<Vec<Event>>>,
    ended: Arc<Mutex<Vec<i32>>>,
    listening: Arc<Mutex<Vec<(i32, u32)>>>,
}

impl Surroundings for Seen {
    fn controller(&self) -> &'static str {
        "127.0.0.1:1"
    }
    fn process_ended(&mut self, broker: i32) {
        self.ended.lock().unwrap().push(broker);
    }
    fn show(&mut self, event: &Event) {
        self.events.lock().unwrap().push(event.clone());
    }
    fn greet(&mut self, brokers: &[Greeted]) {
        assert!(brokers.iter().all(|greeted| greeted.listens), "{brokers:?}");
        *self.listening.lock().unwrap() = brokers.iter().map(|g| (g.broker, g.process)).collect();
    }
    fn stopping(&mut self) {}
    fn stop_controller(&mut self) {
        self.ended.lock().unwrap().clear();
    }
}

/// Polls until the condition holds, at most ten seconds.
async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    for _ in 0..1000 {
        if holds() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} did not happen");
}

async fn give(directory: &std::path::Path, order: Order, broker: i32) -> Result<String, String> {
    let directory = directory.to_owned();
    let give = move || orders::give(&directory, BrokerOrder { order, broker });
    tokio::task::spawn_blocking(give).await.unwrap().map_err(|error| error.to_string())
}

fn killed(process: u32) {
    let status = std::process::Command::new("kill").arg("-9").arg(process.to_string()).status().unwrap();
    assert!(status.success());
}

#[test]
fn brokers_are_started_again_ordered_down_and_stopped() {
    let directory = tempfile::tempdir().unwrap();
    let script = directory.path().join("broker");
    std::fs::write(&script, SCRIPT).unwrap();
    std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
    let launch = Launch {
        program: script.clone(),
        brokers: 3,
        only: vec![1, 2],
        port: 9092,
        data: directory.path().to_owned(),
        settings: Settings::default(),
    };
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let seen = Seen::default();
        let (signal, signals) = mpsc::channel(2);
        let orders = orders::listen(directory.path()).unwrap();
        let cluster = Cluster::new(launch.check().unwrap(), Clock::start(), seen.clone());
        let running = tokio::spawn(cluster.run(orders, signals));
        until("two listen", || seen.listening.lock().unwrap().len() == 2).await;
        let processes = seen.listening.lock().unwrap().clone();
        assert_eq!(processes.iter().map(|(id, _)| *id).collect::<Vec<_>>(), [1, 2]);

        // One dies: the controller hears of it, and it is started again.
        killed(processes[0].1);
        until("broker 1 is started again", || {
            let again = |e: &Event| matches!(e, Event::Listening { broker: 1, process, .. } if *process != processes[0].1);
            seen.events.lock().unwrap().iter().any(again)
        })
        .await;
        assert_eq!(*seen.ended.lock().unwrap(), [1]);

        // Ordered down: it hands over, ends, and stays down.
        let down = give(directory.path(), Order::Stop, 2).await;
        assert_eq!(down.unwrap(), "broker 2 is down until it is started (stopped cleanly)");
        let heard = std::fs::read_to_string(directory.path().join("broker.heard-2")).unwrap();
        assert_eq!(heard, "hand-over\n");
        assert_eq!(give(directory.path(), Order::Kill, 2).await.unwrap(), "broker 2 is down until it is started");
        assert_eq!(give(directory.path(), Order::Start, 2).await.unwrap(), "broker 2 runs");
        assert_eq!(give(directory.path(), Order::Start, 3).await.unwrap(), "broker 3 runs");
        assert_eq!(
            give(directory.path(), Order::Kill, 3).await.unwrap(),
            "broker 3 is down until it is started (killed with -9)"
        );
        assert_eq!(
            give(directory.path(), Order::Stop, 4).await.unwrap_err(),
            "there is no broker 4; this cluster has brokers 1 to 3"
        );

        // All stop, and none hands over. A signal that comes twice is one order.
        signal.send(()).await.unwrap();
        signal.send(()).await.unwrap();
        assert!(running.await.unwrap().is_empty(), "all stopped cleanly");
        assert!(seen.ended.lock().unwrap().is_empty(), "the controller does not hear of ends when all stop");
        assert_eq!(std::fs::read_to_string(directory.path().join("broker.heard-1")).unwrap(), "");
        let events = seen.events.lock().unwrap();
        let clean = |e: &&Event| matches!(e, Event::Stopped { how, .. } if how == "stopped cleanly");
        assert_eq!(events.iter().filter(clean).count(), 2, "{events:?}");
    });
}
