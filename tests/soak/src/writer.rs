//! The process that is killed: opens the directory, says what it found, and works on its logs in a few threads until it is stopped.
//!
//! It has its orders from the first line of its input, and ends when its input does: nobody is left behind when the judge goes.

use std::io::{BufRead, Write, stdin, stdout};
use std::process::ExitCode;
use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use highwater_engine::disk::{SyncThread, open_disk};
use highwater_engine::log::{Log, LogConfig};
use highwater_engine::store::{Machine, Opened, Stop, Store, StoreConfig};
use highwater_engine::units::{Monotonic, Now, Timestamp, TopicPartition};
use highwater_tests::recover::open::everything;

use crate::hand::Hand;
use crate::story::Story;
use crate::told::{LogFound, Orders, Told};

/// How many logs there are.
pub(crate) const LOGS: usize = 4;

/// What the threads of a writer share.
#[derive(Debug)]
pub(crate) struct Room {
    pub(crate) store: Store,
    now_ms: AtomicI64,
    /// Held while a line is written, so that lines come whole and in the order of what they say.
    telling: Mutex<()>,
}

impl Room {
    /// Says it before going on.
    pub(crate) fn tell(&self, told: &Told) {
        let _order = self.telling.lock().unwrap_or_else(PoisonError::into_inner);
        say(told);
    }

    /// Says that a call failed, and ends the process: nobody knows what else would come of it.
    pub(crate) fn fail(&self, what: String) -> ! {
        self.tell(&Told::Failed(what));
        std::process::exit(1);
    }

    pub(crate) fn time_ms(&self) -> i64 {
        self.now_ms.load(Ordering::Relaxed)
    }

    /// The time of this moment, so much later than the last.
    pub(crate) fn later(&self, by_ms: i64) -> Now {
        at_ms(self.now_ms.fetch_add(by_ms, Ordering::Relaxed) + by_ms)
    }
}

fn at_ms(now_ms: i64) -> Now {
    Now {
        monotonic: Monotonic::from_duration(Duration::from_millis(now_ms.unsigned_abs())),
        wall: Timestamp::from_millis(now_ms),
    }
}

fn say(told: &Told) {
    let line = serde_json::to_string(told).expect("what is told can be written down") + "\n";
    let mut out = stdout().lock();
    // Whoever does not listen any more has stopped this process, or will.
    let _deaf = out.write_all(line.as_bytes()).and_then(|()| out.flush());
}

/// Something is wrong, or a call failed because the medium is gone, which the judge knows.
fn wrong(what: String) -> Told {
    if what.contains("os error") { Told::Failed(what) } else { Told::Wrong(what) }
}

/// The name of a log.
pub(crate) fn name(log: usize) -> TopicPartition {
    let number = i32::try_from(log).expect("a few logs");
    TopicPartition::new("t", number).expect("a topic may be called t")
}

/// Carries out the orders on the input.
pub(crate) fn run() -> ExitCode {
    let mut line = String::new();
    let orders = match stdin()
        .lock()
        .read_line(&mut line)
        .map_err(|error| error.to_string())
        .and_then(|_| serde_json::from_str::<Orders>(&line).map_err(|error| error.to_string()))
    {
        Ok(orders) => orders,
        Err(why) => {
            eprintln!("no orders: {why}");
            return ExitCode::from(2);
        }
    };
    thread::spawn(|| {
        let _end = stdin().lock().read_line(&mut String::new());
        std::process::exit(3);
    });
    match work(orders) {
        Ok(()) => ExitCode::SUCCESS,
        Err(told) => {
            say(&told);
            ExitCode::FAILURE
        }
    }
}

fn log_config(orders: &Orders) -> LogConfig {
    let mut config = LogConfig::default();
    config.segment_bytes_max = orders.segment_bytes_max;
    config.index_interval_bytes = 300;
    config.retention_bytes = Some(u64::from(orders.segment_bytes_max) * 3);
    config.retention_age = None;
    config
}

fn work(mut orders: Orders) -> Result<(), Told> {
    let failed = |what: &dyn std::fmt::Display| Told::Failed(what.to_string());
    let mut config = StoreConfig::default();
    config.log = log_config(&orders);
    // Small, so that readers are sent to the files.
    config.tail_bytes_max = 5_000;
    config.opening_threads = usize::from(orders.threads > 1);
    let opened_disk = open_disk(orders.io, SyncThread::WhenNeeded).map_err(|error| failed(&error))?;
    let now_ms = 1_000_000 * i64::try_from(orders.life + 1).unwrap_or(1);
    say(&Told::Opening);
    let opened = Store::open(opened_disk.disk, &orders.directory, config, at_ms(now_ms));
    let Opened { store, report } = opened.map_err(|error| failed(&error))?;
    let mut logs = Vec::new();
    for number in 0..LOGS {
        let Some(log) = store.log(&name(number)) else { continue };
        let facts = report.logs.iter().find(|found| found.name == name(number));
        let facts = facts.ok_or_else(|| Told::Wrong(format!("nothing is reported of log {number}")))?;
        logs.push(LogFound {
            log: number,
            found: everything(&store, &log).map_err(wrong)?,
            durable: log.durable().value(),
            is_suspect: facts.suspect,
            is_damaged: !facts.plan.damaged.is_empty(),
            plan: facts.plan.to_string(),
        });
    }
    if !report.refused.is_empty() {
        // Where the medium is there, the judge holds that against it.
        return Err(Told::Failed(format!("logs could not be opened: {:?}", report.refused)));
    }
    let is_clean = report.stop == Stop::Clean;
    let is_same_machine = report.machine == Machine::Same;
    say(&Told::Opened { is_clean, is_same_machine, logs: logs.clone() });
    for LogFound { log, found, durable, .. } in &logs {
        orders.stories[*log].survive(orders.ending, found, *durable).map_err(wrong)?;
    }
    let room =
        Arc::new(Room { store: store.clone(), now_ms: AtomicI64::new(now_ms), telling: Mutex::default() });
    if store.confirm_incarnation().is_err() {
        room.fail("the incarnation cannot be written down".to_owned());
    }
    room.tell(&Told::Confirmed);
    for number in 0..LOGS {
        if store.log(&name(number)).is_none() {
            let made = store.create_log(&name(number), None, log_config(&orders), room.later(1));
            made.map_err(|error| failed(&error))?;
            room.tell(&Told::Made(number));
        }
    }
    run_hands(&room, orders)?;
    room.tell(&Told::Closing);
    store.close(serde_json::Map::new(), None).map_err(|error| failed(&error))?;
    room.tell(&Told::Closed);
    Ok(())
}

fn run_hands(room: &Arc<Room>, orders: Orders) -> Result<(), Told> {
    let mut shares: Vec<Vec<(usize, Log, Story)>> = (0..orders.threads).map(|_| Vec::new()).collect();
    for (number, story) in orders.stories.into_iter().enumerate() {
        let log = room.store.log(&name(number));
        let log = log.ok_or_else(|| Told::Wrong(format!("log {number} is gone")))?;
        shares[number % orders.threads].push((number, log, story));
    }
    let (seed, life, steps) = (orders.seed, orders.life, orders.steps);
    let start = |(number, share): (u64, Vec<_>)| {
        let room = Arc::clone(room);
        thread::spawn(move || Hand::new(room, share, seed, life, number).work(steps))
    };
    let hands: Vec<_> = (0..).zip(shares).map(start).collect();
    for hand in hands {
        match hand.join() {
            Ok(verdict) => verdict.map_err(wrong)?,
            Err(_) => return Err(Told::Wrong("a thread panicked".to_owned())),
        }
    }
    Ok(())
}
