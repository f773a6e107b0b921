//! What stands in the README and in the manual pages to be typed or copied.

use std::{fs, path::Path};

/// A piece that a reader may copy.
#[derive(Debug)]
pub struct Block {
    /// Where it stands, for whoever has to mend it.
    pub place: String,
    /// What it is: `sh`, `crontab`, ...
    pub kind: String,
    pub text: String,
}

/// The fenced blocks of the README.
pub fn readme() -> Vec<Block> {
    let text = read("README.md");
    let mut blocks: Vec<Block> = Vec::new();
    let mut open = false;
    for (number, line) in text.lines().enumerate() {
        match line.strip_prefix("```") {
            Some(_) if open => open = false,
            Some(kind) => {
                open = true;
                let place = format!("README.md:{}", number + 1);
                blocks.push(Block { place, kind: kind.to_owned(), text: String::new() });
            }
            None if open => blocks.last_mut().unwrap().text += &format!("{line}\n"),
            None => {}
        }
    }
    blocks
}

/// The README's only block of a kind.
pub fn only(kind: &str) -> String {
    let mut found = readme().into_iter().filter(|block| block.kind == kind);
    let block = found.next().unwrap_or_else(|| panic!("README.md has no {kind}"));
    assert!(found.next().is_none(), "README.md has several of {kind}");
    block.text
}

/// The examples of the manual pages.
pub fn manual() -> Vec<Block> {
    let pages = fs::read_dir(root().join("man")).unwrap().map(|entry| entry.unwrap().path());
    let pages = pages.filter(|path| path.extension().is_some_and(|end| end == "1"));
    let mut blocks: Vec<Block> = Vec::new();
    for page in pages {
        let mut open = false;
        for (number, line) in fs::read_to_string(&page).unwrap().lines().enumerate() {
            match line {
                ".EX" => {
                    let place = format!("{}:{}", page.display(), number + 1);
                    blocks.push(Block { place, kind: "sh".into(), text: String::new() });
                    open = true;
                }
                ".EE" => open = false,
                _ if open => {
                    let block = blocks.last_mut().unwrap();
                    block.text += &format!("{}\n", unescaped(line));
                    if line.starts_with("nodes = ") {
                        block.kind = "config.toml".into();
                    }
                }
                _ => {}
            }
        }
    }
    blocks
}

/// The text without roff's ways to write a hyphen and an apostrophe.
fn unescaped(line: &str) -> String {
    line.replace("\\-", "-").replace("\\*(Aq", "'").replace("\\(aq", "'").replace("\\e", "\\")
}

pub fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

pub fn read(name: &str) -> String {
    fs::read_to_string(root().join(name)).unwrap()
}
