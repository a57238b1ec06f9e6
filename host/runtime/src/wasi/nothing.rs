//! The answer of a machine that has nothing, to a question of any type.

use wasmtime::component::{Type, Val};

use crate::abort::Abort;

/// What an error says when it can say one of these, the best first.
const DENIED: &[&str] = &[
    "access-denied",
    "access",
    "not-permitted",
    "HTTP-request-denied",
    "forbidden",
    "closed",
    "unsupported",
    "not-supported",
];

/// Nothing, as a value of this type: an empty list, none, 0, an error. `handle` makes a handle of something empty.
///
/// # Errors
/// [`Abort`] for a type that no function of WASI 0.2 answers with, and what `handle` fails with.
pub(super) fn nothing(ty: &Type, handle: &mut dyn FnMut() -> wasmtime::Result<Val>) -> wasmtime::Result<Val> {
    Ok(match ty {
        Type::Bool => Val::Bool(false),
        Type::S8 => Val::S8(0),
        Type::U8 => Val::U8(0),
        Type::S16 => Val::S16(0),
        Type::U16 => Val::U16(0),
        Type::S32 => Val::S32(0),
        Type::U32 => Val::U32(0),
        Type::S64 => Val::S64(0),
        Type::U64 => Val::U64(0),
        Type::Float32 => Val::Float32(0.0),
        Type::Float64 => Val::Float64(0.0),
        Type::Char => Val::Char(' '),
        Type::String => Val::String(String::new()),
        Type::List(_) => Val::List(Vec::new()),
        Type::Option(_) => Val::Option(None),
        Type::Flags(_) => Val::Flags(Vec::new()),
        Type::Own(_) => handle()?,
        Type::Record(record) => {
            let fields = record.fields().map(|field| Ok((field.name.to_owned(), nothing(&field.ty, handle)?)));
            Val::Record(fields.collect::<wasmtime::Result<_>>()?)
        }
        Type::Tuple(tuple) => {
            Val::Tuple(tuple.types().map(|ty| nothing(&ty, handle)).collect::<wasmtime::Result<_>>()?)
        }
        Type::Enum(cases) => {
            let best = DENIED.iter().copied().find(|denied| cases.names().any(|name| name == *denied));
            let case = best.map(str::to_owned).or_else(|| cases.names().next().map(str::to_owned));
            Val::Enum(case.ok_or_else(|| unanswerable(ty))?)
        }
        Type::Variant(variant) => {
            let best = DENIED.iter().find_map(|denied| variant.cases().find(|case| case.name == *denied));
            let bare = best.or_else(|| variant.cases().find(|case| case.ty.is_none()));
            let case = bare.or_else(|| variant.cases().next()).ok_or_else(|| unanswerable(ty))?;
            let payload = case.ty.map(|ty| nothing(&ty, handle).map(Box::new)).transpose()?;
            Val::Variant(case.name.to_owned(), payload)
        }
        Type::Result(result) => {
            Val::Result(Err(result.err().map(|ty| nothing(&ty, handle).map(Box::new)).transpose()?))
        }
        _ => return Err(unanswerable(ty).into()),
    })
}

fn unanswerable(ty: &Type) -> Abort {
    Abort::contract(format!("it asked WASI for {ty:?}, which WASI 0.2 does not answer with"))
}
