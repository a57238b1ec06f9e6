//! `volumes.measurement`: what a plugin says of how full and how well a volume is.

use wasmtime::component::Resource;

use super::State;
use crate::bindings::volhost::plugin::volumes::HostMeasurement;
use crate::handles::Measurement;
use crate::measured::Measured;

/// The longest reason taken from a plugin, in bytes.
const REASON_BYTES: usize = 1024;

impl State {
    fn measured(&mut self, form: &Resource<Measurement>) -> wasmtime::Result<&mut Measured> {
        self.count()?;
        Ok(&mut self.table.get_mut(form)?.0)
    }
}

impl HostMeasurement for State {
    fn capacity(&mut self, form: Resource<Measurement>, bytes: u64) -> wasmtime::Result<()> {
        self.measured(&form)?.capacity = Some(bytes);
        Ok(())
    }

    fn available(&mut self, form: Resource<Measurement>, bytes: u64) -> wasmtime::Result<()> {
        self.measured(&form)?.available = Some(bytes);
        Ok(())
    }

    fn used(&mut self, form: Resource<Measurement>, bytes: u64) -> wasmtime::Result<()> {
        self.measured(&form)?.used = Some(bytes);
        Ok(())
    }

    fn inodes(&mut self, form: Resource<Measurement>, count: u64) -> wasmtime::Result<()> {
        self.measured(&form)?.inodes = Some(count);
        Ok(())
    }

    fn inodes_free(&mut self, form: Resource<Measurement>, count: u64) -> wasmtime::Result<()> {
        self.measured(&form)?.inodes_free = Some(count);
        Ok(())
    }

    fn inodes_used(&mut self, form: Resource<Measurement>, count: u64) -> wasmtime::Result<()> {
        self.measured(&form)?.inodes_used = Some(count);
        Ok(())
    }

    fn abnormal(&mut self, form: Resource<Measurement>, reason: String) -> wasmtime::Result<()> {
        let reason = self.shown(&reason, REASON_BYTES);
        self.measured(&form)?.abnormal = Some(reason);
        Ok(())
    }

    fn drop(&mut self, form: Resource<Measurement>) -> wasmtime::Result<()> {
        self.table.delete(form)?;
        Ok(())
    }
}
