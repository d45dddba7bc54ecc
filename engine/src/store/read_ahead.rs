//! Reads a file from its beginning to its end for a scan, in pieces, by all threads that have nothing else to do.
//!
//! Copying a piece out of the page cache takes longer than checking it, and a device that is asked for one piece at a time is idle in
//! between. So whoever is free reads the next piece, and the thread that scans takes them in their order; it reads too where it would have
//! to wait. Without helpers it reads one piece after the other.

use std::collections::BTreeMap;
use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use crossbeam_channel::{Receiver, Sender, bounded};

/// Reads into the buffer from a position, as [`crate::disk::DiskFile::read_at`].
pub(super) type ReadAt<'a> = dyn Fn(&mut [u8], u64) -> io::Result<usize> + Sync + 'a;

/// Small enough to be in the processor's cache still when it is checked.
pub(super) const PIECE_BYTES: usize = 256 << 10;
/// What of one piece may lie in front of the next, so that a batch across both is in one place.
const HEAD_BYTES: usize = 128 << 10;
/// For less than this no helper is woken.
const HELP_FROM_BYTES: u64 = 8 << 20;
/// How many pieces a helper may be ahead.
const AHEAD: usize = 2;

/// How many helpers of an opening have no log to open.
#[derive(Debug, Default)]
pub(super) struct IdleHelpers(AtomicUsize);

impl IdleHelpers {
    pub(super) const fn new(count: usize) -> Self {
        Self(AtomicUsize::new(count))
    }

    /// So many more have nothing to do.
    pub(super) fn add(&self, count: usize) {
        self.0.fetch_add(count, Ordering::Relaxed);
    }

    pub(super) fn take_all(&self) -> usize {
        self.0.swap(0, Ordering::Relaxed)
    }
}

/// Calls with a window on what the file has from `from` to `end`; idle helpers read ahead for it meanwhile.
pub(super) fn with_window<T>(
    read_at: &ReadAt<'_>,
    (from, end): (u64, u64),
    idle: &IdleHelpers,
    scan: impl FnOnce(&mut Window<'_>) -> T,
) -> T {
    let bytes = end.saturating_sub(from);
    let helpers = if bytes < HELP_FROM_BYTES { 0 } else { idle.take_all() };
    let head = if bytes > PIECE_BYTES as u64 { HEAD_BYTES } else { 0 };
    let (give, buffers) = bounded(1 + helpers * AHEAD);
    for _ in 0..=helpers * AHEAD {
        // There is room for all of them.
        let _ = give.try_send(Vec::new());
    }
    let (read, pieces) = bounded(1 + helpers * AHEAD);
    let pieces_of = Pieces { read_at, from, end, head, next: AtomicU64::new(0), buffers };
    let scanned = thread::scope(|scope| {
        for _ in 0..helpers {
            let (pieces_of, read, gone) = (&pieces_of, read.clone(), read.clone());
            let help = move || {
                while let Some(piece) = pieces_of.read_when_wanted() {
                    if read.send(Some(piece)).is_err() {
                        break;
                    }
                }
            };
            let help = move || {
                if let Err(panic) = panic::catch_unwind(AssertUnwindSafe(help)) {
                    // Or its piece would be waited for.
                    let _ = gone.send(None);
                    panic::resume_unwind(panic);
                }
            };
            // Without a helper it takes longer and gives the same.
            let _ = thread::Builder::new().name("opening".to_owned()).spawn_scoped(scope, help);
        }
        drop(read);
        let mut window = Window {
            pieces_of: &pieces_of,
            give,
            read: pieces,
            ahead: BTreeMap::new(),
            at: from,
            start: 0,
            bytes: Vec::new(),
        };
        let scanned = scan(&mut window);
        pieces_of.stop();
        scanned
    });
    idle.add(helpers);
    scanned
}

/// The file in pieces, by number.
struct Pieces<'a> {
    read_at: &'a ReadAt<'a>,
    from: u64,
    end: u64,
    /// Room in front of each piece, in bytes.
    head: usize,
    next: AtomicU64,
    /// Whoever has one may read a piece into it.
    buffers: Receiver<Vec<u8>>,
}

struct Piece {
    number: u64,
    /// Behind the room in front of it.
    read: io::Result<Vec<u8>>,
}

impl Pieces<'_> {
    fn number_at(&self, position: u64) -> u64 {
        (position - self.from) / PIECE_BYTES as u64
    }

    fn begin(&self, number: u64) -> u64 {
        self.from.saturating_add(number.saturating_mul(PIECE_BYTES as u64))
    }

    fn read_when_wanted(&self) -> Option<Piece> {
        self.read_next(self.buffers.recv().ok()?)
    }

    /// Reads the next piece that nobody has begun to read; `None` if there is none.
    fn read_next(&self, mut buffer: Vec<u8>) -> Option<Piece> {
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let begin = self.begin(number);
        let left = self.end.checked_sub(begin).filter(|left| *left > 0)?;
        let size = usize::try_from(left).map_or(PIECE_BYTES, |left| left.min(PIECE_BYTES));
        buffer.resize(self.head + size, 0);
        let read = match (self.read_at)(buffer.get_mut(self.head..).unwrap_or_default(), begin) {
            Ok(count) if count == size => Ok(buffer),
            // Somebody has cut the file since its size was asked for.
            Ok(_) => Err(io::ErrorKind::UnexpectedEof.into()),
            Err(error) => Err(error),
        };
        Some(Piece { number, read })
    }

    /// Nobody begins another one.
    fn stop(&self) {
        self.next.store(self.number_at(self.end) + 1, Ordering::Relaxed);
    }
}

/// Bytes of the file from a position on. They end where a piece does.
pub(super) struct Window<'a> {
    pieces_of: &'a Pieces<'a>,
    give: Sender<Vec<u8>>,
    /// `None` of a helper that has ended before its time.
    read: Receiver<Option<Piece>>,
    /// Read before their turn.
    ahead: BTreeMap<u64, io::Result<Vec<u8>>>,
    at: u64,
    /// Where in the buffer that is.
    start: usize,
    bytes: Vec<u8>,
}

impl Window<'_> {
    /// What it shows.
    pub(super) fn bytes(&self) -> &[u8] {
        self.bytes.get(self.start..).unwrap_or_default()
    }

    /// Moves on to `position`, so that there are `wanted` bytes, or all up to the end. What it had of that already is not read again.
    pub(super) fn move_to(&mut self, position: u64, wanted: usize) -> io::Result<()> {
        let passed = usize::try_from(position - self.at).unwrap_or(usize::MAX).min(self.bytes().len());
        self.start += passed;
        let kept = self.bytes().len();
        self.at = position;
        if kept == 0 {
            let number = self.pieces_of.number_at(position);
            let into = position - self.pieces_of.begin(number);
            let piece = self.piece(number)?;
            self.show(piece, self.pieces_of.head + usize::try_from(into).unwrap_or(usize::MAX));
        } else if kept <= self.pieces_of.head && position + (kept as u64) < self.pieces_of.end {
            let mut piece = self.piece(self.pieces_of.number_at(position + kept as u64))?;
            let start = self.pieces_of.head - kept;
            if let Some(head) = piece.get_mut(start..self.pieces_of.head) {
                head.copy_from_slice(self.bytes());
            }
            self.show(piece, start);
        }
        while self.bytes().len() < wanted && self.end() < self.pieces_of.end {
            let piece = self.piece(self.pieces_of.number_at(self.end()))?;
            self.bytes.drain(..std::mem::take(&mut self.start));
            self.bytes.extend_from_slice(piece.get(self.pieces_of.head..).unwrap_or_default());
            self.give_back(piece);
        }
        Ok(())
    }

    fn end(&self) -> u64 {
        self.at + self.bytes().len() as u64
    }

    fn show(&mut self, piece: Vec<u8>, start: usize) {
        let old = std::mem::replace(&mut self.bytes, piece);
        self.give_back(old);
        self.start = start;
    }

    fn give_back(&self, buffer: Vec<u8>) {
        // Where there are more than were given out at first, this one is not needed.
        let _ = self.give.try_send(buffer);
    }

    /// The piece with this number; those before it are dropped.
    fn piece(&mut self, number: u64) -> io::Result<Vec<u8>> {
        loop {
            while let Some(entry) = self.ahead.first_entry().filter(|entry| *entry.key() <= number) {
                let (found, read) = entry.remove_entry();
                if found == number {
                    return read;
                }
                self.give_back(read.unwrap_or_default());
            }
            let mine = || self.pieces_of.read_next(self.pieces_of.buffers.try_recv().ok()?);
            let piece = match self.read.try_recv() {
                Ok(piece) => piece,
                // A piece that is neither here nor left to be read is being read.
                Err(_) => mine().or_else(|| self.read.recv().ok().flatten()),
            };
            let Some(Piece { number, read }) = piece else {
                return Err(io::Error::other("a thread that read ahead has ended"));
            };
            self.ahead.insert(number, read);
        }
    }
}
