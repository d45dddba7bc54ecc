//! S35 and its like: records that are there and cannot be read. Nobody cuts them, nobody is led past them, and whoever is complete leads and
//! gives them back. What Kafka does with the same faults is in `tests/kafka`.

use std::time::Duration;

use highwater_engine::units::{NodeId, TopicPartition};
use highwater_replication::wire::ErrorCode;
use highwater_tests::world::{A, B, C, Options, ProducerOptions, TopicOptions, World};

/// Enough for several segments.
const RECORDS: usize = 60;

/// Two or three replicas with the same records, all of them synced and known to be.
fn at_rest(replicas: &[NodeId], min_isr: usize) -> (World, TopicPartition) {
    let mut world = World::new(35, Options { segment_bytes: 2 << 10, ..Options::default() });
    let topic = TopicOptions { assignment: vec![replicas.to_vec()], min_isr, ..TopicOptions::default() };
    let topic = world.topic(&topic).remove(0);
    let producer = world.producer(&topic, ProducerOptions::default());
    world.produce(producer, RECORDS);
    world.run_for(Duration::from_secs(70));
    assert!(replicas.iter().all(|node| world.durable(*node, &topic) == 60), "{}", world.report());
    (world, topic)
}

/// Stops a replica cleanly, strikes the batch, and starts it again.
fn struck_while_it_is_down(world: &mut World, node: NodeId, topic: &TopicPartition, base: i64) {
    world.stop_cleanly(node);
    world.until("it has stopped", |world| !world.runs(node));
    world.rot(node, topic, base);
    world.start_node(node);
    world.until("it is in sync again", |world| world.isr(topic).contains(&node));
}

/// Everybody comes to have everything, and a consumer reads it from the beginning.
fn all_is_well(world: &mut World, topic: &TopicPartition) {
    world.until("all logs can be read", |world| world.status(A, topic).is_some());
    let mut tries = 0;
    while !world.all_logs_can_be_read() {
        world.run_for(Duration::from_millis(100));
        tries += 1;
        assert!(tries < 300, "{}", world.report());
    }
    world.settle();
    let consumer = world.consumer(topic);
    world.until("a consumer has it all", |world| world.position(consumer) == 60);
    assert_eq!(world.ghost().losses(topic), 0);
}

#[test]
fn s35_a_leader_that_meets_damage_hands_over_and_is_repaired_and_its_log_is_never_shorter() {
    let (mut world, topic) = at_rest(&[A, B, C], 2);
    world.stop_cleanly(A);
    world.until("it has stopped", |world| !world.runs(A));
    // A record far from the end, so that the opening does not come upon it.
    world.rot_byte(A, &topic, 2, 70);
    world.start_node(A);
    world.until("it is in sync again", |world| world.isr(&topic).contains(&A));
    world.elect(&topic, A);
    world.until("A leads", |world| world.leads(A, &topic));
    let consumer = world.consumer(&topic);
    world.until("A has given the leadership away", |world| world.leader(&topic) != Some(A));
    assert!(world.isr(&topic).contains(&A), "it has everything, and counts");
    assert_eq!(world.end(A, &topic), 60);
    world.until("the consumer has it all", |world| world.position(consumer) == 60);
    world.until("A is whole", |world| world.status(A, &topic).is_some_and(|it| it.damaged.is_empty()));
    assert_eq!(world.end(A, &topic), 60);
    all_is_well(&mut world, &topic);
}

/// The table's first row: whoever is back first is damaged, and waits.
#[test]
fn s35_after_a_kill_of_all_the_damaged_replica_waits_for_the_complete_one() {
    let (mut world, topic) = at_rest(&[A, B], 2);
    for node in [A, B] {
        world.kill(node);
    }
    world.rot_byte(A, &topic, 57, 70);
    world.start_node(A);
    world.run_for(Duration::from_secs(6));
    assert_eq!((world.leader(&topic), world.end(A, &topic)), (None, 60), "{}", world.report());
    world.start_node(B);
    world.until("B leads", |world| world.leader(&topic) == Some(B));
    all_is_well(&mut world, &topic);
}

#[test]
fn two_replicas_that_are_damaged_in_different_places_heal_each_other() {
    let (mut world, topic) = at_rest(&[A, B], 1);
    struck_while_it_is_down(&mut world, A, &topic, 6);
    struck_while_it_is_down(&mut world, B, &topic, 40);
    all_is_well(&mut world, &topic);
    assert_eq!(world.counts().get("repaired ranges"), Some(&2), "{}", world.report());
}

/// One replica and nobody to ask: an error inside, and everything before and behind it.
#[test]
fn a_range_that_nobody_else_has_is_an_error_and_not_a_gap_and_stays_known() {
    let (mut world, topic) = at_rest(&[A], 1);
    struck_while_it_is_down(&mut world, A, &topic, 40);
    for _ in 0..2 {
        let consumer = world.consumer(&topic);
        world.until("the consumer is told", |world| {
            world.last_error(consumer) == Some(ErrorCode::CorruptMessage)
        });
        assert_eq!(world.position(consumer), 40, "{}", world.report());
        let behind = world.consumer_at(&topic, 41);
        world.until("what lies behind is read", |world| world.position(behind) == 60);
        world.until("it is known", |world| {
            world.state(&topic).damaged.contains(&A)
                && world.status(A, &topic).is_some_and(|status| status.damaged.len() == 1)
        });
        world.kill(A);
        world.start_node(A);
        world.until("it leads again", |world| world.leads(A, &topic));
        assert_eq!(world.end(A, &topic), 60);
    }
}

/// The one that leads lacks what a follower needs next; the only one who has it comes later.
#[test]
fn a_follower_that_needs_what_is_damaged_waits_for_it_and_is_led_past_nothing() {
    let (mut world, topic) = at_rest(&[A, B, C], 1);
    world.replace_disk(C);
    world.kill(B);
    world.until("A is alone", |world| world.isr(&topic) == [A]);
    world.kill(A);
    world.rot(A, &topic, 40);
    world.start_node(A);
    world.until("A leads", |world| world.leads(A, &topic));
    world.start_node(C);
    world.until_end(C, &topic, 40);
    world.run_for(Duration::from_secs(2));
    assert_eq!((world.end(C, &topic), world.isr(&topic)), (40, vec![A]), "{}", world.report());
    world.start_node(B);
    all_is_well(&mut world, &topic);
}

/// What is done to the files of a replica that is down.
type Damage = (&'static str, fn(&mut World, &TopicPartition));

fn at(world: &World, topic: &TopicPartition, segment: usize) -> (String, u64) {
    let (file, size) = world.segments(A, topic)[segment].clone();
    (file, size as u64)
}

/// Rows of the tables of faults of records, indexes and checkpoints, each by its number.
const DAMAGES: &[Damage] = &[
    ("D-03 a sector of zeros", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file, 512, &[0; 512]);
    }),
    ("D-04 a byte of a record", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file, 70, &[0xff]);
    }),
    ("D-05 a base offset", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file, 6, &[0xff]);
    }),
    ("D-05 a leader epoch", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file, 12, &[0, 0, 0, 9]);
    }),
    ("D-05 a magic", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file, 16, &[7]);
    }),
    ("D-06 a length of nothing", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file, 8, &[0; 4]);
    }),
    ("D-06 a length of two thousand million", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file, 8, &[0x7f, 0xff, 0xff, 0xff]);
    }),
    ("D-10 the beginning of another segment", |world, topic| {
        let ((first, _), (file, _)) = (at(world, topic, 0), at(world, topic, 1));
        let bytes = world.file(A, &first).unwrap_or_default();
        world.damage(A, &file, 0, &bytes[..1_000]);
    }),
    ("D-11 a segment is shorter than it was", |world, topic| {
        let (file, size) = at(world, topic, 1);
        world.set_file_size(A, &file, size / 2);
    }),
    ("D-12 a segment is gone", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.remove_file(A, &file);
    }),
    ("D-13 the first segment is gone", |world, topic| {
        let (file, _) = at(world, topic, 0);
        world.remove_file(A, &file);
    }),
    ("D-16 a segment is empty", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.set_file_size(A, &file, 0);
    }),
    ("X-01 an index is gone", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.remove_file(A, &file.replace(".log", ".index"));
    }),
    ("X-02 an index has an odd size", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.set_file_size(A, &file.replace(".log", ".index"), 13);
    }),
    ("X-03 garbage in an index", |world, topic| {
        let (file, _) = at(world, topic, 1);
        world.damage(A, &file.replace(".log", ".index"), 0, &[0x55; 8]);
    }),
    ("C-01 an empty checkpoint of high watermarks", |world, _| {
        world.set_file_size(A, "replication-offset-checkpoint", 0);
    }),
    ("C-02 a checkpoint of recovery points is garbage", |world, _| {
        world.damage(A, "recovery-point-offset-checkpoint", 0, b"garbage");
    }),
    ("C-13 the epochs are garbage", |world, topic| {
        world.damage(A, &format!("{topic}/leader-epoch-checkpoint"), 0, b"garbage");
    }),
];

fn whatever_is_done(stop: impl Fn(&mut World)) {
    for (what, damage) in DAMAGES {
        let (mut world, topic) = at_rest(&[A, B, C], 2);
        stop(&mut world);
        damage(&mut world, &topic);
        world.note_damage(A, &topic, what);
        world.start_node(A);
        world.until("A is in sync", |world| world.isr(&topic).len() == 3);
        all_is_well(&mut world, &topic);
        world.elect(&topic, A);
        all_is_well(&mut world, &topic);
    }
}

#[test]
fn s35_whatever_is_damaged_in_the_files_of_one_replica_after_a_clean_stop_it_has_all_of_it_again() {
    whatever_is_done(|world| {
        world.stop_cleanly(A);
        world.until("it has stopped", |world| !world.runs(A));
    });
}

#[test]
fn s35_whatever_is_damaged_in_the_files_of_one_replica_after_a_kill_it_has_all_of_it_again() {
    whatever_is_done(|world| world.kill(A));
}
