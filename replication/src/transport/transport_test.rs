use std::net::SocketAddr;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, unbounded};
use highwater_engine::units::NodeId;

use super::{Listener, ListenerConfig, Switch, Tcp, TcpConfig, Transport};
use crate::shard::{Event, Lane, LaneKind};

const SOON: Duration = Duration::from_secs(10);

fn node(id: i32) -> NodeId {
    NodeId::new(id).unwrap()
}

fn to(leader: i32) -> Lane {
    Lane { leader: node(leader), kind: LaneKind::Written }
}

/// A frame in two pieces, with its length.
fn parts(text: &'static str) -> Vec<Bytes> {
    let length = u32::try_from(text.len()).unwrap().to_be_bytes();
    vec![Bytes::copy_from_slice(&length), Bytes::from_static(text.as_bytes())]
}

fn next(events: &Receiver<Event>) -> Event {
    events.recv_timeout(SOON).expect("an event")
}

fn loopback() -> SocketAddr {
    SocketAddr::from(([127, 0, 0, 1], 0))
}

#[test]
fn a_switch_carries_requests_and_answers_and_breaks_with_its_nodes() {
    let (switch, (to_one, one), (to_two, two)) = (Switch::new(), unbounded(), unbounded());
    let mut follower = switch.join(node(1), to_one);
    let _leader = switch.join(node(2), to_two);
    follower.send(to(2), "", parts("fetch"));
    let Event::Frame { slot, frame } = next(&two) else { panic!() };
    assert_eq!(frame, "fetch");
    assert!(switch.reply(slot, &parts("records")));
    assert!(matches!(next(&one), Event::PeerFrame { lane, frame } if lane == to(2) && frame == "records"));

    follower.send(to(2), "", parts("fetch"));
    let Event::Frame { slot, .. } = next(&two) else { panic!() };
    switch.leave(node(2));
    assert!(matches!(next(&one), Event::PeerDown { lane } if lane == to(2)));
    assert!(switch.reply(slot, &parts("too late")), "its slot all the same");
    follower.send(to(2), "", parts("fetch"));
    assert!(matches!(next(&one), Event::PeerDown { .. }));
    assert!(one.try_recv().is_err());
}

#[test]
fn a_node_that_leaves_disconnects_from_those_it_fetched_from() {
    let (switch, (to_one, _one), (to_two, two)) = (Switch::new(), unbounded(), unbounded());
    let mut follower = switch.join(node(1), to_one);
    let _leader = switch.join(node(2), to_two);
    follower.send(to(2), "", parts("fetch"));
    let Event::Frame { slot, .. } = next(&two) else { panic!() };
    switch.leave(node(1));
    assert!(matches!(next(&two), Event::Disconnected { connection } if connection == slot.connection));
}

#[test]
fn tcp_answers_in_the_order_of_requests_whatever_order_they_are_ready_in() {
    let ((to_leader, leader), (to_follower, follower)) = (unbounded(), unbounded());
    let listener = Listener::bind(loopback(), ListenerConfig::default(), to_leader).unwrap();
    let address = listener.address().to_string();
    let mut tcp = Tcp::new(TcpConfig::default(), to_follower);
    for (request, answer) in [("one", "first"), ("two", "second")] {
        tcp.send(to(1), &address, parts(request));
        let Event::Frame { slot, frame } = next(&leader) else { panic!() };
        assert_eq!(frame, request);
        listener.reply(slot, parts(answer));
        let answered = next(&follower);
        assert!(matches!(&answered, Event::PeerFrame { frame, .. } if frame == answer), "{answered:?}");
    }
    drop(listener);
    assert!(matches!(next(&leader), Event::Disconnected { .. }));
    tcp.send(to(1), &address, parts("three"));
    assert!(matches!(next(&follower), Event::PeerDown { lane } if lane == to(1)));
}

#[test]
fn a_frame_that_is_too_long_costs_its_sender_the_connection() {
    let ((to_leader, leader), (to_follower, follower)) = (unbounded(), unbounded());
    let config = ListenerConfig { frame_bytes_max: 4, ..ListenerConfig::default() };
    let listener = Listener::bind(loopback(), config, to_leader).unwrap();
    let mut tcp = Tcp::new(TcpConfig::default(), to_follower);
    tcp.send(to(1), &listener.address().to_string(), parts("five!"));
    assert!(matches!(next(&follower), Event::PeerDown { .. }));
    assert!(matches!(next(&leader), Event::Disconnected { .. }));
}
