//! What each component has asked the API server for.

use std::collections::BTreeMap;

use serde_json::Value;
use volhost_tests::cluster::Cluster;

/// What agents and controllers of volhost's read by a GET, once at a start or while they lead.
const READ: [&str; 2] = ["csinodes", "leases"];

/// The number of requests, by component, and by verb and resource.
pub(crate) type Requests = BTreeMap<String, BTreeMap<String, usize>>;

/// Counts them, watches apart. volhost's were forbidden nothing, and none of them read an object of
/// a volume by a GET.
pub(crate) fn count(cluster: &Cluster) -> Requests {
    let mut counted = Requests::new();
    cluster.each_request(|request| {
        let text = |pointer: &str| request.pointer(pointer).and_then(Value::as_str).unwrap_or_default();
        let (verb, resource, part) = (text("/verb"), text("/objectRef/resource"), text("/objectRef/subresource"));
        let component = component(text("/user/username"), text("/userAgent"));
        let code = request.pointer("/responseStatus/code").and_then(Value::as_u64).unwrap_or_default();
        if component.starts_with("volhost") {
            assert_ne!(code, 403, "{request}");
            assert!(verb != "get" || READ.contains(&resource), "{request}");
        }
        if verb == "watch" {
            return;
        }
        let part = if part.is_empty() { String::new() } else { format!("/{part}") };
        let refused = if code >= 300 { format!(", {code}") } else { String::new() };
        let of_component = counted.entry(component).or_default();
        *of_component.entry(format!("{verb} {resource}{part}{refused}")).or_default() += 1;
    });
    counted
}

/// The name of a component: of Kubernetes' controllers, that of their service account.
fn component(user: &str, agent: &str) -> String {
    match user.strip_prefix("system:serviceaccount:kube-system:") {
        Some(account) => format!("Kubernetes' {account}"),
        None => agent.split('/').next().unwrap_or_default().to_owned(),
    }
}
