//! The registration sockets of drivers, as a gauge under the kubelet's name.

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use volhost_csi::RegistrationSocket;

/// How many sockets are shown, the first by name. Every user who may write to the registry's folder
/// adds some.
const SOCKETS: usize = 64;

/// A socket and a state.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct SocketLabels {
    socket_path: String,
    state: &'static str,
}

/// Registers the sockets.
pub(super) fn register(registry: &mut Registry, sockets: &[RegistrationSocket]) {
    let plugins = Family::<SocketLabels, Gauge>::default();
    for RegistrationSocket { path, is_registered } in sockets.iter().take(SOCKETS) {
        for (state, count) in [("desired_state_of_world", 1), ("actual_state_of_world", i64::from(*is_registered))] {
            let labels = SocketLabels { socket_path: path.display().to_string(), state };
            plugins.get_or_create(&labels).set(count);
        }
    }
    registry.register(
        "plugin_manager_total_plugins",
        "Registration sockets of drivers: found in the registry's folder, and registered",
        plugins,
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_socket_counts_as_desired_and_once_registered_as_actual() {
        let socket = |number: usize| RegistrationSocket {
            path: format!("/reg/{number:03}.sock").into(),
            is_registered: number == 0,
        };
        let sockets: Vec<RegistrationSocket> = (0..100).map(socket).collect();
        let (mut registry, mut text) = (Registry::default(), String::new());
        register(&mut registry, &sockets);
        prometheus_client::encoding::text::encode(&mut text, &registry).unwrap();
        for line in [
            r#"plugin_manager_total_plugins{socket_path="/reg/000.sock",state="desired_state_of_world"} 1"#,
            r#"plugin_manager_total_plugins{socket_path="/reg/000.sock",state="actual_state_of_world"} 1"#,
            r#"plugin_manager_total_plugins{socket_path="/reg/001.sock",state="desired_state_of_world"} 1"#,
            r#"plugin_manager_total_plugins{socket_path="/reg/001.sock",state="actual_state_of_world"} 0"#,
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
        assert_eq!(text.matches("socket_path=").count(), 2 * SOCKETS);
    }
}
