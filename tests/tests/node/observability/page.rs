//! The status page: who gets it, what it says, and that a browser runs nothing of a manifest.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::Value;
use volhost_tests::Node;
use volhost_tests::manifests::pod;
use volhost_tests::wait::eventually;

use crate::observability::figures::{address, node_with_a_claim};
use volhost_tests::http::{request, request_of};

/// What would run if the page took it for HTML.
const HOSTILE: &str = "<script>document.title='HACKED'</script><img src=x onerror=document.title='HACKED'>";

fn state(address: SocketAddr, pod: &str) -> Value {
    let answer = request_of(address, "localhost", "GET", &format!("/state.json?pod={pod}"));
    assert_eq!(answer.status, 200, "{}", answer.body);
    assert!(answer.headers.contains("content-type: application/json"), "{}", answer.headers);
    serde_json::from_str(&answer.body).unwrap()
}

/// A node with one pod whose host path does not exist and has a hostile name.
fn hostile_node() -> Node {
    let node = Node::builder().arguments(&["--metrics-listen", "127.0.0.1:0"]).start();
    let volumes = [format!("name: data, hostPath: {{ path: \"/no/{HOSTILE}\", type: Directory }}")];
    let volumes: Vec<&str> = volumes.iter().map(String::as_str).collect();
    node.manifest("a.yaml", &pod("web", "uid-web", &volumes));
    node.manifest("b.yaml", &pod("fine", "uid-fine", &["name: scratch, emptyDir: {}"]));
    node.manifest("<b>bad.yaml", "kind: Pod\nmetadata: { name: [] }\n");
    node.wait_mounted("default/fine");
    node.wait_event(&["FailedMount", "HACKED"]);
    node
}

#[test]
fn the_page_is_one_file_with_a_strict_policy() {
    let node = node_with_a_claim(&["--metrics-listen", "127.0.0.1:0"]);
    let answer = request_of(address(&node), "localhost:9810", "GET", "/");
    assert_eq!(answer.status, 200);
    for header in [
        "content-type: text/html",
        "content-security-policy: default-src 'none'; script-src 'sha256-",
        "frame-ancestors 'none'",
        "x-content-type-options: nosniff",
        "x-frame-options: deny",
        "referrer-policy: no-referrer",
        "cache-control: no-store",
    ] {
        assert!(answer.headers.contains(header), "{header}: {}", answer.headers);
    }
    assert!(!answer.headers.contains("unsafe") && !answer.headers.contains("access-control"), "{}", answer.headers);
    assert_eq!(request_of(address(&node), "localhost", "POST", "/").status, 405);
    assert_eq!(request_of(address(&node), "localhost", "DELETE", "/state.json").status, 405);
}

#[test]
fn the_page_is_refused_to_other_sites_and_beyond_the_loopback_unless_it_is_wanted_there() {
    let local = node_with_a_claim(&["--metrics-listen", "127.0.0.1:0"]);
    for path in ["/", "/state.json"] {
        for name in ["evil.example", "127.0.0.1.evil.example"] {
            let answer = request_of(address(&local), name, "GET", path);
            assert_eq!(answer.status, 403, "{name}{path}");
            assert!(!answer.body.contains("default/a"), "{}", answer.body);
        }
    }
    let at_port = |node: &Node| SocketAddr::from(([127, 0, 0, 1], address(node).port()));
    let any = Node::builder().arguments(&["--metrics-listen", "0.0.0.0:0"]).start();
    // Though a client reaches it at a loopback address, too.
    assert_eq!(request_of(at_port(&any), "localhost", "GET", "/").status, 403);
    assert!(request_of(at_port(&any), "localhost", "GET", "/state.json").body.contains("--status-page everywhere"));
    assert_eq!(request(at_port(&any), "GET", "/metrics").status, 200);

    let wanted = Node::builder().arguments(&["--metrics-listen", "0.0.0.0:0", "--status-page", "everywhere"]).start();
    assert_eq!(request_of(at_port(&wanted), "node.example", "GET", "/").status, 200);
    let off = Node::builder().arguments(&["--metrics-listen", "127.0.0.1:0", "--status-page", "off"]).start();
    assert!(request(address(&off), "GET", "/").body.starts_with("volhost serves its metrics at /metrics"));
    assert_eq!(request_of(address(&off), "localhost", "GET", "/state.json").status, 404);
}

#[test]
fn a_pod_is_shown_from_its_arrival_over_failures_and_waits_until_it_is_ready() {
    let node = hostile_node();
    let address = address(&node);
    let fine = state(address, "default%2Ffine");
    let kinds = |document: &Value| {
        let entries = document["pod"]["timeline"].as_array().unwrap();
        entries.iter().map(|entry| entry["kind"].as_str().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(fine["pod"]["timeline"][0]["text"], "volhost learned of pod default/fine.");
    assert!(kinds(&fine).contains(&"done".to_owned()), "{fine}");
    let last = fine["pod"]["timeline"].as_array().unwrap().iter().rev().find(|entry| entry["kind"] == "milestone");
    assert!(last.unwrap()["text"].as_str().unwrap().contains("are ready"), "{fine}");

    // A failure, the wait for the next try, and the failure of that.
    let is_shown = || {
        let kinds = kinds(&state(address, "uid-web"));
        let count = |kind: &str| kinds.iter().filter(|one| *one == kind).count();
        count("failed") >= 2 && count("waiting") >= 2
    };
    assert!(eventually(is_shown), "{}", state(address, "uid-web"));
    let web = state(address, "uid-web");
    let explained = node.ok(&["explain", "pod", "web"]);
    let volume = web["volumes"].as_array().unwrap().iter().find(|volume| volume["name"] == "data").unwrap().clone();
    for sentence in volume["sentences"].as_array().unwrap() {
        let sentence = sentence.as_str().unwrap();
        // Those with a time in them differ between two moments.
        if !sentence.contains("next try") && !sentence.contains("in a row") {
            assert!(explained.contains(sentence), "{sentence:?} is not in {explained}");
        }
    }
    assert!(volume["sentences"].as_array().unwrap().len() >= 3, "{volume}");
    assert_eq!(state(address, "default%2Fnobody")["pod"]["gone"], true);
}

/// What a browser makes of a page, as HTML.
fn rendered(url: &str, screenshot: &std::path::Path) -> String {
    let output = Command::new("chromium-headless-shell")
        // The test is root, in a container perhaps; the page is the test's own.
        .args(["--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--window-size=1280,1000"])
        .args(["--virtual-time-budget=3000", "--dump-dom"])
        .arg(format!("--screenshot={}", screenshot.display()))
        .arg(url)
        .output()
        .expect("chromium-headless-shell runs; deploy/setup.sh --tests installs it");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn a_pod_among_thousands_is_found_by_a_browser() {
    let node = Node::builder().arguments(&["--metrics-listen", "127.0.0.1:0"]).start();
    // One file, so that the node has all of them at once. Nothing serves their volume.
    let pods: Vec<String> = (0..3000)
        .map(|number| {
            pod(&format!("web-{number}"), &format!("uid-{number}"), &["name: disk, flexVolume: { driver: a/b }"])
        })
        .collect();
    node.manifest("many.yaml", &pods.join("\n---\n"));
    node.wait_event(&["UnresolvedVolume", "web-2999"]);
    let address = address(&node);
    let first = state(address, "");
    assert_eq!(first["pods"].as_array().unwrap().len(), 500, "a page is bounded");
    assert_eq!(first["hidden"]["pods"], 2500);
    let screenshot = node.folder().join("page.png");
    let page = rendered(&format!("http://{address}/#default%2Fweb-2987?WEB-2987"), &screenshot);
    let list = page.split_once("<h2>Pods</h2>").map_or("", |(_, rest)| rest).split("<h2>Volumes</h2>").next().unwrap();
    assert!(list.contains(">default/web-2987<") && !list.contains("web-1<"), "{list}");
    assert_eq!(list.matches("<tr>").count(), 2, "the heads and one pod: {list}");
    assert!(page.contains("Timeline of pod default/web-2987"), "{page}");
    let none = rendered(&format!("http://{address}/#?no-such-pod"), &screenshot);
    assert!(none.contains("No pod has these words.") && none.contains("3000 "), "{none}");
}

#[test]
fn a_browser_shows_the_node_and_runs_nothing_of_a_manifest() {
    let node = hostile_node();
    let address = address(&node);
    // The second try has begun, so that the wait for it has ended.
    let has_waited = || {
        let entries = state(address, "uid-web")["pod"]["timeline"].as_array().unwrap().clone();
        entries.iter().any(|entry| entry["kind"] == "waiting" && entry["until"].is_number())
    };
    assert!(eventually(has_waited), "{}", state(address, "uid-web"));
    let screenshot = node.folder().join("page.png");
    let page = rendered(&format!("http://{address}/#default%2Fweb"), &screenshot);
    let body = page.split_once("<main>").map_or("", |(_, rest)| rest);
    let body = body.split("<script>").next().unwrap();
    assert!(page.contains("<title>volhost</title>"), "{page}");
    for shown in [
        ">live<",
        "Timeline of pod default/web",
        "volhost learned of pod default/web.",
        "waited for the next try",
        "Why volumes wait",
        "default/fine",
        "kubernetes.io/host-path",
        // Its name as text.
        "&lt;script&gt;document.title='HACKED'",
        "&lt;b&gt;bad.yaml",
    ] {
        assert!(page.contains(shown), "{shown:?} is not in {body}");
    }
    // Between two tries, or during one.
    let is_shown = |state: &str| body.contains(&format!("Volume data of pod default/web is {state}."));
    assert!(is_shown("not mounted") || is_shown("being mounted"), "{body}");
    assert!(!body.contains("<img") && !body.contains("<b>bad"), "{body}");
    // A picture of something: a blank page of this size has a few kilobytes.
    assert!(std::fs::metadata(&screenshot).unwrap().len() > 20_000);
}
