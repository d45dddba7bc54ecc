//! The generator's floor: brokers that answer at once and keep nothing. What they cannot carry, no broker can be measured at.
//!
//! They listen on three ports, as a cluster does, and are good enough for Kafka's own producer too. They check nothing.

use std::io::BufReader;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use highwater_engine::units::TopicId;
use highwater_replication::wire::api_versions::ApiVersionsResponse;
use highwater_replication::wire::init_producer_id::InitProducerIdResponse;
use highwater_replication::wire::metadata::{
    MetadataRequest, MetadataResponse, MetadataResponseBroker, MetadataResponsePartition,
    MetadataResponseTopic,
};
use highwater_replication::wire::produce::{
    PartitionProduceResponse, ProduceRequest, ProduceResponse, TopicProduceResponse,
};
use highwater_replication::wire::{self, Request, RequestError, Response};

use crate::client::{read_frame, write_parts};
use crate::error::{BenchError, Result};
use crate::topic::Layout;

const BROKERS: usize = 3;
const FRAME_BYTES_MAX: usize = 128 << 20;

/// They stop accepting when dropped; a connection lasts until its client ends it.
#[derive(Debug)]
pub(crate) struct NullBrokers {
    addresses: Vec<SocketAddr>,
    partitions: usize,
    stopped: Arc<AtomicBool>,
    accepting: Vec<thread::JoinHandle<()>>,
}

impl NullBrokers {
    /// Three brokers in threads of this process; every topic has that many partitions.
    pub(crate) fn start(partitions: usize) -> Result<Self> {
        let what = "starting a null broker";
        let listen = || TcpListener::bind((Ipv4Addr::LOCALHOST, 0));
        let listeners: Vec<_> =
            (0..BROKERS).map(|_| listen()).collect::<Result<_, _>>().map_err(BenchError::io(what))?;
        let addresses: Vec<_> = listeners
            .iter()
            .map(TcpListener::local_addr)
            .collect::<Result<_, _>>()
            .map_err(BenchError::io(what))?;
        let stopped = Arc::new(AtomicBool::new(false));
        let mut brokers = Self {
            addresses: addresses.clone(),
            partitions,
            stopped: Arc::clone(&stopped),
            accepting: Vec::new(),
        };
        for listener in listeners {
            let known = Arc::new(Known { addresses: addresses.clone(), partitions });
            let stopped = Arc::clone(&stopped);
            let accept = move || accept(&listener, &known, &stopped);
            let thread = thread::Builder::new().name("null broker".to_owned()).spawn(accept);
            brokers.accepting.push(thread.map_err(BenchError::io(what))?);
        }
        Ok(brokers)
    }

    /// Who leads which partition.
    pub(crate) fn layout(&self) -> Layout {
        let mut leaders: Vec<_> = self.addresses.iter().map(|address| (*address, Vec::new())).collect();
        for index in 0..self.partitions {
            if let (Some((_, partitions)), Ok(index)) =
                (leaders.get_mut(index % BROKERS), i32::try_from(index))
            {
                partitions.push(index);
            }
        }
        leaders.retain(|(_, partitions)| !partitions.is_empty());
        Layout { topic: "null".to_owned(), leaders, isr_min: 1 }
    }

    /// Where they listen, for Kafka's tools.
    pub(crate) fn bootstrap(&self) -> String {
        let addresses: Vec<_> = self.addresses.iter().map(SocketAddr::to_string).collect();
        addresses.join(",")
    }
}

impl Drop for NullBrokers {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        for address in &self.addresses {
            // Wakes the thread that accepts; if it cannot be reached it has ended.
            drop(TcpStream::connect(address));
        }
        for thread in self.accepting.drain(..) {
            // A panic there was printed there.
            let _ended = thread.join();
        }
    }
}

struct Known {
    addresses: Vec<SocketAddr>,
    partitions: usize,
}

fn accept(listener: &TcpListener, known: &Arc<Known>, stopped: &AtomicBool) {
    while let Ok((stream, _)) = listener.accept() {
        if stopped.load(Ordering::Relaxed) {
            return;
        }
        let known = Arc::clone(known);
        let serve = move || {
            if let Err(error) = serve(stream, &known) {
                eprintln!("null broker: {error}");
            }
        };
        if let Err(error) = thread::Builder::new().name("null connection".to_owned()).spawn(serve) {
            eprintln!("null broker: {error}");
        }
    }
}

fn serve(mut stream: TcpStream, known: &Known) -> Result<()> {
    stream.set_nodelay(true).map_err(BenchError::io("null broker"))?;
    let reading = stream.try_clone().map_err(BenchError::io("null broker"))?;
    let mut reading = BufReader::with_capacity(64 << 10, reading);
    while let Some(frame) = read_frame(&mut reading, FRAME_BYTES_MAX)? {
        let (header, version, response) = match wire::decode_request(frame) {
            Ok((header, request)) => {
                let version = header.version;
                let Some(response) = known.answer(request, version)? else { continue };
                (header, version, response)
            }
            Err(RequestError::UnsupportedVersion { header }) if header.api == wire::ApiKey::ApiVersions => {
                let (version, response) = wire::unsupported_api_versions();
                (header, version, response)
            }
            Err(error) => return Err(error.into()),
        };
        let parts = wire::encode_response(version, header.correlation_id, &response)?;
        write_parts(&mut stream, &parts).map_err(BenchError::io("answering"))?;
    }
    Ok(())
}

impl Known {
    fn answer(&self, request: Request, version: i16) -> Result<Option<Response>> {
        #[expect(clippy::wildcard_enum_match_arm, reason = "it answers what producers ask, and nothing else")]
        Ok(match request {
            Request::Produce(request) if request.acks == 0 => None,
            Request::Produce(request) => Some(produced(&request).into()),
            Request::ApiVersions(_) => Some(ApiVersionsResponse::advertised().into()),
            Request::Metadata(request) => Some(self.metadata(&request, version).into()),
            Request::InitProducerId(_) => {
                Some(InitProducerIdResponse { producer_id: 1, ..InitProducerIdResponse::default() }.into())
            }
            other => return Err(BenchError::SomethingElse { asked: other.api() }),
        })
    }

    fn metadata(&self, request: &MetadataRequest, version: i16) -> MetadataResponse {
        let broker = |(node_id, address): (i32, &SocketAddr)| MetadataResponseBroker {
            node_id,
            host: address.ip().to_string(),
            port: i32::from(address.port()),
            rack: None,
        };
        let asked = if request.asks_for_all_topics(version) { None } else { request.topics.as_ref() };
        MetadataResponse {
            brokers: (1..).zip(&self.addresses).map(broker).collect(),
            cluster_id: Some("null".to_owned()),
            controller_id: 1,
            topics: asked.into_iter().flatten().map(|topic| self.topic(topic.name.clone())).collect(),
            ..MetadataResponse::default()
        }
    }

    fn topic(&self, name: Option<String>) -> MetadataResponseTopic {
        let partition = |(partition_index, leader_id)| MetadataResponsePartition {
            partition_index,
            leader_id,
            leader_epoch: 0,
            replica_nodes: vec![leader_id],
            isr_nodes: vec![leader_id],
            ..MetadataResponsePartition::default()
        };
        let partitions = (0..).zip((1..=3).cycle()).take(self.partitions);
        MetadataResponseTopic {
            name: Some(name.unwrap_or_else(|| "null".to_owned())),
            topic_id: TopicId::new([1; 16]),
            partitions: partitions.map(partition).collect(),
            ..MetadataResponseTopic::default()
        }
    }
}

fn produced(request: &ProduceRequest) -> ProduceResponse {
    let topic = |topic: &wire::produce::TopicProduceData| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic
            .partition_data
            .iter()
            .map(|data| PartitionProduceResponse { index: data.index, ..PartitionProduceResponse::default() })
            .collect(),
    };
    ProduceResponse {
        responses: request.topic_data.iter().map(topic).collect(),
        ..ProduceResponse::default()
    }
}
