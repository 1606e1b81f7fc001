//! The parts of a command that leave a [`Sheet`] each: they run alone (`--only`), each in a process
//! of its own, and have one file of figures each, `<command>-<part>.json`.

use crate::figures::results::Results;
use crate::figures::sheet::Sheet;
use crate::harness::machine::{Machine, resident_bytes};
use crate::harness::process::in_own_process;
use crate::harness::target::Row;
use std::error::Error;
use std::path::Path;

/// Why a part has no figures.
pub(crate) type Failure = Box<dyn Error + Send + Sync>;

/// One part of a command with options `O`.
pub(crate) struct SheetPart<O> {
    /// The name for `--only`, and in the name of its file.
    pub(crate) name: &'static str,
    /// Measures, and prints the figures as they come.
    pub(crate) run: fn(&O) -> Result<Sheet, Failure>,
    /// The targets that its figures are held to.
    pub(crate) rows: fn(Option<&Sheet>) -> Vec<Row>,
}

/// The parts of a command.
pub(crate) struct SheetParts<O: 'static> {
    pub(crate) command: &'static str,
    pub(crate) parts: &'static [SheetPart<O>],
}

impl<O> SheetParts<O> {
    /// The names for `--only`.
    pub(crate) fn names(&self) -> Vec<&'static str> {
        self.parts.iter().map(|part| part.name).collect()
    }

    /// Runs the parts that are named, all of them where none is, and keeps their figures.
    ///
    /// # Errors
    /// The parts that could not be measured, and why; the others are measured nevertheless.
    pub(crate) fn run(&self, only: &[String], options: &O, results: &Path) -> Result<(), String> {
        let wanted = |part: &&SheetPart<O>| only.is_empty() || only.iter().any(|n| n == part.name);
        let parts: Vec<&SheetPart<O>> = self.parts.iter().filter(wanted).collect();
        let mut failures = Vec::new();
        for part in &parts {
            let run = match parts.len() {
                1 => self.measured(part, options, results),
                _ => in_own_process(part.name),
            };
            let failed = run.err();
            let (command, name) = (self.command, part.name);
            failures.extend(failed.map(|error| format!("{command}, {name}: {error}")));
        }
        match failures.is_empty() {
            true => Ok(()),
            false => Err(failures.join("\n")),
        }
    }

    fn measured(&self, part: &SheetPart<O>, options: &O, results: &Path) -> Result<(), String> {
        let machine = Machine::read();
        println!(
            "{}, {} cores, {} GiB, commit {}\n\n{}, {}",
            machine.processor,
            machine.cores,
            machine.memory_gib,
            machine.commit,
            self.command,
            part.name
        );
        let sheet = (part.run)(options).map_err(|error| error.to_string())?;
        println!("resident memory {} MiB", resident_bytes() >> 20);
        let path = Results::within(results).write(&self.file(part), &sheet)?;
        println!("figures kept in {}", path.display());
        Ok(())
    }

    fn file(&self, part: &SheetPart<O>) -> String {
        format!("{}-{}", self.command, part.name)
    }

    /// Reads the figures that exist in the result files, a place for each part.
    pub(crate) fn read(&self, results: &Results) -> Result<Vec<Option<Sheet>>, String> {
        let files = self.parts.iter().map(|part| self.file(part));
        files.map(|file| results.read(&file)).collect()
    }

    /// The targets of all parts, with the figures that [`SheetParts::read`] gave.
    pub(crate) fn rows(&self, sheets: &[Option<Sheet>]) -> Vec<Row> {
        let places = self.parts.iter().enumerate();
        let of = |(place, part): (usize, &SheetPart<O>)| {
            (part.rows)(sheets.get(place).and_then(Option::as_ref))
        };
        places.flat_map(of).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::figures::sheet::Grid;
    use crate::harness::target::{Verdict, at_most};

    const PARTS: SheetParts<f64> = SheetParts {
        command: "made-up",
        parts: &[SheetPart {
            name: "one",
            run: |figure| {
                let mut grid = Grid::new("what", ["ms"]);
                grid.line("a", [Some(*figure)]);
                Ok(Sheet::new("One", "").with([grid]))
            },
            rows: |sheet| {
                let figure = sheet.and_then(|sheet| sheet.figure("a", "ms"));
                vec![at_most("a", 1.0, figure, "ms")]
            },
        }],
    };

    #[test]
    fn a_part_is_run_kept_read_and_held_to_its_target() {
        let folder = tempfile::tempdir().unwrap();
        let results = Results::within(folder.path());
        let verdict = || PARTS.rows(&PARTS.read(&results).unwrap())[0].verdict;
        assert_eq!(verdict(), Verdict::NotMeasured);
        PARTS.run(&["one".to_owned()], &2.0, folder.path()).unwrap();
        assert_eq!(verdict(), Verdict::Short);
        assert_eq!(PARTS.rows(&[])[0].verdict, Verdict::NotMeasured);
    }
}
