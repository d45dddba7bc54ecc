//! A leader's checks of what a producer sent, once, and the stamp that makes it part of a log.
//!
//! Never encodes a batch again: the producer's bytes are what is stored, except for the fields that are a leader's to write.
//! Source: `ProduceRequest.validateRecords`, `UnifiedLog.analyzeAndValidateRecords`, `LogValidator`.

use bytes::{Bytes, BytesMut};

use super::codec::Decompressor;
use super::header::{
    AT_ATTRIBUTES, AT_CRC, AT_LEADER_EPOCH, AT_MAX_TIMESTAMP, HEADER_BYTES, end_of, field, put,
};
use super::record::{offset_of, read_record, timestamp_of};
use super::scan::prefix;
use super::stream::StreamSource;
use super::varint::{SliceSource, Source};
use super::view::crc_of;
use super::{
    BatchDamage, BatchHeader, BatchRefusal, BatchView, Compression, DecompressLimits, HeaderDamage,
    RecordDamage, RecordRefusal, RefusedRecords, StopReason, TimestampType,
};
use crate::units::{LeaderEpoch, Offset, Timestamp};

/// How far a leader looks into a compressed batch (`validate.compressed`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum ValidateCompressed {
    /// It is decompressed, as a bounded stream, and every record is looked at.
    #[default]
    Full,
    /// Header and CRC only: keys, offsets and timestamps of single records are the producer's word.
    Header,
}

/// Whose clock gives the timestamps of a topic (`message.timestamp.type`), and how far a producer's may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum TimestampRule {
    /// The producer's.
    CreateTime {
        /// Milliseconds that it may lie before the broker's clock (`message.timestamp.before.max.ms`).
        before_ms_max: i64,
        /// Milliseconds that it may lie ahead of it (`message.timestamp.after.max.ms`).
        after_ms_max: i64,
    },
    /// The leader's; what the producer says is not looked at.
    LogAppendTime,
}

/// Whether records need a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum KeyRule {
    /// They may have one.
    #[default]
    Optional,
    /// They must, because the topic is compacted by key.
    Required,
}

/// What a topic asks of the batches that its producers send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct BatchLimits {
    /// The size of a batch, header included and as it was sent (`max.message.bytes`).
    pub batch_bytes_max: usize,
    /// Whose clock counts.
    pub timestamps: TimestampRule,
    /// Whether records need a key.
    pub keys: KeyRule,
    /// How far compressed batches are looked into.
    pub compressed: ValidateCompressed,
    /// How much may come out of them meanwhile.
    pub decompress: DecompressLimits,
}

impl Default for BatchLimits {
    /// Kafka's defaults: 1 MiB and a header's worth, timestamps at most an hour ahead.
    fn default() -> Self {
        Self {
            batch_bytes_max: 1_048_588,
            timestamps: TimestampRule::CreateTime { before_ms_max: i64::MAX, after_ms_max: 3_600_000 },
            keys: KeyRule::Optional,
            compressed: ValidateCompressed::Full,
            decompress: DecompressLimits::default(),
        }
    }
}

/// One batch of a producer's that a leader may append.
#[derive(Clone, Debug)]
pub struct ProducedBatch {
    bytes: Bytes,
    header: BatchHeader,
    /// The greatest timestamp that its records really have.
    max_timestamp: Option<Timestamp>,
}

/// A batch with its place in a log.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct StampedBatch {
    /// The bytes to be stored.
    pub bytes: Bytes,
    /// What their header says.
    pub header: BatchHeader,
}

/// There is no offset left for the batch, or behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a batch of {count} records at offset {base} goes beyond the last offset there is")]
#[non_exhaustive]
pub struct OffsetsExhausted {
    /// Where it should have begun.
    pub base: Offset,
    /// How many offsets it needs.
    pub count: i64,
}

impl ProducedBatch {
    /// Checks all that can be known without the log: exactly one whole batch, its header, CRC and records. A torn batch behind it is
    /// dropped without a word, as Kafka does.
    pub fn check(mut bytes: Bytes, limits: &BatchLimits, now: Timestamp) -> Result<Self, BatchRefusal> {
        let size_bytes = only_batch(&bytes)?;
        bytes.truncate(size_bytes);
        if let Some(start) = bytes.first_chunk::<HEADER_BYTES>() {
            let base_offset = i64::from_be_bytes(field(start, 0));
            if base_offset != 0 {
                return Err(BatchRefusal::BaseOffset { base_offset });
            }
        }
        if size_bytes > limits.batch_bytes_max {
            return Err(BatchRefusal::TooLarge { size_bytes, batch_bytes_max: limits.batch_bytes_max });
        }
        let view = BatchView::parse(&bytes).map_err(|damage| refusal_of(&damage, bytes.len()))?;
        let header = *view.header();
        check_header(&header)?;
        let max_timestamp = check_records(&view, limits, now)?;
        Ok(Self { bytes, header, max_timestamp })
    }

    /// What the header says; its offset and epoch are not given yet.
    pub const fn header(&self) -> &BatchHeader {
        &self.header
    }

    /// The whole batch, as it was sent.
    pub const fn bytes(&self) -> &Bytes {
        &self.bytes
    }

    /// Its size in bytes, before and after the stamp.
    pub const fn size_bytes(&self) -> usize {
        self.header.size_bytes
    }

    /// How many offsets it takes.
    pub fn offset_count(&self) -> i64 {
        i64::from(self.header.last_offset_delta) + 1
    }

    /// Gives the batch its place: base offset and leader epoch lie outside the CRC. With `log_append_time` the type and the max timestamp
    /// are rewritten; without it a wrong max timestamp is set right, and the attribute is cleared that claims a leader's; in either case the
    /// CRC is reckoned again only if something changed.
    ///
    /// In place if nobody else holds the bytes, else in a copy.
    pub fn stamp(
        self,
        base: Offset,
        epoch: LeaderEpoch,
        log_append_time: Option<Timestamp>,
    ) -> Result<StampedBatch, OffsetsExhausted> {
        let mut stamp = self.stamp_at(base, epoch, log_append_time)?;
        let mut bytes = self.bytes.try_into_mut().unwrap_or_else(|shared| BytesMut::from(shared.as_ref()));
        let header = stamp.put(&mut bytes);
        Ok(StampedBatch { bytes: bytes.freeze(), header })
    }

    /// As [`ProducedBatch::stamp`], in a copy behind what `out` holds. After an error `out` is as it was.
    #[inline]
    pub(crate) fn stamp_into(
        &self,
        out: &mut BytesMut,
        base: Offset,
        epoch: LeaderEpoch,
        log_append_time: Option<Timestamp>,
    ) -> Result<BatchHeader, OffsetsExhausted> {
        let mut stamp = self.stamp_at(base, epoch, log_append_time)?;
        let at = out.len();
        out.extend_from_slice(&self.bytes);
        Ok(stamp.put(&mut out[at..]))
    }

    #[inline]
    fn stamp_at(
        &self,
        base: Offset,
        epoch: LeaderEpoch,
        log_append_time: Option<Timestamp>,
    ) -> Result<Stamp, OffsetsExhausted> {
        let mut header = self.header;
        if end_of(base, header.last_offset_delta).is_none() {
            return Err(OffsetsExhausted { base, count: self.offset_count() });
        }
        let (kind, max_timestamp) = match log_append_time {
            Some(time) => (TimestampType::LogAppendTime, Some(time)),
            None => (TimestampType::CreateTime, self.max_timestamp),
        };
        let changes_crc = header.attributes.timestamp_type() != kind || header.max_timestamp != max_timestamp;
        header.base_offset = base;
        header.leader_epoch = Some(epoch);
        header.attributes = header.attributes.with_timestamp_type(kind);
        header.max_timestamp = max_timestamp;
        Ok(Stamp { header, changes_crc })
    }
}

/// What a batch's header is to say once the batch has its place.
struct Stamp {
    header: BatchHeader,
    /// Whether fields change that the CRC covers.
    changes_crc: bool,
}

impl Stamp {
    /// Writes what changes into the whole batch; gives its header.
    #[inline]
    fn put(&mut self, batch: &mut [u8]) -> BatchHeader {
        let header = &mut self.header;
        put(batch, 0, header.base_offset.value().to_be_bytes());
        put(batch, AT_LEADER_EPOCH, header.leader_epoch.map_or(-1, LeaderEpoch::value).to_be_bytes());
        if self.changes_crc {
            put(batch, AT_ATTRIBUTES, header.attributes.bits().to_be_bytes());
            put(batch, AT_MAX_TIMESTAMP, header.max_timestamp.map_or(-1, Timestamp::millis).to_be_bytes());
            header.crc = crc_of(batch);
            put(batch, AT_CRC, header.crc.to_be_bytes());
        }
        *header
    }
}

/// The size of the one batch that the bytes hold.
#[inline]
fn only_batch(bytes: &[u8]) -> Result<usize, BatchRefusal> {
    let have = bytes.len();
    let Some(size) = whole_batch(bytes)? else {
        return Err(BatchRefusal::NoWholeBatch { have });
    };
    match bytes.get(size..).map(whole_batch) {
        Some(Err(refusal)) => Err(refusal),
        Some(Ok(Some(_))) => Err(BatchRefusal::SeveralBatches),
        Some(Ok(None)) | None => Ok(size),
    }
}

/// The size of the batch at the beginning, if it is there in full.
#[inline]
fn whole_batch(bytes: &[u8]) -> Result<Option<usize>, BatchRefusal> {
    let prefix = match prefix(bytes) {
        Ok(prefix) => prefix,
        Err(StopReason::Length { length }) => return Err(BatchRefusal::Length { length }),
        Err(_) => return Ok(None),
    };
    match prefix.magic {
        0..=2 if prefix.size_bytes > bytes.len() => Ok(None),
        2 => Ok(Some(prefix.size_bytes)),
        magic @ (0 | 1) => Err(BatchRefusal::Legacy { magic }),
        magic => Err(BatchRefusal::Magic { magic }),
    }
}

fn refusal_of(damage: &BatchDamage, have: usize) -> BatchRefusal {
    match *damage {
        BatchDamage::Crc { stored, computed } => BatchRefusal::Crc { stored, computed },
        BatchDamage::Torn { .. } | BatchDamage::Header(HeaderDamage::Short { .. }) => {
            // `only_batch` found it whole, so it is the length that is below a header's.
            BatchRefusal::Length { length: super::header::length_of_size(have) }
        }
        BatchDamage::Header(HeaderDamage::Length { length }) => BatchRefusal::Length { length },
        BatchDamage::Header(HeaderDamage::Magic { magic }) => BatchRefusal::Magic { magic },
        BatchDamage::Header(HeaderDamage::Offsets { last_offset_delta, .. }) => {
            BatchRefusal::Count { record_count: -1, last_offset_delta }
        }
        BatchDamage::Header(HeaderDamage::Codec { codec }) => BatchRefusal::Codec { codec },
        BatchDamage::Header(HeaderDamage::Count { count }) => {
            BatchRefusal::Count { record_count: count, last_offset_delta: -1 }
        }
    }
}

#[inline]
fn check_header(header: &BatchHeader) -> Result<(), BatchRefusal> {
    let BatchHeader { record_count, last_offset_delta, attributes, .. } = *header;
    if record_count == 0 || record_count - 1 != last_offset_delta {
        return Err(BatchRefusal::Count { record_count, last_offset_delta });
    }
    if attributes.is_control() {
        return Err(BatchRefusal::Control);
    }
    if header.producer_id.is_some() && (header.base_sequence.is_none() || header.producer_epoch.is_none()) {
        return Err(BatchRefusal::ProducerIncomplete);
    }
    Ok(())
}

/// Looks at the records; gives the greatest of their timestamps.
#[inline]
fn check_records(
    view: &BatchView<'_>,
    limits: &BatchLimits,
    now: Timestamp,
) -> Result<Option<Timestamp>, BatchRefusal> {
    let mut header = *view.header();
    let claims_leaders_time = header.attributes.timestamp_type() == TimestampType::LogAppendTime;
    let rules = RecordRules { limits, now, claims_leaders_time };
    // Where a producer claims the leader's clock, the records' own timestamps count all the same.
    header.attributes = header.attributes.with_timestamp_type(TimestampType::CreateTime);
    let compression = header.compression();
    if compression == Compression::None {
        return walk(&mut SliceSource::new(view.records_bytes()), &header, &rules);
    }
    if limits.compressed == ValidateCompressed::Header || !compression.is_built() {
        let mut refused = None;
        if let Some(why) = rules.of_time(header.max_timestamp) {
            note(&mut refused, 0, why);
        }
        return refused.map_or(Ok(header.max_timestamp), |refused| Err(BatchRefusal::Records(refused)));
    }
    let stream = Decompressor::new(compression, view.records_bytes(), &limits.decompress)
        .map_err(|error| BatchRefusal::Record { record: 0, damage: error.into() })?;
    walk(&mut StreamSource::new(stream), &header, &rules)
}

/// Every check of a leader's on single records, over bytes that are there or that come out of a codec.
#[inline]
fn walk<S: Source>(
    source: &mut S,
    header: &BatchHeader,
    rules: &RecordRules<'_>,
) -> Result<Option<Timestamp>, BatchRefusal> {
    let compressed = header.compression() != Compression::None;
    // Kafka begins at -1, "none", so that timestamps below it do not count.
    let mut greatest = Timestamp::from_millis(-1);
    let mut refused = None;
    for record in 0..header.record_count {
        let damaged = |damage| BatchRefusal::Record { record, damage };
        let raw = read_record(source).map_err(damaged)?;
        let delta = raw.offset_delta;
        if compressed && delta != record {
            return Err(BatchRefusal::InnerOffset { record, delta });
        }
        if offset_of(header, delta).is_none() {
            return Err(damaged(RecordDamage::OffsetDelta { delta }));
        }
        let timestamp = timestamp_of(header, raw.timestamp_delta);
        if let Some(why) = rules.of_record(raw.key.is_some(), timestamp) {
            note(&mut refused, record, why);
        }
        greatest = timestamp.map_or(greatest, |timestamp| greatest.max(timestamp));
    }
    let record = header.record_count - 1;
    match source.at_end() {
        Ok(true) => match refused {
            Some(refused) => Err(BatchRefusal::Records(refused)),
            None => Ok((greatest.millis() != -1).then_some(greatest)),
        },
        Ok(false) => Err(BatchRefusal::Record { record, damage: RecordDamage::Leftover }),
        Err(damage) => Err(BatchRefusal::Record { record, damage }),
    }
}

/// What a topic asks of single records, and what their batch says of all of them.
struct RecordRules<'a> {
    limits: &'a BatchLimits,
    now: Timestamp,
    claims_leaders_time: bool,
}

impl RecordRules<'_> {
    #[inline]
    fn of_record(&self, has_key: bool, timestamp: Option<Timestamp>) -> Option<RecordRefusal> {
        if !has_key && self.limits.keys == KeyRule::Required {
            return Some(RecordRefusal::KeyMissing);
        }
        self.of_time(timestamp)
    }

    #[inline]
    fn of_time(&self, timestamp: Option<Timestamp>) -> Option<RecordRefusal> {
        let TimestampRule::CreateTime { before_ms_max, after_ms_max } = self.limits.timestamps else {
            return self.claims_leaders_time.then_some(RecordRefusal::LogAppendTimeClaimed);
        };
        let (timestamp, now) = (timestamp?, self.now);
        let age = now.millis().saturating_sub(timestamp.millis());
        let is_out_of_range = age > before_ms_max || age.saturating_neg() > after_ms_max;
        is_out_of_range.then_some(RecordRefusal::TimestampOutOfRange { timestamp, now })
    }
}

#[cold]
fn note(refused: &mut Option<Box<RefusedRecords>>, record: i32, why: RecordRefusal) {
    refused.get_or_insert_default().note(record, why);
}
