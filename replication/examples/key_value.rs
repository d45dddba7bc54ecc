//! A key-value store of one's own: its state is what a replicated log says. A key that was put is on all in-sync replicas, and whoever leads
//! next has it.
//!
//! ```text
//! cargo run -p highwater-replication --example key_value
//! ```

use std::collections::BTreeMap;
use std::error::Error;
use std::time::Duration;

use highwater_engine::batch::{BatchBuilder, Compression, DecompressLimits, scan};
use highwater_engine::units::{NodeId, Offset, TopicPartition};
use highwater_replication::controller::{ControllerConfig, NewTopic};
use highwater_replication::node::{Acks, LocalController, Node, leader_of};
use highwater_replication::shard::ShardConfig;
use highwater_replication::transport::Switch;

type Outcome<T> = Result<T, Box<dyn Error>>;

const TIME: Duration = Duration::from_secs(30);

/// What the log's records come to, on the node that leads.
struct KeyValue<'a> {
    leader: &'a Node,
    log: TopicPartition,
    state: BTreeMap<String, String>,
    read_to: Offset,
}

impl<'a> KeyValue<'a> {
    fn open(nodes: &'a [Node], log: &TopicPartition) -> Outcome<Self> {
        let leader = leader_of(nodes, log, TIME).ok_or("nobody leads")?;
        Ok(Self { leader, log: log.clone(), state: BTreeMap::new(), read_to: Offset::ZERO })
    }

    /// `None` removes the key, as in a compacted topic.
    fn put(&self, key: &str, value: Option<&str>) -> Outcome<()> {
        let mut builder = BatchBuilder::new(Compression::None);
        builder.push(None, Some(key.as_bytes()), value.map(str::as_bytes), &[])?;
        self.leader.append(&self.log, builder.finish()?, Acks::All, TIME)?;
        Ok(())
    }

    /// Everything that was put before is seen: what is acknowledged is below the high watermark.
    fn get(&mut self, key: &str) -> Outcome<Option<&str>> {
        while self.take_in()? {}
        Ok(self.state.get(key).map(String::as_str))
    }

    fn take_in(&mut self) -> Outcome<bool> {
        let fetched = self.leader.read(&self.log, self.read_to, 1 << 20, Duration::ZERO)?;
        for batch in scan(&fetched.records, 0) {
            let (_, batch) = batch?;
            for record in batch.records(&DecompressLimits::default(), &mut Vec::new())? {
                let record = record?;
                let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
                let key = text(record.key.unwrap_or_default());
                match record.value {
                    Some(value) => self.state.insert(key, text(value)),
                    None => self.state.remove(&key),
                };
            }
            self.read_to = batch.header().next_offset();
        }
        Ok(!fetched.records.is_empty())
    }
}

fn main() -> Outcome<()> {
    let home = tempfile::tempdir()?;
    let config = ControllerConfig { brokers_configured: Some(3), ..ControllerConfig::default() };
    let controller = LocalController::start(&home.path().join("controller"), config)?;
    let (switch, mut nodes) = (Switch::new(), Vec::new());
    for id in [1, 2, 3].into_iter().filter_map(NodeId::new) {
        let (directory, link) = (home.path().join(id.to_string()), controller.link());
        nodes.push(Node::start(&directory, ShardConfig::new(id), link, |inbox| Ok(switch.join(id, inbox)))?);
    }
    nodes[0].create_topic(NewTopic::new("capitals")).ok_or("no controller")??;
    let log = TopicPartition::new("capitals", 0)?;

    let mut store = KeyValue::open(&nodes, &log)?;
    store.put("Australia", Some("Sydney"))?;
    store.put("Australia", Some("Canberra"))?;
    store.put("Atlantis", Some("Poseidonis"))?;
    store.put("Atlantis", None)?;
    println!("node {}: Australia {:?}", store.leader.id(), store.get("Australia")?);

    let leaving = store.leader.id();
    let at = nodes.iter().position(|node| node.id() == leaving).ok_or("it is there")?;
    nodes.remove(at).stop()?;
    let mut store = KeyValue::open(&nodes, &log)?;
    let (australia, leader) = (store.get("Australia")?.map(str::to_owned), store.leader.id());
    println!("node {leader}: Australia {australia:?}, Atlantis {:?}", store.get("Atlantis")?);

    nodes.into_iter().try_for_each(Node::stop)?;
    Ok(controller.stop()?)
}
