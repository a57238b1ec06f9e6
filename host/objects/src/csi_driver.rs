//! A CSIDriver's manifest, checked as the API server does.

use std::collections::BTreeSet;

use k8s_openapi::api::storage::v1::CSIDriverSpec;

use super::error::FieldError;

const FS_GROUP_POLICIES: [&str; 3] = ["File", "None", "ReadWriteOnceWithFSType"];
const LIFECYCLE_MODES: [&str; 2] = ["Persistent", "Ephemeral"];
/// The shortest that a token may be asked for, in seconds.
const SHORTEST_TOKEN: i64 = 600;
/// The longest: a number of 32 bits.
const LONGEST_TOKEN: i64 = 1 << 32;

/// The shortest time between two looks at what a driver says of the node, in seconds.
const SHORTEST_UPDATE: i64 = 10;

/// Checks the fields that take only some values.
pub(super) fn check(spec: &CSIDriverSpec) -> Result<(), FieldError> {
    one_of("spec.fsGroupPolicy", spec.fs_group_policy.as_deref(), &FS_GROUP_POLICIES)?;
    for (index, mode) in spec.volume_lifecycle_modes.iter().flatten().enumerate() {
        one_of(&format!("spec.volumeLifecycleModes[{index}]"), Some(mode), &LIFECYCLE_MODES)?;
    }
    let mut audiences = BTreeSet::new();
    for (index, request) in spec.token_requests.iter().flatten().enumerate() {
        let path = format!("spec.tokenRequests[{index}]");
        if !audiences.insert(&request.audience) {
            return Err(FieldError::other(
                format!("{path}.audience"),
                format!("{:?} is asked for twice; ask once for each audience", request.audience),
            ));
        }
        if request.expiration_seconds.is_some_and(|seconds| !(SHORTEST_TOKEN..=LONGEST_TOKEN).contains(&seconds)) {
            return Err(FieldError::other(
                format!("{path}.expirationSeconds"),
                format!("must be {SHORTEST_TOKEN} to {LONGEST_TOKEN} seconds"),
            ));
        }
    }
    if spec.node_allocatable_update_period_seconds.is_some_and(|seconds| seconds < SHORTEST_UPDATE) {
        return Err(FieldError::other(
            "spec.nodeAllocatableUpdatePeriodSeconds",
            format!("must be {SHORTEST_UPDATE} seconds at least"),
        ));
    }
    if spec.service_account_token_in_secrets.is_some() && spec.token_requests.iter().flatten().next().is_none() {
        return Err(FieldError::other(
            "spec.serviceAccountTokenInSecrets",
            "goes with spec.tokenRequests, and there are none",
        ));
    }
    Ok(())
}

fn one_of(path: &str, given: Option<&str>, words: &[&str]) -> Result<(), FieldError> {
    match given {
        Some(word) if !words.contains(&word) => {
            Err(FieldError::other(path, format!("{word:?} is not known; there are {}", words.join(", "))))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::super::parse;

    fn read(spec: &str) -> Result<(), String> {
        let text = format!("apiVersion: storage.k8s.io/v1\nkind: CSIDriver\nmetadata: {{ name: a.b }}\nspec: {spec}\n");
        parse("driver.yaml", &text).map(drop).map_err(|error| error.to_string())
    }

    #[test]
    fn every_field_is_taken_and_a_wrong_value_is_named() {
        let all = "{ attachRequired: false, podInfoOnMount: true, fsGroupPolicy: File, requiresRepublish: true, \
                   volumeLifecycleModes: [Persistent, Ephemeral], serviceAccountTokenInSecrets: true, seLinuxMount: true, \
                   nodeAllocatableUpdatePeriodSeconds: 60, storageCapacity: true, \
                   tokenRequests: [{ audience: vault, expirationSeconds: 600 }, { audience: '' }] }";
        assert_eq!(read(all), Ok(()));
        for (spec, field) in [
            ("{ fsGroupPolicy: Always }", "spec.fsGroupPolicy"),
            ("{ volumeLifecycleModes: [Persistent, Inline] }", "spec.volumeLifecycleModes[1]"),
            ("{ tokenRequests: [{ audience: a }, { audience: a }] }", "spec.tokenRequests[1].audience"),
            ("{ tokenRequests: [{ audience: a, expirationSeconds: 10 }] }", "spec.tokenRequests[0].expirationSeconds"),
            ("{ serviceAccountTokenInSecrets: true }", "spec.serviceAccountTokenInSecrets"),
            ("{ nodeAllocatableUpdatePeriodSeconds: 9 }", "spec.nodeAllocatableUpdatePeriodSeconds"),
            ("{ attachRequired: maybe }", "spec.attachRequired"),
        ] {
            let said = read(spec).unwrap_err();
            assert!(said.contains("driver.yaml:4") && said.contains(field), "{said}");
        }
    }
}
