//! `symlease`: look at a campaign, mend it, run work under a lease.

mod arguments;
mod fsck;
mod gc;
mod manual;
mod merge;
mod open;
mod probe;
mod records;
mod recover;
mod report;
mod run;
mod status;
mod text;

use std::io::Write;
use std::process::ExitCode;

use clap::Parser;

use arguments::{Arguments, Command};
use open::{Failure, Outcome};

fn main() -> ExitCode {
    // The child of `run`, on its way to become the command: no command of ours.
    if let Some(failure) = run::exec_under(std::env::args_os()) {
        return failed(&failure);
    }
    let arguments = Arguments::parse();
    // Takes colours out where the output is no terminal, or NO_COLOR is set.
    let mut out = std::io::BufWriter::new(anstream::stdout().lock());
    let done = run(&arguments.command, &mut out).and_then(|code| {
        out.flush()?;
        Ok(code)
    });
    match done {
        Ok(code) => ExitCode::from(code),
        Err(failure) if failure.is_closed_pipe() => ExitCode::SUCCESS,
        Err(failure) => failed(&failure),
    }
}

fn failed(failure: &Failure) -> ExitCode {
    let words = text::clean(&failure.to_string());
    let _ = writeln!(std::io::stderr(), "symlease: {words}");
    ExitCode::from(failure.code())
}

fn run(command: &Command, out: &mut dyn Write) -> Outcome {
    match command {
        Command::Probe(it) => probe::run(it, out),
        Command::Fsck(it) => fsck::run(it, out),
        Command::Ls(it) => records::list(it, out),
        Command::Show(it) => records::show(it, out),
        Command::Recover(it) => recover::run(it, out),
        Command::Gc(it) => gc::run(it, out),
        Command::Merge(it) => merge::run(it, out),
        Command::Run(it) => run::run(it),
        Command::Report(it) => report::run(it, out),
        Command::Completions(it) => manual::completions(it, out),
        Command::Man(it) => manual::man(it, out),
        Command::Status(it) => status::run(it, out),
    }
}
