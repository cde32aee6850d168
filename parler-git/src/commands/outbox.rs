//! `git parler outbox`: what this agent wanted to say while the hub could not be reached.

use serde_json::{Value, json};

use crate::cli::{Outbox as Args, OutboxVerb};
use crate::context::Context;
use crate::error::{Error, ErrorKind, Result};
use crate::outbox::{Outbox, Waiting};
use crate::output::{HEADER, Output, WARNING, styled};
use crate::text::{self, Extent};
use crate::view::{field, own_parts, verbatim};
use crate::{room_labels, screen};

pub(super) fn run(context: &Context, args: &Args, output: &mut Output) -> Result<()> {
    output.require_open()?;
    context.require_agent()?;
    let hub = context.hub()?;
    let (agent, _) = context.agent()?;
    let outbox = Outbox::of(&context.home, &hub, &agent.identity);
    match &args.what {
        None | Some(OutboxVerb::List) => list(context, &outbox, output),
        Some(OutboxVerb::Drop { number }) => match outbox.drop(*number)? {
            true => output.either(
                &format!("dropped {number}: it will not be sent"),
                &json!({ "dropped": number }),
            ),
            false => Err(
                Error::new(ErrorKind::NotFound, format_args!("nothing waits as {number}")).then("git parler outbox"),
            ),
        },
        Some(OutboxVerb::Send) => {
            outbox.retry_refused()?;
            let client = context.client_that_sends_nothing(&hub, agent.identity)?;
            let flushed = outbox.flush(&client)?;
            if output.is_json() {
                let sent: Vec<_> = flushed
                    .sent
                    .iter()
                    .map(|(id, posted)| json!({ "room": posted.room, "seq": posted.seq, "id": id }))
                    .collect();
                let refused: Vec<_> = flushed
                    .refused
                    .iter()
                    .map(|(number, id, error)| json!({ "number": number, "id": id, "error": error.to_json() }))
                    .collect();
                output.json(&json!({ "sent": sent, "refused": refused }))?;
            } else {
                context.notice_flushed(&flushed);
                output.line(&format!("sent {}", text::count(flushed.sent.len() as u64, "message")))?;
            }
            match flushed.refused.is_empty() && flushed.held == 0 {
                true => Ok(()),
                false => Err(Error::new(ErrorKind::Negative, "not all of it was sent")
                    .then("git parler outbox")
                    .told()),
            }
        }
    }
}

fn list(context: &Context, outbox: &Outbox, output: &mut Output) -> Result<()> {
    let waiting = outbox.waiting()?;
    if output.is_json() {
        let waiting: Vec<_> = waiting.iter().map(to_json).collect();
        return output.json(&json!({ "waiting": waiting }));
    }
    if waiting.is_empty() {
        output.remark("nothing waits to be sent");
    }
    output.page(context)?;
    let here = outbox.hub();
    for waiting in &waiting {
        let queued = &waiting.queued;
        let room = room_labels::shown(queued.room.as_str());
        let at = format!("' · {}", text::local_time(queued.at));
        let header = screen::fit(&format!("{} for '", waiting.number), &room, &at);
        output.line(&styled(HEADER, &header))?;
        output.text(&own_parts(&queued.parts(), Extent::Beginning))?;
        if let Some(hub) = queued.hub.filter(|_| queued.is_for_another(here)) {
            let held = format!("it is for hub {hub}, and another one is here now");
            output.text(&styled(WARNING, &field("held", &held)))?;
            output.text(&verbatim("drop", &format!("git parler outbox drop {}", waiting.number)))?;
        }
        if let Some(refused) = &queued.refused {
            output.text(&styled(WARNING, &field("refused", &text::one_line(refused))))?;
            output.text(&verbatim("drop", &format!("git parler outbox drop {}", waiting.number)))?;
        }
    }
    Ok(())
}

fn to_json(waiting: &Waiting) -> Value {
    let queued = &waiting.queued;
    let parts: Vec<_> = queued.parts().iter().map(parler_protocol::Part::to_value).collect();
    json!({
        "number": waiting.number, "room": queued.room, "id": queued.id, "at": queued.at,
        "parts": parts, "hub": queued.hub, "refused": queued.refused,
    })
}
