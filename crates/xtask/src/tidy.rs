//! The rules that only this project has. Each problem is a line that names the place and what to do.

mod sources;

use crate::workspace::Workspace;

/// Checks the whole tree; returns the problems.
pub(crate) fn run(workspace: &Workspace) -> Result<Vec<String>, String> {
    let mut problems = Vec::new();
    for path in workspace.files()? {
        let shown = path.display().to_string();
        if !shown.ends_with(".rs") {
            continue;
        }
        let text = std::fs::read_to_string(workspace.root.join(&path))
            .map_err(|error| format!("cannot read {shown}: {error}"))?;
        problems.extend(sources::check(&shown, &text));
    }
    Ok(problems)
}
