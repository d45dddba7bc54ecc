//! `DeleteTopics`, by name or by id.

use highwater_engine::units::TopicId;
use highwater_replication::controller::{ControllerReply, ControllerRequest};
use highwater_replication::wire::delete_topics::{
    DeletableTopicResult, DeleteTopicsRequest, DeleteTopicsResponse,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::{Answer, Facts, refusals};

/// A topic that was named: by what, and by which name the controller is asked; `None` if it is not known. It is asked for the id as well, since
/// this broker may not have heard yet that another topic has the name by now.
struct Asked {
    id: Option<TopicId>,
    name: Option<String>,
}

pub(super) fn answer(facts: &Facts<'_>, request: DeleteTopicsRequest) -> Answer {
    let name_of =
        |id| facts.state.topics.iter().find(|(_, topic)| topic.id == id).map(|(name, _)| name.clone());
    let by_name = request.topic_names.into_iter().map(|name| Asked { id: None, name: Some(name) });
    let by_state = request.topics.into_iter().map(|topic| match (topic.name, topic.topic_id) {
        (Some(name), _) => Asked { id: None, name: Some(name) },
        (None, Some(id)) => Asked { id: Some(id), name: name_of(id) },
        (None, None) => Asked { id: None, name: None },
    });
    let asked: Vec<Asked> = by_name.chain(by_state).collect();
    let requests = asked
        .iter()
        .filter_map(|asked| Some(ControllerRequest::DeleteTopic { name: asked.name.clone()?, id: asked.id }))
        .collect();
    Answer::Ask { requests, finish: Box::new(|replies| finish(asked, replies)) }
}

fn finish(asked: Vec<Asked>, replies: Vec<Option<ControllerReply>>) -> Response {
    let mut replies = replies.into_iter();
    let responses = asked.into_iter().map(|asked| {
        let (topic_id, refusal) = match (&asked.name, asked.id) {
            (Some(_), id) => match replies.next().flatten() {
                Some(ControllerReply::TopicDeleted { outcome: Ok(id), .. }) => (Some(id), None),
                Some(ControllerReply::TopicDeleted { outcome: Err(refusal), .. }) => {
                    (id, Some((refusals::topic(&refusal), refusal.to_string())))
                }
                _ => (id, Some(refusals::no_answer())),
            },
            (None, Some(id)) => {
                (Some(id), Some((ErrorCode::UnknownTopicId, "there is no topic with this id".to_owned())))
            }
            (None, None) => (None, Some((ErrorCode::InvalidRequest, "a name or an id is needed".to_owned()))),
        };
        DeletableTopicResult {
            name: asked.name,
            topic_id,
            error_code: refusal.as_ref().map_or(ErrorCode::None, |(code, _)| *code),
            error_message: refusal.map(|(_, words)| words),
        }
    });
    DeleteTopicsResponse { responses: responses.collect(), ..Default::default() }.into()
}
