package penstock.kernel;

import java.io.BufferedOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a checkpoint, as Spark keeps them, but on a local disk made by Java and not by Hadoop: that one
 * starts a process for each (chmod), writes a file of checksums beside it, and replaces none that is there
 * already, so that the state of a batch that is run again would not be what was written last.
 */
public final class CheckpointFiles extends FileSystemBasedCheckpointFileManager {
  public CheckpointFiles(Path path, Configuration hadoop) {
    super(path, hadoop);
  }

  @Override
  public FSDataOutputStream createTempFile(Path path) {
    if (!isLocal()) return super.createTempFile(path);
    java.nio.file.Path file = local(path);
    try {
      Files.createDirectories(file.getParent());
      return new FSDataOutputStream(new BufferedOutputStream(Files.newOutputStream(file)), null);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void renameTempFile(Path from, Path to, boolean replace) {
    if (!isLocal() || !replace) {
      super.renameTempFile(from, to, replace);
      return;
    }
    java.nio.file.Path file = local(to);
    try {
      // Of a file that Hadoop made; what takes its place would be held against it.
      Files.deleteIfExists(file.resolveSibling("." + file.getFileName() + ".crc"));
      Files.move(local(from), file, StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static java.nio.file.Path local(Path path) {
    return java.nio.file.Path.of(path.toUri().getPath());
  }
}
