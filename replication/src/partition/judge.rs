//! How a replica answers those who ask: fences, then histories, then ranges. Nothing is changed by asking.

use highwater_engine::log::LogFacts;
use highwater_engine::state::EpochEnd;
use highwater_engine::units::LeaderEpoch;

use super::input::{FetchClaim, Fetcher};
use super::machine::{Partition, Role};
use super::refusal::{Asker, Fenced, FetchRefusal, FetchVerdict, ListBound};
use crate::rules::Rule;

impl Partition {
    /// Judges what a Fetch says of this partition.
    ///
    /// The order is Kafka's: epoch, leadership, replica and session, then the range's start before the divergence (KAFKA-12996), then its
    /// end. Consumers are judged by followers too (KIP-392), and sent to the leader for what is behind a follower's end, where Kafka says that
    /// it is out of range. For an offset between the ceiling and the log's end there are no records yet,
    /// which is no error (S24, S25).
    pub fn judge_fetch(&self, claim: &FetchClaim, log: &LogFacts<'_>) -> Result<FetchVerdict, FetchRefusal> {
        self.check_epoch(claim.current_epoch)?;
        let ceiling = match claim.fetcher {
            Fetcher::Consumer => self.high_watermark().min(log.written),
            Fetcher::Follower { node, session } => {
                self.check_leads()?;
                let member = self.assignment().and_then(|assignment| assignment.member(node));
                let member = member.ok_or(FetchRefusal::UnknownReplica { node })?;
                if session.is_none() || session != member.session {
                    return Err(FetchRefusal::OtherSession { node });
                }
                log.written
            }
        };
        let out_of_range =
            FetchRefusal::OutOfRange { offset: claim.offset, start: log.start, end: log.accepted };
        if let Some(last) = claim.last_fetched_epoch
            && self.rules().holds(Rule::DivergenceCheck)
        {
            let shared = log.epochs.end_of(last, log.written).ok_or(out_of_range)?;
            if claim.offset < log.start {
                return Err(out_of_range);
            }
            if shared.epoch < last || shared.end < claim.offset {
                return Ok(FetchVerdict::Diverging { epoch: shared.epoch, end: shared.end });
            }
        }
        if claim.offset > log.accepted {
            // What is not here may well be at the leader; a consumer that hears that there is no such offset begins again somewhere else.
            self.check_leads()?;
        }
        if claim.offset < log.start || claim.offset > log.accepted {
            return Err(out_of_range);
        }
        Ok(FetchVerdict::Read { ceiling })
    }

    /// Up to where `ListOffsets` may speak to this asker.
    pub fn list_bound(
        &self,
        asker: Asker,
        current_epoch: Option<LeaderEpoch>,
        log: &LogFacts<'_>,
    ) -> Result<ListBound, Fenced> {
        self.check_epoch(current_epoch)?;
        match asker {
            Asker::Debugger => Ok(ListBound::Settled(log.written)),
            Asker::Replica => self.check_leads().map(|_| ListBound::Settled(log.written)),
            Asker::Client => {
                let epoch_start = self.check_leads()?;
                let high_watermark = self.high_watermark().min(log.written);
                Ok(if high_watermark >= epoch_start {
                    ListBound::Settled(high_watermark)
                } else {
                    ListBound::Unsettled(high_watermark)
                })
            }
        }
    }

    /// Where an epoch ends in this leader's log (`OffsetForLeaderEpoch`); `None`: unknown here.
    pub fn epoch_end(
        &self,
        current_epoch: Option<LeaderEpoch>,
        epoch: LeaderEpoch,
        log: &LogFacts<'_>,
    ) -> Result<Option<EpochEnd>, Fenced> {
        self.check_epoch(current_epoch)?;
        self.check_leads()?;
        Ok(log.epochs.end_of(epoch, log.written))
    }

    fn check_epoch(&self, asked: Option<LeaderEpoch>) -> Result<(), Fenced> {
        match self.role() {
            Role::Offline => return Err(Fenced::Offline),
            Role::Unassigned => return Err(Fenced::NotLeader),
            Role::Leader(_) | Role::Follower(_) => {}
        }
        let current = self.leader_epoch().ok_or(Fenced::NotLeader)?;
        match asked {
            Some(asked) if asked < current && self.rules().holds(Rule::EpochFenceOnFetch) => {
                Err(Fenced::OldEpoch { asked, current })
            }
            Some(asked) if asked > current && self.rules().holds(Rule::EpochFenceOnFetch) => {
                Err(Fenced::UnknownEpoch { asked, current })
            }
            Some(_) | None => Ok(()),
        }
    }

    /// The start of the present leadership, if it is this replica's.
    fn check_leads(&self) -> Result<highwater_engine::units::Offset, Fenced> {
        match self.role() {
            Role::Leader(leader) => Ok(leader.epoch_start),
            Role::Unassigned | Role::Follower(_) => Err(Fenced::NotLeader),
            Role::Offline => Err(Fenced::Offline),
        }
    }
}
