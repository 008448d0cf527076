//! The help of the program: short, long, and about topics.
#![allow(clippy::unwrap_used, reason = "this is test code")]

use crate::common::modelfmt;

fn fits(text: &str, lines: usize, what: &str) {
    let widest = text.lines().map(|line| line.chars().count()).max().unwrap();
    assert!(text.lines().count() <= lines && widest <= 100, "{what}: {widest} columns\n{text}");
}

fn commands() -> Vec<String> {
    let help = modelfmt(["--help"]).ok();
    let commands = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty()).filter(|line| !line.starts_with("   "));
    commands.filter_map(|line| Some(line.split_whitespace().next()?.to_owned())).collect()
}

#[test]
fn the_short_help_of_each_command_fits_a_screen() {
    for name in commands().iter().filter(|name| *name != "help") {
        let short = modelfmt([name.as_str(), "-h"]).ok();
        fits(&short, 40, name);
        let long = modelfmt([name.as_str(), "--help"]).ok();
        assert!(short.contains(&format!("`modelfmt {name} --help` says more")), "{short}");
        assert!(long.lines().count() >= short.lines().count(), "{name}");
        // Every option in the short help is also in the long help, and is parsed the same.
        for option in short.split_whitespace().filter(|word| word.starts_with("--") && word.len() > 2) {
            assert!(long.contains(option.trim_end_matches([',', '`'])), "{name} {option}");
        }
    }
    let short = modelfmt(["convert", "-h"]).ok();
    assert!(short.contains("--quantize <") && !short.contains("--allow-private-redirects"), "{short}");
    // Errors about arguments stay the same with -h.
    assert_eq!(modelfmt(["convert", "--nothing", "-h"]).status, 2);
}

#[test]
fn topics_have_a_page_each_and_help_names_them() {
    let help = modelfmt(["help"]).ok();
    for topic in ["pins", "keys", "urls", "types", "policy", "maps"] {
        assert!(help.contains(topic), "{topic}: {help}");
        let page = modelfmt(["help", topic]).ok();
        assert!(page.contains("\n  modelfmt ") && page.lines().count() > 8, "{page}");
        if topic != "maps" {
            fits(&page, 40, topic);
        }
    }
    assert_eq!(modelfmt(["help", "nothing"]).status, 2);
}
