//! The spans of a call: the plugin's function, and below it each primitive that it asks for. At
//! `debug`, and only within the span of an operation: naming a volume or reading a plugin's
//! description is no operation. Without a listener for them they cost a load and a branch each.

use tracing::{Level, Span, debug_span, span_enabled};

use crate::call_error::Function;

/// The span of one call of a plugin.
pub(crate) fn call(function: Function) -> Span {
    if !span_enabled!(Level::DEBUG) || Span::current().is_none() {
        return Span::none();
    }
    debug_span!("plugin", otel.name = %format_args!("plugin {}", function.name()), function = function.name())
}

/// The span of one primitive.
pub(crate) fn primitive(what: &str) -> Span {
    if !span_enabled!(Level::DEBUG) || Span::current().is_none() {
        return Span::none();
    }
    // The name alone, without the path that some have: traces are searched by it.
    let name = what.split(' ').next().unwrap_or(what);
    debug_span!("primitive", otel.name = name, what)
}
