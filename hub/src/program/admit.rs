//! `parler-hub admit`: lets a key into a hub, whether it runs or not.

use std::io::Write;

use anyhow::Context;

use super::Failure;
use super::arguments::Admit;

/// Lets it in, and says what is different now.
pub(super) fn admit(arguments: &Admit) -> Result<(), Failure> {
    let admitting = parler_hub::admit(&arguments.data, arguments.agent, &arguments.rooms);
    let admitted = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .context("cannot start")?
        .block_on(admitting)?;
    let mut said = vec![if admitted.is_new { "let in" } else { "known already" }.to_owned()];
    said.extend(admitted.made.iter().map(|room| format!("made room '{room}' for it")));
    said.extend(admitted.joined.iter().map(|room| format!("now in room '{room}'")));
    writeln!(std::io::stdout(), "{}: {}", arguments.agent, said.join(", "))?;
    Ok(())
}
