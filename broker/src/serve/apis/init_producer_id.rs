//! `InitProducerId`: ids for idempotent producers, out of blocks that the controller grants durably before one is used.

use std::collections::VecDeque;

use highwater_replication::controller::{ControllerReply, ProducerIdBlock};
use highwater_replication::wire::init_producer_id::{InitProducerIdRequest, InitProducerIdResponse};
use highwater_replication::wire::{ErrorCode, Response};

use super::Answer;

/// More than this do not wait for a block; they are told to come again.
const WAITING_MAX: usize = 10_000;

pub(super) fn answer(request: &InitProducerIdRequest) -> Answer {
    if request.transactional_id.is_some() {
        // Final for every client: transactions do not exist yet, and waiting would not bring them.
        return Answer::Now(refusal(ErrorCode::UnsupportedVersion));
    }
    // An idempotent producer that brings its old id gets a new one as well: nothing is fenced by it.
    Answer::ProducerId
}

fn refusal(error_code: ErrorCode) -> Response {
    InitProducerIdResponse { error_code, ..Default::default() }.into()
}

/// The ids that this broker may give out, and who waits for one.
#[derive(Debug)]
pub(crate) struct ProducerIds<W> {
    next: i64,
    end: i64,
    waiting: VecDeque<W>,
    asking: bool,
}

/// What is to be done for somebody who wants an id.
#[derive(Debug, PartialEq)]
pub(crate) enum Wanted {
    /// This is the response.
    Now(Response),
    /// Wait; and ask the controller for a block.
    Ask,
    /// Wait.
    Wait,
}

impl<W> Default for ProducerIds<W> {
    fn default() -> Self {
        Self { next: 0, end: 0, waiting: VecDeque::new(), asking: false }
    }
}

impl<W> ProducerIds<W> {
    fn take(&mut self) -> Option<Response> {
        if self.next >= self.end {
            return None;
        }
        let producer_id = self.next;
        self.next += 1;
        Some(InitProducerIdResponse { producer_id, producer_epoch: 0, ..Default::default() }.into())
    }

    /// Somebody wants an id.
    pub(crate) fn want(&mut self, who: W) -> Wanted {
        if let Some(response) = self.take() {
            return Wanted::Now(response);
        }
        if self.waiting.len() >= WAITING_MAX {
            return Wanted::Now(refusal(ErrorCode::CoordinatorLoadInProgress));
        }
        self.waiting.push_back(who);
        if std::mem::replace(&mut self.asking, true) { Wanted::Wait } else { Wanted::Ask }
    }

    /// What came of asking: the responses that can be given now. Without a block all who wait come again later.
    pub(crate) fn granted(&mut self, reply: Option<&ControllerReply>) -> Vec<(W, Response)> {
        self.asking = false;
        if let Some(ControllerReply::ProducerIds(Some(ProducerIdBlock { first, count }))) = reply {
            (self.next, self.end) = (*first, first.saturating_add(*count));
        }
        let mut answered = Vec::new();
        while let Some(who) = self.waiting.pop_front() {
            let response = self.take().unwrap_or_else(|| refusal(ErrorCode::CoordinatorLoadInProgress));
            answered.push((who, response));
        }
        answered
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[expect(clippy::wildcard_enum_match_arm, reason = "any other answer fails the test")]
    fn id(response: &Response) -> Result<i64, ErrorCode> {
        match response {
            Response::InitProducerId(response) if response.error_code.is_none() => Ok(response.producer_id),
            Response::InitProducerId(response) => Err(response.error_code),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn an_id_is_given_once_and_only_out_of_a_block() {
        let mut ids = ProducerIds::default();
        assert_eq!(ids.want("a"), Wanted::Ask);
        assert_eq!(ids.want("b"), Wanted::Wait, "one question is under way");
        assert_eq!(ids.want("c"), Wanted::Wait);
        let block = ProducerIdBlock { first: 2_000, count: 2 };
        let granted = ids.granted(Some(&ControllerReply::ProducerIds(Some(block))));
        let granted: Vec<_> = granted.iter().map(|(who, response)| (*who, id(response))).collect();
        assert_eq!(
            granted,
            [("a", Ok(2_000)), ("b", Ok(2_001)), ("c", Err(ErrorCode::CoordinatorLoadInProgress))]
        );
        assert_eq!(ids.want("d"), Wanted::Ask, "the block is used up");
        let granted = ids.granted(None);
        assert_eq!(id(&granted[0].1), Err(ErrorCode::CoordinatorLoadInProgress));
    }
}
