//! One trial: writers in one directory, one after the other, each stopped in its own way, all chosen by a seed.

use std::collections::VecDeque;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use fastrand::Rng;
use highwater_engine::disk::IoMode;
use highwater_tests::recover::Ending;

use crate::judge::{Boots, Judge};
use crate::place::{Counted, Place};
use crate::told::{Orders, Told};

/// How long a writer may be silent.
const SILENCE_MAX: Duration = Duration::from_secs(60);
/// How often it is asked whether the power is gone.
const LOOK_EVERY: Duration = Duration::from_millis(1);

/// How much of what was heard is shown with a failure.
const HEARD_LINES_MAX: usize = 120;
const HEARD_LETTERS_MAX: usize = 160;

/// How a writer is stopped.
#[derive(Clone, Copy, Debug)]
enum Stop {
    /// Not at all: it closes the store and goes.
    Own,
    /// Killed.
    Kill {
        at: Moment,
        /// Whether the power goes with it.
        then_cut: bool,
    },
    /// The power goes at this call from the beginning of its life on.
    Cut { calls: u64 },
}

/// When a writer is killed.
#[derive(Clone, Copy, Debug)]
enum Moment {
    /// It has said so many lines.
    Lines(u64),
    /// It has been opening its store for so long.
    Opening(Duration),
}

/// See the module's documentation.
#[derive(Debug)]
pub(crate) struct Trial {
    place: Place,
    judge: Judge,
    rng: Rng,
    seed: u64,
    segment_bytes_max: u32,
    story: Vec<String>,
    /// The last lines that were heard.
    heard: VecDeque<String>,
}

impl Trial {
    pub(crate) fn new(place: Place, seed: u64) -> Self {
        let mut rng = Rng::with_seed(seed);
        let boots = if matches!(place, Place::Own(_)) { Boots::Told } else { Boots::Unknown };
        let segment_bytes_max = [1_500, 8_192, 60_000][rng.usize(..3)];
        Self {
            place,
            judge: Judge::new(boots),
            rng,
            seed,
            segment_bytes_max,
            story: Vec::new(),
            heard: VecDeque::new(),
        }
    }

    /// Lives until a few have been, the last one with a clean stop. Gives what was seen, or what does not hold.
    pub(crate) fn run(mut self) -> Result<Counted, String> {
        let lives = self.rng.u64(3..9);
        for life in 0..=lives {
            let stop = if life == lives { Stop::Own } else { self.draw_stop() };
            let ended = self.live(life, stop);
            if let Err(wrong) = ended {
                let heard: Vec<String> = self.heard.into_iter().collect();
                return Err(format!("{}\n{}\n{wrong}", self.story.join("\n"), heard.join("\n")));
            }
        }
        let mut counted = match self.place {
            Place::Own(_) => self.judge.seen.counted(),
            #[cfg(target_os = "linux")]
            Place::Medium(_) => self.judge.seen.counted_with_power(),
        };
        counted.0.extend(self.place.counted().0);
        Ok(counted)
    }

    /// Keeps a line, shortened, for people.
    fn keep(&mut self, line: &str) {
        if self.heard.len() == HEARD_LINES_MAX {
            self.heard.pop_front();
        }
        self.heard.push_back(line.chars().take(HEARD_LETTERS_MAX).collect());
    }

    fn draw_stop(&mut self) -> Stop {
        let can_cut = !matches!(self.place, Place::Own(_));
        let rng = &mut self.rng;
        let range = [40, 400, 2_500][rng.usize(..3)];
        match rng.u8(..10) {
            0 => Stop::Own,
            1..=6 if can_cut => Stop::Cut { calls: rng.u64(..range * 2) },
            7 => Stop::Kill {
                at: Moment::Opening(Duration::from_micros(rng.u64(..range))),
                then_cut: can_cut && rng.bool(),
            },
            _ => Stop::Kill { at: Moment::Lines(rng.u64(..range)), then_cut: can_cut && rng.bool() },
        }
    }

    fn live(&mut self, life: u64, stop: Stop) -> Result<(), String> {
        let io = [IoMode::Posix, IoMode::Uring, IoMode::Auto][self.rng.usize(..3)];
        // A single thread does the same again with the same seed.
        let threads = self.rng.usize(1..4);
        let orders = Orders {
            directory: self.place.directory(),
            seed: self.seed,
            life,
            io,
            threads,
            steps: self.rng.u64(20..400),
            segment_bytes_max: self.segment_bytes_max,
            ending: self.judge.ending,
            stories: self.judge.stories.clone(),
        };
        self.story
            .push(format!("  life {life}: {stop:?}, {io:?}, {threads} threads, {} steps", orders.steps));
        if let Stop::Cut { calls } = stop {
            self.place.cut_at(calls);
        }
        let moment = if let Stop::Kill { at, .. } = stop { Some(at) } else { None };
        let mut writer = Writer::start(&orders).map_err(|error| format!("no writer: {error}"))?;
        let heard = self.listen(&mut writer, moment);
        if heard.is_err() {
            drop(writer.kill());
        }
        let is_down = self.place.is_down();
        let ended = writer.end();
        let is_killed = heard?;
        let cut = is_down || matches!(stop, Stop::Cut { .. } | Stop::Kill { then_cut: true, .. });
        if !is_killed && !is_down && !ended.map_err(|error| error.to_string())? {
            return Err("the writer ended by itself".to_owned());
        }
        if cut {
            self.place.lose_power(&mut self.rng).map_err(|error| format!("the medium: {error}"))?;
        }
        self.judge.seen.kills += u64::from(is_killed);
        self.judge.seen.cuts += u64::from(cut);
        self.judge.ended(if cut { Ending::Power } else { Ending::Kill });
        Ok(())
    }

    /// Hears the writer out, to its own end or to the one that it is given. Whether it was killed.
    fn listen(&mut self, writer: &mut Writer, moment: Option<Moment>) -> Result<bool, String> {
        let (mut heard, mut is_killed, mut dies_at) = (0, false, None);
        let mut silent_since = now();
        loop {
            let left = dies_at.map(|at: Instant| at.saturating_duration_since(now()));
            let is_its_moment = match moment {
                Some(Moment::Lines(lines)) => heard >= lines,
                Some(Moment::Opening(_)) => left.is_some_and(|left| left.is_zero()),
                None => false,
            };
            let must_die = is_its_moment || self.place.is_down();
            if must_die && !is_killed {
                is_killed = true;
                writer.kill().map_err(|error| format!("the writer is not to be killed: {error}"))?;
            }
            let patience = left.filter(|_| !is_killed).unwrap_or(LOOK_EVERY).min(LOOK_EVERY);
            match writer.lines.recv_timeout(patience) {
                Ok(line) => {
                    heard += 1;
                    silent_since = now();
                    self.keep(&line);
                    // The last line may be half a line.
                    let Ok(told) = serde_json::from_str::<Told>(&line) else {
                        if is_killed {
                            continue;
                        }
                        return Err(format!("not understood: {line}"));
                    };
                    if let (Told::Opening, Some(Moment::Opening(lasts))) = (&told, moment) {
                        dies_at = Some(now() + lasts);
                    }
                    let is_excused = matches!(told, Told::Failed(_)) && self.place.is_down();
                    if !is_excused {
                        self.judge.hear(told)?;
                    }
                }
                Err(RecvTimeoutError::Timeout) if silent_since.elapsed() > SILENCE_MAX => {
                    return Err("the writer is silent".to_owned());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return Ok(is_killed),
            }
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "a process that hangs does so in real time")]
fn now() -> Instant {
    Instant::now()
}

/// A writer's process. It is ended when this is dropped, whatever happens.
#[derive(Debug)]
struct Writer {
    process: Child,
    /// It goes when this does.
    _input: ChildStdin,
    lines: Receiver<String>,
    reader: Option<JoinHandle<()>>,
}

impl Writer {
    fn start(orders: &Orders) -> io::Result<Self> {
        let mut process = Command::new(std::env::current_exe()?)
            .arg("write")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let (input, output) = (process.stdin.take(), process.stdout.take());
        let (Some(mut input), Some(output)) = (input, output) else {
            return Err(io::ErrorKind::BrokenPipe.into());
        };
        let (heard, lines) = channel();
        let reader = thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if heard.send(line).is_err() {
                    return;
                }
            }
        });
        let writer = Self {
            process,
            lines,
            reader: Some(reader),
            _input: {
                input.write_all(&line(orders)?)?;
                input
            },
        };
        Ok(writer)
    }

    fn kill(&mut self) -> io::Result<()> {
        self.process.kill()
    }

    /// Waits for its end. Whether it ended well.
    fn end(mut self) -> io::Result<bool> {
        let status = self.process.wait()?;
        if let Some(reader) = self.reader.take() {
            drop(reader.join());
        }
        Ok(status.success())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _gone = self.process.kill();
        let _gone = self.process.wait();
    }
}

fn line(orders: &Orders) -> io::Result<Vec<u8>> {
    let mut line = serde_json::to_vec(orders)?;
    line.push(b'\n');
    Ok(line)
}
