use std::ffi::OsString;
use std::num::NonZeroUsize;

use clap::{Args, Command, FromArgMatches};

use super::*;

fn flags(arguments: &[&str]) -> Settings {
    let command = Settings::augment_args(Command::new("volhost").no_binary_name(true));
    Settings::from_arg_matches(&command.try_get_matches_from(arguments).unwrap()).unwrap()
}

fn environment(variables: &[(&str, &str)]) -> EnvironmentVariables {
    EnvironmentVariables::from_variables(
        variables.iter().map(|(name, value)| (OsString::from(name), OsString::from(value))),
    )
}

fn with_file(text: &str) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("config.toml");
    fs::write(&file, text).unwrap();
    (folder, file)
}

fn refused(text: &str) -> String {
    let (_folder, file) = with_file(text);
    let error =
        load(Settings::default(), Some(file.clone()), &EnvironmentVariables::default()).unwrap_err().to_string();
    error.replace(&file.display().to_string(), "FILE")
}

#[test]
fn the_command_line_wins_over_the_environment_over_the_file_over_the_default() {
    let (_folder, file) = with_file("root-dir = '/file'\nplugin-dir = '/file'\ncache-dir = '/file'\nnode-name = 'n'");
    let environment = environment(&[("VOLHOST_ROOT_DIR", "/variable"), ("VOLHOST_PLUGIN_DIR", "/variable")]);
    let config = load(flags(&["--root-dir", "/flag"]), Some(file), &environment).unwrap();
    assert_eq!(config.root_dir, Path::new("/flag"));
    assert_eq!(config.plugin_dir, Path::new("/variable"));
    assert_eq!(config.cache_dir, Path::new("/file"));
    assert_eq!(config.socket, Path::new(DEFAULT_SOCKET));
    assert_eq!(config.operation_deadline, DEFAULT_OPERATION_DEADLINE);
    assert!((16..=64).contains(&config.max_operations.get()));
}

#[test]
fn a_signing_key_and_its_issuer_go_together() {
    for (given, missing) in [("--token-signing-key", "token-issuer"), ("--token-issuer", "token-signing-key")] {
        let error =
            load(flags(&["--node-name", "n", given, "/x"]), None, &EnvironmentVariables::default()).unwrap_err();
        assert!(error.to_string().contains(missing), "{error}");
    }
}

#[test]
fn a_tokens_longest_life_goes_with_its_signing_and_is_long_enough_to_renew_it() {
    for (more, says) in [
        (&["--token-max-lifetime", "1h"][..], "goes with token-signing-key"),
        (&["--token-max-lifetime", "9s", "--token-signing-key", "/k", "--token-issuer", "i"], "10 s at least"),
    ] {
        let error =
            load(flags(&[&["--node-name", "n"], more].concat()), None, &EnvironmentVariables::default()).unwrap_err();
        assert!(error.to_string().contains(says) && error.to_string().contains("token-max-lifetime"), "{error}");
    }
}

#[test]
fn every_option_can_be_given_in_the_file_and_in_the_environment() {
    let text = "
        root-dir = '/r'\nplugin-dir = '/p'\nmanifests = '/m'\nplugin-registry = '/y'\nmanifest-grace = '20s'\nshipped-plugins = '/l'\nsocket = '/s'\nsocket-group = 'g'\nnode-name = 'n'\nnode-label = ['a=b', 'c=d']\ncache-dir = '/c'
        log-format = 'json'\nlog-level = 'debug'\nmetrics-listen = '127.0.0.1:9810'\nstatus-page = 'off'\notlp-endpoint = 'unix:/o'\noperation-deadline = '1m'\nplugin-cpu-time = '1s'\nmax-operations = 3\ncontroller-attaches = true\nkubernetes = true\nkubeconfig = '/k8s'\nscope = 'label:a=b'\nverify-attached = '10s'\nrefresh-period = '20s'\nflex-driver-dir = '/d'\ntrusted-keys = '/t'\nrequire-signature = true\ncluster-plugins = true\nprovision = true\nreclaim-grace = '30m'\ntoken-signing-key = '/k'\ntoken-issuer = 'https://i'\ntoken-max-lifetime = '1h'\nready-file = '/f'";
    // The list of shipped plugins is read, so it has to exist.
    let lists = tempfile::tempdir().unwrap();
    let list = lists.path().join("shipped-plugins.sha256");
    fs::write(&list, format!("{}  empty-dir.wasm\n", "0".repeat(64))).unwrap();
    let list = list.to_str().unwrap();
    let (_folder, file) = with_file(&text.replace("'/l'", &format!("'{list}'")));
    let from_file = load(Settings::default(), Some(file), &EnvironmentVariables::default()).unwrap();
    let variables = [
        ("VOLHOST_ROOT_DIR", "/r"),
        ("VOLHOST_PLUGIN_DIR", "/p"),
        ("VOLHOST_MANIFESTS", "/m"),
        ("VOLHOST_PLUGIN_REGISTRY", "/y"),
        ("VOLHOST_MANIFEST_GRACE", "20s"),
        ("VOLHOST_SHIPPED_PLUGINS", list),
        ("VOLHOST_SOCKET", "/s"),
        ("VOLHOST_SOCKET_GROUP", "g"),
        ("VOLHOST_NODE_NAME", "n"),
        ("VOLHOST_NODE_LABEL", "a=b,c=d"),
        ("VOLHOST_CACHE_DIR", "/c"),
        ("VOLHOST_LOG_FORMAT", "json"),
        ("VOLHOST_LOG_LEVEL", "debug"),
        ("VOLHOST_METRICS_LISTEN", "127.0.0.1:9810"),
        ("VOLHOST_STATUS_PAGE", "off"),
        ("VOLHOST_OTLP_ENDPOINT", "unix:/o"),
        ("VOLHOST_OPERATION_DEADLINE", "1m"),
        ("VOLHOST_PLUGIN_CPU_TIME", "1s"),
        ("VOLHOST_MAX_OPERATIONS", "3"),
        ("VOLHOST_CONTROLLER_ATTACHES", "true"),
        ("VOLHOST_KUBERNETES", "true"),
        ("VOLHOST_KUBECONFIG", "/k8s"),
        ("VOLHOST_SCOPE", "label:a=b"),
        ("VOLHOST_VERIFY_ATTACHED", "10s"),
        ("VOLHOST_REFRESH_PERIOD", "20s"),
        ("VOLHOST_FLEX_DRIVER_DIR", "/d"),
        ("VOLHOST_TRUSTED_KEYS", "/t"),
        ("VOLHOST_REQUIRE_SIGNATURE", "true"),
        ("VOLHOST_CLUSTER_PLUGINS", "true"),
        ("VOLHOST_PROVISION", "true"),
        ("VOLHOST_RECLAIM_GRACE", "30m"),
        ("VOLHOST_TOKEN_SIGNING_KEY", "/k"),
        ("VOLHOST_TOKEN_ISSUER", "https://i"),
        ("VOLHOST_TOKEN_MAX_LIFETIME", "1h"),
        ("VOLHOST_READY_FILE", "/f"),
    ];
    let from_environment = load(Settings::default(), None, &environment(&variables)).unwrap();
    assert_eq!(RunConfig { file: None, ..from_file.clone() }, from_environment);
    assert_eq!(from_file.token_signing.as_ref().map(|signing| signing.issuer.as_str()), Some("https://i"));
    assert_eq!(from_file.node_labels.get("c").map(String::as_str), Some("d"));
    assert_eq!(from_file.node_labels.get("kubernetes.io/hostname").map(String::as_str), Some("n"));
    // The list above is complete: each option's name is among the variables.
    let command = Settings::augment_args(Command::new("volhost"));
    for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
        assert!(variables.iter().any(|(name, _)| *name == super::super::variable(option)), "{option}");
    }
}

#[test]
fn in_a_cluster_a_controller_attaches_unless_the_operator_says_otherwise() {
    let given = |more: &[&str]| {
        let all = [&["--node-name", "n"], more].concat();
        load(flags(&all), None, &EnvironmentVariables::default()).map_err(|error| error.to_string())
    };
    let config = given(&["--kubernetes"]).unwrap();
    let options = config.kubernetes.unwrap();
    assert!(config.controller_attaches && options.kubeconfig.is_none() && options.scope.is_whole_node());
    assert!(!given(&["--kubernetes", "--controller-attaches=false"]).unwrap().controller_attaches);
    let without = given(&[]).unwrap();
    assert!(!without.controller_attaches && without.kubernetes.is_none());
    for (option, value) in [("kubeconfig", "/k"), ("scope", "label:a")] {
        let refused = given(&[&format!("--{option}"), value]).unwrap_err();
        assert!(refused.starts_with(option) && refused.contains("goes with kubernetes"), "{refused}");
    }
}

#[test]
fn an_unknown_key_is_named_with_its_line_and_the_keys_there_are() {
    let error = refused("root-dir = '/r'\n\nroto-dir = '/r'\n");
    assert!(
        error.starts_with("the configuration file FILE, line 3, key roto-dir: unknown field `roto-dir`"),
        "{error}"
    );
    assert!(error.contains("`root-dir`"), "{error}");
}

#[test]
fn a_bad_value_is_named_with_line_and_key() {
    for (line, says) in [
        ("operation-deadline = '5'", "a number without a unit"),
        ("operation-deadline = 5", "expected a string"),
        ("log-level = 'loud'", "is no log level"),
        ("log-format = 'xml'", "unknown variant `xml`"),
        ("metrics-listen = '9810'", "invalid socket address"),
        ("otlp-endpoint = 'https://a:1'", "does not support TLS"),
        ("max-operations = 0", "nonzero"),
        ("node-label = ['ab']", "is no label"),
        ("scope = 'pods'", "is no scope"),
    ] {
        let error = refused(&format!("root-dir = '/r'\n{line}\n"));
        let key = line.split(' ').next().unwrap_or_default();
        assert!(error.starts_with(&format!("the configuration file FILE, line 2, key {key}")), "{error}");
        assert!(error.contains(says), "{error}");
    }
}

#[test]
fn a_bad_grant_is_named_with_its_key() {
    let error = refused("[grants.'a.b/c']\ninterfaces = ['everything']\n");
    assert!(error.contains("line 2, key grants.a.b/c.interfaces"), "{error}");
    assert!(error.contains("there is no interface \"everything\" to grant"), "{error}");
}

#[test]
fn what_is_not_toml_is_refused_with_its_line() {
    let error = refused("root-dir = '/r'\nplugin-dir = \n");
    assert!(error.starts_with("the configuration file FILE, line 2"), "{error}");
}

#[test]
fn a_bad_variable_is_named() {
    let bad = [("VOLHOST_OPERATION_DEADLINE", "5"), ("VOLHOST_LOG_FORMAT", "xml"), ("VOLHOST_MAX_OPERATIONS", "0")];
    for (name, value) in bad {
        let error = load(Settings::default(), None, &environment(&[(name, value)])).unwrap_err().to_string();
        assert!(
            error.starts_with(&format!("the environment variable {name}: the value \"{value}\" does not fit")),
            "{error}"
        );
    }
    let error =
        load(Settings::default(), None, &environment(&[("VOLHOST_LOG_FORMAT", "xml")])).unwrap_err().to_string();
    assert!(error.ends_with("it must be one of text, json"), "{error}");
}

#[test]
fn a_missing_file_is_named() {
    let error = load(Settings::default(), Some("/nowhere/config.toml".into()), &EnvironmentVariables::default())
        .unwrap_err()
        .to_string();
    assert_eq!(
        error,
        "cannot read the configuration file /nowhere/config.toml: No such file or directory (os error 2)"
    );
    let by_variable = environment(&[("VOLHOST_CONFIG", "/nowhere/config.toml")]);
    assert!(load(Settings::default(), None, &by_variable).is_err());
}

#[test]
fn an_empty_variable_counts_as_not_set() {
    let config =
        load(Settings::default(), None, &environment(&[("VOLHOST_ROOT_DIR", ""), ("VOLHOST_NODE_NAME", "n")])).unwrap();
    assert_eq!(config.root_dir, Path::new(DEFAULT_ROOT_DIR));
}

#[test]
fn a_duration_of_zero_and_a_bad_node_name_are_refused() {
    let zero = load(flags(&["--operation-deadline", "0", "--node-name", "n"]), None, &EnvironmentVariables::default())
        .unwrap_err();
    assert_eq!(zero.to_string(), "operation-deadline: it must be longer than 0");
    let name = load(flags(&["--node-name", "a/b"]), None, &EnvironmentVariables::default()).unwrap_err();
    assert!(name.to_string().starts_with("node-name: the node's name \"a/b\" is not valid"), "{name}");
}

#[test]
fn the_default_number_of_operations_follows_the_processors() {
    let default = |processors| super::default_max_operations(NonZeroUsize::new(processors).unwrap()).get();
    assert_eq!([1, 2, 4, 8, 256].map(default), [16, 16, 32, 64, 64]);
}

#[test]
fn the_documented_file_is_a_valid_one() {
    let page = include_str!("../../../../docs/configuration.md");
    let blocks: Vec<&str> = page.split("```toml\n").skip(1).filter_map(|rest| rest.split("```").next()).collect();
    assert_eq!(blocks.len(), 7);
    for block in blocks {
        toml::from_str::<Settings>(block).unwrap();
    }
}
