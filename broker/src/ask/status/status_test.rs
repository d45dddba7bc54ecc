//! The status is gathered from a broker over a socket, and shown.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};

use highwater_replication::wire::api_versions::ApiVersionsResponse;
use highwater_replication::wire::highwater::HighwaterResponse;
use highwater_replication::wire::{self, FrameReader, Request, Response};

use super::*;
use crate::ask::{NewTopic, any, create_topic};

/// A broker that answers each request of one connection with what the function says.
fn broker(answer: impl Fn(Request) -> Response + Send + 'static) -> HostPort {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        let (stream, _) = listener.accept().unwrap();
        serve(stream, answer);
    });
    HostPort { host: "127.0.0.1".to_owned(), port }
}

fn serve(mut stream: TcpStream, answer: impl Fn(Request) -> Response) {
    let mut frames = FrameReader::new(1 << 20);
    let mut piece = [0; 4096];
    loop {
        let count = stream.read(&mut piece).unwrap();
        if count == 0 {
            return;
        }
        frames.feed(&piece[..count]);
        while let Some(frame) = frames.next_frame().unwrap() {
            let (header, request) = wire::decode_request(frame).unwrap();
            // The question whether anybody is there.
            let response = if matches!(request, Request::ApiVersions(_)) {
                ApiVersionsResponse::default().into()
            } else {
                answer(request)
            };
            let parts = wire::encode_response(header.version, header.correlation_id, &response).unwrap();
            stream.write_all(&parts.concat()).unwrap();
        }
    }
}

fn status(port: u16) -> ClusterStatus {
    let broker =
        |id, port, alive| BrokerLine { id, host: "127.0.0.1".to_owned(), port, pid: Some(77), alive };
    ClusterStatus {
        brokers: vec![broker(1, port, true), broker(2, 1, false)],
        partitions: vec![PartitionLine {
            topic: "greetings".to_owned(),
            partition: 0,
            leader: Some(1),
            leader_epoch: 4,
            replicas: vec![1, 2],
            adding: Vec::new(),
            removing: vec![2],
            isr: vec![1],
            out_of_sync: vec![OutOfSyncLine {
                id: 2,
                since_ms: Some(1_000),
                reason: "its session ended".to_owned(),
            }],
            high_watermark: None,
            log_end: None,
            lost: Vec::new(),
            possibly_lost_from: Vec::new(),
            reports: Vec::new(),
            damaged: vec![2],
        }],
    }
}

#[test]
fn what_leaders_say_is_put_into_what_one_broker_knows() {
    let (send_port, port) = std::sync::mpsc::channel();
    let address = broker(move |request| {
        let Request::Highwater(request) = request else { panic!("{request:?}") };
        let reply = match serde_json::from_slice(&request.json).unwrap() {
            ToolRequest::Status => ToolReply::Status(status(port.recv().unwrap())),
            ToolRequest::Marks => ToolReply::Marks(vec![PartitionMarks {
                partition: TopicPartition::new("greetings", 0).unwrap(),
                leader_epoch: 4,
                high_watermark: Some(10),
                log_end: 12,
            }]),
            ToolRequest::Elect { .. } => panic!("nobody asked for that"),
        };
        HighwaterResponse { json: serde_json::to_vec(&reply).unwrap().into() }.into()
    });
    send_port.send(address.port).unwrap();
    let gathered = gather(&mut any(std::slice::from_ref(&address)).unwrap()).unwrap();
    let mut expected = status(address.port);
    expected.partitions[0].high_watermark = Some(10);
    expected.partitions[0].log_end = Some(12);
    assert_eq!(gathered, expected);

    let text = gathered.for_people(Timestamp::from_millis(61_000));
    assert!(
        text.contains("greetings-0     1       4      1,2         1           10              12\n"),
        "{text}"
    );
    assert!(text.contains("    broker 2 is out of sync for 60 s: its session ended\n"), "{text}");
    assert!(text.contains("    broker 2 cannot read a range of its log; it is repaired"), "{text}");
}

#[test]
fn marks_of_another_leadership_are_left_out() {
    let mut status = status(1);
    let partition = TopicPartition::new("greetings", 0).unwrap();
    status.put_marks(&[PartitionMarks { partition, leader_epoch: 3, high_watermark: Some(1), log_end: 1 }]);
    assert_eq!(status.partitions[0].log_end, None);
}

#[test]
fn a_refusal_is_told_in_the_clusters_words() {
    let address = broker(|request| {
        let Request::CreateTopics(request) = request else { panic!("{request:?}") };
        assert_eq!(request.topics[0].num_partitions, -1);
        assert_eq!(request.topics[0].assignments[1].broker_ids, [3, 1]);
        let result = highwater_replication::wire::create_topics::CreatableTopicResult {
            name: request.topics[0].name.clone(),
            error_code: wire::ErrorCode::TopicAlreadyExists,
            error_message: Some("it exists".to_owned()),
            ..Default::default()
        };
        let topics = vec![result];
        highwater_replication::wire::create_topics::CreateTopicsResponse { topics, ..Default::default() }
            .into()
    });
    let mut connection = any(&[address]).unwrap();
    let assignment = crate::ask::parse_assignment("2:3,3:1").unwrap();
    let topic = NewTopic { name: "t".to_owned(), assignment, ..NewTopic::default() };
    assert_eq!(create_topic(&mut connection, &topic).unwrap_err().to_string(), "t: it exists");
}

#[test]
fn nobody_there_is_one_sentence_that_says_what_to_do() {
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let error = any(&[HostPort { host: "127.0.0.1".to_owned(), port: free }]).unwrap_err().to_string();
    assert!(error.starts_with(&format!("no broker answers at 127.0.0.1:{free}: ")), "{error}");
    assert!(error.ends_with("or name a broker with --bootstrap HOST:PORT"), "{error}");
}
