package flinkish.tests;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.ChecksumFs;
import org.apache.hadoop.fs.DelegateToFileSystem;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FsServerDefaults;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.local.LocalConfigKeys;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, which ask Java where Hadoop without its native library would start a
 * process. Compiled and put on the class path by jvm.py.
 */
public final class LocalFiles {

  /** As RawLocalFileSystem, without chmod and readlink. */
  public static class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String mode = permission.toString();
      if (mode.length() != 9 || mode.endsWith("t") || mode.endsWith("T")) {
        super.setPermission(path, permission); // a sticky bit, which Java does not know
        return;
      }
      Set<PosixFilePermission> granted = PosixFilePermissions.fromString(mode);
      Files.setPosixFilePermissions(pathToFile(path).toPath(), granted);
    }

    @Override
    public FileStatus getFileLinkStatus(Path path) throws IOException {
      if (Files.isSymbolicLink(pathToFile(path).toPath())) {
        return super.getFileLinkStatus(path);
      }
      return getFileStatus(path);
    }
  }

  /** What FileSystem.get gives, as LocalFileSystem. */
  public static class Checked extends LocalFileSystem {
    public Checked() {
      super(new Raw());
    }
  }

  /** As RawLocalFs, whose constructors are private to its package. */
  public static class RawContext extends DelegateToFileSystem {
    public RawContext(URI uri, Configuration configuration)
        throws IOException, URISyntaxException {
      super(uri, new Raw(), configuration, "file", false);
    }

    @Override
    public int getUriDefaultPort() {
      return -1; // no port for files
    }

    @Override
    public FsServerDefaults getServerDefaults(Path path) throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public FsServerDefaults getServerDefaults() throws IOException {
      return LocalConfigKeys.getServerDefaults();
    }

    @Override
    public boolean isValidName(String name) {
      return true; // any name may be that of a local file
    }
  }

  /** What FileContext gives, as LocalFs: Spark writes checkpoints through it. */
  public static class Context extends ChecksumFs {
    public Context(URI uri, Configuration configuration) throws IOException, URISyntaxException {
      super(new RawContext(uri, configuration));
    }
  }
}
