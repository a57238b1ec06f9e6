//! A plugin file before it is compiled: its sections, and the names of its imports and exports.
#![no_main]

use std::ops::ControlFlow;

use libfuzzer_sys::fuzz_target;
use wasmparser::{ComponentImportSectionReader, Payload};

#[allow(dead_code, reason = "only names are read here")]
#[path = "../../host/runtime/src/abi.rs"]
mod abi;
#[path = "../../host/runtime/src/sections.rs"]
mod sections;

fn look(section: ComponentImportSectionReader<'_>) {
    for import in section.into_iter().flatten() {
        let Some(name) = abi::ContractName::parse(import.name.name) else { continue };
        assert!(import.name.name.starts_with(&format!("{}/{}", abi::PACKAGE, name.interface)));
    }
}

fuzz_target!(|wasm: &[u8]| {
    assert!(sections::code_bytes(wasm) <= wasm.len(), "a file has no more code than bytes");
    let mut seen = 0;
    sections::visit_sections(wasm, |payload| {
        seen += 1;
        if let Payload::ComponentImportSection(section) = payload {
            look(section);
        }
        ControlFlow::Continue(())
    });
    assert!(seen <= wasm.len() + 1, "each section has a header");
});
