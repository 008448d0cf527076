//! `modelfmt completions` and `modelfmt man`

use clap::{Command, CommandFactory};
use clap_mangen::Man;

use crate::args::{self, Cli, Completions};
use crate::failure::{Failure, Result};

pub(crate) fn run(args: &Completions) -> Result {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "modelfmt", &mut script);
    super::print(|out| Ok(out.write_all(&script)?))
}

/// Prints one page for all commands, or the page of one command.
pub(crate) fn man(args: &args::Man) -> Result {
    let mut program = Cli::command();
    program.build();
    let text = match &args.command {
        None => all(&program)?,
        Some(name) => {
            let Some(command) = commands(&program).find(|command| command.get_name() == name) else {
                return Err(Failure::Usage(format!("{name}: is no command")));
            };
            one(command)?
        }
    };
    super::print(|out| Ok(out.write_all(&text)?))
}

/// Returns the commands that have a page.
fn commands(program: &Command) -> impl Iterator<Item = &Command> {
    let has_page = |command: &&Command| !command.is_hide_set() && command.get_name() != "help";
    program.get_subcommands().filter(has_page)
}

fn all(program: &Command) -> Result<Vec<u8>> {
    let page = Man::new(program.clone());
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    for command in commands(program) {
        text.extend(section(command.clone())?);
    }
    page.render_options_section(&mut text)?;
    text.extend(extra(&page)?);
    Ok(text)
}

/// Returns the page of a command, under the name for `man modelfmt-NAME`.
fn one(command: &Command) -> Result<Vec<u8>> {
    let name = command.get_display_name().unwrap_or_default();
    let page = Man::new(command.clone()).title(name).source(concat!("modelfmt ", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    text.extend(extra(&page)?);
    Ok(text)
}

/// Returns the page of a command as a section of the common page, one level deeper.
fn section(command: Command) -> Result<Vec<u8>> {
    let heading = format!(".SH \"{}\"\n", command.get_bin_name().unwrap_or_default().to_uppercase());
    let page = Man::new(command);
    let mut text = Vec::new();
    page.render_description_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_options_section(&mut text)?;
    text.extend(extra(&page)?);
    let text = String::from_utf8_lossy(&text).replace(".SH DESCRIPTION\n", "").replace(".SH ", ".SS ");
    Ok((heading + &text).into_bytes())
}

/// Returns examples and exit status, with their line breaks.
fn extra(page: &Man) -> Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_extra_section(&mut text)?;
    let text = String::from_utf8_lossy(&text)
        .replace(".SH EXTRA\n", ".SH EXAMPLES\n.nf\n")
        .replace("Examples:\n", "");
    Ok(format!("{text}.fi\n").into_bytes())
}
