//! Whoever reads, and however the window moves, it shows what the file has.

use std::io;
use std::panic::{self, AssertUnwindSafe};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use super::read_ahead::{IdleHelpers, PIECE_BYTES, with_window};

/// So many that helpers are woken, and the last piece is not a whole one.
const BYTES: u64 = (8 << 20) + 5 * PIECE_BYTES as u64 / 2;

fn byte_at(position: u64) -> u8 {
    position.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_be_bytes()[0]
}

#[expect(clippy::unnecessary_wraps, reason = "as a disk has it")]
fn read_at(buffer: &mut [u8], position: u64) -> io::Result<usize> {
    let left = usize::try_from(BYTES.saturating_sub(position)).unwrap();
    let count = left.min(buffer.len());
    for (byte, position) in buffer[..count].iter_mut().zip(position..) {
        *byte = byte_at(position);
    }
    Ok(count)
}

fn is_helper() -> bool {
    thread::current().name() == Some("opening")
}

fn wait_for(count: &AtomicUsize) {
    while count.load(Ordering::Relaxed) == 0 {
        thread::yield_now();
    }
}

/// Goes through the whole file, a piece after the other.
fn scan_all(read_at: &super::read_ahead::ReadAt<'_>, idle: &IdleHelpers) -> io::Result<()> {
    with_window(read_at, (0, BYTES), idle, |window| {
        let mut position = 0;
        while position < BYTES {
            window.move_to(position, PIECE_BYTES)?;
            position += window.bytes().len() as u64;
        }
        Ok(())
    })
}

#[test]
fn a_window_shows_the_file_however_it_moves() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for walk in 0..24 {
        let helpers = walk % 3;
        let idle = IdleHelpers::new(helpers);
        let from = random.u64(..1000);
        let end = if walk % 4 == 3 { from + random.u64(..2 * PIECE_BYTES as u64) } else { BYTES };
        with_window(&read_at, (from, end), &idle, |window| {
            let mut position = from;
            while position < end {
                let wanted = if random.u8(..8) == 0 { random.usize(..4 * PIECE_BYTES) } else { PIECE_BYTES };
                window.move_to(position, wanted).unwrap();
                let shown = window.bytes();
                let left = usize::try_from(end - position).unwrap();
                assert!(shown.len() >= wanted.min(left) && shown.len() <= left, "at {position}");
                assert!(shown.iter().zip(position..).all(|(byte, at)| *byte == byte_at(at)), "at {position}");
                // All of it, up to near its end as where a batch goes on, anywhere in it, or beyond.
                let passed = match random.u8(..8) {
                    0..=3 => shown.len(),
                    4 | 5 => shown.len().saturating_sub(random.usize(..PIECE_BYTES)),
                    6 => random.usize(..shown.len()),
                    _ => shown.len() + random.usize(..3 * PIECE_BYTES),
                };
                position += passed as u64;
            }
        });
        assert_eq!(idle.take_all(), helpers, "they are idle again");
    }
}

#[test]
fn helpers_read_what_the_scan_takes() {
    let theirs = AtomicUsize::new(0);
    let read = |buffer: &mut [u8], position| {
        if is_helper() {
            theirs.fetch_add(1, Ordering::Relaxed);
        } else {
            wait_for(&theirs);
        }
        read_at(buffer, position)
    };
    scan_all(&read, &IdleHelpers::new(1)).unwrap();
    assert!(theirs.into_inner() > 0);
}

#[test]
fn what_a_helper_cannot_read_is_the_error_of_the_scan() {
    let failing = |buffer: &mut [u8], position| {
        if position >= BYTES / 2 { Err(io::Error::other("bad sector")) } else { read_at(buffer, position) }
    };
    let cut = |buffer: &mut [u8], position| {
        if position >= BYTES / 2 { Ok(0) } else { read_at(buffer, position) }
    };
    for helpers in 0..3 {
        let idle = IdleHelpers::new(helpers);
        assert_eq!(scan_all(&failing, &idle).unwrap_err().to_string(), "bad sector");
        assert_eq!(scan_all(&cut, &idle).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
    }
}

#[test]
fn a_helper_that_panics_is_not_waited_for() {
    let begun = AtomicUsize::new(0);
    let panicking = |buffer: &mut [u8], position| {
        if is_helper() {
            begun.fetch_add(1, Ordering::Relaxed);
            panic!("a planted panic");
        }
        wait_for(&begun);
        read_at(buffer, position)
    };
    let scanned = panic::catch_unwind(AssertUnwindSafe(|| scan_all(&panicking, &IdleHelpers::new(2))));
    assert!(scanned.is_err(), "the panic is passed on");
}
