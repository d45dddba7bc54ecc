//! Real sockets, one loop: what a bad client costs, and whom.

#![expect(clippy::wildcard_enum_match_arm, reason = "any other variant fails the test")]

use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::*;

struct Table {
    mailbox: Mailbox<SocketNews>,
    sockets: Sockets<SocketNews>,
    address: HostPort,
    letters: Vec<SocketNews>,
}

const LIMITS: SocketLimits = SocketLimits {
    accepted_max: 3,
    accepted_per_address_max: 3,
    requests_max: 2,
    frame_bytes_max: 4 << 20,
    idle_max: Duration::from_secs(60),
    stall_max: Duration::from_millis(300),
};

fn table(limits: SocketLimits) -> Table {
    let bound = Bound::bind(&HostPort { host: "127.0.0.1".to_owned(), port: 0 }, false).unwrap();
    let address = bound.address();
    let mailbox = Mailbox::new();
    bound.serve(mailbox.clone()).unwrap();
    let sockets = Sockets::new(mailbox.clone(), Clock::start(), limits, Budget::new(1 << 20));
    Table { mailbox, sockets, address, letters: Vec::new() }
}

impl Table {
    async fn client(&self) -> TcpStream {
        TcpStream::connect((self.address.host.as_str(), self.address.port)).await.unwrap()
    }

    /// The next news, as the loop would take them.
    async fn next(&mut self) -> SocketNews {
        loop {
            if !self.letters.is_empty() {
                return self.letters.remove(0);
            }
            let rings = self.mailbox.rings();
            tokio::time::timeout(Duration::from_secs(20), rings).await.expect("nothing happened");
            self.mailbox.take(&mut self.letters);
        }
    }

    async fn accept(&mut self) -> Option<ConnectionId> {
        match self.next().await {
            SocketNews::Accepted(stream) => self.sockets.accept(stream),
            other => panic!("{other:?}"),
        }
    }

    async fn frame(&mut self) -> (ConnectionId, Bytes) {
        match self.next().await {
            SocketNews::Frame { id, frame, charged } => {
                assert!(self.sockets.request_came(id, charged));
                (id, frame)
            }
            other => panic!("{other:?}"),
        }
    }
}

fn request(tag: u8, length: usize) -> Vec<u8> {
    let mut bytes = u32::try_from(length).unwrap().to_be_bytes().to_vec();
    bytes.extend([0, 0]);
    bytes.resize(4 + length, tag);
    bytes
}

#[tokio::test]
async fn requests_come_and_answers_go_and_the_number_under_way_is_bounded() {
    let mut table = table(LIMITS);
    let mut client = table.client().await;
    let id = table.accept().await.unwrap();
    for tag in 1..=3 {
        client.write_all(&request(tag, 10)).await.unwrap();
    }
    assert_eq!(table.frame().await.1.last(), Some(&1));
    assert_eq!(table.frame().await.1.last(), Some(&2));
    let third = tokio::time::timeout(Duration::from_millis(50), table.mailbox.rings()).await;
    assert!(third.is_err(), "the third one waits until one is answered");
    table.sockets.send(id, vec![Bytes::from_static(b"ab"), Bytes::from_static(b"c")]);
    table.sockets.requests_done(id, 1);
    table.sockets.flush(id);
    let mut answer = [0; 3];
    client.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"abc");
    assert_eq!(table.frame().await.1.last(), Some(&3));
    drop(client);
    assert!(matches!(table.next().await, SocketNews::Gone { why: Gone::Closed, .. }));
    table.sockets.close(id);
    assert_eq!(table.sockets.budget.used(), 0, "everything that was charged was released");
}

#[tokio::test]
async fn a_bad_frame_costs_its_sender_the_connection_and_nobody_else() {
    let mut table = table(LIMITS);
    let mut good = table.client().await;
    let good_id = table.accept().await.unwrap();
    for bytes in [&(-1i32).to_be_bytes()[..], &(64i32 << 20).to_be_bytes(), b"GET / HTTP/1.1\r\n\r\n"] {
        let mut bad = table.client().await;
        let id = table.accept().await.unwrap();
        bad.write_all(bytes).await.unwrap();
        let SocketNews::Gone { id: gone, .. } = table.next().await else { panic!("it was taken") };
        assert_eq!(gone, id);
        table.sockets.close(id);
        assert_eq!(bad.read(&mut [0; 1]).await.unwrap_or(0), 0);
    }
    good.write_all(&request(7, 100_000)).await.unwrap();
    let (id, frame) = table.frame().await;
    assert_eq!((id, frame.len()), (good_id, 100_000));
}

#[tokio::test]
async fn further_connections_are_closed_at_the_bound() {
    let mut table = table(LIMITS);
    let mut clients = Vec::new();
    for _ in 0..3 {
        clients.push(table.client().await);
        assert!(table.accept().await.is_some());
    }
    let mut fourth = table.client().await;
    assert!(table.accept().await.is_none());
    assert_eq!(fourth.read(&mut [0; 1]).await.unwrap_or(0), 0);
}

#[tokio::test]
async fn one_address_can_have_so_many_and_others_have_theirs() {
    let mut table = table(SocketLimits { accepted_per_address_max: 1, ..LIMITS });
    let first = table.client().await;
    let id = table.accept().await.unwrap();
    let _second = table.client().await;
    assert!(table.accept().await.is_none());
    let elsewhere = tokio::net::TcpSocket::new_v4().unwrap();
    elsewhere.bind("127.0.0.2:0".parse().unwrap()).unwrap();
    let _other = elsewhere.connect(table.address.to_string().parse().unwrap()).await.unwrap();
    assert!(table.accept().await.is_some());
    table.sockets.close(id);
    drop(first);
    let _third = table.client().await;
    let accepted = loop {
        match table.next().await {
            SocketNews::Accepted(stream) => break table.sockets.accept(stream),
            SocketNews::Connected { .. }
            | SocketNews::Frame { .. }
            | SocketNews::Writable { .. }
            | SocketNews::Gone { .. } => {}
        }
    };
    assert!(accepted.is_some(), "the place is free again");
}

#[tokio::test]
async fn who_does_not_read_is_closed_and_its_bytes_are_given_back() {
    let mut table = table(LIMITS);
    let mut client = table.client().await;
    let id = table.accept().await.unwrap();
    client.write_all(&request(1, 10)).await.unwrap();
    table.frame().await;
    table.sockets.send(id, vec![Bytes::from(vec![0; 64 << 20])]);
    table.sockets.requests_done(id, 1);
    table.sockets.flush(id);
    assert!(table.sockets.queued_bytes(id) > 0);
    loop {
        match table.next().await {
            SocketNews::Writable { id } => table.sockets.writable(id),
            SocketNews::Gone { why: Gone::Stalled, .. } => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(table.sockets.close(id));
    assert_eq!(table.sockets.budget.used(), 0);
}

#[tokio::test]
async fn what_is_sent_before_a_connection_is_made_goes_out_when_it_is() {
    let mut table = table(LIMITS);
    let out = table.sockets.connect(table.address.clone());
    table.sockets.send(out, vec![Bytes::from(request(9, 50))]);
    let mut accepted = false;
    loop {
        match table.next().await {
            SocketNews::Accepted(stream) => accepted = table.sockets.accept(stream).is_some(),
            SocketNews::Connected { id, stream } => table.sockets.connected(id, stream),
            SocketNews::Frame { frame, .. } => {
                assert_eq!(frame.len(), 50);
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(accepted);
    let nobody = table.sockets.connect(HostPort { host: "127.0.0.1".to_owned(), port: 1 });
    assert!(matches!(table.next().await, SocketNews::Gone { id, .. } if id == nobody));
}
