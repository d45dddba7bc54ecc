//! Three replicas and a controller in one process: a record that is acknowledged is on all three, and outlives the one that led.
//!
//! ```text
//! cargo run -p highwater-replication --example three_replicas
//! ```

use std::error::Error;
use std::time::Duration;

use bytes::Bytes;
use highwater_engine::batch::{BatchBuilder, Compression};
use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::controller::{ControllerConfig, NewTopic};
use highwater_replication::node::{Acks, LocalController, Node, leader_of};
use highwater_replication::shard::ShardConfig;
use highwater_replication::transport::Switch;

const TIME: Duration = Duration::from_secs(30);

fn main() -> Result<(), Box<dyn Error>> {
    let home = tempfile::tempdir()?;
    let config = ControllerConfig { brokers_configured: Some(3), ..ControllerConfig::default() };
    let controller = LocalController::start(&home.path().join("controller"), config)?;
    let (switch, mut nodes) = (Switch::new(), Vec::new());
    for id in [1, 2, 3].into_iter().filter_map(NodeId::new) {
        let (directory, link) = (home.path().join(id.to_string()), controller.link());
        nodes.push(Node::start(&directory, ShardConfig::new(id), link, |inbox| Ok(switch.join(id, inbox)))?);
    }
    nodes[0].create_topic(NewTopic::new("greetings")).ok_or("no controller")??;
    let name = TopicPartition::new("greetings", 0)?;

    let leader = leader_of(&nodes, &name, TIME).ok_or("nobody leads")?;
    let first = leader.append(&name, batch("good morning")?, Acks::All, TIME)?;
    println!("node {}: offset {first} is on all in-sync replicas; now this node leaves", leader.id());

    let leaving = leader.id();
    let at = nodes.iter().position(|node| node.id() == leaving).ok_or("it is there")?;
    nodes.remove(at).stop()?;
    let leader = leader_of(&nodes, &name, TIME).ok_or("nobody leads")?;
    let second = leader.append(&name, batch("good night")?, Acks::All, TIME)?;
    println!("node {}: offset {second} follows, and offset {first} is still there:", leader.id());
    println!("{} bytes", leader.read(&name, first, 1 << 20, TIME)?.records.len());

    nodes.into_iter().try_for_each(Node::stop)?;
    Ok(controller.stop()?)
}

fn batch(text: &str) -> Result<Bytes, Box<dyn Error>> {
    let mut builder = BatchBuilder::new(Compression::None);
    builder.push(None, None, Some(text.as_bytes()), &[])?;
    Ok(builder.finish()?)
}
