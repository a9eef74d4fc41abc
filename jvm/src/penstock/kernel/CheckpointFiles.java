package penstock.kernel;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FSDataOutputStream;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.spark.sql.execution.streaming.checkpointing.FileSystemBasedCheckpointFileManager;

/**
 * The files of a checkpoint, as Spark keeps them, with Hadoop's checksums beside them; but on a local disk
 * without the process (chmod) that Hadoop starts for each, and one that is to be replaced is: Hadoop leaves it
 * as it was, and the state of a batch that is run again would not be what was written last.
 */
public final class CheckpointFiles extends FileSystemBasedCheckpointFileManager {
  private final FileSystem files;

  public CheckpointFiles(Path path, Configuration hadoop) {
    super(path, hadoop);
    files = isLocal() ? new LocalFileSystem(new Unchanged()) : fs();
    try {
      if (isLocal()) files.initialize(fs().getUri(), hadoop);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public FSDataOutputStream createTempFile(Path path) {
    try {
      return files.create(path, true);
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
    try {
      // Whenever this is cut short, no file stands beside the checksum of another.
      Files.deleteIfExists(checksum(to));
      Files.move(local(from), local(to), StandardCopyOption.ATOMIC_MOVE);
      Files.move(checksum(from), checksum(to), StandardCopyOption.ATOMIC_MOVE);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static java.nio.file.Path local(Path path) {
    return java.nio.file.Path.of(path.toUri().getPath());
  }

  private static java.nio.file.Path checksum(Path path) {
    return local(path).resolveSibling("." + path.getName() + ".crc");
  }

  /** A file's permissions are as the process makes them. */
  private static final class Unchanged extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) {}
  }
}
