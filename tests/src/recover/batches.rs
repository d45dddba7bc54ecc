//! Makes the batches of a trial, and says what they are in the log. Every value is unlike any other, so that no batch is taken for another.

use bytes::{Bytes, BytesMut};
use highwater_engine::batch::{
    BatchBuilder, BatchLimits, Compression, ProducedBatch, TransactionEnd, transaction_marker,
};
use highwater_engine::units::{LeaderEpoch, Offset, ProducerEpoch, ProducerId, Sequence, Timestamp};

use super::model::Batch;
use super::step::Content;

/// The batch as its producer sends it. `tag` makes its values unique.
pub fn sent(content: &Content, tag: u64) -> Bytes {
    finish(builder(content), content, tag)
}

/// The batch as a leader has stamped it.
pub fn stamped(content: &Content, tag: u64, base: i64, epoch: i32) -> Batch {
    let builder = builder(content).base_offset(offset(base)).leader_epoch(leader_epoch(epoch));
    let bytes = finish(builder, content, tag);
    batch(content, base, epoch, bytes)
}

/// What a producer sent, once it has its place: offset and epoch are overwritten, nothing else.
pub fn placed(content: &Content, sent: &Bytes, base: i64, epoch: i32) -> Batch {
    let mut bytes = BytesMut::from(&sent[..]);
    bytes[..8].copy_from_slice(&base.to_be_bytes());
    bytes[12..16].copy_from_slice(&epoch.to_be_bytes());
    batch(content, base, epoch, bytes.freeze())
}

/// What a leader makes of a producer's bytes.
pub fn check(sent: &Bytes) -> ProducedBatch {
    let limits = BatchLimits::default();
    ProducedBatch::check(Bytes::copy_from_slice(sent), &limits, Timestamp::from_millis(i64::MAX / 2))
        .expect("the builder makes batches that a leader takes")
}

/// An offset; below 0 it is 0.
pub fn offset(value: i64) -> Offset {
    Offset::new(value.max(0)).expect("offsets are not negative")
}

/// An epoch.
pub fn leader_epoch(value: i32) -> LeaderEpoch {
    LeaderEpoch::new(value).expect("epochs are not negative")
}

fn batch(content: &Content, base: i64, epoch: i32, bytes: Bytes) -> Batch {
    let records = i64::try_from(content.times.len()).unwrap_or(i64::MAX);
    let (times, sent) = (content.times.clone(), content.sent);
    Batch { base, end: base + records, epoch, bytes, times, sent, ends: None }
}

/// What ends a transaction, as a leader has stamped it.
pub fn marker(end: TransactionEnd, id: i64, time: i64, base: i64, epoch: i32) -> Batch {
    let producer = ProducerId::new(id).expect("ids are not negative");
    let zero = ProducerEpoch::new(0).expect("0 is an epoch");
    let bytes = transaction_marker(end, producer, zero, 0, Timestamp::from_millis(time));
    let bytes = bytes.expect("a marker can be made of any producer");
    let content = Content::plain(1, 0, time);
    Batch { ends: Some(id), ..placed(&content, &bytes, base, epoch) }
}

fn builder(content: &Content) -> BatchBuilder {
    let compression = if content.compressed { Compression::Lz4 } else { Compression::None };
    let builder = BatchBuilder::new(compression);
    let Some(sent) = content.sent else { return builder };
    let builder = builder.producer(
        ProducerId::new(sent.id).expect("ids are not negative"),
        ProducerEpoch::new(0).expect("0 is an epoch"),
        Sequence::new(sent.first).expect("sequences are not negative"),
    );
    if sent.is_transactional() { builder.transactional() } else { builder }
}

fn finish(mut builder: BatchBuilder, content: &Content, tag: u64) -> Bytes {
    let size = usize::try_from(content.value_bytes).unwrap_or(0);
    let mut noise = fastrand::Rng::with_seed(tag);
    for (number, time) in content.times.iter().enumerate() {
        // Unlike any other, so that a compaction takes nothing.
        let key = [tag, number as u64].map(u64::to_be_bytes).concat();
        let mut value = tag.to_be_bytes().to_vec();
        value.extend(std::iter::repeat_with(|| noise.u8(..)).take(size));
        let pushed = builder.push(Some(Timestamp::from_millis(*time)), Some(&key), Some(&value), &[]);
        pushed.expect("a few small records fit");
    }
    builder.finish().expect("a batch with records can be finished")
}
