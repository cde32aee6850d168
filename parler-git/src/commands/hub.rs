//! `git parler hub`: the local hub's process, for this program and for tests.

use serde_json::json;

use crate::cli::{Globals, Hub, HubVerb};
use crate::environment::Environment;
use crate::error::Result;
use crate::home::Home;
use crate::local_hub::{LocalHub, serve, start_alone};
use crate::output::Output;

pub(super) fn run(environment: &Environment, globals: &Globals, args: &Hub) -> Result<()> {
    let hub = LocalHub::of(&Home::of(environment)?);
    let mut output = Output::new(globals.json, anstream::ColorChoice::Never);
    let record = match args.what {
        HubVerb::Run { announce, alone } => {
            if announce && !alone {
                start_alone(environment)?;
            }
            return serve(&hub, environment, announce);
        }
        HubVerb::Stop => {
            let ran = hub.stop()?;
            output.either(
                if ran {
                    "the local hub has ended"
                } else {
                    "no local hub runs"
                },
                &json!({ "stopped": ran }),
            )?;
            return output.deliver();
        }
        HubVerb::Start => hub.ensure(environment)?,
        HubVerb::Status => hub.status()?,
    };
    output.either(
        &format!(
            "{} · process {} · version {}",
            record.address, record.pid, record.version
        ),
        &json!({ "address": record.address, "pid": record.pid, "version": record.version, "hub": record.hub }),
    )?;
    output.deliver()
}
