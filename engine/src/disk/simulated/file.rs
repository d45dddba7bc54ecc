//! A handle on a simulated file: each call is numbered, may be made to fail, and fails for good when its life is over.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use bytes::BytesMut;

use super::Shared;
use super::body::usize_of;
use super::names::NodeId;
use super::state::{CallKind, Fault, State, Verdict};
use crate::disk::{DiskFile, FileIdentity, Map};

/// See the module's documentation.
#[derive(Debug)]
pub(super) struct SimulatedFile {
    pub(super) shared: Shared,
    pub(super) life: u64,
    pub(super) node: NodeId,
    pub(super) path: PathBuf,
    pub(super) writable: bool,
    /// Tells the disk that the node is in use.
    pub(super) _open: Arc<()>,
}

impl SimulatedFile {
    fn call<T>(&self, kind: CallKind, apply: impl FnOnce(&mut State) -> io::Result<T>) -> io::Result<T> {
        if kind.is_change() && kind != CallKind::Sync {
            self.check_writable()?;
        }
        self.shared.state().call(self.life, kind, &self.path, apply)
    }

    pub(super) fn check_writable(&self) -> io::Result<()> {
        if self.writable { Ok(()) } else { Err(io::Error::from_raw_os_error(libc::EBADF)) }
    }
}

impl DiskFile for SimulatedFile {
    fn size(&self) -> io::Result<u64> {
        self.call(CallKind::Look, |state| Ok(state.tree.file(self.node)?.size()))
    }

    fn read_at(&self, buffer: &mut [u8], position: u64) -> io::Result<usize> {
        self.call(CallKind::Read, |state| Ok(state.tree.file(self.node)?.read(buffer, position)))
    }

    fn read_cached(&self, out: &mut BytesMut, length: usize, position: u64) -> io::Result<Option<usize>> {
        self.call(CallKind::Read, |state| {
            if state.cold_percent > 0 && state.rng.u8(..100) < state.cold_percent {
                state.counters.cold_reads += 1;
                return Ok(None);
            }
            let before = out.len();
            out.resize(before + length, 0);
            let count = state.tree.file(self.node)?.read(&mut out[before..], position);
            out.truncate(before + count);
            Ok(Some(count))
        })
    }

    fn write_all_at(&self, bytes: &[u8], position: u64) -> io::Result<()> {
        self.check_writable()?;
        let mut state = self.shared.state();
        let verdict = state.begin(self.life, CallKind::Write, &self.path)?;
        state.write_with(verdict, self.node, position, bytes)
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.shared.state();
        let verdict = state.begin(self.life, CallKind::Sync, &self.path)?;
        let step = state.step();
        state.sync_with(verdict, self.node, step)
    }

    fn set_size(&self, size: u64) -> io::Result<()> {
        self.call(CallKind::SetSize, |state| state.set_size(self.node, size))
    }

    fn reserve(&self, end: u64) -> io::Result<()> {
        self.call(CallKind::Reserve, |state| state.reserve(self.node, end))
    }

    fn map(&self, length: usize) -> io::Result<Map> {
        self.call(CallKind::Read, |state| {
            let body = state.tree.file(self.node)?;
            if length > usize_of(body.size()) {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut bytes = vec![0; length].into_boxed_slice();
            body.read(&mut bytes, 0);
            Ok(Map::Copied(bytes))
        })
    }

    fn descriptor(&self) -> Option<i32> {
        None
    }

    fn identity(&self) -> io::Result<FileIdentity> {
        self.call(CallKind::Look, |state| {
            Ok(FileIdentity { modified_ms: state.tree.file(self.node)?.modified_ms, inode: self.node })
        })
    }
}

impl State {
    /// A write whose verdict is known.
    pub(super) fn write_with(
        &mut self,
        verdict: Verdict,
        node: NodeId,
        position: u64,
        bytes: &[u8],
    ) -> io::Result<()> {
        let fault = match verdict {
            Verdict::Go => return self.write(node, position, bytes),
            Verdict::Fail(fault) => fault,
            Verdict::Crash => {
                self.write_part(node, position, bytes);
                return Err(self.go_down());
            }
        };
        match fault {
            Fault::ShortWrite => {
                self.counters.short_writes += 1;
                let count = bytes.len().div_ceil(2);
                drop(self.write(node, position, &bytes[..count]));
            }
            Fault::Io | Fault::NoSpace | Fault::NoDescriptors | Fault::PagesGone => {
                self.write_part(node, position, bytes);
            }
            Fault::ReadOnly | Fault::Panic => {}
        }
        Err(self.fail(fault))
    }

    /// Writes a prefix, from nothing to all.
    pub(super) fn write_part(&mut self, node: NodeId, position: u64, bytes: &[u8]) {
        let count = self.part_of(bytes.len());
        self.counters.interrupted_writes += u64::from(count > 0 && count < bytes.len());
        drop(self.write(node, position, &bytes[..count]));
    }

    /// A sync of what was written up to `step`, whose verdict is known.
    pub(super) fn sync_with(&mut self, verdict: Verdict, node: NodeId, step: u64) -> io::Result<()> {
        match verdict {
            Verdict::Go => {
                self.tree.file_mut(node)?.commit(step);
                Ok(())
            }
            Verdict::Fail(fault) => Err(self.fail_sync(node, fault)),
            Verdict::Crash => {
                if self.is_done() {
                    self.tree.file_mut(node)?.commit(step);
                }
                Err(self.go_down())
            }
        }
    }
}
