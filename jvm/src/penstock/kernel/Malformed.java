package penstock.kernel;

/**
 * What is wrong with a record, and where: in which value and at which byte. The value's path is put together
 * while the error leaves the containers around it, and there is no stack trace: good records pay nothing for
 * either, and a flood of bad ones stays cheap.
 */
final class Malformed extends Exception {
  private static final int LONGEST_QUOTE = 40;

  private final int at;
  private String path = "";

  Malformed(String problem, int at) {
    super(problem, null, false, false);
    this.at = at;
  }

  Malformed inField(String name) {
    path = "." + name + path;
    return this;
  }

  Malformed inItem(int index) {
    path = "[" + index + "]" + path;
    return this;
  }

  Malformed inEntry(String key) {
    path = "['" + shortened(key) + "']" + path;
    return this;
  }

  @Override public String getMessage() {
    String value = path.isEmpty() ? "" : path.substring(path.startsWith(".") ? 1 : 0) + ": ";
    return value + super.getMessage() + ", at byte " + at;
  }

  /** Text of the record as a reason may carry it: the record itself can be megabytes. */
  static String shortened(String text) {
    return text.length() <= LONGEST_QUOTE ? text : text.substring(0, LONGEST_QUOTE - 3) + "...";
  }
}
