//! `ListGroups` and `DescribeGroups`: what people want to know of groups.

use std::collections::BTreeSet;

use bytes::Bytes;
use highwater_replication::wire::ErrorCode;
use highwater_replication::wire::describe_groups::{DescribedGroup, DescribedGroupMember};
use highwater_replication::wire::list_groups::{ListGroupsRequest, ListGroupsResponse, ListedGroup};

use super::coordinator::Coordinator;
use super::group::{Group, State};
use super::member::Member;

/// The type of all groups here, in Kafka's word.
const CLASSIC: &str = "classic";
/// The state of a group that is not there.
const DEAD: &str = "Dead";
/// From this version on a group that is not there is an error.
const NOT_FOUND_FROM: i16 = 6;
/// What everybody may do with a group while nobody has to say who he is: read, delete, describe, and describe and alter its settings.
const ALL_OPERATIONS: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

impl<T: Copy> Coordinator<T> {
    /// The groups of all partitions that this broker leads; an error while one of them is being loaded.
    pub(crate) fn list(&self, request: &ListGroupsRequest) -> ListGroupsResponse {
        let lower = |words: &[String]| words.iter().map(|word| word.to_lowercase()).collect::<BTreeSet<_>>();
        let (states, types) = (lower(&request.states_filter), lower(&request.types_filter));
        let is_wanted =
            |words: &BTreeSet<String>, word: &str| words.is_empty() || words.contains(&word.to_lowercase());
        let is_loading = self.partitions.values().any(|partition| partition.is_loading);
        let groups = self.partitions.values().filter(|partition| !partition.is_loading);
        let groups = groups.flat_map(|partition| &partition.groups);
        let groups = groups
            .filter(|(_, group)| is_wanted(&states, group.state.name()) && is_wanted(&types, CLASSIC))
            .map(|(name, group)| ListedGroup {
                group_id: name.clone(),
                protocol_type: group.protocol_type.clone().unwrap_or_default(),
                group_state: group.state.name().to_owned(),
                group_type: CLASSIC.to_owned(),
            });
        ListGroupsResponse {
            error_code: if is_loading { ErrorCode::CoordinatorLoadInProgress } else { ErrorCode::None },
            groups: groups.collect(),
            ..Default::default()
        }
    }

    /// A group with its members.
    pub(crate) fn describe(&mut self, version: i16, name: &str, with_operations: bool) -> DescribedGroup {
        let mut described = match self.home(name) {
            Err(error_code) => DescribedGroup { error_code, ..Default::default() },
            Ok(number) => match self.group(number, name) {
                Some(group) => describe(group),
                None if version >= NOT_FOUND_FROM => DescribedGroup {
                    error_code: ErrorCode::GroupIdNotFound,
                    error_message: Some(format!("Group {name} not found.")),
                    group_state: DEAD.to_owned(),
                    ..Default::default()
                },
                None => DescribedGroup { group_state: DEAD.to_owned(), ..Default::default() },
            },
        };
        name.clone_into(&mut described.group_id);
        if with_operations && described.error_code.is_none() {
            described.authorized_operations = ALL_OPERATIONS;
        }
        described
    }
}

fn describe<T>(group: &Group<T>) -> DescribedGroup {
    let is_stable = group.state == State::Stable;
    let protocol = group.protocol.clone().filter(|_| is_stable).unwrap_or_default();
    let member = |(id, member): (&String, &Member<T>)| DescribedGroupMember {
        member_id: id.clone(),
        group_instance_id: member.instance.clone(),
        client_id: member.client_id.clone(),
        client_host: member.client_host.clone(),
        // Before everybody has a part, what they say about themselves is on its way.
        member_metadata: if is_stable { member.metadata(&protocol) } else { Bytes::new() },
        member_assignment: if is_stable { member.assignment.clone() } else { Bytes::new() },
    };
    DescribedGroup {
        group_state: group.state.name().to_owned(),
        protocol_type: group.protocol_type.clone().unwrap_or_default(),
        members: group.members.iter().map(member).collect(),
        protocol_data: protocol.clone(),
        ..Default::default()
    }
}
