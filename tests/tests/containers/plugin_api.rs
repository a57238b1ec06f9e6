//! What no engine sends on a good day: bad requests, many at once, a client that breaks off.

use std::io::Write as _;
use std::os::unix::net::UnixStream;
use std::path::Path;

use volhost_tests::wait::eventually;

use crate::kit::Host;

#[test]
fn bad_requests_are_refused_by_field_and_take_nothing_down() {
    let host = Host::with_plugin();
    for (call, body, words) in [
        ("VolumeDriver.Create", r#"{"Name":"../x","Opts":{"plugin":"loop"}}"#, "name:"),
        (
            "VolumeDriver.Create",
            r#"{"Name":"x","Opts":{"plugin":"loop","size":"99999999999999999999"}}"#,
            "option size:",
        ),
        ("VolumeDriver.Create", r#"{"Name":7}"#, "not valid"),
        ("VolumeDriver.Create", "{", "not valid"),
        ("VolumeDriver.Get", r#"{"Name":"x"}"#, "there is no volume"),
        ("VolumeDriver.Mount", r#"{"Name":"x","ID":"a/b"}"#, "id:"),
        ("VolumeDriver.Mount", r#"{"Name":"x","ID":"a"}"#, "there is no volume x"),
        ("VolumeDriver.Remove", r#"{"Name":"x"}"#, "there is no volume x"),
        ("VolumeDriver.NoSuch", "{}", "there is no call"),
        ("VolumeDriver.Create", &"x".repeat(100 << 10), "bytes at most"),
    ] {
        let answer = host.call(call, body);
        assert!(answer["Err"].as_str().is_some_and(|why| why.contains(words)), "{call} {words}: {answer}");
    }
    assert_eq!(host.call("Plugin.Activate", "")["Implements"][0], "VolumeDriver");
    assert_eq!(host.call("VolumeDriver.Capabilities", "{}")["Capabilities"]["Scope"], "local");
    assert_eq!(host.call("VolumeDriver.List", "")["Volumes"], serde_json::json!([]));
    host.assert_clean();
}

#[test]
fn a_thousand_calls_at_once_are_all_answered() {
    let host = Host::with_plugin();
    host.node.ok(&["volume", "create", "data", "-o", "plugin=loop", "-o", "size=8m"]);
    let socket = host.node.path(Path::new(Host::SOCKET));
    let ask = |call: &str, body: String| {
        let mut stream = UnixStream::connect(&socket).unwrap();
        write!(
            stream,
            "POST /VolumeDriver.{call} HTTP/1.1\r\nHost: d\r\nConnection: close\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        )
        .unwrap();
        std::io::read_to_string(stream).unwrap()
    };
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..1000)
            .map(|number| {
                let ask = &ask;
                scope.spawn(move || match number % 10 {
                    0 => ask("Mount", format!(r#"{{"Name":"data","ID":"{number}"}}"#)),
                    _ => ask("Get", r#"{"Name":"data"}"#.to_owned()),
                })
            })
            .collect();
        for call in calls {
            let answer = call.join().unwrap();
            assert!(answer.starts_with("HTTP/1.1 200") && answer.contains(r#""Err":"""#), "{answer}");
        }
    });
    assert_eq!(host.users("data"), 100);
    for number in (0..1000).step_by(10) {
        host.call("VolumeDriver.Unmount", &format!(r#"{{"Name":"data","ID":"{number}"}}"#));
    }
    assert_eq!(host.call("VolumeDriver.Remove", r#"{"Name":"data"}"#)["Err"], "");
    host.assert_clean();
}

/// Asks for a mount for the user `a`, and closes the connection while the daemon cannot answer.
fn break_off_a_mount(host: &Host) {
    host.node.poke("-STOP");
    let mut stream = UnixStream::connect(host.node.path(Path::new(Host::SOCKET))).unwrap();
    let body = r#"{"Name":"data","ID":"a"}"#;
    write!(stream, "POST /VolumeDriver.Mount HTTP/1.1\r\nHost: d\r\nContent-Length: {}\r\n\r\n{body}", body.len())
        .unwrap();
    drop(stream);
    host.node.poke("-CONT");
}

/// Podman has one id for all of its containers.
#[test]
fn a_user_that_has_the_volume_keeps_it_when_another_mount_of_it_breaks_off() {
    let host = Host::with_plugin();
    host.node.ok(&["volume", "create", "data", "-o", "plugin=loop", "-o", "size=8m"]);
    assert_eq!(host.call("VolumeDriver.Mount", r#"{"Name":"data","ID":"a"}"#)["Err"], "");
    for _ in 0..20 {
        break_off_a_mount(&host);
        assert_eq!(host.call("VolumeDriver.Get", r#"{"Name":"data"}"#)["Err"], "");
        assert_eq!(host.users("data"), 1);
    }
    assert_eq!(host.node.pod_mounts().len(), 1);
    assert_eq!(host.call("VolumeDriver.Unmount", r#"{"Name":"data","ID":"a"}"#)["Err"], "");
    host.node.ok(&["volume", "rm", "data"]);
    host.assert_clean();
}

#[test]
fn a_mount_whose_client_breaks_off_is_undone() {
    let host = Host::with_plugin();
    host.node.ok(&["volume", "create", "data", "-o", "plugin=loop", "-o", "size=8m"]);
    break_off_a_mount(&host);
    assert!(eventually(|| host.users("data") == 0));
    host.node.ok(&["volume", "rm", "data"]);
    host.assert_clean();
}
