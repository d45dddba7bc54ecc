//! `ApiVersions`, API 18: which APIs a broker understands.

use super::api::ApiKey;
use super::error_code::ErrorCode;
use super::schema::message;

message! {
    /// Asks which APIs the broker understands.
    pub struct ApiVersionsRequest {
        /// The client's software.
        client_software_name: String, 3..;
        /// Its version.
        client_software_version: String, 3..;
    }
}

message! {
    /// The APIs and versions.
    pub struct ApiVersionsResponse {
        /// An error of the whole request.
        error_code: ErrorCode, 0..;
        /// The APIs.
        api_keys: Vec<ApiVersion>, 0..;
        /// How long the client is asked to pause.
        throttle_time_ms: i32, 1..;
        /// Features that the broker could have.
        supported_features: Vec<SupportedFeatureKey>, 3.., tag 0;
        /// The epoch of the features that are set, -1 if unknown.
        finalized_features_epoch: i64, 3.., tag 1, default -1;
        /// Features that are set in the whole cluster.
        finalized_features: Vec<FinalizedFeatureKey>, 3.., tag 2;
        /// Whether a migration from `ZooKeeper` could begin.
        zk_migration_ready: bool, 3.., tag 3;
    }

    /// The versions of one API.
    pub struct ApiVersion {
        /// Its number.
        api_key: i16, 0..;
        /// The first version.
        min_version: i16, 0..;
        /// The last version.
        max_version: i16, 0..;
    }

    /// A feature that the broker could have.
    pub struct SupportedFeatureKey {
        /// Its name.
        name: String, 3..;
        /// Its first version.
        min_version: i16, 3..;
        /// Its last version.
        max_version: i16, 3..;
    }

    /// A feature that is set.
    pub struct FinalizedFeatureKey {
        /// Its name.
        name: String, 3..;
        /// The highest level that is set.
        max_version_level: i16, 3..;
        /// The lowest level that is set.
        min_version_level: i16, 3..;
    }
}

impl ApiVersionsResponse {
    /// The advertised versions of everything that is understood.
    pub fn advertised() -> Self {
        let api_keys = ApiKey::ALL.iter().filter_map(|api| {
            let versions = api.versions_advertised()?;
            Some(ApiVersion {
                api_key: api.code(),
                min_version: *versions.start(),
                max_version: *versions.end(),
            })
        });
        Self { api_keys: api_keys.collect(), ..Self::default() }
    }
}
