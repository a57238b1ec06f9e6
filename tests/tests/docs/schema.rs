//! The published JSON Schema of what `volhost get`, `events`, `status` and `version` print as JSON.
//! It is made of the views' source: their fields, types and documentation.

use std::collections::BTreeMap;
use std::fs;
use std::path::PathBuf;

use serde_json::{Map, Value, json};
use syn::{Attribute, Fields, GenericArgument, Item, PathArguments, Type};
use volhost_tests::artifacts::workspace;

/// Set to write the schema anew.
const RECORD: &str = "RECORD_SCHEMA";
/// The source of what is printed.
const SOURCES: [&str; 2] = ["host/model/src/view.rs", "host/model/src/failure.rs"];
/// Fields that are times: `TIMES` of the command line.
const TIMES: [&str; 6] = ["since", "ready_at", "retry_at", "at", "measured_at", "asked_at"];
/// Structs that are a part of others.
const PARTS: [&str; 3] = ["UsageView", "ContainerMountView", "Failure"];

/// A kind of object: its name, the struct, and the fields that are elsewhere than in `status`.
struct Kind {
    name: &'static str,
    view: &'static str,
    /// Fields that are in `metadata`, and under which name.
    metadata: &'static [(&'static str, &'static str)],
    /// Fields that have another name.
    renamed: &'static [(&'static str, &'static str)],
}

const KINDS: [Kind; 8] = [
    Kind {
        name: "Pod",
        view: "PodView",
        metadata: &[
            ("name", "name"),
            ("namespace", "namespace"),
            ("uid", "uid"),
            ("labels", "labels"),
            ("since", "creationTimestamp"),
        ],
        renamed: &[],
    },
    // A volume that no pod wants has its name in the pod's folder.
    Kind {
        name: "Volume",
        view: "VolumeView",
        metadata: &[("name", "name"), ("since", "creationTimestamp")],
        renamed: &[],
    },
    Kind { name: "Plugin", view: "PluginView", metadata: &[("name", "name")], renamed: &[] },
    Kind { name: "Driver", view: "DriverView", metadata: &[("name", "name")], renamed: &[("kind", "protocol")] },
    Kind {
        name: "Operation",
        view: "OperationView",
        metadata: &[("volume", "name")],
        renamed: &[("name", "operation")],
    },
    Kind {
        name: "PersistentVolumeClaim",
        view: "ClaimView",
        metadata: &[("name", "name"), ("namespace", "namespace"), ("labels", "labels")],
        renamed: &[("reason", "message")],
    },
    Kind {
        name: "PersistentVolume",
        view: "PersistentVolumeView",
        metadata: &[("name", "name"), ("labels", "labels")],
        renamed: &[("reason", "message")],
    },
    Kind { name: "Event", view: "EventView", metadata: &[], renamed: &[("kind", "type"), ("at", "lastTimestamp")] },
];

/// A field of a struct.
struct FieldOf {
    name: String,
    schema: Value,
    is_required: bool,
}

/// The structs and enums of the sources.
#[derive(Default)]
struct Types {
    structs: BTreeMap<String, (String, Vec<FieldOf>)>,
    enums: BTreeMap<String, Value>,
}

/// The documentation of an item, its first paragraph as one line.
fn documentation(attributes: &[Attribute]) -> String {
    let lines = attributes.iter().filter_map(|attribute| {
        let syn::Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
        pair.path.is_ident("doc").then(|| text.value().trim().to_owned())
    });
    lines.take_while(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
}

fn has_serde(attributes: &[Attribute], word: &str) -> bool {
    let of_serde = attributes.iter().filter(|attribute| attribute.path().is_ident("serde"));
    of_serde
        .filter_map(|attribute| attribute.meta.require_list().ok())
        .any(|list| list.tokens.to_string().contains(word))
}

fn camel_case(name: &str) -> String {
    let mut words = name.split('_');
    let first = words.next().unwrap().to_owned();
    words.fold(first, |text, word| text + &word[..1].to_uppercase() + &word[1..])
}

fn kebab_case(name: &str) -> String {
    let mut text = String::new();
    for letter in name.chars() {
        if letter.is_uppercase() && !text.is_empty() {
            text.push('-');
        }
        text.extend(letter.to_lowercase());
    }
    text
}

/// The last part of a type's path, and its argument.
fn parts(kind: &Type) -> (String, Option<&Type>) {
    let Type::Path(path) = kind else { panic!("a type that is no path") };
    let last = path.path.segments.last().unwrap();
    let argument = match &last.arguments {
        PathArguments::AngleBracketed(arguments) => arguments.args.iter().rev().find_map(|one| match one {
            GenericArgument::Type(inner) => Some(inner),
            _ => None,
        }),
        _ => None,
    };
    (last.ident.to_string(), argument)
}

impl Types {
    fn read() -> Self {
        let mut types = Self::default();
        for source in SOURCES {
            let text = fs::read_to_string(workspace().join(source)).unwrap();
            let items = syn::parse_file(&text).unwrap().items;
            for item in &items {
                if let Item::Enum(one) = item {
                    let shown = |name: String| {
                        if has_serde(&one.attrs, "kebab-case") { kebab_case(&name) } else { name }
                    };
                    let words: Vec<_> = one.variants.iter().map(|variant| shown(variant.ident.to_string())).collect();
                    types.enums.insert(one.ident.to_string(), json!({"type": "string", "enum": words}));
                }
            }
            for item in items {
                let Item::Struct(one) = item else { continue };
                let Fields::Named(fields) = &one.fields else { continue };
                let fields = fields.named.iter().filter_map(|field| {
                    let name = field.ident.as_ref().unwrap().to_string();
                    // A private field of another struct is not printed.
                    matches!(field.vis, syn::Visibility::Public(_)).then(|| types.field(name, field))
                });
                let fields = fields.collect();
                types.structs.insert(one.ident.to_string(), (documentation(&one.attrs), fields));
            }
        }
        types
    }

    fn field(&self, name: String, field: &syn::Field) -> FieldOf {
        let (outer, argument) = parts(&field.ty);
        let kind = if outer == "Option" { argument.unwrap() } else { &field.ty };
        let mut schema = if TIMES.contains(&name.as_str()) {
            json!({"type": "string", "format": "date-time"})
        } else {
            self.schema(kind)
        };
        // What is empty or unknown is left out.
        let is_required = !["Option", "String"].contains(&outer.as_str())
            && !TIMES.contains(&name.as_str())
            && !has_serde(&field.attrs, "skip_serializing_if");
        let documentation = documentation(&field.attrs);
        schema.as_object_mut().unwrap().insert("description".to_owned(), documentation.into());
        FieldOf { name, schema, is_required }
    }

    fn schema(&self, kind: &Type) -> Value {
        let (name, argument) = parts(kind);
        match name.as_str() {
            "String" => json!({"type": "string"}),
            "u32" | "u64" => json!({"type": "integer", "minimum": 0}),
            "bool" => json!({"type": "boolean"}),
            "Box" => self.schema(argument.unwrap()),
            "Vec" => json!({"type": "array", "items": self.schema(argument.unwrap())}),
            "BTreeMap" => json!({"type": "object", "additionalProperties": {"type": "string"}}),
            // The volumes of a pod, in the form of a part.
            "VolumeView" => reference("PodVolume"),
            name if PARTS.contains(&name) => reference(name.trim_end_matches("View")),
            name => self.enums.get(name).unwrap_or_else(|| panic!("{name} is no type of the views")).clone(),
        }
    }

    /// An object with these fields of a struct.
    fn object(&self, view: &str, wanted: impl Fn(&str) -> Option<String>) -> Value {
        let (documentation, fields) = &self.structs[view];
        let mut properties = Map::new();
        let mut required = Vec::new();
        for field in fields {
            let Some(name) = wanted(&field.name) else { continue };
            if field.is_required {
                required.push(name.clone());
            }
            properties.insert(name, field.schema.clone());
        }
        json!({"type": "object", "description": documentation, "properties": properties, "required": required})
    }

    fn kind(&self, kind: &Kind) -> Value {
        let moved = |name: &str| kind.metadata.iter().find(|(from, _)| *from == name).map(|(_, to)| (*to).to_owned());
        let renamed = |name: &str| {
            let to = kind.renamed.iter().find(|(from, _)| *from == name);
            to.map_or_else(|| camel_case(name), |(_, to)| (*to).to_owned())
        };
        let mut metadata = self.object(kind.view, moved);
        metadata["description"] = "Which object it is.".into();
        let names = &mut metadata["properties"];
        for (name, of) in [("name", ["Volume", "Event"]), ("namespace", ["Volume", ""])] {
            if of.contains(&kind.name) {
                names[name] = json!({"type": "string"});
            }
        }
        // Labels of a pod of which only the uid is known.
        metadata.as_object_mut().unwrap().remove("required");
        let mut rest = self.object(kind.view, |name| moved(name).is_none().then(|| renamed(name)));
        if kind.name != "Event" {
            rest["properties"]["reason"] =
                json!({"type": "string", "description": "Why it is not as it should be, in a word."});
        }
        let mut properties = json!({
            "apiVersion": {"const": "volhost.io/v1"},
            "kind": {"const": kind.name},
            "metadata": metadata,
        });
        let description = rest["description"].take();
        rest.as_object_mut().unwrap().remove("description");
        let mut required = vec![json!("apiVersion"), json!("kind"), json!("metadata")];
        // As in Kubernetes, an event has no status.
        if kind.name == "Event" {
            let fields = rest["properties"].as_object().unwrap().clone();
            required.extend(rest["required"].as_array().unwrap().iter().cloned());
            properties.as_object_mut().unwrap().extend(fields);
        } else {
            properties["status"] = rest;
            required.push(json!("status"));
        }
        json!({"type": "object", "description": description, "properties": properties, "required": required})
    }
}

fn reference(name: &str) -> Value {
    json!({"$ref": format!("#/$defs/{name}")})
}

/// `status -o json` and `version -o json`, which have no view.
fn documents() -> [(&'static str, Value); 2] {
    let text = json!({"type": "string"});
    let counts = |of: &str| json!({"type": "object", "description": format!("How many {of} there are in each state."), "additionalProperties": {"type": "integer", "minimum": 0}});
    let entries = |description: &str, properties: Value| {
        let required: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
        json!({"type": "array", "description": description, "items": {"type": "object", "properties": properties, "required": required}})
    };
    let closed = |description: &str, mut properties: Value, optional: &[&str]| {
        properties["apiVersion"] = json!({"const": "volhost.io/v1"});
        let all = properties.as_object().unwrap().keys();
        let required: Vec<String> = all.filter(|name| !optional.contains(&name.as_str())).cloned().collect();
        json!({"type": "object", "description": description, "properties": properties, "required": required})
    };
    let status = closed(
        "The node's health.",
        json!({
            "kind": {"const": "Status"},
            "healthy": {"type": "boolean", "description": "There is no problem."},
            "root": {"type": "string", "description": "The root folder."},
            "version": {"type": "string", "description": "The daemon's version."},
            "pid": {"type": "integer", "description": "The daemon's process."},
            "startTime": {"type": "string", "format": "date-time"},
            "synced": {"type": "boolean", "description": "Every source of pods has been read."},
            "draining": {"type": "boolean", "description": "Nothing is mounted until the drain is ended."},
            "manifestErrors": entries("Manifests that cannot be used.", json!({"file": text, "messages": {"type": "array", "items": text}})),
            "problems": entries("What is not as it should be.", json!({"object": text, "message": text})),
            "lastWarnings": entries("The newest events of type Warning.", json!({
                "lastTimestamp": {"type": "string", "format": "date-time"}, "reason": text, "object": text,
                "message": text, "count": {"type": "integer", "minimum": 1},
            })),
            "pods": counts("pods"), "volumes": counts("volumes"), "plugins": counts("plugins"), "drivers": counts("drivers"),
        }),
        &[],
    );
    let part = |description: &str, properties: Value| closed_part(description, &properties);
    let version = closed(
        "The versions of the command line and the daemon.",
        json!({
            "kind": {"const": "Version"},
            "client": part("The command line.", json!({"version": text, "contract": {"type": "string", "description": "The plugin contract's version."}})),
            "server": part("The daemon; not with --client.", json!({"version": text, "api": {"type": "string", "description": "The API's version."}, "pid": {"type": "integer"}})),
        }),
        &["server"],
    );
    [("Status", status), ("Version", version)]
}

fn closed_part(description: &str, properties: &Value) -> Value {
    let required: Vec<String> = properties.as_object().unwrap().keys().cloned().collect();
    json!({"type": "object", "description": description, "properties": properties, "required": required})
}

/// The whole schema.
fn schema() -> Value {
    let types = Types::read();
    let mut definitions = Map::new();
    for part in PARTS {
        definitions.insert(part.trim_end_matches("View").to_owned(), types.object(part, |name| Some(camel_case(name))));
    }
    definitions.insert("PodVolume".to_owned(), types.object("VolumeView", |name| Some(camel_case(name))));
    for kind in &KINDS {
        definitions.insert(kind.name.to_owned(), types.kind(kind));
    }
    let objects: Vec<Value> = KINDS.iter().map(|kind| reference(kind.name)).collect();
    definitions.insert("Object".to_owned(), json!({"oneOf": objects}));
    definitions.insert(
        "List".to_owned(),
        json!({
            "type": "object",
            "description": "Objects, as `volhost get -o json` prints several.",
            "properties": {
                "apiVersion": {"const": "v1"},
                "kind": {"const": "List"},
                "metadata": {"type": "object", "properties": {"resourceVersion": {"type": "string"}}},
                "items": {"type": "array", "items": reference("Object")},
            },
            "required": ["apiVersion", "kind", "items"],
        }),
    );
    definitions.insert(
        "Change".to_owned(),
        json!({
            "type": "object",
            "description": "A line of `volhost get --watch -o json`.",
            "properties": {"type": {"enum": ["ADDED", "MODIFIED", "DELETED"]}, "object": reference("Object")},
            "required": ["type", "object"],
        }),
    );
    let mut all = vec![reference("Object"), reference("List"), reference("Change")];
    for (name, document) in documents() {
        definitions.insert(name.to_owned(), document);
        all.push(reference(name));
    }
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "$id": "https://volhost.io/schema/v1.json",
        "title": "volhost.io/v1",
        "description": "What volhost's get, events, status and version print with -o json. Later versions may add fields.",
        "oneOf": all,
        "$defs": definitions,
    })
}

fn file() -> PathBuf {
    workspace().join("deploy/schema/volhost.io-v1.json")
}

#[test]
fn the_published_schema_is_that_of_the_views() {
    let text = format!("{}\n", serde_json::to_string_pretty(&schema()).unwrap());
    if std::env::var_os(RECORD).is_some() {
        fs::create_dir_all(file().parent().unwrap()).unwrap();
        fs::write(file(), text).unwrap();
        return;
    }
    let published = fs::read_to_string(file()).unwrap_or_default();
    assert!(
        published == text,
        "{} is not that of the views. After a change that is meant: {RECORD}=1 cargo test --test docs schema",
        file().display()
    );
}
