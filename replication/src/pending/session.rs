//! Incremental fetch sessions (KIP-227): a follower's Fetch names only what changed, and so does its answer.
//!
//! Only followers have sessions; a client is always told session 0, which means "none", and sends all it wants each time. So does a
//! follower for which there is no room.

use std::collections::BTreeMap;
use std::time::Duration;

use highwater_engine::units::{LeaderEpoch, Monotonic, NodeId, Offset};

/// What a Fetch says of one partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartRequest {
    /// The leader epoch that the fetcher believes in.
    pub current_epoch: Option<LeaderEpoch>,
    /// Its offset.
    pub offset: Offset,
    /// The epoch of its last record.
    pub last_fetched_epoch: Option<LeaderEpoch>,
    /// A follower's log start.
    pub log_start: Option<Offset>,
    /// How many bytes it takes of this partition.
    pub bytes_max: usize,
}

/// The session part of a Fetch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionFetch<P> {
    /// The session's id; 0: none.
    pub id: i32,
    /// 0: all is named, and a session is wanted. -1: all is named, and the session ends. Else the how-manieth of the session.
    pub epoch: i32,
    /// What is named.
    pub parts: Vec<(P, PartRequest)>,
    /// What is wanted no longer.
    pub forgotten: Vec<P>,
}

/// A Fetch with its session applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenedSession<P> {
    /// The id to answer with; 0: none.
    pub id: i32,
    /// Everything that is asked for: what this Fetch names, and what its session remembers.
    pub parts: Vec<(P, PartRequest)>,
    /// How to answer.
    pub answering: Answering,
}

/// How a Fetch is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answering {
    /// With every partition.
    Full,
    /// With those for which [`FetchSessions::must_say`] says so.
    Incremental,
}

/// Why a Fetch's session is refused. The answer is this error alone, with session id 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// `FETCH_SESSION_ID_NOT_FOUND`.
    #[error("there is no fetch session {id}")]
    NotFound {
        /// The id that was named.
        id: i32,
    },
    /// `INVALID_FETCH_SESSION_EPOCH`.
    #[error("fetch session {id} is at epoch {expected}, not {found}")]
    InvalidEpoch {
        /// The session.
        id: i32,
        /// What comes next.
        expected: i32,
        /// What came.
        found: i32,
    },
}

/// What an answer says of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartAnswer {
    /// The high watermark, unless it is one that the follower does not take.
    pub high_watermark: Option<Offset>,
    /// The log's start, on the same condition.
    pub log_start: Option<Offset>,
    /// Whether there are records, an error or a divergence: what is said whether it changed or not.
    pub news: bool,
}

/// The bounds of the sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SessionLimits {
    /// How many sessions there are at most.
    pub sessions_max: usize,
    /// How many partitions all of them together remember at most, each of about 200 bytes.
    pub parts_max: usize,
    /// After how long without a Fetch a session may give way to another.
    pub idle_max: Duration,
}

impl Default for SessionLimits {
    fn default() -> Self {
        Self { sessions_max: 1_000, parts_max: 500_000, idle_max: Duration::from_secs(120) }
    }
}

/// A leader's end of all fetch sessions.
#[derive(Debug)]
pub struct FetchSessions<P> {
    limits: SessionLimits,
    sessions: BTreeMap<i32, Session<P>>,
}

#[derive(Debug)]
struct Session<P> {
    follower: NodeId,
    /// The epoch that the next Fetch has to name.
    next_epoch: i32,
    last_used: Monotonic,
    parts: BTreeMap<P, Remembered>,
}

#[derive(Clone, Copy, Debug)]
struct Remembered {
    request: PartRequest,
    /// The high watermark and log start that were said last.
    said: Option<(Option<Offset>, Option<Offset>)>,
}

impl<P: Ord + Clone> FetchSessions<P> {
    /// No sessions.
    pub fn new(limits: SessionLimits) -> Self {
        Self { limits, sessions: BTreeMap::new() }
    }

    /// Applies a Fetch to its session, or begins one for a follower; `follower` is `None` also for one that only says that it is one.
    /// `chance` gives ids, so that a session of an earlier process is not taken for one of this.
    pub fn open(
        &mut self,
        now: Monotonic,
        follower: Option<NodeId>,
        fetch: SessionFetch<P>,
        chance: &mut fastrand::Rng,
    ) -> Result<OpenedSession<P>, SessionError> {
        match (follower, fetch.epoch) {
            (Some(follower), 0) => {
                self.close(fetch.id, follower);
                Ok(self.begin(now, follower, fetch.parts, chance))
            }
            (follower, -1 | 0) => {
                if let Some(follower) = follower {
                    self.close(fetch.id, follower);
                }
                Ok(OpenedSession { id: 0, parts: fetch.parts, answering: Answering::Full })
            }
            (Some(follower), _) => self.go_on(now, follower, fetch),
            (None, _) => Err(SessionError::NotFound { id: fetch.id }),
        }
    }

    /// Whether an incremental answer has to name this partition; notes what is said then. Also to be asked, and not heeded, for full answers.
    pub fn must_say(&mut self, id: i32, partition: &P, answer: PartAnswer) -> bool {
        let remembered = self.sessions.get_mut(&id).and_then(|session| session.parts.get_mut(partition));
        let Some(remembered) = remembered else { return true };
        let says = Some((answer.high_watermark, answer.log_start));
        let changed = remembered.said != says;
        remembered.said = says;
        changed || answer.news
    }

    /// How many sessions there are.
    pub fn count(&self) -> usize {
        self.sessions.len()
    }

    fn close(&mut self, id: i32, follower: NodeId) {
        if self.sessions.get(&id).is_some_and(|session| session.follower == follower) {
            self.sessions.remove(&id);
        }
    }

    fn begin(
        &mut self,
        now: Monotonic,
        follower: NodeId,
        parts: Vec<(P, PartRequest)>,
        chance: &mut fastrand::Rng,
    ) -> OpenedSession<P> {
        let id = if self.make_room(now, 1, parts.len()) { self.fresh_id(chance) } else { 0 };
        if id != 0 {
            let remember = |(partition, request): &(P, PartRequest)| {
                (partition.clone(), Remembered { request: *request, said: None })
            };
            let parts = parts.iter().map(remember).collect();
            self.sessions.insert(id, Session { follower, next_epoch: 1, last_used: now, parts });
        }
        OpenedSession { id, parts, answering: Answering::Full }
    }

    fn go_on(
        &mut self,
        now: Monotonic,
        follower: NodeId,
        fetch: SessionFetch<P>,
    ) -> Result<OpenedSession<P>, SessionError> {
        let id = fetch.id;
        let session = self.sessions.get_mut(&id).filter(|session| session.follower == follower);
        let session = session.ok_or(SessionError::NotFound { id })?;
        if session.next_epoch != fetch.epoch {
            return Err(SessionError::InvalidEpoch { id, expected: session.next_epoch, found: fetch.epoch });
        }
        for partition in &fetch.forgotten {
            session.parts.remove(partition);
        }
        for (partition, request) in fetch.parts {
            // Of what was said in another epoch, the follower may have taken nothing.
            let same_epoch = |kept: &&Remembered| kept.request.current_epoch == request.current_epoch;
            let said = session.parts.get(&partition).filter(same_epoch).and_then(|kept| kept.said);
            session.parts.insert(partition, Remembered { request, said });
        }
        session.next_epoch = next_epoch(session.next_epoch);
        session.last_used = now;
        let parts = session.parts.iter().map(|(partition, kept)| (partition.clone(), kept.request)).collect();
        if self.make_room(now, 0, 0) {
            return Ok(OpenedSession { id, parts, answering: Answering::Incremental });
        }
        self.sessions.remove(&id);
        Ok(OpenedSession { id: 0, parts, answering: Answering::Full })
    }

    /// Makes room for so many more sessions and parts, at the cost of the sessions that were idle for longest, if it was for long enough.
    fn make_room(&mut self, now: Monotonic, sessions: usize, parts: usize) -> bool {
        loop {
            let remembered: usize = self.sessions.values().map(|session| session.parts.len()).sum();
            let sessions_fit = self.sessions.len().saturating_add(sessions) <= self.limits.sessions_max;
            if sessions_fit && remembered.saturating_add(parts) <= self.limits.parts_max {
                return true;
            }
            let oldest = self.sessions.iter().min_by_key(|(id, session)| (session.last_used, **id));
            let idle = oldest.filter(|(_, session)| now.since(session.last_used) > self.limits.idle_max);
            let Some(id) = idle.map(|(id, _)| *id) else { return false };
            self.sessions.remove(&id);
        }
    }

    fn fresh_id(&self, chance: &mut fastrand::Rng) -> i32 {
        loop {
            let id = chance.i32(1..i32::MAX);
            if !self.sessions.contains_key(&id) {
                return id;
            }
        }
    }
}

/// The epoch behind this one; 0 means another thing, so it is left out.
const fn next_epoch(epoch: i32) -> i32 {
    match epoch.checked_add(1) {
        Some(next) => next,
        None => 1,
    }
}

/// A follower's end of a fetch session: what the leader has been told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FollowerSession<P> {
    id: i32,
    epoch: i32,
    told: BTreeMap<P, PartRequest>,
}

impl<P> Default for FollowerSession<P> {
    fn default() -> Self {
        Self { id: 0, epoch: 0, told: BTreeMap::new() }
    }
}

impl<P: Ord + Clone> FollowerSession<P> {
    /// The next Fetch, for all that is wanted now: everything at first, then what is new, different, or wanted no longer.
    pub fn next(&mut self, wanted: &BTreeMap<P, PartRequest>) -> SessionFetch<P> {
        let told = std::mem::replace(&mut self.told, wanted.clone());
        let full = self.epoch == 0;
        let changed =
            |(partition, request): &(&P, &PartRequest)| full || told.get(*partition) != Some(*request);
        let parts = wanted.iter().filter(changed).map(|(partition, request)| (partition.clone(), *request));
        let forgotten = told.keys().filter(|partition| !full && !wanted.contains_key(*partition));
        SessionFetch {
            id: self.id,
            epoch: self.epoch,
            parts: parts.collect(),
            forgotten: forgotten.cloned().collect(),
        }
    }

    /// The Fetch was answered, with this session id.
    pub fn answered(&mut self, id: i32) {
        if id == 0 {
            *self = Self::default();
        } else if self.epoch == 0 {
            (self.id, self.epoch) = (id, 1);
        } else {
            self.epoch = next_epoch(self.epoch);
        }
    }

    /// The Fetch failed: the next one names everything. The old session's id is told once more, so that the leader drops it.
    pub fn failed(&mut self) {
        self.epoch = 0;
        self.told.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(offset: i64) -> PartRequest {
        PartRequest {
            current_epoch: LeaderEpoch::new(3),
            offset: Offset::new(offset).unwrap(),
            last_fetched_epoch: None,
            log_start: None,
            bytes_max: 1 << 20,
        }
    }

    fn wanted(parts: &[(&'static str, i64)]) -> BTreeMap<&'static str, PartRequest> {
        parts.iter().map(|(partition, offset)| (*partition, request(*offset))).collect()
    }

    fn ms(value: u64) -> Monotonic {
        Monotonic::from_duration(Duration::from_millis(value))
    }

    struct Pair {
        leader: FetchSessions<&'static str>,
        follower: FollowerSession<&'static str>,
        chance: fastrand::Rng,
    }

    impl Pair {
        fn new(limits: SessionLimits) -> Self {
            let chance = fastrand::Rng::with_seed(1);
            Self { leader: FetchSessions::new(limits), follower: FollowerSession::default(), chance }
        }

        fn round(
            &mut self,
            parts: &[(&'static str, i64)],
        ) -> (SessionFetch<&'static str>, OpenedSession<&'static str>) {
            let fetch = self.follower.next(&wanted(parts));
            let opened = self.leader.open(ms(1), NodeId::new(2), fetch.clone(), &mut self.chance).unwrap();
            self.follower.answered(opened.id);
            (fetch, opened)
        }
    }

    #[test]
    fn after_the_first_only_changes_are_named_and_the_leader_knows_all() {
        let mut pair = Pair::new(SessionLimits::default());
        let (first, opened) = pair.round(&[("p", 0), ("q", 0)]);
        assert_eq!((first.id, first.epoch, first.parts.len()), (0, 0, 2));
        assert_eq!((opened.id > 0, opened.answering), (true, Answering::Full));
        for (epoch, now_wanted, named, forgotten) in [
            (1, vec![("p", 0), ("q", 0)], vec![], vec![]),
            (2, vec![("p", 5), ("q", 0)], vec![("p", request(5))], vec![]),
            (3, vec![("q", 0), ("r", 1)], vec![("r", request(1))], vec!["p"]),
            (4, vec![("p", 5)], vec![("p", request(5))], vec!["q", "r"]),
        ] {
            let (fetch, again) = pair.round(&now_wanted);
            let expected = SessionFetch { id: opened.id, epoch, parts: named, forgotten };
            assert_eq!(fetch, expected);
            let all: Vec<_> = wanted(&now_wanted).into_iter().collect();
            assert_eq!(again, OpenedSession { id: opened.id, parts: all, answering: Answering::Incremental });
        }
    }

    #[test]
    fn an_incremental_answer_names_news_and_changes() {
        let mut pair = Pair::new(SessionLimits::default());
        let (_, opened) = pair.round(&[("p", 0)]);
        let answer = |high_watermark, news| PartAnswer {
            high_watermark: Offset::new(high_watermark),
            log_start: None,
            news,
        };
        assert!(pair.leader.must_say(opened.id, &"p", answer(1, false)), "the first time");
        assert!(!pair.leader.must_say(opened.id, &"p", answer(1, false)));
        assert!(pair.leader.must_say(opened.id, &"p", answer(1, true)));
        assert!(pair.leader.must_say(opened.id, &"p", answer(2, false)));
        pair.round(&[("p", 7)]);
        assert!(
            !pair.leader.must_say(opened.id, &"p", answer(2, false)),
            "another offset is no other answer"
        );
        assert!(pair.leader.must_say(opened.id, &"unknown", answer(2, false)));
    }

    #[test]
    fn wrong_epochs_and_ids_are_refused_and_a_failed_fetch_begins_anew() {
        let mut pair = Pair::new(SessionLimits::default());
        let (_, opened) = pair.round(&[("p", 0)]);
        let id = opened.id;
        let mut ask = |follower, id, epoch| {
            let fetch = SessionFetch { id, epoch, parts: vec![], forgotten: vec![] };
            pair.leader.open(ms(1), NodeId::new(follower), fetch, &mut pair.chance).map(|opened| opened.id)
        };
        assert_eq!(ask(2, id, 2), Err(SessionError::InvalidEpoch { id, expected: 1, found: 2 }));
        assert_eq!(ask(2, id ^ 1, 1), Err(SessionError::NotFound { id: id ^ 1 }));
        assert_eq!(ask(3, id, 1), Err(SessionError::NotFound { id }), "the session is another follower's");
        assert_eq!(ask(-1, id, 1), Err(SessionError::NotFound { id }), "clients have none");
        assert_eq!(ask(-1, 0, 0), Ok(0));
        assert_eq!(ask(2, id, 1), Ok(id));
        pair.follower.failed();
        let (fetch, again) = pair.round(&[("p", 0)]);
        assert_eq!((fetch.epoch, fetch.parts.len(), fetch.id), (0, 1, id));
        assert!(again.id != id && pair.leader.count() == 1, "the old one was dropped");
        let fetch = SessionFetch { id: again.id, epoch: -1, ..fetch };
        assert_eq!(pair.leader.open(ms(1), NodeId::new(2), fetch, &mut pair.chance).unwrap().id, 0);
        assert_eq!(pair.leader.count(), 0);
    }

    #[test]
    fn epochs_wrap_to_one() {
        assert_eq!([next_epoch(1), next_epoch(i32::MAX)], [2, 1]);
    }

    #[test]
    fn what_was_said_in_another_epoch_is_said_again() {
        let mut pair = Pair::new(SessionLimits::default());
        let (_, opened) = pair.round(&[("p", 0)]);
        let answer = PartAnswer { high_watermark: Offset::new(2), log_start: None, news: false };
        assert!(pair.leader.must_say(opened.id, &"p", answer));
        let mut later = wanted(&[("p", 0)]);
        later.insert("p", PartRequest { current_epoch: LeaderEpoch::new(4), ..request(0) });
        let fetch = pair.follower.next(&later);
        pair.leader.open(ms(2), NodeId::new(2), fetch, &mut pair.chance).unwrap();
        assert!(pair.leader.must_say(opened.id, &"p", answer));
        assert!(!pair.leader.must_say(opened.id, &"p", answer));
    }

    #[test]
    fn a_follower_of_more_than_sessions_remember_has_none_and_is_answered_in_full() {
        let limits = SessionLimits { sessions_max: 9, parts_max: 2, idle_max: Duration::from_secs(120) };
        let mut pair = Pair::new(limits);
        let (_, first) = pair.round(&[("p", 0), ("q", 0)]);
        assert_eq!((first.id != 0, first.answering), (true, Answering::Full));
        let all = [("p", 0), ("q", 0), ("r", 0)];
        let (_, grown) = pair.round(&all);
        assert_eq!((grown.id, grown.parts.len(), grown.answering), (0, 3, Answering::Full));
        assert_eq!(pair.leader.count(), 0, "nothing is kept of it");
        pair.follower.failed();
        let (fetch, again) = pair.round(&all);
        assert_eq!((fetch.epoch, again.id, again.parts.len()), (0, 0, 3));
        let (fetch, _) = pair.round(&all);
        assert_eq!((fetch.epoch, fetch.parts.len()), (0, 3), "it names everything each time");
    }

    #[test]
    fn sessions_are_bounded_and_idle_ones_give_way() {
        let limits = SessionLimits { sessions_max: 1, parts_max: 2, idle_max: Duration::from_secs(120) };
        let mut pair = Pair::new(limits);
        let (_, first) = pair.round(&[("p", 0)]);
        let mut other = |time| {
            let fetch = FollowerSession::default().next(&wanted(&[("p", 0)]));
            pair.leader.open(ms(time), NodeId::new(3), fetch, &mut pair.chance).unwrap().id
        };
        assert_eq!(other(120_001), 0, "no session, but an answer");
        let second = other(120_002);
        assert!(second != 0 && second != first.id);
    }
}
