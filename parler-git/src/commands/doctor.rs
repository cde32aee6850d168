//! `git parler doctor`: everything that has to be right, a line each. Ends with 1 where something is a problem.

use serde_json::json;

use crate::cli::Globals;
use crate::doctor::{Check, Status, examine};
use crate::environment::Environment;
use crate::error::{Error, ErrorKind, Result};
use crate::output::{Output, WARNING, styled};
use crate::text;

pub(super) fn run(environment: Environment, globals: Globals) -> Result<()> {
    let json = globals.json;
    let color = crate::output::color_choice(globals.color, &environment, |_| Ok(None))?;
    let mut output = Output::new(json, color);
    output.require_open()?;
    let checks = examine(environment, globals);
    let problems = checks.iter().filter(|check| check.status == Status::Problem).count();
    if json {
        let checks: Vec<_> = checks.iter().map(Check::to_json).collect();
        output.json(&json!({ "ok": problems == 0, "checks": checks }))?;
    } else {
        for check in &checks {
            output.line(&line(check))?;
        }
    }
    output.deliver()?;
    match problems {
        0 => Ok(()),
        _ => {
            let what = format!("{} found", text::count(problems as u64, "problem"));
            Err(Error::new(ErrorKind::Negative, what).told())
        }
    }
}

fn line(check: &Check) -> String {
    let word = format!("{:<8}", check.status.word());
    let word = match check.status {
        Status::Fine => word,
        Status::Warning | Status::Problem => styled(WARNING, &word),
    };
    let mend = check
        .mend
        .as_deref()
        .map(|mend| format!("; {}", text::own_line(mend)))
        .unwrap_or_default();
    format!("{word} {}: {}{mend}", check.name, text::own_line(&check.what))
}
