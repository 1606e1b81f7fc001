//! A disk that counts what is read from it, for the progress of an opening. Everything else is the
//! disk's own.

use somersault_disk::{Disk, DiskLayer};
use somersault_log::OpenProgress;
use std::io::{self, Read};
use std::sync::Arc;

/// A disk whose reads are counted.
pub(super) struct CountedDisk {
    disk: Arc<dyn Disk>,
    progress: Arc<OpenProgress>,
}

impl CountedDisk {
    /// The same disk; what is read is added to `progress`.
    pub(super) fn new(disk: &Arc<dyn Disk>, progress: &Arc<OpenProgress>) -> CountedDisk {
        CountedDisk {
            disk: Arc::clone(disk),
            progress: Arc::clone(progress),
        }
    }
}

struct CountedFile {
    file: Box<dyn Read + Send>,
    progress: Arc<OpenProgress>,
}

impl Read for CountedFile {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        let read = self.file.read(buffer)?;
        self.progress.add(read);
        Ok(read)
    }
}

impl DiskLayer for CountedDisk {
    fn below(&self) -> &dyn Disk {
        &*self.disk
    }

    fn read(&self, name: &str) -> io::Result<Box<dyn Read + Send>> {
        Ok(Box::new(CountedFile {
            file: self.disk.read(name)?,
            progress: Arc::clone(&self.progress),
        }))
    }
}

#[cfg(test)]
mod tests {
    use crate::engine::checkpoints::Beginning;
    use crate::{Engine, EngineConfig, OpenPhase, OpenProgress};
    use somersault_disk::{Disk, SimDisk};
    use somersault_log::Position;
    use std::sync::Arc;

    #[test]
    fn reading_a_checkpoint_is_a_phase_with_its_bytes() {
        let disk: Arc<dyn Disk> = Arc::new(SimDisk::new());
        let engine = Engine::open_on(EngineConfig::default(), Arc::clone(&disk)).unwrap();
        engine
            .update("INSERT DATA { <urn:a> <urn:p> 1 }")
            .run()
            .unwrap();
        let checkpoint = engine.checkpoint().unwrap();
        engine.shutdown().unwrap();
        drop(engine);
        let progress: Arc<OpenProgress> = Arc::default();
        let beginning = Beginning::of(&EngineConfig::default(), &disk, &progress).unwrap();
        assert_ne!(beginning.after, Position::START);
        assert_eq!(progress.phase(), OpenPhase::Checkpoint);
        assert!(progress.total_bytes() >= checkpoint.bytes);
        assert_eq!(progress.done_bytes(), progress.total_bytes());
    }
}
