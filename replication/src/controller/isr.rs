//! Whether a leader's proposal for another ISR is taken (KIP-497, KIP-841, KIP-903), and the replica machine's words for it. Pure.

use highwater_engine::units::{TopicId, TopicPartition};

use super::protocol::{IsrAnswer, IsrMember, IsrProposal, Sender};
use super::refusal::IsrRefusal;
use super::state::{BrokerStatus, ClusterState, OutReason, PartitionState};
use crate::partition;

/// Checks a proposal in the order in which Kafka's controller does.
pub(super) fn check(
    cluster: &ClusterState,
    partition: &PartitionState,
    sender: Sender,
    proposal: &IsrProposal,
) -> Result<(), IsrRefusal> {
    if proposal.leader_epoch > partition.leader_epoch || proposal.partition_epoch > partition.partition_epoch
    {
        return Err(IsrRefusal::UnknownEpoch);
    }
    if proposal.leader_epoch < partition.leader_epoch {
        return Err(IsrRefusal::FencedLeaderEpoch);
    }
    if partition.leader != Some(sender.node) {
        return Err(IsrRefusal::NotLeader);
    }
    if proposal.partition_epoch < partition.partition_epoch {
        return Err(IsrRefusal::InvalidUpdateVersion);
    }
    check_shape(partition, sender, &proposal.isr)?;
    for member in &proposal.isr {
        check_member(cluster, partition, *member)?;
    }
    Ok(())
}

fn check_shape(partition: &PartitionState, sender: Sender, isr: &[IsrMember]) -> Result<(), IsrRefusal> {
    let leads = isr.iter().any(|member| member.node == sender.node);
    let twice = isr
        .iter()
        .enumerate()
        .any(|(at, member)| isr.iter().skip(at + 1).any(|other| other.node == member.node));
    let strange = isr.iter().any(|member| !partition.replicas.contains(&member.node));
    if leads && !twice && !strange { Ok(()) } else { Err(IsrRefusal::InvalidIsr) }
}

/// A member has to take part, in the session from which the leader saw it caught up: one that registered again since may have
/// another disk (S20), and one that stops would lead a moment later (S21). Who is in the ISR already may stop in it.
fn check_member(
    cluster: &ClusterState,
    partition: &PartitionState,
    member: IsrMember,
) -> Result<(), IsrRefusal> {
    let refused = IsrRefusal::IneligibleReplica { node: member.node };
    let broker = cluster.brokers.get(&member.node).ok_or(refused)?;
    let stays = partition.in_sync(member.node);
    let same_session = match member.session {
        Some(session) => session == broker.session,
        None => stays,
    };
    let may_be_in = match broker.status {
        BrokerStatus::Alive => true,
        BrokerStatus::Stopping => stays,
        BrokerStatus::Fenced => false,
    };
    if same_session && may_be_in { Ok(()) } else { Err(refused) }
}

impl IsrProposal {
    /// A machine's wish, as it is sent.
    pub fn of_machine(partition: TopicPartition, topic_id: TopicId, wish: &partition::IsrProposal) -> Self {
        Self {
            partition,
            topic_id,
            leader_epoch: wish.leader_epoch,
            partition_epoch: wish.partition_epoch,
            isr: wish
                .isr
                .iter()
                .map(|(node, session)| IsrMember { node: *node, session: *session })
                .collect(),
            // A leader proposes a removal for one reason only.
            reason: OutReason::Lagging,
        }
    }

    /// The machine's wish again, for its answer.
    pub fn to_machine(&self) -> partition::IsrProposal {
        partition::IsrProposal {
            leader_epoch: self.leader_epoch,
            partition_epoch: self.partition_epoch,
            isr: self.isr.iter().map(|member| (member.node, member.session)).collect(),
        }
    }
}

impl IsrAnswer {
    /// The answer in the machine's words.
    pub fn to_machine(&self) -> partition::IsrAnswer {
        match &self.outcome {
            Ok(granted) => partition::IsrAnswer::Granted {
                isr: granted.isr.clone(),
                eligible: granted.eligible.clone(),
                partition_epoch: granted.partition_epoch,
            },
            Err(IsrRefusal::IneligibleReplica { .. }) => partition::IsrAnswer::Refused,
            // A controller that is behind catches up.
            Err(IsrRefusal::UnknownEpoch) => partition::IsrAnswer::Unanswered,
            Err(
                IsrRefusal::UnknownPartition
                | IsrRefusal::UnknownTopicId
                | IsrRefusal::NotLeader
                | IsrRefusal::FencedLeaderEpoch
                | IsrRefusal::InvalidUpdateVersion
                | IsrRefusal::InvalidIsr
                | IsrRefusal::EpochsUsedUp,
            ) => partition::IsrAnswer::Outdated,
        }
    }
}
