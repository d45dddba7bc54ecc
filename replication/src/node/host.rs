//! The thread of a node: events and orders in, the shard's turn, what came of it out.

use std::collections::BTreeMap;
use std::io;
use std::thread::JoinHandle;
use std::time::Duration;

use bytes::Bytes;
use crossbeam_channel::{Receiver, Sender, select_biased, unbounded};
use highwater_engine::store::{CloseError, Job};
use highwater_engine::units::Monotonic;

use super::{Clock, ControllerLink};
use crate::controller::{ControllerReply, ControllerRequest};
use crate::pending::{ConnectionId, Slot};
use crate::shard::{AskId, Event, Out, Shard};
use crate::transport::{Endpoint, Inbox};

/// Calls of the same process; endpoints count from below, or have the upper bit.
const OWN_CALLS: u64 = 1 << 62;
const LENGTH_BYTES: usize = 4;
/// How long leaderships are handed over at most.
const HAND_OVER: Duration = Duration::from_secs(10);

/// Looks at the shard after a turn; `true` when it has seen enough.
pub(super) type Watch = Box<dyn FnMut(&Shard) -> bool + Send>;

/// What other threads want of a node.
pub(super) enum Order {
    Call { frame: Bytes, answer: Sender<Bytes> },
    Ask { request: ControllerRequest, answer: Sender<Option<ControllerReply>> },
    Watch(Watch),
    Stop,
}

/// See the module's documentation.
pub(super) struct Host<E, C> {
    shard: Shard,
    clock: Clock,
    inbox: Inbox,
    endpoint: E,
    controller: C,
    jobs: Sender<Job>,
    job_thread: JoinHandle<()>,
    /// Each call is a connection of its own, so that none waits for another.
    calls: BTreeMap<ConnectionId, Sender<Bytes>>,
    asks: BTreeMap<AskId, Sender<Option<ControllerReply>>>,
    watches: Vec<Watch>,
    next_id: u64,
    stops_at: Option<Monotonic>,
    is_over: bool,
}

impl<E: Endpoint, C: ControllerLink> Host<E, C> {
    pub(super) fn new(
        shard: Shard,
        clock: Clock,
        inbox: Inbox,
        controller: C,
        endpoint: E,
    ) -> io::Result<Self> {
        let (jobs, queue) = unbounded::<Job>();
        let (store, done) = (shard.store().clone(), inbox.clone());
        let named = std::thread::Builder::new().name(format!("highwater-jobs-{}", shard.node()));
        let job_thread = named.spawn(move || {
            for job in queue {
                // A node that is gone misses nothing.
                let _ = done.send(Event::JobDone(job.run(&store)));
            }
        })?;
        Ok(Self {
            shard,
            clock,
            inbox,
            endpoint,
            controller,
            jobs,
            job_thread,
            calls: BTreeMap::new(),
            asks: BTreeMap::new(),
            watches: Vec::new(),
            next_id: 0,
            stops_at: None,
            is_over: false,
        })
    }

    /// Runs until it is told to stop, or everybody who could tell it so is gone.
    pub(super) fn run(
        mut self,
        events: &Receiver<Event>,
        orders: &Receiver<Order>,
    ) -> Result<(), CloseError> {
        loop {
            let now = self.clock.now();
            for out in self.shard.turn(now) {
                self.carry_out(out);
            }
            let shard = &self.shard;
            self.watches.retain_mut(|watch| !watch(shard));
            if self.is_over || self.stops_at.is_some_and(|at| at <= now.monotonic) {
                return self.close();
            }
            let deadline = [self.shard.next_deadline(), self.stops_at].into_iter().flatten().min();
            let wait = deadline.map_or(HAND_OVER, |at| self.clock.until(at));
            select_biased! {
                // The host has a sender itself, so that there is always one.
                recv(events) -> event => if let Ok(event) = event {
                    self.shard.tell(event);
                },
                recv(orders) -> order => match order {
                    Ok(order) => self.obey(order),
                    // As a kill.
                    Err(_) => return Ok(()),
                },
                default(wait) => {}
            }
            for event in events.try_iter() {
                self.shard.tell(event);
            }
        }
    }

    fn obey(&mut self, order: Order) {
        self.next_id += 1;
        match order {
            Order::Call { frame, answer } => {
                let connection = ConnectionId(OWN_CALLS | self.next_id);
                self.calls.insert(connection, answer);
                self.shard.tell(Event::Frame { slot: Slot { connection, number: 0 }, frame });
            }
            Order::Ask { request, answer } => {
                let ask = AskId(self.next_id);
                self.asks.insert(ask, answer);
                self.shard.tell(Event::Ask { ask, request });
            }
            Order::Watch(watch) => self.watches.push(watch),
            Order::Stop => {
                self.stops_at = Some(self.clock.now().monotonic.after(HAND_OVER));
                self.shard.tell(Event::Stop);
            }
        }
    }

    fn carry_out(&mut self, out: Out) {
        match out {
            Out::Frame { slot, parts } => self.answer(slot, parts),
            Out::Close { connection, .. } => {
                if self.calls.remove(&connection).is_none() {
                    self.endpoint.hang_up(connection);
                }
            }
            Out::PeerFrame { lane, parts } => match self.shard.view().state().brokers.get(&lane.leader) {
                Some(leader) => self.endpoint.send(lane, &format!("{}:{}", leader.host, leader.port), parts),
                None => drop(self.inbox.send(Event::PeerDown { lane })),
            },
            Out::PeerClose { lane } => self.endpoint.close(lane),
            Out::Controller { call, request } => self.controller.call(call, request, &self.inbox),
            Out::Answer { ask, reply } => {
                if let Some(answer) = self.asks.remove(&ask) {
                    // Who does not wait any more misses nothing.
                    let _ = answer.send(reply);
                }
            }
            // The thread ends with the queue, or by a panic, which was printed.
            Out::Job(job) => drop(self.jobs.send(job)),
            Out::MayStop => self.is_over = true,
            // For people, of whom a host of one's own may tell more.
            Out::News(_) => {}
        }
    }

    fn answer(&mut self, slot: Slot, parts: Vec<Bytes>) {
        match self.calls.remove(&slot.connection) {
            Some(answer) => {
                // Who does not wait any more misses nothing.
                let _ = answer.send(Bytes::from(parts.concat()).split_off(LENGTH_BYTES));
            }
            None => self.endpoint.reply(slot, parts),
        }
    }

    fn close(self) -> Result<(), CloseError> {
        drop(self.jobs);
        if let Err(panic) = self.job_thread.join() {
            std::panic::resume_unwind(panic);
        }
        self.shard.close()
    }
}
