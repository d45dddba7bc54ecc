//! Everyone who is measured, each in a file of its own: how it is opened, appended to and read, and nothing else.

mod highwater;
mod nano_wal;
mod okaywal;
mod raft_engine;
mod redb;
mod rocksdb;
mod seglog;
mod writeahead;

pub(crate) use highwater::Highwater;
pub(crate) use nano_wal::NanoWal;
pub(crate) use okaywal::OkayWal;
pub(crate) use raft_engine::RaftEngine;
pub(crate) use redb::Redb;
pub(crate) use rocksdb::RocksDb;
pub(crate) use seglog::Seglog;
pub(crate) use writeahead::WriteAhead;
