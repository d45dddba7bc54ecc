//! The cluster as a model: who may act next, what must hold, what has to be seen.

use std::time::Duration;

use highwater_engine::units::Offset;
use highwater_replication::Rule;
use highwater_replication::partition::{Acks, Durability, Input};
use stateright::{Model, Property};

use super::cluster::Cluster;
use super::node::End;
use super::state::{Breach, State};

/// More than `replica.lag.time.max.ms`.
const LAG: Duration = Duration::from_secs(11);

/// Something that happens, to the broker or the message at this place.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Action {
    /// A producer appends a record, with acks=all.
    Produce(usize),
    /// What was accepted reaches the page cache.
    Write(usize),
    /// What was written reaches the disk.
    Sync(usize),
    /// The checkpoint of high watermarks is written.
    Checkpoint(usize),
    /// A follower sends its Fetch.
    Fetch(usize),
    /// A message arrives.
    Arrive(usize),
    /// A message is lost.
    Lose(usize),
    /// A broker hears what the controller has decided.
    Hear(usize),
    /// The controller decides a proposal, and its leader hears the answer.
    Decide(usize),
    /// The controller decides a proposal, and the answer is lost.
    DecideUnheard(usize),
    /// A machine's deadline is due.
    Tick(usize),
    /// A clock goes on by more than the lag time.
    Lag(usize),
    /// A process is killed.
    Kill(usize),
    /// A machine loses its power, and its log ends there.
    CutPower(usize, Offset),
    /// The controller ends a session.
    Fence(usize),
    /// A process begins and registers.
    Start(usize),
    /// A fenced process registers again.
    ComeBack(usize),
}

impl Model for Cluster {
    type State = State;
    type Action = Action;

    fn init_states(&self) -> Vec<State> {
        vec![self.first()]
    }

    fn actions(&self, state: &State, actions: &mut Vec<Action>) {
        if state.breach.is_some() {
            return;
        }
        let losable = state.left.losses > 0;
        for place in 0..state.wire.len() {
            actions.push(Action::Arrive(place));
            actions.extend(losable.then_some(Action::Lose(place)));
        }
        for at in 0..state.nodes().len() {
            if state.node(at).process.is_some() {
                self.acts(state, at, actions);
                Self::faults(state, at, actions);
            } else {
                actions.push(Action::Start(at));
                // Nobody need have noticed that it was gone.
                if state.controller().state().is_registered(state.node(at).id) {
                    actions.push(Action::Fence(at));
                }
            }
        }
    }

    fn next_state(&self, last: &State, action: Action) -> Option<State> {
        let mut state = last.clone();
        self.follow(&mut state, action);
        state.check();
        (state != *last).then_some(state)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        fn never(state: &State, breach: Breach) -> bool {
            state.breach != Some(breach)
        }
        vec![
            Property::always("I1 logs match", |_, state| never(state, Breach::LogMatching)),
            Property::always("I2 leaders are complete", |_, state| never(state, Breach::LeaderCompleteness)),
            Property::always("I6 high watermarks do not fall", |_, state| {
                never(state, Breach::HighWatermarkFell)
            }),
            Property::always("I7 high watermarks are written", |_, state| {
                never(state, Breach::AboveContribution)
            }),
            Property::always("I8 committed records stay", |_, state| never(state, Breach::CommittedChanged)),
            Property::always("I15 no committed record is cut", |_, state| never(state, Breach::CommittedCut)),
            Property::always("I17 acknowledged is committed", |_, state| {
                never(state, Breach::AckedNotCommitted)
            }),
        ]
    }
}

impl Cluster {
    /// What a running broker may do next.
    fn acts(&self, state: &State, at: usize, actions: &mut Vec<Action>) {
        let node = state.node(at);
        let Some(process) = &node.process else { return };
        let (facts, bounds) = (node.log.facts(), &self.bounds);
        let syncs = bounds.power_cuts > 0 || bounds.durability == Durability::Fsync;
        let crashes = bounds.kills > 0 || bounds.power_cuts > 0;
        // A log grows only where the checkpoint names nothing above its end.
        let checked = self.rules.holds(Rule::GrowAboveCheckpoint);
        let grows = !checked || node.checkpoint.is_none_or(|named| named <= facts.accepted);
        let request = process.machine.fetch_request(&facts);
        let asks = request.is_some_and(|request| {
            !state.wire.iter().any(|it| it.follower == node.id && it.leader == request.leader)
        });
        let due = process.machine.next_deadline(node.now(), &facts).is_some_and(|due| due <= node.clock);
        let may_append = process.machine.may_append(Acks::All, &facts).is_ok();
        let choices = [
            (Action::Produce(at), grows && may_append && state.left.records > 0),
            (Action::Write(at), facts.written < facts.accepted),
            (Action::Sync(at), syncs && facts.durable < facts.written),
            (Action::Checkpoint(at), crashes && node.checkpoint != process.machine.known_committed()),
            (Action::Fetch(at), grows && asks),
            (Action::Hear(at), self.has_news(state, at)),
            (Action::Decide(at), process.proposal.is_some()),
            (Action::Tick(at), due),
            (Action::ComeBack(at), !state.is_heard(node)),
        ];
        actions.extend(choices.iter().filter(|(_, possible)| *possible).map(|(action, _)| *action));
    }

    /// What may go wrong with it next.
    fn faults(state: &State, at: usize, actions: &mut Vec<Action>) {
        let (node, left) = (state.node(at), &state.left);
        let proposes = node.process.as_ref().is_some_and(|process| process.proposal.is_some());
        let choices = [
            (Action::DecideUnheard(at), proposes && left.losses > 0),
            (Action::Lag(at), left.lags > 0),
            (Action::Kill(at), left.kills > 0),
            (Action::Fence(at), left.fences > 0 && state.is_heard(node)),
        ];
        actions.extend(choices.iter().filter(|(_, possible)| *possible).map(|(action, _)| *action));
        if left.power_cuts > 0 {
            let (least, most) = (node.log.durable.value(), node.log.written.value());
            actions.extend((least..=most).filter_map(|end| Some(Action::CutPower(at, Offset::new(end)?))));
        }
    }

    fn follow(&self, state: &mut State, action: Action) {
        match action {
            Action::Produce(at) => self.produce(state, at),
            Action::Write(at) => {
                let log = &mut state.node_mut(at).log;
                log.written = log.accepted();
                self.tell(state, at, Input::LogMoved);
            }
            Action::Sync(at) => {
                let log = &mut state.node_mut(at).log;
                log.durable = log.written;
                self.tell(state, at, Input::LogMoved);
            }
            Action::Checkpoint(at) => {
                let node = state.node_mut(at);
                node.checkpoint = node.process.as_ref().and_then(|process| process.machine.known_committed());
            }
            Action::Fetch(at) => Self::fetch(state, at),
            Action::Arrive(place) => self.arrive(state, place),
            Action::Lose(place) => {
                state.left.losses -= 1;
                self.lose(state, place);
            }
            Action::Hear(at) => self.hear(state, at),
            Action::Decide(at) => self.decide(state, at, true),
            Action::DecideUnheard(at) => {
                state.left.losses -= 1;
                self.decide(state, at, false);
            }
            Action::Tick(at) => self.tell(state, at, Input::Tick),
            Action::Lag(at) => {
                state.left.lags -= 1;
                let node = state.node_mut(at);
                node.clock = node.clock.after(LAG);
                self.tell(state, at, Input::Tick);
            }
            Action::Kill(at) => {
                state.left.kills -= 1;
                let written = state.node(at).log.written;
                Self::crash(state, at, End::Killed, written);
            }
            Action::CutPower(at, end) => {
                state.left.power_cuts -= 1;
                Self::crash(state, at, End::PowerCut, end);
            }
            Action::Fence(at) => {
                if state.node(at).process.is_some() {
                    state.left.fences -= 1;
                }
                self.fence(state, at);
            }
            Action::Start(at) => self.start(state, at),
            Action::ComeBack(at) => self.come_back(state, at),
        }
    }
}
