//! `symlease completions` and `symlease man`: from the same words as the help.

use std::io::Write;

use clap::CommandFactory;
use clap_mangen::Man as Page;

use crate::arguments::{Arguments, Completions, Man};
use crate::open::{Failure, Outcome, FINE};

pub fn completions(asked: &Completions, out: &mut dyn Write) -> Outcome {
    let mut script = Vec::new();
    clap_complete::generate(
        asked.shell,
        &mut Arguments::command(),
        "symlease",
        &mut script,
    );
    out.write_all(&script)?;
    Ok(FINE)
}

/// The one page, or, into a directory, it and one for each command.
pub fn man(asked: &Man, out: &mut dyn Write) -> Outcome {
    let mut command = Arguments::command().disable_help_subcommand(true);
    command.build();
    let Some(directory) = &asked.output else {
        out.write_all(page(&Page::new(command))?.as_bytes())?;
        return Ok(FINE);
    };
    let commands: Vec<clap::Command> = command.get_subcommands().cloned().collect();
    for one in commands.into_iter().chain([command]).map(Page::new) {
        let path = directory.join(one.get_filename());
        let written = std::fs::write(&path, page(&one)?);
        written.map_err(|error| Failure::Words(format!("{}: {error}", path.display())))?;
    }
    Ok(FINE)
}

/// One page. Examples and exit codes stay in the lines that they are written in.
fn page(man: &Page) -> Result<String, Failure> {
    let mut bytes = Vec::new();
    man.render(&mut bytes)?;
    let text = String::from_utf8_lossy(&bytes);
    let text = text.replace("\n.SH EXTRA\n", "\n.SH \"EXAMPLES AND EXIT CODES\"\n.nf\n");
    Ok(text.replace("\n.SH VERSION\n", "\n.fi\n.SH VERSION\n"))
}
