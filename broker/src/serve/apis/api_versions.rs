//! `ApiVersions`: which APIs are understood, and in which versions.

use highwater_replication::wire::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use highwater_replication::wire::{ErrorCode, Response};

pub(super) fn answer(version: i16, request: &ApiVersionsRequest) -> Response {
    // Kafka's pattern for both since KIP-511: they go into its metrics.
    let legal = |text: &str| {
        let inner = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '.');
        let ends = text.starts_with(|c: char| c.is_ascii_alphanumeric())
            && text.ends_with(|c: char| c.is_ascii_alphanumeric());
        ends && text.chars().all(inner)
    };
    if version >= 3 && !(legal(&request.client_software_name) && legal(&request.client_software_version)) {
        return ApiVersionsResponse { error_code: ErrorCode::InvalidRequest, ..Default::default() }.into();
    }
    ApiVersionsResponse::advertised().into()
}
