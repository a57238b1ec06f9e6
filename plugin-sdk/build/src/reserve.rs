//! Memory that a plugin has from the start, so that its allocator needs not ask for it.
//!
//! A program's allocator begins without memory and grows the linear memory for what it is first
//! asked for. In the host each call runs in a fresh instance, so each call would grow: a change of
//! the process's page tables (`mprotect`), and a second one when the next instance starts smaller
//! again. Both interrupt the other processors. So the core module is rewritten once, when the
//! plugin is built: its memory is larger from the start, and `memory.grow` gives that part out
//! first.

use std::convert::Infallible;

use wasm_encoder::reencode::{self, Reencode, utils};
use wasm_encoder::{BlockType, ConstExpr, Function, GlobalType, Instruction, MemoryType, Module, ValType};
use wasmparser::{Operator, Parser, Payload, TypeRef};

/// Pages of 64 KiB: as much as most calls need. A page that is not written costs nothing.
const RESERVED_PAGES: u64 = 4;

/// Why a module could not be rewritten: it is not valid WebAssembly.
#[derive(Debug, thiserror::Error)]
pub enum ReserveError {
    /// It could not be read.
    #[error("not a valid WebAssembly module")]
    Read(#[from] wasmparser::BinaryReaderError),
    /// A part of it could not be written again.
    #[error("a part of the module could not be written again: {message}")]
    Write {
        /// Which, in the encoder's words.
        message: String,
    },
}

/// Returns the module with [`RESERVED_PAGES`] more of initial memory, which its `memory.grow` gives
/// out first; the module itself if it never grows its memory, or in a way that leaves no room for
/// this: without a memory of its own, without a global, or with a lower limit.
///
/// # Guarantees
/// To the program nothing changes: `memory.size` and `memory.grow` return what they did, and fresh
/// memory is zero. The same module always gives the same bytes.
///
/// # Errors
/// [`ReserveError`].
pub(crate) fn with_reserve(module: &[u8]) -> Result<Vec<u8>, ReserveError> {
    let shape = Shape::of(module)?;
    let Some(mut rewriting) = shape.rewriting() else { return Ok(module.to_vec()) };
    let mut rewritten = Module::new();
    rewriting
        .parse_core_module(&mut rewritten, Parser::new(0), module)
        .map_err(|error| ReserveError::Write { message: error.to_string() })?;
    Ok(rewritten.finish())
}

/// What has to be known of a module before it is rewritten.
#[derive(Debug, Default)]
struct Shape {
    types: u32,
    functions: u32,
    globals: u32,
    has_globals_of_its_own: bool,
    memories: Vec<wasmparser::MemoryType>,
    imports_memory: bool,
    grows: bool,
}

impl Shape {
    fn of(module: &[u8]) -> Result<Self, ReserveError> {
        let mut shape = Self::default();
        for payload in Parser::new(0).parse_all(module) {
            match payload? {
                Payload::TypeSection(groups) => {
                    for group in groups {
                        shape.types =
                            shape.types.saturating_add(u32::try_from(group?.types().len()).unwrap_or(u32::MAX));
                    }
                }
                Payload::ImportSection(imports) => {
                    for import in imports.into_imports() {
                        match import?.ty {
                            TypeRef::Func(_) | TypeRef::FuncExact(_) => shape.functions += 1,
                            TypeRef::Global(_) => shape.globals += 1,
                            TypeRef::Memory(_) => shape.imports_memory = true,
                            TypeRef::Table(_) | TypeRef::Tag(_) => {}
                        }
                    }
                }
                Payload::FunctionSection(functions) => {
                    shape.functions = shape.functions.saturating_add(functions.count())
                }
                Payload::MemorySection(memories) => shape.memories = memories.into_iter().collect::<Result<_, _>>()?,
                Payload::GlobalSection(globals) => {
                    shape.has_globals_of_its_own = true;
                    shape.globals = shape.globals.saturating_add(globals.count());
                }
                Payload::CodeSectionEntry(body) => {
                    let mut operators = body.get_operators_reader()?;
                    while !shape.grows && !operators.eof() {
                        shape.grows = matches!(operators.read()?, Operator::MemoryGrow { .. });
                    }
                }
                _ => {}
            }
        }
        Ok(shape)
    }

    fn rewriting(self) -> Option<Rewriting> {
        let [memory] = self.memories[..] else { return None };
        let ordinary = !memory.memory64 && !memory.shared && memory.page_size_log2.is_none();
        let fits = memory.maximum.is_none_or(|maximum| memory.initial + RESERVED_PAGES <= maximum);
        let possible = self.grows && ordinary && fits && !self.imports_memory && self.has_globals_of_its_own;
        possible.then_some(Rewriting { grow_type: self.types, grow: self.functions, spare: self.globals })
    }
}

/// The indexes of what is added, each at the end of its section, so that no other index changes.
struct Rewriting {
    /// The type of a function that takes and returns an `i32`.
    grow_type: u32,
    /// What stands for `memory.grow`.
    grow: u32,
    /// The global with the number of reserved pages that are left.
    spare: u32,
}

type Reencoded<T> = Result<T, reencode::Error<Infallible>>;

impl Reencode for Rewriting {
    type Error = Infallible;

    fn parse_type_section(
        &mut self,
        types: &mut wasm_encoder::TypeSection,
        section: wasmparser::TypeSectionReader<'_>,
    ) -> Reencoded<()> {
        utils::parse_type_section(self, types, section)?;
        types.ty().function([ValType::I32], [ValType::I32]);
        Ok(())
    }

    fn parse_function_section(
        &mut self,
        functions: &mut wasm_encoder::FunctionSection,
        section: wasmparser::FunctionSectionReader<'_>,
    ) -> Reencoded<()> {
        utils::parse_function_section(self, functions, section)?;
        functions.function(self.grow_type);
        Ok(())
    }

    fn memory_type(&mut self, memory: wasmparser::MemoryType) -> Reencoded<MemoryType> {
        let memory = utils::memory_type(self, memory);
        Ok(MemoryType { minimum: memory.minimum + RESERVED_PAGES, ..memory })
    }

    fn parse_global_section(
        &mut self,
        globals: &mut wasm_encoder::GlobalSection,
        section: wasmparser::GlobalSectionReader<'_>,
    ) -> Reencoded<()> {
        utils::parse_global_section(self, globals, section)?;
        let pages = i32::try_from(RESERVED_PAGES).unwrap_or(0);
        let spare = GlobalType { val_type: ValType::I32, mutable: true, shared: false };
        globals.global(spare, &ConstExpr::i32_const(pages));
        Ok(())
    }

    fn parse_code_section(
        &mut self,
        code: &mut wasm_encoder::CodeSection,
        section: wasmparser::CodeSectionReader<'_>,
    ) -> Reencoded<()> {
        utils::parse_code_section(self, code, section)?;
        code.function(&self.grow_function());
        Ok(())
    }

    fn parse_function_body(
        &mut self,
        code: &mut wasm_encoder::CodeSection,
        body: wasmparser::FunctionBody<'_>,
    ) -> Reencoded<()> {
        let mut function = self.new_function_with_parsed_locals(&body)?;
        let mut operators = body.get_operators_reader()?;
        while !operators.eof() {
            match operators.read()? {
                Operator::MemoryGrow { .. } => {
                    function.instruction(&Instruction::Call(self.grow));
                }
                Operator::MemorySize { .. } => {
                    self.size(&mut function);
                }
                other => {
                    function.instruction(&self.instruction(other)?);
                }
            }
        }
        code.function(&function);
        Ok(())
    }
}

impl Rewriting {
    /// The size that the program knows of.
    fn size(&self, function: &mut Function) {
        function
            .instruction(&Instruction::MemorySize(0))
            .instruction(&Instruction::GlobalGet(self.spare))
            .instruction(&Instruction::I32Sub);
    }

    /// `memory.grow`: takes pages, returns the size before, or -1.
    fn grow_function(&self) -> Function {
        const PAGES: u32 = 0;
        const BEFORE: u32 = 1;
        let mut function = Function::new([(1, ValType::I32)]);
        self.size(&mut function);
        function
            .instruction(&Instruction::LocalSet(BEFORE))
            // Enough is reserved: give out a part.
            .instruction(&Instruction::LocalGet(PAGES))
            .instruction(&Instruction::GlobalGet(self.spare))
            .instruction(&Instruction::I32LeU)
            .instruction(&Instruction::If(BlockType::Empty))
            .instruction(&Instruction::GlobalGet(self.spare))
            .instruction(&Instruction::LocalGet(PAGES))
            .instruction(&Instruction::I32Sub)
            .instruction(&Instruction::GlobalSet(self.spare))
            .instruction(&Instruction::LocalGet(BEFORE))
            .instruction(&Instruction::Return)
            .instruction(&Instruction::End)
            // Grow by the rest; if that is refused, the reserve stays.
            .instruction(&Instruction::LocalGet(PAGES))
            .instruction(&Instruction::GlobalGet(self.spare))
            .instruction(&Instruction::I32Sub)
            .instruction(&Instruction::MemoryGrow(0))
            .instruction(&Instruction::I32Const(-1))
            .instruction(&Instruction::I32Eq)
            .instruction(&Instruction::If(BlockType::Empty))
            .instruction(&Instruction::I32Const(-1))
            .instruction(&Instruction::Return)
            .instruction(&Instruction::End)
            .instruction(&Instruction::I32Const(0))
            .instruction(&Instruction::GlobalSet(self.spare))
            .instruction(&Instruction::LocalGet(BEFORE))
            .instruction(&Instruction::End);
        function
    }
}

#[cfg(test)]
mod tests {
    use wasmtime::{Engine, Instance, Module, Store, StoreLimitsBuilder};

    use super::*;

    const PAGE: u64 = 64 << 10;

    /// A program that shows its memory and grows it, with this memory.
    fn program(memory: &str) -> Vec<u8> {
        wat::parse_str(format!(
            r#"(module
                (memory (export "memory") {memory})
                (global $other (mut i32) (i32.const 7))
                (func $unused (param i64))
                (func (export "grow") (param i32) (result i32) (memory.grow (local.get 0)))
                (func (export "size") (result i32) (memory.size))
                (func (export "other") (result i32) (global.get $other))
                (func (export "poke") (param i32) (result i32)
                    (i32.store (local.get 0) (i32.const 42)) (i32.load (local.get 0)))
                (func (export "peek") (param i32) (result i32) (i32.load (local.get 0))))"#
        ))
        .unwrap()
    }

    struct Running {
        store: Store<wasmtime::StoreLimits>,
        instance: Instance,
    }

    impl Running {
        fn start(module: &[u8], limit_pages: u64) -> Self {
            let engine = Engine::default();
            let limits = StoreLimitsBuilder::new().memory_size(usize::try_from(limit_pages * PAGE).unwrap()).build();
            let mut store = Store::new(&engine, limits);
            store.limiter(|limits| limits);
            let module = Module::new(&engine, module).unwrap();
            let instance = Instance::new(&mut store, &module, &[]).unwrap();
            Self { store, instance }
        }

        fn call(&mut self, name: &str, argument: i32) -> i32 {
            let function = self.instance.get_typed_func::<i32, i32>(&mut self.store, name).unwrap();
            function.call(&mut self.store, argument).unwrap()
        }

        fn size(&mut self) -> i32 {
            let function = self.instance.get_typed_func::<(), i32>(&mut self.store, "size").unwrap();
            function.call(&mut self.store, ()).unwrap()
        }

        fn real_size(&mut self) -> u64 {
            self.instance.get_memory(&mut self.store, "memory").unwrap().size(&self.store)
        }
    }

    #[test]
    fn the_program_sees_the_memory_that_it_would_see_without() {
        let module = program("2");
        let mut rewritten = Running::start(&with_reserve(&module).unwrap(), 20);
        let mut plain = Running::start(&module, 20);
        let mut seen = 0;
        // Within the reserve, to its end, over it, by nothing, and more than there may be.
        for pages in [0, 1, 2, 1, 3, 0, 9, 100, -1, 2, 100, 0] {
            assert_eq!(rewritten.call("grow", pages), plain.call("grow", pages), "by {pages}");
            assert_eq!(rewritten.size(), plain.size(), "after {pages}");
            let last = i32::try_from(i64::from(plain.size()) * i64::try_from(PAGE).unwrap() - 4).unwrap();
            if std::mem::replace(&mut seen, last) != last {
                assert_eq!(rewritten.call("peek", last), 0, "fresh memory is zero");
                assert_eq!(rewritten.call("poke", last), 42);
            }
        }
        assert_eq!(rewritten.call("grow", 0), 20);
    }

    #[test]
    fn a_growth_that_is_refused_takes_nothing_of_the_reserve() {
        let mut running = Running::start(&with_reserve(&program("1")).unwrap(), 8);
        assert_eq!(running.call("grow", 100), -1);
        assert_eq!((running.size(), running.real_size()), (1, 1 + RESERVED_PAGES));
        assert_eq!(running.call("grow", 2), 1);
    }

    #[test]
    fn small_growths_change_nothing_outside_the_program() {
        let mut running = Running::start(&with_reserve(&program("1")).unwrap(), 20);
        for _ in 0..RESERVED_PAGES {
            running.call("grow", 1);
        }
        assert_eq!(running.real_size(), 1 + RESERVED_PAGES);
        running.call("grow", 1);
        assert_eq!(running.real_size(), 2 + RESERVED_PAGES);
    }

    #[test]
    fn what_cannot_have_a_reserve_stays_as_it_is() {
        let never_grows = wat::parse_str("(module (memory 1) (global (mut i32) (i32.const 0)))").unwrap();
        let no_memory = wat::parse_str("(module (global (mut i32) (i32.const 0)))").unwrap();
        let without_globals = wat::parse_str("(module (memory 1) (func (drop (memory.grow (i32.const 1)))))").unwrap();
        for module in [never_grows, no_memory, without_globals, program("1 3")] {
            assert_eq!(with_reserve(&module).unwrap(), module);
        }
        let mut has_room = Running::start(&with_reserve(&program("1 5")).unwrap(), 20);
        assert_eq!((has_room.call("grow", 4), has_room.call("grow", 1)), (1, -1));
    }

    #[test]
    fn the_same_module_gives_the_same_bytes_and_garbage_is_refused() {
        let module = program("1");
        assert_eq!(with_reserve(&module).unwrap(), with_reserve(&module).unwrap());
        assert!(matches!(with_reserve(b"\0asm\x01\0\0\0\x01"), Err(ReserveError::Read(_))));
    }
}
