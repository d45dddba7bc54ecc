//! `DescribeConfigs`, API 32: the settings of topics and brokers.

use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks for settings.
    pub struct DescribeConfigsRequest {
        /// Whose.
        resources: Vec<DescribeConfigsResource>, 0..;
        /// Whether to say where else a setting is set.
        include_synonyms: bool, 1..;
        /// Whether to explain them.
        include_documentation: bool, 3..;
    }

    /// A topic or a broker.
    pub struct DescribeConfigsResource {
        /// 2: a topic; 4: a broker.
        resource_type: i8, 0..;
        /// The topic's name or the broker's number.
        resource_name: String, 0..;
        /// The settings; `None` is all of them.
        configuration_keys: Option<Vec<String>>, 0.., nullable 0..;
    }
}

message! {
    /// The settings.
    pub struct DescribeConfigsResponse {
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 0..;
        /// By topic or broker.
        results: Vec<DescribeConfigsResult>, 0..;
    }

    /// The settings of one topic or broker.
    pub struct DescribeConfigsResult {
        /// Why there are none.
        error_code: ErrorCode, 0..;
        /// The error in words.
        error_message: Option<String>, 0.., nullable 0..;
        /// 2: a topic; 4: a broker.
        resource_type: i8, 0..;
        /// The topic's name or the broker's number.
        resource_name: String, 0..;
        /// The settings.
        configs: Vec<DescribeConfigsResourceResult>, 0..;
    }

    /// A setting.
    pub struct DescribeConfigsResourceResult {
        /// Its name.
        name: String, 0..;
        /// Its value.
        value: Option<String>, 0.., nullable 0..;
        /// Whether it cannot be changed.
        read_only: bool, 0..;
        /// Where it comes from.
        config_source: i8, 1.., default -1;
        /// Whether its value is hidden.
        is_sensitive: bool, 0..;
        /// Where else it is set.
        synonyms: Vec<DescribeConfigsSynonym>, 1..;
        /// Its type.
        config_type: i8, 3..;
        /// What it is for.
        documentation: Option<String>, 3.., nullable 0..;
    }

    /// The same setting in another place.
    pub struct DescribeConfigsSynonym {
        /// Its name there.
        name: String, 1..;
        /// Its value there.
        value: Option<String>, 1.., nullable 0..;
        /// The place.
        source: i8, 1..;
    }
}
