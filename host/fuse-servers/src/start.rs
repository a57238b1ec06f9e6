//! Starting a FUSE server, until it serves.

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::mpsc::{Sender, channel};

use rustix::fs::{CWD, Mode, OFlags};
use rustix::io::Errno;
use volhost_kernel::{FuseConnection, FuseMount, FuseOptions, KernelError};
use volhost_process::{Argument, ArgumentPart, Child, Launch, Privileges, ProcessLimits, Program};
use volhost_runtime::{
    FuseServerArgument, FuseServerDescriptor, FuseServerError, FuseServerPart, FuseServerRights, FuseServerStart,
    Served,
};

use crate::record::{ServerRecord, StartedAt};
use crate::secret;
use crate::server::{Server, ServerNames};
use crate::servers::{Inner, STACK_BYTES, describe_end};

/// What the start waits for.
enum StartReport {
    /// The file system's first answer, or the end of its connection.
    Answered(Result<(), KernelError>),
    /// The server has ended.
    Ended,
}

/// The error for a server that could not be started.
fn unusable(name: &str, program: &str, what: &str, error: &dyn Display) -> FuseServerError {
    FuseServerError::Unusable(format!("FUSE server {name} ({program}) cannot be started: {what}: {error}"))
}

impl Inner {
    /// Starts a server, and waits until it serves.
    ///
    /// # Errors
    /// [`FuseServerError`]; then nothing runs.
    pub(crate) fn serve(self: Arc<Self>, start: FuseServerStart) -> Result<Served, FuseServerError> {
        let id = self.new_id(&start.name);
        let (name, program) = (start.name.clone(), start.program.display().to_string());
        let failed = |what, error: &dyn Display| unusable(&name, &program, what, error);
        // The launcher would report it, too; here nothing has been made yet.
        if let Err(error) = std::fs::metadata(&start.program) {
            return Err(failed("its program", &error));
        }
        let options = FuseOptions {
            source: id.clone(),
            subtype: name.clone(),
            user: start.rights.user,
            group: start.rights.group,
            default_permissions: start.default_permissions,
            read_only: start.read_only,
            label: start.label.clone(),
        };
        let FuseMount { device, mount, connection } =
            self.kernel.fuse(&options).map_err(|error| failed("its mount", &error))?;
        let root = self.kernel.root_of(&mount).map_err(|error| failed("its mount", &error))?;
        let bounds = start.bounds;
        let (answered, reports) = channel();
        let server = self.start(&id, start, (device, connection), answered.clone())?;
        let kernel = Arc::clone(&self.kernel);
        let thread = std::thread::Builder::new().name("FUSE server start".into()).stack_size(STACK_BYTES);
        let asked = thread.spawn(move || {
            let answer = kernel.ask_server(&root);
            // Closed before the answer is reported: an open handle keeps the mount busy.
            drop(root);
            // It fails only when the answer came too late.
            let _ = answered.send(StartReport::Answered(answer));
        });
        // Without the thread there is no answer.
        let report = asked.ok().and_then(|_| reports.recv_timeout(bounds.start).ok());
        let gone = |error: &KernelError| matches!(error.errno(), Some(Errno::NOTCONN | Errno::CONNABORTED));
        // Any other error is an answer, too.
        let serves = matches!(&report, Some(StartReport::Answered(answer)) if !answer.as_ref().is_err_and(gone));
        if serves && server.ended().is_none() {
            return Ok(Served { mount, id });
        }
        // A child that the server has left behind may have the connection.
        let _ = self.kernel.end_connection(connection);
        // A server that has closed its connection is about to end by itself, with an exit code that
        // says why.
        if report.is_none() || !server.wait(bounds.stop) {
            server.kill();
        }
        let why = match (report, server.ended()) {
            (Some(_), Some(end)) => format!("{} and does not serve; it must stay in the foreground", end.how),
            _ => format!("it did not serve within {} s", bounds.start.as_secs_f64()),
        };
        Err(FuseServerError::Failed(describe_end(&name, &program, &why, &server.last_output())))
    }

    /// Starts the launcher, and has it become the server.
    fn start(
        self: &Arc<Self>,
        id: &str,
        start: FuseServerStart,
        (device, connection): (OwnedFd, FuseConnection),
        reports: Sender<StartReport>,
    ) -> Result<Arc<Server>, FuseServerError> {
        let (name, path) = (start.name, start.program.display().to_string());
        let failed = |what, error: &dyn Display| unusable(&name, &path, what, error);
        let (reader, writer) = output_pipe().map_err(|error| failed("its error output", &error))?;
        let mut program =
            self.launcher.program().with_own_group().with_outputs(Arc::new(writer)).with_descriptor(Arc::new(device));
        for descriptor in start.descriptors {
            let descriptor = match descriptor {
                FuseServerDescriptor::Source(descriptor) => descriptor,
                FuseServerDescriptor::Secret(bytes) => secret::file_of(&bytes, start.rights.user, start.rights.group)
                    .map_err(|error| failed("a secret", &error))?,
            };
            program = program.with_descriptor(Arc::new(descriptor));
        }
        let mut record = ServerRecord {
            id: id.to_owned(),
            name: name.clone(),
            program: path.clone(),
            connection: connection.0,
            bounds: start.bounds,
            process: None,
        };
        self.records.write(&record).map_err(|error| failed("its record", &error))?;
        let mut child = program.start().map_err(|error| {
            self.records.remove(id);
            failed("the launcher", &error)
        })?;
        drop(program);
        let abandon = |child: Child, what, error: &dyn Display| {
            // It has not read what to become, and would end by itself; killed, it ends at once.
            child.end();
            self.records.remove(id);
            failed(what, error)
        };
        record.process = StartedAt::of(child.pid());
        if let Err(error) = self.records.write(&record) {
            return Err(abandon(child, "its record", &error));
        }
        let launch = Launch {
            program: start.program.into_os_string(),
            arguments: start.arguments.iter().map(argument).collect(),
            environment: start.environment.into_iter().map(|(name, value)| (name.into(), value.into())).collect(),
            privileges: privileges(&start.rights),
        };
        let written = child.stdin.take().map_or(Ok(()), |mut stdin| stdin.write_all(&launch.to_input()));
        if let Err(error) = written {
            return Err(abandon(child, "writing to the launcher", &error));
        }
        let names = ServerNames { id: id.to_owned(), name: name.clone(), program: path.clone() };
        let process = Arc::clone(child.process());
        let server = Arc::new(Server::new(names, connection, start.bounds, process, start.secrets));
        let at_its_end = move || drop(reports.send(StartReport::Ended));
        self.add(Arc::clone(&server), (Some(reader), Some(child)), at_its_end)
            .map_err(|error| failed("a thread that watches it", &error))?;
        Ok(server)
    }
}

/// What a server may do.
fn privileges(rights: &FuseServerRights) -> Privileges {
    Privileges {
        user: Some(rights.user),
        group: Some(rights.group),
        capabilities: Some(rights.capabilities),
        no_new_privileges: true,
        no_namespaces: true,
        limits: ProcessLimits {
            memory: rights.memory,
            open_files: rights.open_files,
            // A core dump would put its secrets into a file.
            core_bytes: Some(0),
            ..ProcessLimits::default()
        },
    }
}

/// A word of the command line. The connection has the name that libfuse recognises.
fn argument(argument: &FuseServerArgument) -> Argument {
    let part = |part: &FuseServerPart| match part {
        FuseServerPart::Text(text) => ArgumentPart::Text(text.into()),
        FuseServerPart::Descriptor(0) => {
            ArgumentPart::Text(OsString::from(format!("/dev/fd/{}", Program::FIRST_DESCRIPTOR)))
        }
        FuseServerPart::Descriptor(number) => ArgumentPart::Descriptor(*number),
    };
    Argument(argument.0.iter().map(part).collect())
}

/// A pipe whose writer has its other end open, too, and never waits: output that nothing reads is
/// lost, and does not end the writer.
fn output_pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let (reader, _writer) = io::pipe()?;
    let path = format!("/proc/thread-self/fd/{}", reader.as_raw_fd());
    let writer = rustix::fs::openat(CWD, path, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    Ok((reader.into(), writer))
}
