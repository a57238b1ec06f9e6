//! `volhost node-agent` while the API server is away or answers badly, and on nodes whose clock is
//! wrong.

use std::fs;
use std::path::Path;

use serde_json::Value;
use volhost_tests::wait::eventually;

use crate::agent_node::{AgentNode, config_map};
use crate::faults::Fault;

#[test]
fn without_the_api_server_every_volume_stays_and_what_has_changed_is_done_after_it() {
    let mut node = AgentNode::start("agent-outage");
    node.cluster.apply(&config_map("agent-outage", "before"));
    let volumes = "[{ name: vmap, configMap: { name: agent-outage } }, { name: vscratch, emptyDir: {} }]";
    let (stays, goes) = (node.pod("agent-stays", volumes), node.pod("agent-goes", volumes));
    let text = |uid: &str| node.file(uid, "kubernetes.io~configmap", "vmap/text");
    let (text_of_stays, text_of_goes) = (text(&stays), text(&goes));
    node.assert_content(&text_of_stays, "before");
    node.assert_content(&text_of_goes, "before");

    node.proxy.cut();
    node.cluster.apply(&config_map("agent-outage", "after"));
    node.delete_pod("agent-goes");
    let mounted = node.node.pod_mounts().len();
    // Neither an agent nor a daemon that is started again takes what it cannot ask for as gone.
    node.kill_agent();
    node.start_agent();
    node.node.kill();
    node.node.start();
    assert!(eventually(|| node.log().matches("a session with the daemon begins").count() >= 2), "{}", node.log());
    let seen = node.node.ok(&["get", "pods", "-A", "-o", "name"]);
    assert_eq!(seen.lines().count(), 2, "{seen}");
    assert_eq!(node.node.pod_mounts().len(), mounted, "{}", node.node.log());

    node.proxy.open();
    node.assert_content(&text_of_stays, "after");
    assert!(eventually(|| !text_of_goes.exists()), "{}\n{}", node.log(), node.node.log());
    assert!(text_of_stays.exists());
    node.delete_pod("agent-stays");
    node.assert_unmounted();
    node.assert_permitted();
}

/// What is known is kept while the API server answers badly, an agent that is started then included;
/// what has changed is done when it answers again, or, by lists, before that.
fn stays_mounted_through(fault: Fault, name: &'static str) {
    let mut node = AgentNode::start(name);
    let faults = node.reach_the_api_server_by_faults();
    let map = format!("{name}-map");
    node.cluster.apply(&config_map(&map, "before"));
    let volumes = format!("[{{ name: vmap, configMap: {{ name: {map} }} }}, {{ name: vscratch, emptyDir: {{}} }}]");
    let (web, again) = (format!("{name}-web"), format!("{name}-again"));
    let (stays, goes) = (node.pod(&web, &volumes), node.pod(&again, &volumes));
    let text = |node: &AgentNode, uid: &str| node.file(uid, "kubernetes.io~configmap", "vmap/text");
    for uid in [&stays, &goes] {
        node.assert_content(&text(&node, uid), "before");
    }

    faults.set(fault, "");
    node.cluster.apply(&config_map(&map, "after"));
    // Another pod of the same name.
    node.delete_pod(&again);
    assert!(eventually(|| node.cluster.try_kubectl(&["get", "pod", &again]).is_err()));
    let comes = node.pod(&again, &volumes);
    node.kill_agent();
    node.start_agent();
    node.node.kill();
    node.node.start();
    assert!(eventually(|| faults.answered() >= 8), "{} answers\n{}", faults.answered(), node.log());
    assert!(text(&node, &stays).exists(), "{}", node.node.log());
    let shown = node.node.ok(&["get", "pods", "-A", "-o", "wide"]);
    assert!(shown.contains(&web), "{shown}");
    if matches!(fault, Fault::TooManyRequests | Fault::Broken | Fault::Reset) {
        assert!(text(&node, &goes).exists(), "nobody knows that it is gone\n{}", node.node.log());
    }

    if matches!(fault, Fault::TooManyRequests | Fault::Broken | Fault::Reset) {
        faults.set(Fault::None, "");
    }
    node.assert_content(&text(&node, &comes), "after");
    node.assert_content(&text(&node, &stays), "after");
    assert!(eventually(|| !text(&node, &goes).exists()), "{}\n{}", node.log(), node.node.log());
    faults.set(Fault::None, "");
    for pod in [&web, &again] {
        node.delete_pod(pod);
    }
    node.assert_unmounted();
}

#[test]
fn an_api_server_that_has_too_much_to_do_costs_no_mount() {
    stays_mounted_through(Fault::TooManyRequests, "agent-throttled");
}

#[test]
fn an_api_server_that_is_broken_costs_no_mount() {
    stays_mounted_through(Fault::Broken, "agent-broken");
}

#[test]
fn watches_that_expire_cost_no_mount_and_no_change() {
    stays_mounted_through(Fault::WatchExpired, "agent-expired");
}

#[test]
fn connections_that_break_in_an_answer_cost_no_mount() {
    stays_mounted_through(Fault::Reset, "agent-reset");
}

#[test]
fn slow_answers_cost_no_mount_and_no_change() {
    stays_mounted_through(Fault::Slow, "agent-slow");
}

#[test]
fn a_pod_says_which_object_cannot_be_read_and_why() {
    let mut node = AgentNode::start("agent-unread");
    let faults = node.reach_the_api_server_by_faults();
    node.cluster.apply(&config_map("agent-unread", "here"));
    faults.set(Fault::TooManyRequests, "/configmaps");
    let uid = node.pod("agent-unread", "[{ name: vmap, configMap: { name: agent-unread } }]");
    let said = || node.cluster.kubectl(&["describe", "pod", "agent-unread"]);
    let why = "its volumes wait for what they name: ConfigMap default/agent-unread: the server has too much to do";
    assert!(eventually(|| said().contains(why)), "{}\n{}", said(), node.log());
    faults.set(Fault::None, "");
    node.assert_content(&node.file(&uid, "kubernetes.io~configmap", "vmap/text"), "here");
    node.delete_pod("agent-unread");
    node.assert_unmounted();
}

#[test]
fn tokens_of_many_pods_are_asked_for_some_at_once() {
    let mut node = AgentNode::start("agent-tokens");
    let faults = node.reach_the_api_server_by_faults();
    faults.set(Fault::Slow, "/token");
    let volumes = "[{ name: vtoken, projected: { sources: [{ serviceAccountToken: { path: token } }] } }]";
    let names: Vec<String> = (0..8).map(|at| format!("agent-token-{at}")).collect();
    for uid in names.iter().map(|name| node.pod(name, volumes)).collect::<Vec<_>>() {
        let token = node.file(&uid, "kubernetes.io~projected", "vtoken/token");
        assert!(eventually(|| token.exists()), "{}\n{}", node.log(), node.node.log());
    }
    assert_eq!(faults.most_at_once(), 4, "{} requests\n{}", faults.answered(), node.log());
    names.iter().for_each(|name| node.delete_pod(name));
    node.assert_unmounted();
}

#[test]
fn more_objects_than_one_connection_has_watches_are_read_and_again_after_an_outage() {
    const OBJECTS: usize = 150;
    let node = AgentNode::start("agent-many");
    let maps: Vec<String> = (0..OBJECTS).map(|at| config_map(&format!("agent-many-{at}"), "here")).collect();
    node.cluster.apply(&maps.join("\n---\n"));
    // From here on there is a connection for the others.
    let first = node.pod("agent-first", "[{ name: vmap, configMap: { name: agent-many-0 } }]");
    node.assert_content(&node.file(&first, "kubernetes.io~configmap", "vmap/text"), "here");
    let sources: Vec<String> = (0..OBJECTS)
        .map(|at| format!("{{ configMap: {{ name: agent-many-{at}, items: [{{ key: text, path: '{at}' }}] }} }}"))
        .collect();
    let uid =
        node.pod("agent-many", &format!("[{{ name: vall, projected: {{ sources: [{}] }} }}]", sources.join(", ")));
    node.assert_content(&node.file(&uid, "kubernetes.io~projected", &format!("vall/{}", OBJECTS - 1)), "here");
    // The last of them by name, whose watch begins last.
    node.cluster.apply(&config_map("agent-many-99", "changed"));
    node.assert_content(&node.file(&uid, "kubernetes.io~projected", "vall/99"), "changed");
    // All these watches end with an error, and begin again. None has something to tell then.
    node.proxy.cut();
    node.proxy.open();
    for at in (0..OBJECTS).step_by(15) {
        node.cluster.apply(&config_map(&format!("agent-many-{at}"), "after it"));
        node.assert_content(&node.file(&uid, "kubernetes.io~projected", &format!("vall/{at}")), "after it");
    }
    node.delete_pod("agent-many");
    node.delete_pod("agent-first");
    node.assert_unmounted();
}

/// A node whose clock differs from the cluster's by this much, as `+26h`.
fn serves_with_a_clock_that_is_wrong(by: &str, name: &'static str) {
    const LIBRARY: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketime.so.1";
    assert!(Path::new(LIBRARY).exists(), "Debian's package faketime is missing; run `deploy/setup.sh --tests`");
    let variables =
        [("LD_PRELOAD", LIBRARY), ("FAKETIME", by), ("FAKETIME_DONT_FAKE_MONOTONIC", "1"), ("FAKETIME_NO_CACHE", "1")];
    let mut node = AgentNode::prepare_with(name, &variables);
    // Certificates are of the cluster's time, and TLS refuses them on such a node: without it the
    // node's volumes can show whether they depend on the clock, too.
    let faults = node.faults();
    let kubeconfig = node.kubeconfig.display().to_string();
    node.node.add_arguments(&["--kubernetes", "--kubeconfig", &kubeconfig]);
    node.node.start();
    let map = format!("{name}-map");
    node.cluster.apply(&config_map(&map, "before"));
    let uid = node.pod(
        name,
        &format!(
            "[{{ name: vmap, configMap: {{ name: {map} }} }},
    {{ name: vtoken, projected: {{ sources: [{{ serviceAccountToken: {{ path: token, expirationSeconds: 600 }} }}] }} }}]"
        ),
    );
    let text = node.file(&uid, "kubernetes.io~configmap", "vmap/text");
    node.assert_content(&text, "before");
    let token = node.file(&uid, "kubernetes.io~projected", "vtoken/token");
    assert!(eventually(|| token.exists()), "{}", node.node.log());
    let is_good = |token: &Path| {
        let token = fs::read_to_string(token).unwrap();
        let review =
            format!("{{ apiVersion: authentication.k8s.io/v1, kind: TokenReview, spec: {{ token: {token} }} }}");
        let review = node.cluster.kubectl_with(&["create", "-o", "json", "-f", "-"], &review);
        serde_json::from_str::<Value>(&review).unwrap()["status"]["authenticated"] == true
    };
    assert!(is_good(&token));

    // What changes is seen, and a daemon that is started again goes on.
    node.cluster.apply(&config_map(&map, "after"));
    node.assert_content(&text, "after");
    node.node.kill();
    node.node.start();
    node.cluster.apply(&config_map(&map, "again"));
    node.assert_content(&text, "again");
    assert!(is_good(&token));
    // The pod has two tokens, and so has it again after the daemon's start: none is asked for over
    // and over because it seems to have expired.
    let agent = format!("({name})");
    let asks = |request: &&Value| {
        request["objectRef"]["subresource"] == "token"
            && request["userAgent"].as_str().is_some_and(|program| program.ends_with(&agent))
    };
    let asked = node.cluster.requests().iter().filter(asks).count();
    assert!((2..=4).contains(&asked), "{asked} requests for tokens\n{}", node.node.log());
    node.delete_pod(name);
    node.assert_unmounted();
    drop(faults);
}

#[test]
fn a_clock_that_is_a_day_behind_costs_no_mount() {
    serves_with_a_clock_that_is_wrong("-26h", "agent-behind");
}

#[test]
fn a_clock_that_is_a_day_ahead_costs_no_mount() {
    serves_with_a_clock_that_is_wrong("+26h", "agent-ahead");
}
