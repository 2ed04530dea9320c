//! `symlease completions` and `symlease man`.

use std::path::PathBuf;

use clap::Args;

/// Print completions for a shell
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease completions bash > ~/.local/share/bash-completion/completions/symlease
  symlease completions zsh > ~/.zfunc/_symlease
  symlease completions fish > ~/.config/fish/completions/symlease.fish")]
pub struct Completions {
    /// For which
    pub shell: clap_complete::Shell,
}

/// Print the man page, or write one for each command
#[derive(Args)]
#[command(after_help = "\
Examples:
  symlease man | man -l -
  symlease man --output /usr/local/share/man/man1")]
pub struct Man {
    /// Write symlease.1 and a page for each command into this directory
    #[arg(long, short, value_name = "DIR")]
    pub output: Option<PathBuf>,
}
