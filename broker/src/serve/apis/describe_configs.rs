//! `DescribeConfigs`: the settings of topics and of this broker, each with where it comes from.

use std::collections::{BTreeMap, BTreeSet};

use highwater_engine::units::TopicPartition;
use highwater_replication::wire::describe_configs::{
    DescribeConfigsRequest, DescribeConfigsResource, DescribeConfigsResourceResult, DescribeConfigsResponse,
    DescribeConfigsResult, DescribeConfigsSynonym,
};
use highwater_replication::wire::{ErrorCode, Response};

use super::Facts;
use crate::settings::{ALL, AnySetting, Settings};

const TOPIC: i8 = 2;
const BROKER: i8 = 4;

/// Kafka's numbers for where a value comes from.
pub(super) const OF_TOPIC: i8 = 1;
const OF_BROKER: i8 = 4;
const DEFAULT: i8 = 5;

const BOOLEAN: i8 = 1;
const STRING: i8 = 2;
const LONG: i8 = 5;

/// What of each setting is shown.
#[derive(Clone, Copy)]
struct Shown {
    synonyms: bool,
    documentation: bool,
}

pub(super) fn answer(facts: &Facts<'_>, request: DescribeConfigsRequest) -> Response {
    let shown = Shown { synonyms: request.include_synonyms, documentation: request.include_documentation };
    // Each is answered once, so that the answer is not larger than what there is, however often it is named.
    let mut seen = BTreeSet::new();
    let resources = request.resources.into_iter();
    let resources = resources.filter(|it| seen.insert((it.resource_type, it.resource_name.clone())));
    let results = resources.map(|resource| {
        let configs = match resource.resource_type {
            TOPIC => topic(facts, &resource, shown),
            BROKER => broker(facts, &resource, shown),
            other => {
                Err((ErrorCode::InvalidRequest, format!("resources of type {other} have no settings here")))
            }
        };
        let (configs, refusal) = match configs {
            Ok(configs) => (configs, None),
            Err(refusal) => (Vec::new(), Some(refusal)),
        };
        DescribeConfigsResult {
            error_code: refusal.as_ref().map_or(ErrorCode::None, |(code, _)| *code),
            error_message: refusal.map(|(_, words)| words),
            resource_type: resource.resource_type,
            resource_name: resource.resource_name,
            configs,
        }
    });
    DescribeConfigsResponse { results: results.collect(), ..Default::default() }.into()
}

type Configs = Result<Vec<DescribeConfigsResourceResult>, (ErrorCode, String)>;

fn wanted(resource: &DescribeConfigsResource, name: &str) -> bool {
    let keys = resource.configuration_keys.as_ref();
    keys.is_none_or(|keys| keys.is_empty() || keys.iter().any(|key| key == name))
}

fn topic(facts: &Facts<'_>, resource: &DescribeConfigsResource, shown: Shown) -> Configs {
    let name = &resource.resource_name;
    if let Err(error) = TopicPartition::check_topic(name) {
        return Err((ErrorCode::InvalidTopicException, error.to_string()));
    }
    let Some(topic) = facts.state.topics.get(name) else {
        return Err((ErrorCode::UnknownTopicOrPartition, format!("there is no topic {name}")));
    };
    let settings = ALL.iter().filter_map(|setting| Some((*setting, setting.topic()?)));
    let of_topic = settings.filter(|(_, name)| wanted(resource, name));
    Ok(of_topic
        .map(|(setting, name)| one(facts.settings, setting, name, Some(&topic.configs), shown))
        .collect())
}

fn broker(facts: &Facts<'_>, resource: &DescribeConfigsResource, shown: Shown) -> Configs {
    let name = &resource.resource_name;
    if name.is_empty() {
        // Settings that hold for all brokers can only be changed in a running cluster, which is not possible yet.
        return Ok(Vec::new());
    }
    // By one text only, or it would be asked for often under as many.
    if *name != facts.node.to_string() {
        let words = format!("broker {name} has to be asked for its settings; this is broker {}", facts.node);
        return Err((ErrorCode::InvalidRequest, words));
    }
    let settings = ALL.iter().filter(|setting| wanted(resource, setting.name()));
    Ok(settings.map(|setting| one(facts.settings, *setting, setting.name(), None, shown)).collect())
}

fn one(
    settings: &Settings,
    setting: &'static dyn AnySetting,
    name: &str,
    of_topic: Option<&BTreeMap<String, String>>,
    shown: Shown,
) -> DescribeConfigsResourceResult {
    let own = of_topic.and_then(|configs| configs.get(name));
    let mut places = Vec::new();
    if let Some(own) = own {
        places.push((name, own.clone(), OF_TOPIC));
    }
    if settings.is_set(setting) {
        places.push((setting.name(), settings.text(setting).to_owned(), OF_BROKER));
    }
    places.push((setting.name(), setting.default().to_owned(), DEFAULT));
    let (value, config_source) = places.first().map_or((None, DEFAULT), |(_, v, s)| (Some(v.clone()), *s));
    let synonym = |(name, value, source): (&str, String, i8)| DescribeConfigsSynonym {
        name: name.to_owned(),
        value: Some(value),
        source,
    };
    DescribeConfigsResourceResult {
        name: name.to_owned(),
        value,
        read_only: true,
        config_source,
        is_sensitive: false,
        synonyms: if shown.synonyms { places.into_iter().map(synonym).collect() } else { Vec::new() },
        config_type: kind(setting),
        documentation: shown.documentation.then(|| setting.meaning().to_owned()),
    }
}

fn kind(setting: &dyn AnySetting) -> i8 {
    if setting.accepts("true") && setting.accepts("false") {
        BOOLEAN
    } else if setting.default().parse::<i64>().is_ok() {
        LONG
    } else {
        STRING
    }
}
