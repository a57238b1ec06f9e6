//! Types and functions, as they are written in WIT.

use wit_parser::{Function, FunctionKind, Handle, Resolve, Type, TypeDef, TypeDefKind, TypeId};

/// A type where it is used.
pub(crate) fn of_type(resolve: &Resolve, kind: &Type) -> String {
    let word = match kind {
        Type::Bool => "bool",
        Type::U8 => "u8",
        Type::U16 => "u16",
        Type::U32 => "u32",
        Type::U64 => "u64",
        Type::S8 => "s8",
        Type::S16 => "s16",
        Type::S32 => "s32",
        Type::S64 => "s64",
        Type::F32 => "f32",
        Type::F64 => "f64",
        Type::Char => "char",
        Type::String => "string",
        Type::ErrorContext => "error-context",
        Type::Id(id) => return of_id(resolve, *id),
    };
    word.to_owned()
}

fn of_id(resolve: &Resolve, id: TypeId) -> String {
    let Some(definition) = resolve.types.get(id) else { return "?".to_owned() };
    match &definition.name {
        Some(name) => name.clone(),
        None => of_kind(resolve, &definition.kind),
    }
}

fn optional(resolve: &Resolve, kind: Option<&Type>) -> String {
    kind.map_or_else(|| "_".to_owned(), |kind| of_type(resolve, kind))
}

fn of_kind(resolve: &Resolve, kind: &TypeDefKind) -> String {
    let one = |inner: &Type| of_type(resolve, inner);
    match kind {
        TypeDefKind::Handle(Handle::Own(id)) => of_id(resolve, *id),
        TypeDefKind::Handle(Handle::Borrow(id)) => format!("borrow<{}>", of_id(resolve, *id)),
        TypeDefKind::Option(inner) => format!("option<{}>", one(inner)),
        TypeDefKind::List(inner) => format!("list<{}>", one(inner)),
        TypeDefKind::FixedLengthList(inner, length) => format!("list<{}, {length}>", one(inner)),
        TypeDefKind::Map(key, value) => format!("map<{}, {}>", one(key), one(value)),
        TypeDefKind::Tuple(tuple) => format!("tuple<{}>", tuple.types.iter().map(one).collect::<Vec<_>>().join(", ")),
        TypeDefKind::Result(result) => match (&result.ok, &result.err) {
            (None, None) => "result".to_owned(),
            (Some(ok), None) => format!("result<{}>", one(ok)),
            (ok, err) => format!("result<{}, {}>", optional(resolve, ok.as_ref()), optional(resolve, err.as_ref())),
        },
        TypeDefKind::Future(inner) => format!("future<{}>", optional(resolve, inner.as_ref())),
        TypeDefKind::Stream(inner) => format!("stream<{}>", optional(resolve, inner.as_ref())),
        TypeDefKind::Type(inner) => one(inner),
        other => other.as_str().to_owned(),
    }
}

/// The definition of a named type, on one line. None for a name that comes from another interface.
pub(crate) fn of_definition(resolve: &Resolve, definition: &TypeDef) -> Option<String> {
    let listed = |items: Vec<String>| items.join(", ");
    Some(match &definition.kind {
        TypeDefKind::Resource => "resource".to_owned(),
        TypeDefKind::Record(record) => {
            let fields = record.fields.iter().map(|field| format!("{}: {}", field.name, of_type(resolve, &field.ty)));
            format!("record {{ {} }}", listed(fields.collect()))
        }
        TypeDefKind::Variant(variant) => {
            let cases = variant.cases.iter().map(|case| match &case.ty {
                Some(kind) => format!("{}({})", case.name, of_type(resolve, kind)),
                None => case.name.clone(),
            });
            format!("variant {{ {} }}", listed(cases.collect()))
        }
        TypeDefKind::Enum(words) => {
            format!("enum {{ {} }}", listed(words.cases.iter().map(|case| case.name.clone()).collect()))
        }
        TypeDefKind::Flags(flags) => {
            format!("flags {{ {} }}", listed(flags.flags.iter().map(|flag| flag.name.clone()).collect()))
        }
        TypeDefKind::Type(Type::Id(id)) if resolve.types.get(*id)?.owner != definition.owner => return None,
        other => format!("type = {}", of_kind(resolve, other)),
    })
}

/// A function behind its name: `func(size: u64) -> result<_, error>`.
pub(crate) fn of_function(resolve: &Resolve, function: &Function) -> String {
    let is_method = matches!(function.kind, FunctionKind::Method(_) | FunctionKind::AsyncMethod(_));
    let parameters: Vec<_> = function
        .params
        .iter()
        .skip(usize::from(is_method))
        .map(|parameter| format!("{}: {}", parameter.name, of_type(resolve, &parameter.ty)))
        .collect();
    let kind = match function.kind {
        FunctionKind::Static(_) => "static func",
        FunctionKind::Constructor(_) => "constructor",
        FunctionKind::Freestanding | FunctionKind::Method(_) => "func",
        _ => "async func",
    };
    let result = function.result.as_ref().map(|kind| format!(" -> {}", of_type(resolve, kind))).unwrap_or_default();
    format!("{kind}({}){result}", parameters.join(", "))
}
