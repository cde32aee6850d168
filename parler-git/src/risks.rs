//! The dangers in what a bundle brings, as people are told of them before they check it out. What is dangerous the library
//! says; here is only how it is shown.

use git_remote_parler::repository::Repository;
use git_remote_parler::risk::{Change, Risk, RiskKind, RiskReport};
use parler_protocol::{BundlePart, Oid};

use crate::output::{WARNING, styled};
use crate::text;
use crate::view::field;

/// Most of one kind that people are told.
const MOST_LISTED: usize = 5;

/// The dangers in a bundle that this repository has with all that it builds on. None elsewhere: nothing of it can be
/// looked at before it is imported.
pub(crate) fn of_bundle(part: &BundlePart, repository: Option<&Repository>) -> Option<RiskReport> {
    let repository = repository?;
    let tips: Vec<Oid> = part.refs.iter().map(|bundled| bundled.oid).collect();
    let needed = [tips.as_slice(), &part.prerequisites].concat();
    let is_here = !tips.is_empty()
        && repository
            .contains(&needed)
            .is_ok_and(|here| here.iter().all(|is_here| *is_here));
    let bases = &part.prerequisites;
    is_here.then(|| RiskReport::of(repository, [Change { tips: &tips, bases }]))
}

/// A line for each kind of danger; nothing where there is none.
pub(crate) fn lines(report: &RiskReport) -> String {
    let mut out = String::new();
    for risks in report.risks.chunk_by(|one, other| one.kind == other.kind) {
        let mut told: Vec<_> = risks.iter().take(MOST_LISTED).map(told).collect();
        if risks.len() > MOST_LISTED {
            told.push(format!("and {} more", risks.len() - MOST_LISTED));
        }
        let kind = risks.first().map(|risk| risk.kind.words()).unwrap_or_default();
        out.push_str(&line(&format!("{kind}: {}", told.join(", "))));
    }
    if report.more > 0 {
        out.push_str(&line(&format!("and {} more, of any kind", report.more)));
    }
    if !report.complete {
        out.push_str(&line("not all of it was looked at"));
    }
    out
}

fn line(what: &str) -> String {
    styled(WARNING, &field("risk", what))
}

fn told(risk: &Risk) -> String {
    let path = text::name(&risk.path);
    match (&risk.detail, risk.kind) {
        (Some(detail), RiskKind::Link) => format!("{path} -> {}", text::name(detail)),
        (Some(detail), RiskKind::Submodule) => format!("{path} from {}", text::name(detail)),
        (Some(detail), RiskKind::Collision) => format!("{path} and {}", text::name(detail)),
        (Some(detail), _) => format!("{path} with {}", text::name(detail)),
        (None, _) if risk.files > 1 => format!("{path} ({})", text::count(risk.files, "file")),
        (None, _) => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_has_a_line_and_none_is_anybody_elses() {
        let risk = |kind, path: &str, files, detail: Option<&str>| Risk {
            kind,
            path: path.to_owned(),
            files,
            detail: detail.map(str::to_owned),
        };
        let mut risks = vec![
            risk(RiskKind::AgentConfiguration, ".claude/", 3, None),
            risk(RiskKind::AgentConfiguration, "AGENTS.md", 1, None),
            risk(RiskKind::Link, "a\n  apply:", 1, Some("/etc/\x1b[2J")),
        ];
        risks.extend((0..7).map(|number| risk(RiskKind::OddName, &format!("x{number}."), 1, None)));
        let report = RiskReport {
            risks,
            more: 2,
            complete: false,
        };
        let shown = anstream::adapter::strip_str(&lines(&report)).to_string();
        let expected = [
            "agent configuration: .claude/ (3 files), AGENTS.md",
            "links out of the tree: \"a\\u{a}  apply:\" -> \"/etc/\\u{1b}[2J\"",
            "odd names: x0., x1., x2., x3., x4., and 2 more",
            "and 2 more, of any kind",
            "not all of it was looked at",
        ];
        let expected = expected.map(|line| format!("  risk:    {line}\n")).concat();
        assert_eq!(shown, expected);
        let clear = RiskReport {
            complete: true,
            ..RiskReport::default()
        };
        assert_eq!(lines(&clear), "");
    }
}
