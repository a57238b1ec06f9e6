//! The sections of a plugin file, by their headers alone: nothing in them is interpreted.

use std::ops::ControlFlow;

use wasmparser::{Chunk, Parser, Payload};

/// How deep components and modules may lie in each other. The tools of languages make two or three
/// levels; each costs memory here.
const MOST_LEVELS: usize = 64;

/// Shows `visit` the headers of a component's sections, and of the modules and components in it,
/// until it breaks, the bytes end, or they are no component.
pub(crate) fn visit_sections<'a>(wasm: &'a [u8], mut visit: impl FnMut(Payload<'a>) -> ControlFlow<()>) {
    let mut rest = wasm;
    let mut outer = Vec::new();
    let mut parser = Parser::new(0);
    while let Ok(Chunk::Parsed { consumed, payload }) = parser.parse(rest, true) {
        let Some(after) = rest.get(consumed..) else { return };
        rest = after;
        match &payload {
            // Functions one by one take as long as they are many.
            Payload::CodeSectionStart { size, .. } => {
                let Some(after) = usize::try_from(*size).ok().and_then(|size| rest.get(size..)) else { return };
                rest = after;
                parser.skip_section();
            }
            Payload::ModuleSection { parser: inner, .. } | Payload::ComponentSection { parser: inner, .. } => {
                if outer.len() >= MOST_LEVELS {
                    return;
                }
                outer.push(std::mem::replace(&mut parser, inner.clone()));
            }
            Payload::End(_) => match outer.pop() {
                Some(next) => parser = next,
                None => return,
            },
            _ => {}
        }
        if visit(payload).is_break() {
            return;
        }
    }
}

/// Bytes of code in a component: of functions, in all of its modules.
pub(crate) fn code_bytes(wasm: &[u8]) -> usize {
    let mut bytes = 0_usize;
    visit_sections(wasm, |payload| {
        if let Payload::CodeSectionStart { size, .. } = payload {
            bytes = bytes.saturating_add(usize::try_from(size).unwrap_or(usize::MAX));
        }
        ControlFlow::Continue(())
    });
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_code_counts_in_every_module() {
        let module = |functions: usize| {
            let function = "(func (local i32) (local.set 0 (i32.const 7)))";
            format!(
                "(core module {} (data \"{}\") (@custom \"c\" \"padding\"))",
                function.repeat(functions),
                "x".repeat(5000)
            )
        };
        let component = |inside: &str| wat::parse_str(format!("(component {inside})")).unwrap();
        let one = code_bytes(&component(&module(10)));
        assert!((80..200).contains(&one), "{one}");
        assert_eq!(code_bytes(&component("")), 0);
        let nested = format!("{} (component {} (component {}))", module(10), module(10), module(10));
        assert_eq!(code_bytes(&component(&nested)), 3 * one);
        assert_eq!(code_bytes(b"no component"), 0);
    }

    #[test]
    fn components_in_components_without_end_are_not_followed() {
        let header = b"\0asm\x0d\0\x01\0";
        let mut nested = header.to_vec();
        for _ in 0..1000 {
            let mut outer = header.to_vec();
            outer.push(4);
            let mut length = nested.len();
            while length > 0x7f {
                outer.push(u8::try_from(length & 0x7f).unwrap() | 0x80);
                length >>= 7;
            }
            outer.push(u8::try_from(length).unwrap());
            outer.extend(nested);
            nested = outer;
        }
        let mut seen = 0;
        visit_sections(&nested, |_| {
            seen += 1;
            ControlFlow::Continue(())
        });
        assert!((MOST_LEVELS..3 * MOST_LEVELS).contains(&seen), "{seen}");
    }
}
