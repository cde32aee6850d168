//! Completion scripts for shells, from the definitions of the command line. They know verbs and options and ask nothing
//! of anybody: no hub, no repository.

use clap::{Command, CommandFactory};
use clap_complete::{Generator, shells};

use crate::cli::{Cli, CompletionShell};

/// Stands in every script that is ours.
pub(crate) const MARK: &str = "written by git parler from its own options";

/// Completes `git parler ..` through git's own completion for bash, which calls this function for a verb that it does not
/// know, with `words` and `cword` set: what stands behind the verb is completed as behind `git-parler`. Git's completion
/// leaves the blank behind a word to the function.
const BASH_THROUGH_GIT: &str = r#"
_git_parler() {
    local COMP_WORDS=(git-parler "${words[@]:__git_cmd_idx+1}") COMP_CWORD=$((cword - __git_cmd_idx))
    _gitparler git-parler "$cur" "$prev"
    COMPREPLY=("${COMPREPLY[@]/%/ }")
}
"#;

/// A shell's script.
pub(crate) fn script(shell: CompletionShell) -> String {
    match shell {
        CompletionShell::Bash => {
            // Of a name with a hyphen the generator calls the parts of its script by two names, and they never meet.
            let script = generated(shells::Bash, "gitparler").replace(" gitparler\n", " git-parler\n");
            format!("# {MARK}\n{script}{BASH_THROUGH_GIT}")
        }
        // Fish completes the external commands of git as the programs that they are.
        CompletionShell::Fish => format!("# {MARK}\n{}", generated(shells::Fish, "git-parler")),
        // Zsh's completion of git calls the function of this name; its first line says what it completes.
        CompletionShell::Zsh => {
            let script = generated(shells::Zsh, "git-parler");
            let (first, rest) = script.split_once('\n').unwrap_or((&script, ""));
            format!("{first}\n# {MARK}\n{rest}")
        }
    }
}

impl CompletionShell {
    /// The shell's program.
    pub(crate) const fn program(self) -> &'static str {
        match self {
            Self::Bash => "bash",
            Self::Fish => "fish",
            Self::Zsh => "zsh",
        }
    }

    /// Where, below the directory of a user's shared data, the shell's script is looked for.
    pub(crate) const fn place(self) -> &'static str {
        match self {
            Self::Bash => "bash-completion/completions/git-parler",
            Self::Fish => "fish/vendor_completions.d/git-parler.fish",
            Self::Zsh => "zsh/site-functions/_git-parler",
        }
    }
}

/// The command without the verbs that are hidden, which the generators would offer.
fn shown(command: Command) -> Command {
    let is_hidden = |verb: &&Command| verb.is_hide_set();
    let parents: Vec<_> = command
        .get_subcommands()
        .filter(|verb| verb.get_subcommands().any(|verb| is_hidden(&verb)))
        .map(|verb| verb.get_name().to_owned())
        .collect();
    let without_hidden = |verb: Command| {
        let kept = verb.get_subcommands().filter(|verb| !is_hidden(verb)).cloned();
        Command::new(verb.get_name().to_owned())
            .about(verb.get_about().cloned().unwrap_or_default())
            .args(verb.get_arguments().cloned())
            .subcommands(kept)
    };
    parents.into_iter().fold(command, |command, parent| {
        command.mut_subcommand(parent, without_hidden)
    })
}

fn generated(generator: impl Generator, name: &str) -> String {
    let mut script = Vec::new();
    let mut command = shown(Cli::command()).bin_name(name.to_owned());
    clap_complete::generate(generator, &mut command, name, &mut script);
    String::from_utf8_lossy(&script).into_owned()
}
