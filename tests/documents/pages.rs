//! The manual pages: what clap knows of the command line, the table of exit codes, and the sections
//! that only people can write (`man/sections`), put together and set as mandoc(1) likes it.

use std::{fs, path::Path};

/// The pages: each with its name and its text.
pub fn all(root: &Path) -> Vec<(String, String)> {
    let mut program = redlock::cli::command();
    program.build();
    let commands: Vec<_> = program
        .get_subcommands()
        .map(|sub| {
            let name: &'static str = format!("redlock-{}", sub.get_name()).leak();
            sub.clone().name(name).display_name(name)
        })
        .collect();
    let date = released(root);
    let page = |command| {
        let name = clap::Command::get_name(&command).to_owned();
        let text = page(command, &date, &sections(root, &name));
        (name, text)
    };
    commands.into_iter().chain([program]).map(page).collect()
}

/// The day of the newest release: pages change with what they describe, not with the calendar.
fn released(root: &Path) -> String {
    let changes = fs::read_to_string(root.join("CHANGELOG.md")).unwrap();
    let heading = |line: &str| Some(line.strip_prefix("## [")?.split_once("] - ")?.1.to_owned());
    changes.lines().find_map(heading).expect("CHANGELOG.md has a release with its day")
}

/// The sections of a page that were written by hand, and those that every page ends with.
fn sections(root: &Path, page: &str) -> String {
    let part = |name: &str| {
        let path = root.join(format!("man/sections/{name}.man"));
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    };
    part(page)
}

fn page(command: clap::Command, date: &str, by_hand: &str) -> String {
    let name = command.get_name().to_owned();
    let codes = codes(&command);
    // What can be chosen from stands where the value does.
    let command = command.mut_args(|argument| {
        let choice: Vec<_> =
            argument.get_possible_values().iter().map(|v| v.get_name().to_owned()).collect();
        if choice.is_empty() || !argument.get_action().takes_values() {
            return argument;
        }
        let choice: &'static str = choice.join("|").leak();
        argument.value_name(choice).hide_possible_values(true)
    });
    let man = clap_mangen::Man::new(command.clone());
    let mut body = Vec::new();
    man.render_name_section(&mut body).unwrap();
    man.render_synopsis_section(&mut body).unwrap();
    man.render_description_section(&mut body).unwrap();
    let head = String::from_utf8(body).unwrap();
    let mut options = Vec::new();
    man.render_options_section(&mut options).unwrap();
    let options = subsections(&String::from_utf8(options).unwrap());
    let mut commands = Vec::new();
    if command.has_subcommands() {
        man.render_subcommands_section(&mut commands).unwrap();
    }
    let commands = String::from_utf8(commands).unwrap().replace(".SH SUBCOMMANDS", ".SH COMMANDS");
    let title = format!(
        ".TH {} 1 {date} \"redlock {}\" \"User Commands\"\n",
        name.to_uppercase(),
        env!("CARGO_PKG_VERSION")
    );
    set(&format!("{title}{head}{commands}{options}{codes}{by_hand}"))
}

/// Headings of the help are parts of one section of options.
fn subsections(options: &str) -> String {
    let mut text = String::new();
    for line in options.lines() {
        match line.strip_prefix(".SH ").filter(|&heading| heading != "OPTIONS") {
            Some(heading) => {
                let (first, rest) = heading.split_at(1);
                text += &format!(".SS {first}{}\n", rest.to_lowercase());
            }
            None => text += &format!("{line}\n"),
        }
    }
    text
}

/// The exit codes that the command's help shows.
fn codes(command: &clap::Command) -> String {
    let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let mut text = String::new();
    for line in help.lines() {
        let code = line.trim_start().split_once("  ");
        if let Some((number, meaning)) = code.filter(|(n, _)| n.parse::<u8>().is_ok()) {
            text += &format!(".TP\n.B {number}\n{}\n", meaning.replace('-', "\\-"));
        }
    }
    if text.is_empty() { text } else { format!(".SH EXIT STATUS\n{text}") }
}

/// Sets the text: no line beyond 80 bytes, paragraphs by macro, code as it stands.
fn set(text: &str) -> String {
    let mut lines: Vec<String> = vec![
        ".\\\" Generated from the command line and man/sections; REDLOCK_REWRITE=1 cargo test documents".into(),
        // An apostrophe that is no accent, with groff and without.
        ".ie \\n(.g .ds Aq \\(aq".into(),
        ".el .ds Aq '".into(),
    ];
    let (mut literal, mut code) = (false, false);
    for line in text.lines().filter(|line| !line.starts_with(".ie") && !line.starts_with(".el")) {
        if let ".EX" | ".EE" = line {
            literal = line == ".EX";
            lines.push(line.into());
            continue;
        }
        // In a description an indented line is a line of code.
        let indented = !literal && line.starts_with("  ");
        if indented != code && !literal && !(line.is_empty() && code) {
            lines.extend(if indented { [".RS", ".EX"] } else { [".EE", ".RE"] }.map(String::from));
            code = indented;
        }
        if literal || code {
            lines.push(line.trim_start_matches(if code { "  " } else { "" }).to_owned());
        } else if line.trim().is_empty() {
            lines.push(".IP".into());
        } else if line.starts_with('.') {
            lines.push(line.trim_end().to_owned());
        } else {
            lines.extend(wrapped(line));
        }
    }
    lines.dedup_by(|next, previous| next == ".PP" && previous == ".PP");
    lines.join("\n") + "\n"
}

/// Breaks a line of text where roff sees the same: at single blanks, never before a control
/// character. A new sentence is a new line, as roff wants it.
fn wrapped(line: &str) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in line.split_whitespace() {
        let joins = |last: &String| {
            let sentence = last.ends_with(['.', '?']) && word.starts_with(char::is_uppercase);
            word.starts_with(['.', '\'']) || !sentence && last.len() + word.len() < 79
        };
        match lines.last_mut() {
            Some(last) if joins(last) => *last += &format!(" {word}"),
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}
